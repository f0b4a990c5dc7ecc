// Learning-rate schedules: host functions of the step.
#pragma once

#include <cstdint>

#include <mtf/core/config.hpp>

namespace mtf {
inline namespace v0 {

/// min(1, (step + 1) / warmup): a linear rise. (Counting from step + 1 so that the first step moves.)
[[nodiscard]] constexpr double linear_warmup(std::int64_t step, std::int64_t warmup) {
  return warmup <= 0 || step + 1 >= warmup ? 1.0 : static_cast<double>(step + 1) / static_cast<double>(warmup);
}
/// (total - step) / (total - begin) after `begin`: a linear fall to 0 at `total`.
[[nodiscard]] constexpr double linear_decay(std::int64_t step, std::int64_t begin, std::int64_t total) {
  if (step <= begin) return 1.0;
  return step >= total ? 0.0 : static_cast<double>(total - step) / static_cast<double>(total - begin);
}

}  // namespace v0
}  // namespace mtf
