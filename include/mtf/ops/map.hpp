// map: any element-wise function of one or more tensors, broadcasting by name.
#pragma once

#include <array>
#include <cstddef>
#include <type_traits>

#include <mtf/core/dual.hpp>
#include <mtf/tensor/form.hpp>
#include <mtf/tensor/variable.hpp>

namespace mtf {
inline namespace v0 {

/// A function object that is linear in all its arguments together says so with `static constexpr bool linear = true`
/// and `double coefficient(int argument) const`: it then keeps sums pending and saves nothing for its gradient.
template <class F>
concept linear_function = requires(const F& f) {
  requires F::linear;
  { f.coefficient(0) } -> std::convertible_to<double>;
};

/// A function object whose result gradients take as a constant (sign, floor_divide) says so with
/// `static constexpr bool has_gradient = false`: the result then joins no graph.
template <class F>
concept without_gradient = requires { requires !F::has_gradient; };

/// A function object of one argument that says `static constexpr bool is_idempotent = true` has f(f(x)) = f(x) and the
/// same slope at x and at f(x), as relu has: its gradient is taken at the result, which the next operation keeps
/// anyway, and x is not kept.
template <class F>
concept idempotent_function = requires { requires F::is_idempotent; };

namespace detail {

/// x times a number, which is an element of integers, and else a double.
template <class Number>
struct Scale {
  static constexpr bool linear = true;
  Number factor;
  [[nodiscard]] constexpr double coefficient(int) const { return static_cast<double>(factor); }
  template <class X>
  MTF_FUNCTION constexpr X operator()(const X& x) const {
    return product_of(static_cast<X>(factor), x);
  }
};
template <class Number>
Scale(Number) -> Scale<Number>;

template <class F, class T, class Indices>
inline constexpr bool invocable_on_duals = false;
template <class F, class T, std::size_t... I>
inline constexpr bool invocable_on_duals<F, T, std::index_sequence<I...>> =
    std::is_invocable_r_v<Dual<T>, const F&, std::enable_if_t<sizeof(I) != 0, Dual<T>>...>;
/// Whether F can be evaluated on N dual numbers.
template <class F, class T, std::size_t N>
inline constexpr bool differentiable = invocable_on_duals<F, computed<T>, std::make_index_sequence<N>>;

/// Element type of f's result on operands of these types. Elements of bfloat16 are floats to f, and its float results
/// are rounded back.
template <class R, class T>
using rounded_back = std::conditional_t<std::same_as<R, computed<T>>, T, R>;
template <class F, class T, class... Ts>
using map_result =
    rounded_back<std::remove_cvref_t<decltype(std::declval<const F&>()(computed<T>{}, computed<Ts>{}...))>, T>;

MTF_NOINLINE [[nodiscard]] constexpr ShapeValue map_shape(std::span<const Array> xs) {
  ShapeValue shape;
  for (const Array& x : xs) shape = broadcast_shape(shape, x.value->placement.shape());
  return shape;
}

MTF_NOINLINE constexpr void require_union(const Backend& backend, const char* name, std::span<const Array> xs) {
  UnionValue all;
  for (const Array& x : xs) add_dims(all, x.value->placement.shape());
  require_placeable(backend, name, all, false);
}

}  // namespace detail

namespace untyped {

/// factor * x; keeps a sum pending.
template <class E, class T>
[[nodiscard]] constexpr Ref<Value> scale(E& engine, const Ref<Value>& x, double factor) {
  if (factor == 1) return x;
  if (!x->block->scattered.empty()) complete(*x, "scale");
  if constexpr (std::same_as<T, bfloat16>) {
    if (x->block->wide || !x->pending().empty())
      return mtf::detail::as_wide(scale<E, float>(engine, mtf::detail::widened(engine, x), factor));
  }
  Ref<Value> result = make_value(engine, x->placement, element_type_of<T>::value);
  result->block->pending = x->pending();
  engine.run(plan_map(engine, x->placement, x->placement), mtf::detail::Scale{factor}, out<T>(result), in<T>(x));
  return result;
}

template <class E, class T, class F, std::size_t N>
class LinearMapGradient final : public Operation {
 public:
  constexpr explicit LinearMapGradient(const F& function) : f(function) {}
  F f;
  const KeptPlacement* placements[N]{};
  constexpr ~LinearMapGradient() override {}
  constexpr void backward(const Ref<Value>& gradient, GradientSink& sink) override {
    E& engine = static_cast<E&>(*gradient.object->block.object->backend);
    for (int i = 0; i < static_cast<int>(N); ++i) {
      if (sink.wants(i))
        sink.add(i, scale<E, T>(engine, sum_to<E, T>(engine, gradient, *placements[i]), f.coefficient(i)));
    }
  }
};

template <class E, class T, class F, std::size_t N>
class MapGradient final : public Operation {
 public:
  constexpr explicit MapGradient(const F& function) : f(function) {}
  F f;
  Ref<Value> arguments[N];
  constexpr ~MapGradient() override {}
  constexpr void backward(const Ref<Value>& gradient, GradientSink& sink) override {
    complete(*gradient.object->block.object, this->name);
    E& engine = static_cast<E&>(*gradient.object->block.object->backend);
    int last = -1;
    for (int i = 0; i < static_cast<int>(N); ++i) last = sink.wants(i) ? i : last;
    for (int i = 0; i <= last; ++i) {
      if (!sink.wants(i)) continue;
      // The last product may take the memory of dy: it is needed no more.
      const bool in_place = i == last && is_sole_owner(gradient);
      Ref<Value> full = gradient;
      if (!in_place) full = make_value(engine, gradient.object->placement, element_type_of<T>::value);
      run(engine, full, gradient, i, std::make_index_sequence<N>{});
      sink.add(i, sum_to<E, T>(engine, full, arguments[i].object->placement));
    }
  }

 private:
  template <std::size_t... I>
  constexpr void run(E& engine, const Ref<Value>& full, const Ref<Value>& gradient, int which,
                     std::index_sequence<I...>) {
    engine.run(plan_map_gradient(engine, which, gradient.object->placement, arguments[I].object->placement...), f,
               out<T>(full), in<T>(gradient), in<T>(arguments[I])...);
  }
};

namespace detail {

/// Where f of some arrays lives, and how it is computed.
struct MapForm {
  const KeptPlacement* placement;
  MapPlan plan;
};

/// The form of these operands, if they go together.
template <std::size_t... I>
[[nodiscard]] constexpr const MapForm& form_of(Backend& backend, const char* name, const Array* xs,
                                               std::index_sequence<I...>) {
  mtf::detail::require_open(backend, name);
  return backend.plans.get<MapForm>(PlanKey(xs[I].value.object->placement.number...), [&] {
    const std::span<const Array> operands(xs, sizeof...(I));
    mtf::detail::require_union(backend, name, operands);
    const KeptPlacement& placement = place(backend, name, mtf::detail::map_shape(operands));
    return MapForm{&placement, plan_map(backend, placement, xs[I].value->placement...)};
  });
}

/// Whether a linear function of x and of `first` can be taken of their partial sums.
[[nodiscard]] constexpr bool sums_agree(const Block& x, const Block& first) {
  return x.pending.bits == first.pending.bits && x.scattered.bits == 0;
}

template <class E, class R, class T, class F, std::size_t... I>
[[nodiscard]] constexpr Array map(E& engine, const char* name, const F& f, const Array* xs,
                                  std::index_sequence<I...> indices) {
  constexpr std::size_t count = sizeof...(I);
  const MapForm& form = form_of(engine, name, xs, indices);
  bool stays_pending = false;
  if constexpr (linear_function<F>)
    stays_pending = (sums_agree(*xs[I].value.object->block.object, *xs[0].value.object->block.object) && ...);
  if (!stays_pending) (complete(*xs[I].value.object->block.object, name), ...);

  Ref<Value> value;
  bool in_float = false;
  if constexpr (linear_function<F> && std::same_as<T, bfloat16>) {
    in_float = stays_pending && !xs[0].value->pending().empty();
    if (in_float) {
      const Ref<Value> floats[]{mtf::detail::widened(engine, xs[I].value)...};
      value = make_wide(engine, *form.placement);
      engine.run(form.plan, f, out<float>(value), in<float>(floats[I])...);
    }
  }
  if (!in_float) {
    value = make_value(engine, *form.placement, element_type_of<R>::value);
    engine.run(form.plan, f, out<R>(value), in<T>(xs[I].value)...);
  }
  if (stays_pending) value.object->block.object->pending = xs[0].value.object->block.object->pending;
  Array result(std::move(value), {});
  if constexpr (floating<R> && std::same_as<R, T> && !without_gradient<F>) {
    if (records(engine, xs, count)) {
      if constexpr (linear_function<F>) {
        auto* operation = make<LinearMapGradient<E, T, F, count>>(f);
        ((operation->placements[I] = &xs[I].value.object->placement), ...);
        record<E, T>(result, name, operation, xs, count);
      } else if constexpr (!mtf::detail::differentiable<F, T, count>) {
        raise(name,
              "the function cannot be evaluated on dual numbers, so it has no gradient; make its call operator a "
              "template, or "
              "stop_gradient(x) its operands");
      } else {
        auto* operation = make<MapGradient<E, T, F, count>>(f);
        ((operation->arguments[I] = xs[I].value), ...);
        if constexpr (idempotent_function<F> && count == 1) operation->arguments[0] = result.value;
        record<E, T>(result, name, operation, xs, count);
      }
    }
  }
  return result;
}

}  // namespace detail

/// f of N arrays of element type T to elements of type R.
template <class E, class R, class T, class F, std::size_t N>
[[nodiscard]] constexpr Array map(E& engine, const char* name, const F& f, const std::array<Array, N>& xs) {
  return detail::map<E, R, T>(engine, name, f, xs.data(), std::make_index_sequence<N>{});
}

}  // namespace untyped

namespace detail {

template <class F, class X, class... Xs>
constexpr auto map_named(const char* name, const F& f, const X& x, const Xs&... xs) {
  if constexpr (any_poisoned<X, Xs...>) {
    return poisoned{};
  } else if constexpr (!operable<X, Xs...>) {
    return poisoned{};  // the caller, who made a `checked` of the operands, has said why
  } else {
    using World = world_of<X>;
    using T = element_of<X>;
    using R = map_result<F, T, element_of<Xs>...>;
    static_assert(
        element<R>,
        "mtf: the function given to map must return an element type (float, double, bfloat16, int32, int64, bool)");
    using E = typename World::engine_type;
    const std::array<Array, 1 + sizeof...(Xs)> arrays{array_of(x), array_of(xs)...};
    E& engine = static_cast<E&>(*arrays.data()->value.object->block.object->backend);
    require_same_backend(engine, name, arrays);
    return tensor_of<World, R, broadcast_dims<dims_of<X>, dims_of<Xs>...>>(
        untyped::map<E, R, T, F, 1 + sizeof...(Xs)>(engine, name, f, arrays));
  }
}
template <class Checked, class F, class... Xs>
constexpr auto map_checked(Checked, const char* name, const F& f, const Xs&... xs) {
  return map_named(name, f, xs...);
}

}  // namespace detail

/// y[dims] = f(x[...], ...): applies f to each element; operands broadcast by name, and the output's dims follow
/// Mesh-TensorFlow's rule (`broadcast_shape`). At most 6 operands of one element type; f may return another one.
///
/// Elements of bfloat16 are floats to f; its float results are rounded back. The gradient evaluates f on dual numbers,
/// so its call operator must be a template, or take the element type and `Dual` of it, and use the functions of
/// core/dual.hpp (`exp`, `max`, ...) found by argument-dependent lookup.
/// A function object may also say its derivatives itself, `T partial(int argument, T... values) const`, which is less
/// work where they are simple.
/// Communication: none, but pending operands are completed unless f is a `linear_function`.
template <class F, operand X, operand... Xs>
constexpr auto map(const F& f, const X& x, const Xs&... xs) {
  static_assert(sizeof...(Xs) < 6, "mtf: map takes at most 6 operands; apply it twice");
  return detail::map_checked(detail::checked<X, Xs...>{}, "map", f, x, xs...);
}

}  // namespace v0
}  // namespace mtf
