// cast: another element type.
#pragma once

#include <mtf/ops/map.hpp>

namespace mtf {
inline namespace v0 {

namespace untyped {

template <class E, class To, class From>
class CastGradient final : public Operation {
 public:
  constexpr ~CastGradient() override {}
  constexpr void backward(const Ref<Value>& gradient, GradientSink& sink) override {
    if (sink.wants(0)) sink.add(0, back(static_cast<E&>(gradient->backend()), gradient));
  }

 private:
  /// The gradient of bfloat16 is not rounded yet: others may be added, and it may be a variable's.
  static constexpr Ref<Value> back(E& engine, const Ref<Value>& gradient) {
    if constexpr (std::same_as<From, bfloat16>) {
      complete(*gradient, "cast");
      if constexpr (std::same_as<To, float>) {
        if (is_sole_owner(gradient)) return mtf::detail::as_wide(gradient);
      }
      Ref<Value> result = make_wide(engine, gradient->placement);
      engine.run(plan_map(engine, gradient->placement, gradient->placement), mtf::detail::Convert<float>{},
                 out<float>(result), in<To>(gradient));
      return result;
    } else {
      return convert<E, From, To>(engine, gradient);
    }
  }
};

template <class E, class To, class From>
[[nodiscard]] constexpr Array cast(E& engine, const Array& x) {
  mtf::detail::require_open(engine, "cast");
  Array result{convert<E, To, From>(engine, x.value), {}};
  if constexpr (floating<To> && floating<From>) {
    if (records(engine, {x})) record<E, To>(result, "cast", make<CastGradient<E, To, From>>(), {x});
  }
  return result;
}

}  // namespace untyped

/// x with elements of type To. Floating point to integers: the fraction is cut off, a number out of range becomes the
/// nearest one of To, NaN becomes 0. A larger integer type to a smaller one: modulo 2^bits. To a smaller floating-point
/// type: rounded to nearest, beyond its range to infinity. To bool: whether it is not 0, as NaN is not. No
/// communication; a pending sum is completed first, so that it is rounded once. The gradient is cast back (that of
/// bfloat16 stays in float until it is read); between integers and floating point there is none.
template <element To, operand X>
constexpr auto cast(const X& x) {
  if constexpr (any_poisoned<X>) {
    return poisoned{};
  } else {
    using From = element_of<X>;
    using E = typename world_of<X>::engine_type;
    const Array& array = detail::array_of(x);
    if constexpr (std::same_as<To, From>) {
      return tensor_of<world_of<X>, To, dims_of<X>>(array);
    } else {
      return tensor_of<world_of<X>, To, dims_of<X>>(
          untyped::cast<E, To, From>(static_cast<E&>(array.value->backend()), array));
    }
  }
}

}  // namespace v0
}  // namespace mtf
