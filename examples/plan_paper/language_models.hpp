// The language models of the Mesh-TensorFlow paper: what one training step costs, counted by a dry run.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <mtf/io/report.hpp>

/// Extents of a decoder-only Transformer. The defaults are what all of the paper's language models share.
struct LanguageModelSizes {
  std::int64_t batch = 256;   ///< sequences of a step
  std::int64_t length = 256;  ///< tokens of a sequence
  std::int64_t d_model = 1024;
  std::int64_t heads = 8;
  std::int64_t d_kv = 256;
  std::int64_t d_ff = 8192;
  std::int64_t vocab = 32768;
  std::int64_t layers = 6;

  [[nodiscard]] std::int64_t tokens() const { return batch * length; }
};
/// The model of size -1 .. 5: d_ff 8192 2^size, heads 8 2^size.
[[nodiscard]] LanguageModelSizes paper_sizes(int size);

/// What follows from the sizes alone, for r ranks along the axis of the batch and c along that of vocab, d_ff and
/// heads.
namespace formula {
[[nodiscard]] std::int64_t parameters(const LanguageModelSizes& sizes);
[[nodiscard]] std::int64_t parameters_per_rank(const LanguageModelSizes& sizes, std::int64_t c);
/// Floating-point operations of a step, two for a multiply-add; lookups are free and attention is not halved for being
/// causal.
[[nodiscard]] double model_flops(const LanguageModelSizes& sizes);
/// The original's counter: multiply-adds with lookups of embedding and positions as products with one-hot matrices, and
/// both gradients of each.
[[nodiscard]] std::int64_t original_einsum(const LanguageModelSizes& sizes);
/// Elements that a rank keeps between forward and backward, without recomputation and without the logits.
[[nodiscard]] std::int64_t kept_activations(const LanguageModelSizes& sizes, std::int64_t r, std::int64_t c);
/// Elements of one activation of width d_model on a rank.
[[nodiscard]] std::int64_t activation_slice(const LanguageModelSizes& sizes, std::int64_t r);
/// Elements of the slots of Adafactor on a rank: of the split matrices one for each row and one for each column of the
/// slice, rows and columns being the two longest dims, as the original chooses them; of what is replicated one for each
/// element. (With positions that have rows and columns too it would be (length - 1)(d_model - 1) - 1 less.)
[[nodiscard]] std::int64_t adafactor_slots(const LanguageModelSizes& sizes, std::int64_t c);
}  // namespace formula

struct PlannedModel {
  mtf::Cost cost;
  std::int64_t kept_elements =
      0;               ///< of all arrays that a rank holds between forward and backward, besides variables and tokens
  double seconds = 0;  ///< that planning took
};

/// Plans a step with Adam. In bfloat16 the gradients are completed, but there is no optimizer, which works in float.
/// Throws mtf::plan_error with every rule that the layout breaks.
[[nodiscard]] PlannedModel plan_language_model(const LanguageModelSizes& sizes, std::string_view mesh,
                                               std::string_view layout,
                                               mtf::ElementType element = mtf::ElementType::float32);
/// The same with a report of a step that is not the first, which makes the optimizer's slots.
[[nodiscard]] mtf::Report report_language_model(const LanguageModelSizes& sizes, std::string_view mesh,
                                                std::string_view layout, const mtf::ReportOptions& options = {});
/// Every rule that a layout breaks in the model, with names and numbers, each once; empty if it can run.
[[nodiscard]] std::vector<std::string> check_language_model(const LanguageModelSizes& sizes, std::string_view mesh,
                                                            std::string_view layout);
