// Plans of choosing elements along a dim by their size, and of cumulative sums.
#pragma once

#include <mtf/plan/loop.hpp>

namespace mtf {
inline namespace v0 {

/// Value and global index of the largest or smallest of `length` elements, for every row. The first NaN wins, else the
/// first of equal ones. Operands of the loop: both outputs, input.
struct ArgExtremePlan {
  static constexpr const char* name = "arg_extreme";
  Loop rows;
  std::int64_t begin = 0;  ///< global index of the first element
  std::int64_t length = 1;
  std::int64_t stride = 1;  ///< between the elements of a row
  bool largest = true;
  [[nodiscard]] constexpr std::int64_t work() const { return rows.size() * length; }
};

/// The `count` first of `length` elements in order, largest or smallest first, with their indices, for every row. NaN
/// counts as larger than any number; equal elements come by index. The indices are begin, begin + 1, ... or an operand
/// of the input's shape. Operands of the loop: both outputs, inputs.
struct SelectPlan {
  static constexpr const char* name = "select";
  Loop rows;
  std::int64_t begin = 0;
  std::int64_t length = 1;
  std::int64_t stride = 1;
  std::int64_t count = 1;
  std::int64_t out_stride = 1;
  bool largest = true;
  [[nodiscard]] constexpr std::int64_t work() const { return rows.size() * length; }
};

/// The transpose: table[row, index - begin] = elements[row, j] for the indices of [begin, begin + length), 0 elsewhere.
/// The indices of a row are distinct. Operands of the loop: table, elements and indices.
struct PlaceBackPlan {
  static constexpr const char* name = "place_back";
  Loop rows;
  std::int64_t begin = 0;
  std::int64_t length = 1;
  std::int64_t stride = 1;  ///< of the table
  std::int64_t count = 1;   ///< elements of a row
  std::int64_t in_stride = 1;
  std::int64_t table_size = 0;  ///< elements of the table's slice, which starts from zero
  [[nodiscard]] constexpr std::int64_t work() const { return 0; }
};

/// out[row, i] = sum of in[row, j] over j <= i (j < i if exclusive; the other way round if reverse), plus the totals[q,
/// row] of the parts q in [first_part, end_part). Operands of the loop: output, input, totals.
struct CumulativeSumPlan {
  static constexpr const char* name = "cumsum";
  Loop rows;
  std::int64_t length = 1;
  std::int64_t stride = 1;  ///< of input and output
  bool exclusive = false;
  bool reverse = false;
  std::int64_t first_part = 0, end_part = 0;
  std::int64_t part_stride = 0;
  [[nodiscard]] constexpr std::int64_t work() const { return rows.size() * length; }
};

}  // namespace v0
}  // namespace mtf
