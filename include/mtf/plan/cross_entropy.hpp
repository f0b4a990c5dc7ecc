// Plans of the cross-entropy of a slice.
#pragma once

#include <mtf/plan/loop.hpp>

namespace mtf {
inline namespace v0 {

/// Sum over the local part of the vocabulary of target weight * logit; the weight is `on` at the target, `off`
/// elsewhere.
/// Loop operands: output, logits (without the vocabulary), targets.
struct TargetLogitPlan {
  static constexpr const char* name = "target_logit";
  Loop loop;
  std::int64_t begin = 0, length = 0, stride = 1;  ///< of the vocabulary in the slice of the logits
  std::int64_t extent = 0;                         ///< of the whole vocabulary
  double on = 1, off = 0;
  [[nodiscard]] constexpr std::int64_t work() const { return loop.size() * (off == 0 ? 1 : length); }
};
/// dlogits = dy * (softmax * (weight sum + 2 z_loss log Z) - weight). Loop operands: dlogits (without the vocabulary),
/// dy, logits, log Z, targets.
struct CrossEntropyGradientPlan : TargetLogitPlan {
  static constexpr const char* name = "cross_entropy_gradient";
  double z_loss = 0;
  [[nodiscard]] constexpr std::int64_t work() const { return 4 * loop.size() * length; }
};

}  // namespace v0
}  // namespace mtf
