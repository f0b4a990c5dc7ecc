// Plans of lookups by index.
#pragma once

#include <mtf/plan/loop.hpp>

namespace mtf {
inline namespace v0 {

/// out[loop] = table[loop, id - begin] where the id of an element lies in [begin, begin + length), else 0. Operands of
/// the loop: output, table (without the gathered dim), ids.
struct GatherPlan {
  static constexpr const char* name = "gather";
  Loop loop;
  std::int64_t begin = 0;
  std::int64_t length = 0;
  std::int64_t stride = 1;  ///< of the gathered dim in the table
  [[nodiscard]] constexpr std::int64_t work() const { return 0; }
};
/// The transpose: table[loop, id - begin] += out[loop].
struct ScatterAddPlan : GatherPlan {
  static constexpr const char* name = "scatter_add";
  std::int64_t table_size = 0;  ///< elements of the table's slice, which starts from zero
  [[nodiscard]] constexpr std::int64_t work() const { return loop.size(); }
};

}  // namespace v0
}  // namespace mtf
