// Plan of drawing random numbers.
#pragma once

#include <mtf/core/path.hpp>
#include <mtf/plan/loop.hpp>

namespace mtf {
inline namespace v0 {

enum class Distribution : std::uint8_t {
  uniform,           ///< a to b
  normal,            ///< mean a, standard deviation b
  truncated_normal,  ///< the same, redrawn outside two standard deviations
  keep,              ///< b with probability a, else 0: a dropout mask
  integers,          ///< whole numbers from low to low + count - 1
};

/// Draws the elements of a slice. The loop's operands are the output and the global element index, whose strides are
/// those of the global array; `index` is the index of the slice's first element.
struct RandomPlan {
  static constexpr const char* name = "random";
  Loop loop{};
  std::int64_t index = 0;
  Key key{};
  Distribution distribution{};
  double a = 0, b = 1;
  std::int64_t low = 0;
  std::uint64_t count = 1;
  [[nodiscard]] constexpr std::int64_t work() const { return 0; }
};

}  // namespace v0
}  // namespace mtf
