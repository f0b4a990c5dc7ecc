// RMS normalisation.
#pragma once

#include <mtf/ops/arithmetic.hpp>
#include <mtf/ops/cast.hpp>
#include <mtf/ops/create.hpp>
#include <mtf/ops/elementary.hpp>
#include <mtf/ops/reduce.hpp>

namespace mtf {
inline namespace v0 {

namespace detail {

struct Rescale {
  template <class X>
  MTF_FUNCTION constexpr X operator()(const X& x, const X& factor, const X& scale) const {
    return x * factor * scale;
  }
  template <class X>
  MTF_FUNCTION constexpr X partial(int argument, const X& x, const X& factor, const X& scale) const {
    return (argument == 0 ? factor : x) * (argument == 2 ? factor : scale);
  }
};

}  // namespace detail

/// y = x / sqrt(mean of x^2 over Model + epsilon) * scale[Model]; no mean is subtracted, there is no bias. The scale
/// starts at 1.
/// Communication: none unless Model is split. Keeps x for its gradient. A row whose sum of squares overflows, which
/// takes elements beyond 1e19 in float, gives zeros; divide it by a number first.
template <class World, floating T, dim_like Model>
struct RmsNorm {
  static constexpr double epsilon = 1e-6;
  Variable<World, T, Model> scale;

  constexpr RmsNorm(World& world, const Scope& scope, const Model& d_model)
      : scale(variable<T>(world, scope / "scale", init::ones, d_model)) {}

  template <operand X>
  constexpr auto operator()(const X& x) const {
    const auto wide = cast<computed<T>>(x);  // the norm is taken in float where x is bfloat16
    // One map of three operands: its gradient keeps x and a number for each row, not the product of the two as well.
    return cast<T>(
        map(detail::Rescale{}, wide, rsqrt(reduce_mean<Model>(square(wide)) + epsilon), cast<computed<T>>(scale)));
  }
};

}  // namespace v0
}  // namespace mtf
