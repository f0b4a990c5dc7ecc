// custom_gradient: functions whose gradient is the user's.
#pragma once

#include <array>
#include <tuple>
#include <type_traits>

#include <mtf/tensor/capture.hpp>
#include <mtf/tensor/variable.hpp>

namespace mtf {
inline namespace v0 {

/// What a gradient function returns for an input that has none: an integer, or a constant of the problem.
struct no_gradient {};

namespace detail {

template <class X>
using plain_t = decltype(plain(std::declval<const X&>()));

// One result and a tuple of results, alike.
template <class R>
struct Results {
  static constexpr bool known = false;
};
template <class World, class T, class... Dims>
struct Results<Tensor<World, T, Dims...>> {
  static constexpr bool known = true;
  static constexpr std::size_t size = 1;
  using type = Tensor<World, T, Dims...>;
  static constexpr bool real = floating<T>;
  static constexpr std::array<Array, 1> arrays(const type& result) { return {result.array()}; }
  static constexpr type of(std::span<const Array> arrays) { return type(arrays[0]); }
};
template <class... Tensors>
  requires(sizeof...(Tensors) > 0 && ((Results<Tensors>::known && Results<Tensors>::size == 1) && ...))
struct Results<std::tuple<Tensors...>> {
  static constexpr bool known = true;
  static constexpr std::size_t size = sizeof...(Tensors);
  using type = std::tuple<Tensors...>;
  static constexpr bool real = (Results<Tensors>::real && ...);
  static constexpr std::array<Array, size> arrays(const type& result) {
    return std::apply([](const auto&... tensors) { return std::array<Array, size>{tensors.array()...}; }, result);
  }
  static constexpr type of(std::span<const Array> arrays) {
    return [&]<std::size_t... I>(std::index_sequence<I...>) {
      return type(Tensors(arrays[I])...);
    }(std::make_index_sequence<size>{});
  }
};

/// Calls f with typed tensors made of arrays.
template <class... Xs, class F>
constexpr decltype(auto) call_on(const F& f, std::span<const Array> arrays) {
  return [&]<std::size_t... I>(std::index_sequence<I...>) -> decltype(auto) {
    return f(Xs(arrays[I])...);
  }(std::index_sequence_for<Xs...>{});
}

}  // namespace detail

namespace untyped {

/// The user's own gradient.
template <class G, class R, class... Xs>
class CustomGradient final : public FunctionOperation {
 public:
  constexpr explicit CustomGradient(const G& gradient) : g(gradient) {}
  G g;
  std::array<Ref<Value>, mtf::detail::Results<R>::size> results;
  std::array<const ElementOperations*, mtf::detail::Results<R>::size> elements;
  constexpr ~CustomGradient() override {}

  constexpr void pull(std::span<const Ref<Value>> arrived, GradientSink& sink) override {
    Backend& backend = values[0]->backend();
    const Capture capture(backend, this->name, false);
    const Replaying replaying(backend, this->name);
    std::array<Array, mtf::detail::Results<R>::size> ys, dys;
    for (std::size_t i = 0; i < ys.size(); ++i) {
      ys[i].value = results[i];
      dys[i].value = arrived[i] ? arrived[i] : elements[i]->fill(backend, results[i]->placement, 0.0);
    }
    std::array<Array, sizeof...(Xs)> xs;
    for (std::size_t i = 0; i < xs.size(); ++i) xs[i].value = values[i];
    const auto found = [&]<std::size_t... I>(std::index_sequence<I...>) {
      return g(mtf::detail::Results<R>::of(dys), mtf::detail::Results<R>::of(ys), Xs(xs[I])...);
    }(std::index_sequence_for<Xs...>{});
    if constexpr (sizeof...(Xs) == 1) {
      give_back(0, found, sink);
    } else {
      [&]<std::size_t... I>(std::index_sequence<I...>) {
        (give_back(I, std::get<I>(found), sink), ...);
      }(std::index_sequence_for<Xs...>{});
    }
  }

 private:
  template <class X>
  constexpr void give_back(std::size_t input, const X& found, GradientSink& sink) {
    if (!sink.wants(static_cast<int>(input))) return;
    if constexpr (!std::same_as<X, no_gradient>) {
      const Ref<Value>& value = mtf::detail::array_of(found).value;
      if (!(value->placement == values[input]->placement)) {
        raise(this->name, "the gradient function returns dims " + describe(value->placement.shape()) + " for input " +
                              std::to_string(input) + ", whose dims are " + describe(values[input]->placement.shape()));
      }
      sink.add(static_cast<int>(input), value);
    }
  }
};

}  // namespace untyped

namespace detail {

template <class G, class X>
inline constexpr bool is_gradient_of = std::same_as<G, no_gradient>;
template <class World, class T, class... As, class... Bs>
inline constexpr bool is_gradient_of<Tensor<World, T, As...>, Tensor<World, T, Bs...>> =
    floating<T> && same_names<DimList<As...>, DimList<Bs...>>;

template <class Found, class... Xs>
inline constexpr bool are_gradients_of = false;
template <class Found, class X>
inline constexpr bool are_gradients_of<Found, X> = is_gradient_of<Found, X>;
template <class... Found, class... Xs>
  requires(sizeof...(Xs) > 1 && sizeof...(Found) == sizeof...(Xs))
inline constexpr bool are_gradients_of<std::tuple<Found...>, Xs...> = (is_gradient_of<Found, Xs> && ...);

template <class... Xs>
constexpr void set_inputs(FunctionOperation& operation, const char* name, const std::array<Array, sizeof...(Xs)>& xs) {
  operation.name = name;
  for (const Array& x : xs) {
    operation.values.push_back(x.value);
    operation.inputs.push_back(x.node);
  }
}

template <class E, class R>
struct ElementsOf;
template <class E, class World, class T, class... Dims>
struct ElementsOf<E, Tensor<World, T, Dims...>> {
  static constexpr std::array<const ElementOperations*, 1> value{&element_operations<E, T>};
};
template <class E, class... Tensors>
struct ElementsOf<E, std::tuple<Tensors...>> {
  static constexpr std::array<const ElementOperations*, sizeof...(Tensors)> value{
      &element_operations<E, element_of<Tensors>>...};
};

/// Whether the results of a function are what its callers below take; names the mistake.
template <class R>
constexpr bool check_results() {
  constexpr bool known = Results<R>::known;
  static_assert(
      known || std::same_as<R, poisoned>,
      "mtf: the function given to recompute or custom_gradient must return a tensor or a std::tuple of tensors");
  return known;
}

}  // namespace detail

/// f(xs...), whose gradient is the user's: `gradient(dy, y, xs...)` returns dx, or with several xs a std::tuple of
/// them, each a tensor of the input's element type and dims or `no_gradient{}`. If f returns a std::tuple, dy and y are
/// tuples. f runs once, now; `gradient`, copied, during gradients(), so capture handles by value. dy may be pending.
///
/// Errors: an f that refers to a variable or another tensor with a gradient that is not among the xs throws with its
/// name (the gradient function has no way to return its gradient); so does a tensor made inside f that is used outside
/// of it with a gradient. Communication: that of f and of `gradient`.
template <class F, class G, operand X, operand... Xs>
constexpr auto custom_gradient(const F& f, const G& gradient, const X& x, const Xs&... xs) {
  if constexpr (any_poisoned<X, Xs...>) {
    return poisoned{};
  } else {
    constexpr bool one_world = (std::same_as<world_of<X>, world_of<Xs>> && ...);
    static_assert(one_world, "mtf: " MTF_RULE_DIFFERENT_WORLDS);
    constexpr bool callable = std::invocable<const F&, detail::plain_t<X>, detail::plain_t<Xs>...>;
    static_assert(callable, "mtf: custom_gradient: the function cannot be called with the inputs as tensors");
    if constexpr (one_world && callable) {
      using R = std::remove_cvref_t<std::invoke_result_t<const F&, detail::plain_t<X>, detail::plain_t<Xs>...>>;
      if constexpr (detail::check_results<R>()) {
        static_assert(detail::Results<R>::real, "mtf: custom_gradient: " MTF_RULE_NOT_FLOATING);
        constexpr bool takes = std::invocable<const G&, R, R, detail::plain_t<X>, detail::plain_t<Xs>...>;
        static_assert(takes, "mtf: custom_gradient: the gradient function must be callable as gradient(dy, y, xs...)");
        if constexpr (takes && detail::Results<R>::real) {
          using Found =
              std::remove_cvref_t<std::invoke_result_t<const G&, R, R, detail::plain_t<X>, detail::plain_t<Xs>...>>;
          constexpr bool fits = detail::are_gradients_of<Found, detail::plain_t<X>, detail::plain_t<Xs>...>;
          static_assert(fits,
                        "mtf: custom_gradient: the gradient function must return a gradient for each input, of its "
                        "element type and dims, or "
                        "no_gradient{}: one tensor for one input, a std::tuple for several");
          if constexpr (fits) {
            constexpr const char* name = "custom_gradient";
            const std::array<Array, 1 + sizeof...(Xs)> arrays{detail::array_of(x), detail::array_of(xs)...};
            Backend& backend = arrays[0].value->backend();
            detail::require_same_backend(backend, name, arrays);
            detail::require_open(backend, name);
            const bool recorded = records(backend, arrays);
            std::array<Array, detail::Results<R>::size> results;
            {
              // The graph inside only serves to find what f refers to.
              const Capture capture(backend, name, backend.recording);
              std::array<Array, 1 + sizeof...(Xs)> inner;
              for (std::size_t i = 0; i < inner.size(); ++i) inner[i] = capture.enter(arrays[i].value, arrays[i].node);
              results =
                  detail::Results<R>::arrays(detail::call_on<detail::plain_t<X>, detail::plain_t<Xs>...>(f, inner));
              for (const Ref<Node>& reference : capture.references(results)) {
                raise(name, "the function uses " + name_of_reference(*reference) +
                                ", which has a gradient but is not among its inputs; pass it as one, or take "
                                "stop_gradient(x) of it");
              }
            }
            if (!recorded) return detail::Results<R>::of(results);
            using E = typename world_of<X>::engine_type;
            auto* operation = make<untyped::CustomGradient<G, R, detail::plain_t<X>, detail::plain_t<Xs>...>>(gradient);
            detail::set_inputs<X, Xs...>(*operation, name, arrays);
            operation->elements = detail::ElementsOf<E, R>::value;
            for (std::size_t i = 0; i < results.size(); ++i) {
              operation->results[i] = results[i].value;
              results[i].node = make_node(backend, results[i].value->placement, operation->elements[i]);
            }
            join(backend, operation, results);
            return detail::Results<R>::of(results);
          } else {
            return poisoned{};
          }
        } else {
          return poisoned{};
        }
      } else {
        return poisoned{};
      }
    } else {
      return poisoned{};
    }
  }
}

}  // namespace v0
}  // namespace mtf
