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

/// A function object that is linear in all its arguments together says so with `static constexpr bool linear = true` and
/// `double coefficient(int argument) const`: it then keeps sums pending and saves nothing for its gradient.
template <class F>
concept linear_function = requires(const F& f) {
  requires F::linear;
  { f.coefficient(0) } -> std::convertible_to<double>;
};

/// A function object whose result gradients take as a constant (sign, floor_divide) says so with
/// `static constexpr bool has_gradient = false`: the result then joins no graph.
template <class F>
concept without_gradient = requires { requires !F::has_gradient; };

namespace detail {

struct Scale {
  static constexpr bool linear = true;
  double factor;
  [[nodiscard]] constexpr double coefficient(int) const { return factor; }
  template <class X>
  MTF_FUNCTION constexpr X operator()(const X& x) const {
    return static_cast<X>(factor) * x;
  }
};

template <class F, class T, class Indices>
inline constexpr bool invocable_on_duals = false;
template <class F, class T, std::size_t... I>
inline constexpr bool invocable_on_duals<F, T, std::index_sequence<I...>> = std::is_invocable_r_v<Dual<T>, const F&, std::enable_if_t<sizeof(I) != 0, Dual<T>>...>;
/// Whether F can be evaluated on N dual numbers.
template <class F, class T, std::size_t N>
inline constexpr bool differentiable = invocable_on_duals<F, computed<T>, std::make_index_sequence<N>>;

/// Element type of f's result on operands of these types. Elements of bfloat16 are floats to f, and its float results are rounded back.
template <class R, class T>
using rounded_back = std::conditional_t<std::same_as<R, computed<T>>, T, R>;
template <class F, class T, class... Ts>
using map_result = rounded_back<std::remove_cvref_t<decltype(std::declval<const F&>()(computed<T>{}, computed<Ts>{}...))>, T>;

template <std::size_t N>
[[nodiscard]] constexpr ShapeValue map_shape(const std::array<Array, N>& xs) {
  ShapeValue shape;
  for (const Array& x : xs) shape = broadcast_shape(shape, x.value->placement.shape());
  return shape;
}

template <std::size_t N>
constexpr void require_union(Backend& backend, const char* name, const std::array<Array, N>& xs) {
  ShapeValue all;
  for (const Array& x : xs) {
    for (const DimValue& dim : x.value->placement.shape()) {
      // A repeated dim with the same extent adds nothing to the check.
      const int known = find(all, dim.name);
      if ((known < 0 || all[known].extent != dim.extent) && !all.full()) all.push_back(dim);
    }
  }
  require_legal(backend, name, all, false);
}

}  // namespace detail

namespace untyped {

/// factor * x; keeps a sum pending.
template <class E, class T>
[[nodiscard]] constexpr Ref<Value> scale(E& engine, const Ref<Value>& x, double factor) {
  if (factor == 1) return x;
  if (!x->block->scattered.empty()) complete(*x, "scale");
  if constexpr (std::same_as<T, bfloat16>) {
    if (!x->pending().empty()) return mtf::detail::as_wide(scale<E, float>(engine, mtf::detail::widened(engine, x), factor));
  }
  Ref<Value> result = make_value(engine, x->placement, element_type_of<T>::value);
  result->block->pending = x->pending();
  const StridedShape shape = row_major(x->placement);
  engine.run(MapPlan{collapse(loop_over(shape, shape, shape))}, mtf::detail::Scale{factor}, out<T>(result), in<T>(x));
  return result;
}

template <class E, class T, class F, std::size_t N>
class LinearMapGradient final : public Operation {
 public:
  constexpr explicit LinearMapGradient(const F& function) : f(function) {}
  F f;
  InlineVector<Placement, static_cast<int>(N)> placements;
  constexpr ~LinearMapGradient() override {}
  constexpr void backward(const Ref<Value>& gradient, GradientSink& sink) override {
    E& engine = static_cast<E&>(gradient->backend());
    for (int i = 0; i < static_cast<int>(N); ++i) {
      if (sink.wants(i)) sink.add(i, scale<E, T>(engine, sum_to<E, T>(engine, gradient, placements[i]), f.coefficient(i)));
    }
  }
};

template <class E, class T, class F, std::size_t N>
class MapGradient final : public Operation {
 public:
  constexpr explicit MapGradient(const F& function) : f(function) {}
  F f;
  std::array<Ref<Value>, N> arguments;
  constexpr ~MapGradient() override {}
  constexpr void backward(const Ref<Value>& gradient, GradientSink& sink) override {
    complete(*gradient, this->name);
    E& engine = static_cast<E&>(gradient->backend());
    int last = -1;
    for (int i = 0; i < static_cast<int>(N); ++i) last = sink.wants(i) ? i : last;
    for (int i = 0; i <= last; ++i) {
      if (!sink.wants(i)) continue;
      // The last product may take the memory of dy: it is needed no more.
      const bool in_place = i == last && is_sole_owner(gradient);
      Ref<Value> full = gradient;
      if (!in_place) full = make_value(engine, gradient->placement, element_type_of<T>::value);
      run(engine, full, gradient, i, std::make_index_sequence<N>{});
      sink.add(i, sum_to<E, T>(engine, full, arguments[static_cast<std::size_t>(i)]->placement));
    }
  }

 private:
  template <std::size_t... I>
  constexpr void run(E& engine, const Ref<Value>& full, const Ref<Value>& gradient, int which, std::index_sequence<I...>) {
    const StridedShape shape = row_major(gradient->placement);
    const MapGradientPlan plan{collapse(loop_over(shape, shape, shape, row_major(arguments[I]->placement)...)), which};
    engine.run(plan, f, out<T>(full), in<T>(gradient), in<T>(arguments[I])...);
  }
};

/// f of N arrays of element type T to elements of type R.
template <class E, class R, class T, class F, std::size_t N>
[[nodiscard]] constexpr Array map(E& engine, const char* name, const F& f, const std::array<Array, N>& xs) {
  mtf::detail::require_union(engine, name, xs);
  bool stays_pending = false;
  if constexpr (linear_function<F>) {
    stays_pending = true;
    for (const Array& x : xs) stays_pending = stays_pending && x.value->pending() == xs[0].value->pending() && x.value->block->scattered.empty();
  }
  if (!stays_pending) {
    for (const Array& x : xs) complete(*x.value, name);
  }
  const ShapeValue dims = mtf::detail::map_shape(xs);
  require_placeable(engine, name, dims);
  const Placement placement = place(engine.rules, dims);
  Array result;
  const auto run = [&]<class Out, class Held>(std::type_identity<Out>, std::type_identity<Held>, const std::array<Ref<Value>, N>& values) {
    const StridedShape shape = row_major(placement);
    [&]<std::size_t... I>(std::index_sequence<I...>) {
      engine.run(MapPlan{collapse(loop_over(shape, shape, row_major(values[I]->placement)...))}, f, out<Out>(result.value), in<Held>(values[I])...);
    }(std::make_index_sequence<N>{});
  };
  std::array<Ref<Value>, N> values;
  for (std::size_t i = 0; i < N; ++i) values[i] = xs[i].value;
  bool in_float = false;
  if constexpr (linear_function<F> && std::same_as<T, bfloat16>) in_float = stays_pending && !xs[0].value->pending().empty();
  if (in_float) {
    if constexpr (linear_function<F> && std::same_as<T, bfloat16>) {
      for (Ref<Value>& value : values) value = mtf::detail::widened(engine, value);
      result.value = make_wide(engine, placement);
      run(std::type_identity<float>{}, std::type_identity<float>{}, values);
    }
  } else {
    result.value = make_value(engine, placement, element_type_of<R>::value);
    run(std::type_identity<R>{}, std::type_identity<T>{}, values);
  }
  if (stays_pending) result.value->block->pending = xs[0].value->pending();
  if constexpr (floating<R> && std::same_as<R, T> && !without_gradient<F>) {
    if (records(engine, xs)) {
      if constexpr (linear_function<F>) {
        auto* operation = make<LinearMapGradient<E, T, F, N>>(f);
        for (const Array& x : xs) operation->placements.push_back(x.value->placement);
        record<E, T>(result, name, operation, xs);
      } else if constexpr (!mtf::detail::differentiable<F, T, N>) {
        raise(name, std::string("the function cannot be evaluated on dual numbers, so it has no gradient; make its call operator a template, or "
                                "stop_gradient(x) its operands"));
      } else {
        auto* operation = make<MapGradient<E, T, F, N>>(f);
        for (std::size_t i = 0; i < N; ++i) operation->arguments[i] = xs[i].value;
        record<E, T>(result, name, operation, xs);
      }
    }
  }
  return result;
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
    static_assert(element<R>, "mtf: the function given to map must return an element type (float, double, bfloat16, int32, int64, bool)");
    using E = typename World::engine_type;
    const std::array<Array, 1 + sizeof...(Xs)> arrays{array_of(x), array_of(xs)...};
    E& engine = static_cast<E&>(arrays[0].value->backend());
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
/// Elements of bfloat16 are floats to f; its float results are rounded back.
/// The gradient evaluates f on dual numbers, so its call operator must be a template, or take the element type and `Dual`
/// of it, and use the functions of this header (`mtf::exp`, `mtf::max`, ...) found by argument-dependent lookup.
/// Communication: none, but pending operands are completed unless f is a `linear_function`.
template <class F, operand X, operand... Xs>
constexpr auto map(const F& f, const X& x, const Xs&... xs) {
  static_assert(sizeof...(Xs) < 6, "mtf: map takes at most 6 operands; apply it twice");
  return detail::map_checked(detail::checked<X, Xs...>{}, "map", f, x, xs...);
}

}  // namespace v0
}  // namespace mtf
