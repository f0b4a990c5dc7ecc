// RMS normalisation.
#pragma once

#include <mtf/ops/arithmetic.hpp>
#include <mtf/ops/cast.hpp>
#include <mtf/ops/create.hpp>
#include <mtf/ops/elementary.hpp>
#include <mtf/ops/reduce.hpp>

namespace mtf {
inline namespace v0 {

/// y = x / sqrt(mean of x^2 over Model + epsilon) * scale[Model]; no mean is subtracted, there is no bias. The scale starts at 1.
/// Communication: none unless Model is split.
template <class World, floating T, dim_like Model>
struct RmsNorm {
  static constexpr double epsilon = 1e-6;
  Variable<World, T, Model> scale;

  constexpr RmsNorm(World& world, const Scope& scope, const Model& d_model) : scale(variable<T>(world, scope / "scale", init::ones, d_model)) {}

  template <operand X>
  constexpr auto operator()(const X& x) const {
    const auto wide = cast<computed<T>>(x);  // the norm is taken in float where x is bfloat16
    return cast<T>(wide * rsqrt(reduce_mean<Model>(square(wide)) + epsilon) * cast<computed<T>>(scale));
  }
};

}  // namespace v0
}  // namespace mtf
