// Plans of optimizer updates on the slice of one variable.
#pragma once

#include <cstdint>

#include <mtf/core/config.hpp>

namespace mtf {
inline namespace v0 {

/// v = momentum v + rate g; w -= v. Without momentum v is not touched.
struct MomentumPlan {
  static constexpr const char* name = "momentum";
  std::int64_t count = 0;
  double rate = 0, momentum = 0;
  [[nodiscard]] constexpr std::int64_t work() const { return 2 * count; }
};

/// m = beta1 m + (1 - beta1) g; v = beta2 v + (1 - beta2) g^2; w -= rate (m / (sqrt(v) + epsilon) + decay w).
struct AdamPlan {
  static constexpr const char* name = "adam";
  std::int64_t count = 0;
  double rate = 0, beta1 = 0, beta2 = 0, epsilon = 0, decay = 0;
  [[nodiscard]] constexpr std::int64_t work() const { return 8 * count; }
};

}  // namespace v0
}  // namespace mtf
