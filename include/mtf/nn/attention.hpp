// Multi-head self-attention.
#pragma once

#include <mtf/ops/arithmetic.hpp>
#include <mtf/ops/create.hpp>
#include <mtf/ops/dropout.hpp>
#include <mtf/ops/einsum.hpp>
#include <mtf/ops/reshape.hpp>
#include <mtf/ops/softmax.hpp>

namespace mtf {
inline namespace v0 {

namespace detail {

// At namespace scope, so that all worlds share their kernels. Positions are integers: bfloat16 does not tell those
// beyond 256 apart.
template <class T>
struct CausalMask {
  MTF_FUNCTION constexpr T operator()(std::int32_t position, std::int32_t seen) const {
    return seen <= position ? T(0) : T(-1e9);
  }
};
struct ScaleAndMask {
  double scale;
  template <class X>
  MTF_FUNCTION constexpr X operator()(const X& logit, const X& mask) const {
    return static_cast<X>(scale) * logit + mask;
  }
  template <class X>
  MTF_FUNCTION constexpr X partial(int argument, const X&, const X&) const {
    return argument == 0 ? static_cast<X>(scale) : X(1);
  }
};

}  // namespace detail

/// mask[Length, Memory]: 0 where memory <= position, else -1e9, added to the logits of causal attention.
template <floating T, class World, dim_like Length, dim_like Memory>
constexpr auto causal_mask(World& world, const Length& length, const Memory& memory) {
  return map(detail::CausalMask<T>{}, range<std::int32_t>(world, length), range<std::int32_t>(world, memory));
}

/// Dims of attention: x has [Batch, Length, Model]; Memory is Length under the name that keys and values use.
template <dim_like BatchDim, dim_like LengthDim, dim_like MemoryDim, dim_like ModelDim, dim_like HeadsDim,
          dim_like KvDim>
struct AttentionDims {
  using Batch = BatchDim;
  using Length = LengthDim;
  using Memory = MemoryDim;
  using Model = ModelDim;
  using Heads = HeadsDim;
  using Kv = KvDim;
};

struct AttentionOptions {
  double output_scale =
      1;  ///< multiplies the initial wo: below 1 the residual stream starts out nearer to the identity
  /// Whether 1 / sqrt(d_kv) scales the initial wq, as in the original, rather than the logits in every step. An
  /// optimizer whose steps do not follow the size of a weight, such as Adam, changes a wq scaled down by it sqrt(d_kv)
  /// times too fast.
  bool fold_scaling_into_initializer = true;
};

/// y = softmax(q k + mask) v wo, with q, k, v = x wq, x wk, x wv and logits scaled by 1 / sqrt(d_kv); no biases.
/// Communication if Heads is split: one allreduce of the output forward, one of x's gradient backward.
template <class World, floating T, class Dims>
struct SelfAttention {
  using Batch = typename Dims::Batch;
  using Length = typename Dims::Length;
  using Memory = typename Dims::Memory;
  using Model = typename Dims::Model;
  using Heads = typename Dims::Heads;
  using Kv = typename Dims::Kv;

  Variable<World, T, Model, Heads, Kv> wq, wk, wv;
  Variable<World, T, Heads, Kv, Model> wo;
  double logit_scale;

  constexpr SelfAttention(World& world, const Scope& scope, const Model& d_model, const Heads& heads, const Kv& d_kv,
                          const AttentionOptions& options = {})
      : wq(variable<T>(
            world, scope / "q",
            init::normal(stddev(d_model.extent() * (options.fold_scaling_into_initializer ? d_kv.extent() : 1))),
            d_model, heads, d_kv)),
        wk(variable<T>(world, scope / "k", init::normal(stddev(d_model.extent())), d_model, heads, d_kv)),
        wv(variable<T>(world, scope / "v", init::normal(stddev(d_model.extent())), d_model, heads, d_kv)),
        wo(variable<T>(world, scope / "o", init::normal(options.output_scale * stddev(heads.extent() * d_kv.extent())),
                       heads, d_kv, d_model)),
        logit_scale(options.fold_scaling_into_initializer ? 1.0 : stddev(d_kv.extent())) {}

  /// x[Batch, Length, Model] and mask[Length, Memory] to y[Batch, Length, Model]. The dropout noise of the weights is
  /// shared over Length.
  template <operand X, operand Mask>
  constexpr auto operator()(const X& x, const Mask& mask, double dropout_rate, const Key& key) const {
    const auto q = einsum<Batch, Length, Heads, Kv>(x, wq);
    const auto k = rename<Length, Memory>(einsum<Batch, Length, Heads, Kv>(x, wk));
    const auto v = rename<Length, Memory>(einsum<Batch, Length, Heads, Kv>(x, wv));
    const auto weights =
        softmax<Memory>(map(detail::ScaleAndMask{logit_scale}, einsum<Batch, Heads, Length, Memory>(q, k), mask));
    const auto kept = dropout<Batch, Heads, Memory>(weights, dropout_rate, key);
    return einsum<Batch, Length, Model>(einsum<Batch, Length, Heads, Kv>(kept, v), wo);
  }

 private:
  static constexpr double stddev(std::int64_t fan) { return 1 / mtf::sqrt(static_cast<double>(fan)); }
};

}  // namespace v0
}  // namespace mtf
