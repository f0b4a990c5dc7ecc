// Plans of the cross-entropy of a slice.
#pragma once

#include <mtf/plan/loop.hpp>

namespace mtf {
inline namespace v0 {

/// Of each row the logit of the target, less the largest of the row, if the target is in the local part of the
/// vocabulary, else 0. With label smoothing also the sum of such differences over the local classes that are not off
/// (-inf), and their number; the three arrays lie behind each other, `rows` elements each.
/// Loop operands: output, logits (without the vocabulary), largest, targets.
struct TargetLogitPlan {
  static constexpr const char* name = "target_logit";
  Loop loop;
  std::int64_t begin = 0, length = 0, stride = 1;  ///< of the vocabulary in the slice of the logits
  std::int64_t extent = 0;                         ///< of the whole vocabulary
  std::int64_t rows = 0;
  double smoothing = 0;
  [[nodiscard]] constexpr std::int64_t work() const { return loop.size() * (smoothing == 0 ? 1 : length); }
};
/// dlogits = dy * (softmax * (weight sum + 2 z_loss log Z) - weight). Loop operands: dlogits (without the vocabulary),
/// dy, logits, largest, sum of the exponentials, number of classes that are not off (read with label smoothing only),
/// targets.
struct CrossEntropyGradientPlan : TargetLogitPlan {
  static constexpr const char* name = "cross_entropy_gradient";
  double z_loss = 0;
  [[nodiscard]] constexpr std::int64_t work() const { return 4 * loop.size() * length; }
};

}  // namespace v0
}  // namespace mtf
