// A decoder-only Transformer language model: Mesh-TensorFlow's Unitransformer.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include <mtf/nn/attention.hpp>
#include <mtf/nn/feed_forward.hpp>
#include <mtf/nn/rms_norm.hpp>
#include <mtf/ops/cross_entropy.hpp>
#include <mtf/ops/gather.hpp>

namespace mtf {
inline namespace v0 {

struct LanguageModelOptions {
  std::int64_t layers = 2;      ///< blocks of attention and feed-forward
  double dropout = 0;           ///< rate in [0, 1), in training
  double label_smoothing = 0;   ///< see CrossEntropyOptions
  double z_loss = 1e-4;         ///< in training
  double embedding_stddev = 1;  ///< of the initial embeddings; 1 is the original's, less suits Adam better
  double position_stddev = 1;   ///< of the initial positions; 1 is the original's
  double output_scale = 1;      ///< of the initial output matrices of attention and feed-forward; 1 is the original's
  double logits_scale = 1;      ///< of the initial matrix of the logits; 1 is the original's
  bool fold_scaling_into_initializer = true;  ///< see AttentionOptions; false suits Adam better
  bool zero_is_padding = false;               ///< target 0 has no loss; it still counts in the mean, as in the original
};

namespace detail {

template <class T>
struct IsToken {
  MTF_FUNCTION constexpr T operator()(std::int32_t target) const { return target > 0 ? T(1) : T(0); }
};

/// The rules that are broken over any of these unions of dims, each once.
MTF_COLD [[nodiscard]] constexpr Violations violations_of(const PlacementRules& rules,
                                                          std::span<const ShapeValue> operations) {
  Violations all;
  for (const ShapeValue& operation : operations) {
    const Violations found = mtf::check(rules, operation, false);
    all.omitted += found.omitted;
    for (const Violation& violation : found) {
      bool known = false;
      for (const Violation& other : all) known = known || same_facts(violation, other);
      if (!known) add(all, violation);
    }
  }
  return all;
}

}  // namespace detail

/// Mesh-TensorFlow's names for the dims of a language model, with extents known at run time: what serves unless a
/// program has dims of its own.
struct LanguageModelDims {
  struct Batch : Dim<"batch"> {};
  struct Length : Dim<"length"> {};
  struct Memory : Dim<"memory_length"> {};  ///< length, as keys and values see it
  struct Model : Dim<"d_model"> {};
  struct Heads : Dim<"heads"> {};
  struct Kv : Dim<"d_kv"> {};
  struct Ff : Dim<"d_ff"> {};
  struct Vocab : Dim<"vocab"> {};

  Batch batch;
  Length length;
  Memory memory;
  Model d_model;
  Heads heads;
  Kv d_kv;
  Ff d_ff;
  Vocab vocab;
};

/// The model over a struct of dims `D` with members batch, length, memory, d_model, heads, d_kv, d_ff, vocab, of static
/// or dynamic extents: token embedding and learned positions, `layers` times attention and feed-forward as pre-norm
/// residuals, a final norm, and a softmax of its own.
///
/// Communication of a training step with batch split over "rows" and heads, d_ff and vocab over "cols" (costs of the
/// original's Transformer layouts): over cols 4 layers + 2 allreduces of an activation and three of a scalar per token;
/// over rows one allreduce for each variable, and one of the loss where it is read.
template <class World, floating T, class D>
class LanguageModel {
 public:
  using Batch = decltype(D::batch);
  using Length = decltype(D::length);
  using Memory = decltype(D::memory);
  using Model = decltype(D::d_model);
  using Heads = decltype(D::heads);
  using Kv = decltype(D::d_kv);
  using Hidden = decltype(D::d_ff);
  using Vocab = decltype(D::vocab);
  using Attention = SelfAttention<World, T, AttentionDims<Batch, Length, Memory, Model, Heads, Kv>>;
  using Activation = Tensor<World, T, Batch, Length, Model>;
  using Tokens = Tensor<World, std::int32_t, Batch, Length>;

  constexpr LanguageModel(World& world, const D& dims, const LanguageModelOptions& options, const Scope& scope = {})
      : dims_(dims),
        options_(checked(options)),
        embedding_(
            variable<T>(world, scope / "embedding", init::normal(options.embedding_stddev), dims.vocab, dims.d_model)),
        positions_(variable<T>(world, scope / "positional_embedding", init::normal(options.position_stddev),
                               dims.length, dims.d_model)),
        final_norm_(world, scope / "final_norm", dims.d_model),
        logits_(variable<T>(
            world, scope / "logits",
            init::truncated_normal(options.logits_scale / mtf::sqrt(static_cast<double>(dims.d_model.extent()))),
            dims.d_model, dims.vocab)),
        mask_(causal_mask<T>(world, dims.length, dims.memory)) {
    for (std::int64_t i = 0; i < options.layers; ++i) layers_.emplace_back(world, scope / "layer" / i, dims, options);
  }

  /// Every rule that a layout breaks in some operation of the model, each once: for layouts that arrive as text.
  [[nodiscard]] static constexpr Violations check(const PlacementRules& rules, const D& dims) {
    const ShapeValue operations[]{Shape(dims.batch, dims.length, dims.d_model, dims.vocab).value(),
                                  Shape(dims.batch, dims.length, dims.d_model, dims.heads, dims.d_kv).value(),
                                  Shape(dims.batch, dims.length, dims.memory, dims.heads, dims.d_kv).value(),
                                  Shape(dims.batch, dims.length, dims.d_model, dims.d_ff).value()};
    return detail::violations_of(rules, operations);
  }

  /// logits[Batch, Length, Vocab] of token ids[Batch, Length]. `key` seeds dropout, which `training` switches on.
  constexpr auto logits(const Tokens& tokens, bool training, const Key& key) const {
    const double rate = training ? options_.dropout : 0;
    const auto drop = [&](const auto& x, const Key& k) { return dropout<Batch, Model>(x, rate, k); };
    Activation x = drop(gather<Vocab>(embedding_, tokens) + positions_, key / "input");
    for (std::size_t i = 0; i < layers_.size(); ++i) {
      const Layer& layer = layers_[i];
      const Key k = key / i;
      x = x + drop(layer.attention(layer.attention_norm(x), mask_, rate, k / "weights"), k / "attention");
      x = x + drop(layer.feed_forward.template apply<Batch, Length>(layer.feed_forward_norm(x)), k / "feed_forward");
    }
    return einsum<Batch, Length, Vocab>(drop(final_norm_(x), key / "output"), logits_);
  }

  /// Mean cross-entropy per token in nats; in training plus the z-loss. A scalar, pending over the axes of the batch;
  /// of float, where the model is of bfloat16.
  constexpr auto loss(const Tokens& tokens, const Tokens& targets, bool training, const Key& key) const {
    const CrossEntropyOptions options{.z_loss = training ? options_.z_loss : 0,
                                      .label_smoothing = options_.label_smoothing};
    const Tensor<World, computed<T>, Batch, Length> losses =
        cross_entropy<Vocab>(logits(tokens, training, key), targets, options);
    if (!options_.zero_is_padding) return reduce_mean(losses);
    return reduce_mean(losses * map(detail::IsToken<computed<T>>{}, targets));
  }

  [[nodiscard]] constexpr const D& dims() const { return dims_; }

 private:
  struct Layer {
    RmsNorm<World, T, Model> attention_norm;
    Attention attention;
    RmsNorm<World, T, Model> feed_forward_norm;
    DenseReluDense<World, T, Model, Hidden> feed_forward;

    constexpr Layer(World& world, const Scope& scope, const D& dims, const LanguageModelOptions& options)
        : attention_norm(world, scope / "attention_norm", dims.d_model),
          attention(world, scope / "attention", dims.d_model, dims.heads, dims.d_kv,
                    {.output_scale = options.output_scale,
                     .fold_scaling_into_initializer = options.fold_scaling_into_initializer}),
          feed_forward_norm(world, scope / "feed_forward_norm", dims.d_model),
          feed_forward(world, scope / "feed_forward", dims.d_model, dims.d_ff, options.output_scale) {}
  };

  /// The options, if all are in range: before there is a variable.
  [[nodiscard]] static constexpr LanguageModelOptions checked(const LanguageModelOptions& options) {
    const auto require = [](const char* name, double value, bool holds, const char* permitted) {
      detail::require_parameter("LanguageModel", name, value, holds, permitted);
    };
    const auto amount = [&](const char* name, double value) {
      require(name, value, detail::is_finite_and_not_negative(value), "a finite number, at least 0");
    };
    require("layers", static_cast<double>(options.layers), options.layers >= 0, "at least 0");
    require("dropout", options.dropout, options.dropout >= 0 && options.dropout < 1, "in [0, 1)");
    require("label_smoothing", options.label_smoothing, options.label_smoothing >= 0 && options.label_smoothing <= 1,
            "in [0, 1]");
    amount("z_loss", options.z_loss);
    amount("embedding_stddev", options.embedding_stddev);
    amount("position_stddev", options.position_stddev);
    amount("output_scale", options.output_scale);
    amount("logits_scale", options.logits_scale);
    return options;
  }

  D dims_;
  LanguageModelOptions options_;
  Variable<World, T, Vocab, Model> embedding_;
  Variable<World, T, Length, Model> positions_;
  std::vector<Layer> layers_;
  RmsNorm<World, T, Model> final_norm_;
  Variable<World, T, Model, Vocab> logits_;
  Tensor<World, T, Length, Memory> mask_;
};

}  // namespace v0
}  // namespace mtf
