// Plans of element-wise work.
#pragma once

#include <mtf/plan/loop.hpp>

namespace mtf {
inline namespace v0 {

/// Element-wise work on the dims of the output, which is operand 0; the arguments follow. Its innermost dim is
/// contiguous, or the loop is a single element.
struct MapPlan {
  static constexpr const char* name = "map";
  Loop loop;

  [[nodiscard]] constexpr std::int64_t work() const { return loop.size(); }
};

/// dx = dy * derivative of a function with respect to argument `which`. Operands: dx, dy, the arguments.
struct MapGradientPlan {
  static constexpr const char* name = "map_gradient";
  Loop loop;
  int which = 0;
  [[nodiscard]] constexpr std::int64_t work() const { return 2 * loop.size(); }
};

/// Sets `count` elements to a value.
struct FillPlan {
  static constexpr const char* name = "fill";
  std::int64_t count = 0;
  [[nodiscard]] constexpr std::int64_t work() const { return 0; }
};

/// element i = begin + i: the slice of 0, 1, 2, ... that starts at `begin`.
struct RangePlan {
  static constexpr const char* name = "range";
  std::int64_t count = 0;
  std::int64_t begin = 0;
  [[nodiscard]] constexpr std::int64_t work() const { return 0; }
};

}  // namespace v0
}  // namespace mtf
