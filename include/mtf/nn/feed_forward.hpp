// The feed-forward sublayer.
#pragma once

#include <mtf/ops/activation.hpp>
#include <mtf/ops/create.hpp>
#include <mtf/ops/einsum.hpp>

namespace mtf {
inline namespace v0 {

/// y[rows..., Model] = relu(x wi) wo with wi[Model, Hidden], wo[Hidden, Model]; no biases. `output_scale` multiplies
/// the initial wo. Communication if Hidden is split: one allreduce of the output forward, one of x's gradient backward.
template <class World, floating T, dim_like Model, dim_like Hidden>
struct DenseReluDense {
  Variable<World, T, Model, Hidden> wi;
  Variable<World, T, Hidden, Model> wo;

  constexpr DenseReluDense(World& world, const Scope& scope, const Model& d_model, const Hidden& d_ff,
                           double output_scale = 1)
      : wi(variable<T>(world, scope / "wi",
                       init::truncated_normal(1 / mtf::sqrt(static_cast<double>(d_model.extent()))), d_model, d_ff)),
        wo(variable<T>(world, scope / "wo",
                       init::truncated_normal(output_scale / mtf::sqrt(static_cast<double>(d_ff.extent()))), d_ff,
                       d_model)) {}

  /// `Rows` are the dims of x besides Model.
  template <dim_like... Rows, operand X>
  constexpr auto apply(const X& x) const {
    return einsum<Rows..., Model>(relu(einsum<Rows..., Hidden>(x, wi)), wo);
  }
};

}  // namespace v0
}  // namespace mtf
