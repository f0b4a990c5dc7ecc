// Lookups by index and their transpose.
#pragma once

#include <vector>

#include <mtf/kernels/column_sums.hpp>
#include <mtf/kernels/elementwise.hpp>
#include <mtf/plan/gather.hpp>

namespace mtf {
inline namespace v0 {

namespace kernels {

template <class T, class Id>
struct GatherKernel {
  Outer<3> outer;  ///< output, table, ids
  GatherPlan plan;
  T* out;
  const T* table;
  const Id* ids;
  MTF_FUNCTION void operator()(std::int64_t row) const {
    std::int64_t offset[3];
    outer.offsets(row, offset);
    for (std::int64_t i = 0; i < outer.inner; ++i) {
      const auto id = static_cast<std::int64_t>(ids[offset[2] + i * outer.inner_strides[2]]);
      out[offset[0] + i * outer.inner_strides[0]] =
          id >= plan.begin && id < plan.begin + plan.length
              ? table[offset[1] + i * outer.inner_strides[1] + (id - plan.begin) * plan.stride]
              : T(0);
    }
  }
};
template <class Space, class T, class Id>
void execute(const Space& space, const GatherPlan& plan, T* out, const T* table, const Id* ids) {
  const Outer<3> outer(plan.loop);
  for_blocks(space, "mtf::gather", outer.size, GatherKernel<T, Id>{outer, plan, out, table, ids});
}

/// Adds a range of columns of all rows in order: rows may meet in the table, columns do not, and the order of the sums
/// does not depend on the number of threads.
template <class T, class Id>
struct ScatterAddKernel {
  Outer<3> outer;
  ScatterAddPlan plan;
  T* table;
  const T* rows;
  const Id* ids;
  std::int64_t width;
  MTF_FUNCTION void operator()(std::int64_t block) const {
    const std::int64_t begin = block * width;
    const std::int64_t end = begin + width < outer.inner ? begin + width : outer.inner;
    for (std::int64_t row = 0; row < outer.size; ++row) {
      std::int64_t offset[3];
      outer.offsets(row, offset);
      for (std::int64_t i = begin; i < end; ++i) {
        const auto id = static_cast<std::int64_t>(ids[offset[2] + i * outer.inner_strides[2]]);
        if (id >= plan.begin && id < plan.begin + plan.length) {
          table[offset[1] + i * outer.inner_strides[1] + (id - plan.begin) * plan.stride] +=
              rows[offset[0] + i * outer.inner_strides[0]];
        }
      }
    }
  }
};
/// Rows of one id.
struct EqualIds {
  std::int64_t number;  ///< of their row of the table, in the order of the rows' first elements
  std::int64_t begin;   ///< of their offsets
};

/// One row of the table and a range of its columns, from the rows that have its id.
template <class T>
struct SumRowsKernel {
  std::int64_t columns;
  std::int64_t row_stride, row_size;  ///< of the table: between the columns of a row; elements until the next such rows
  std::int64_t element_stride;        ///< of the rows
  std::int64_t chunks;
  T* table;
  const T* rows;
  const EqualIds* ids;  ///< one more than there are, for the end of the last
  const std::int64_t* offsets;
  static constexpr int width = 128;

  MTF_FUNCTION void operator()(std::int64_t block) const {
    const std::int64_t which = chunks == 1 ? block : block / chunks;  // divisions are slow
    const std::int64_t begin = (block - which * chunks) * width;
    const std::int64_t count = columns - begin < width ? columns - begin : width;
    const std::int64_t number = ids[which].number;
    T* to = table + begin * row_stride +
            (row_stride == 1 ? number * row_size : number / row_stride * row_size + number % row_stride);
    const std::int64_t first = ids[which].begin;
    const std::int64_t end = ids[which + 1].begin;
    if (end - first == 1) {
      const T* from = rows + offsets[first] + begin * element_stride;
      if (row_stride == 1 && element_stride == 1) {
        MTF_INDEPENDENT_ITERATIONS
        for (std::int64_t i = 0; i < count; ++i) to[i] = from[i];
      } else {
        for (std::int64_t i = 0; i < count; ++i) to[i * row_stride] = from[i * element_stride];
      }
      return;
    }
    ColumnSums<T, width> sums(count, element_stride);
    for (std::int64_t i = first; i < end; ++i) sums.add(rows + offsets[i] + begin * element_stride);
    sums.write(to, row_stride);
  }
};

/// On the host, with what is kept between calls of one thread: floating-point rows are put together by their ids, so
/// that each row of the table is one sum (see sum.hpp) and no rows wait for each other; single elements are added to a
/// wider table. The work beyond zeros for the table grows with the rows alone.
template <class T, class Id>
class ScatterSums {
 public:
  ScatterSums(const ScatterAddPlan& plan, const Outer<3>& outer, T* table, const T* rows, const Id* ids)
      : plan_(plan), outer_(outer), table_(table), rows_(rows), ids_(ids) {}

  template <class Space>
  void of_rows(const Space& space) const {
    const std::int64_t stride = outer_.inner_strides[1];
    const std::int64_t size = stride * outer_.inner;
    // The numbers of the table's rows are linear in the indices, as places are.
    const auto by_number = [&](std::int64_t at) { return at >= size ? at / size * stride : at; };
    Outer<3> numbers = outer_;
    for (int d = 0; d < numbers.dims; ++d) numbers.strides[d][1] = by_number(numbers.strides[d][1]);
    const std::int64_t id_number = by_number(plan_.stride);
    static thread_local std::vector<std::int64_t> places_kept, offsets_kept;
    static thread_local std::vector<EqualIds> equal_kept;
    const auto table_rows = static_cast<std::size_t>(plan_.table_size / outer_.inner);
    const auto most = static_cast<std::size_t>(outer_.size);
    if (places_kept.size() < table_rows) places_kept.resize(table_rows);
    if (offsets_kept.size() < most) offsets_kept.resize(most);
    if (equal_kept.size() < most + 1) equal_kept.resize(most + 1);
    // Nothing throws from here on: the places are 0 again in the end.
    std::int64_t* const places = places_kept.data();
    std::int64_t* const offsets = offsets_kept.data();
    EqualIds* const equal = equal_kept.data();
    each(numbers, id_number, 1, [places](std::int64_t number, std::int64_t) { --places[number]; });
    std::int64_t found = 0, begin = 0;
    each(numbers, id_number, 1, [&](std::int64_t number, std::int64_t from) {
      std::int64_t& place = places[number];
      if (place < 0) {  // the first of so many
        equal[found++] = {number, begin};
        begin -= place;
        place = begin + place;
      }
      offsets[place++] = from;
    });
    equal[found].begin = begin;
    for (std::int64_t i = 0; i < found; ++i) places[equal[i].number] = 0;
    using Kernel = SumRowsKernel<T>;
    const std::int64_t chunks = (outer_.inner + Kernel::width - 1) / Kernel::width;
    for_blocks(space, "mtf::scatter", found * chunks,
               Kernel{outer_.inner, stride, size, outer_.inner_strides[0], chunks, table_, rows_, equal, offsets});
    wait_for(space);  // what it reads is kept for the next call only
  }

  /// Floats are added to a table of doubles, doubles to the table itself, with what is rounded away beside (TwoSum).
  void of_numbers() const {
    static thread_local std::vector<double> kept;
    if (kept.size() < static_cast<std::size_t>(plan_.table_size))
      kept.resize(static_cast<std::size_t>(plan_.table_size));
    // Nothing throws from here on: what is kept is 0 again in the end.
    double* const beside = kept.data();
    T* const table = table_;
    const T* const rows = rows_;
    each(outer_, plan_.stride, outer_.inner, [=](std::int64_t at, std::int64_t from) {
      const T x = rows[from];
      if constexpr (std::is_same_v<T, float>) {
        beside[at] += static_cast<double>(x);
      } else {
        const double before = table[at];
        const double sum = before + x;
        const double part = sum - before;
        beside[at] += (before - (sum - part)) + (x - part);
        table[at] = sum;
      }
    });
    const auto finish = [=](std::int64_t at) {
      if constexpr (std::is_same_v<T, float>) {
        table[at] = static_cast<float>(beside[at]);
      } else {
        table[at] += beside[at] == beside[at] ? beside[at] : 0;  // NaN of a sum that is infinite or NaN
      }
      beside[at] = 0;
    };
    if (plan_.table_size <= 4 * outer_.size * outer_.inner) {
      for (std::int64_t i = 0; i < plan_.table_size; ++i) finish(i);
    } else {
      each(outer_, plan_.stride, outer_.inner, [beside, finish](std::int64_t at, std::int64_t) {
        if (beside[at] != 0) finish(at);  // once: it is 0 then, as is a sum that needs no writing
      });
    }
  }

 private:
  /// visit(place in the table, offset of the row) for `inner` elements of each row whose id is here.
  template <class Visit>
  void each(const Outer<3>& outer, std::int64_t id_stride, std::int64_t inner, const Visit& visit) const {
    const int last = outer.dims - 1;
    const std::int64_t run = last < 0 ? 1 : outer.extents[last];
    std::int64_t across[3]{}, along[3];
    for (int o = 0; o < 3; ++o) {
      if (last >= 0) across[o] = outer.strides[last][o];
      along[o] = outer.inner_strides[o];
    }
    const std::int64_t begin = plan_.begin, length = plan_.length;
    const Id* const ids = ids_;
    for (std::int64_t row = 0; row < outer.size; row += run) {
      std::int64_t offset[3];
      outer.offsets(row, offset);
      for (std::int64_t j = 0; j < run; ++j) {
        const std::int64_t from = offset[0] + j * across[0];
        const std::int64_t to = offset[1] + j * across[1];
        const Id* const at = ids + offset[2] + j * across[2];
        for (std::int64_t i = 0; i < inner; ++i) {
          const auto id = static_cast<std::int64_t>(at[i * along[2]]) - begin;
          if (id >= 0 && id < length) visit(to + i * along[1] + id * id_stride, from + i * along[0]);
        }
      }
    }
  }

  const ScatterAddPlan& plan_;
  const Outer<3>& outer_;
  T* table_;
  const T* rows_;
  const Id* ids_;
};

template <class Space, class T, class Id>
void execute(const Space& space, const ScatterAddPlan& plan, T* table, const T* rows, const Id* ids) {
  const Outer<3> outer(plan.loop);
  // Columns that share a place in the table (stride 0, or a shape without a free column) stay in one block.
  const bool separate = outer.inner_strides[1] != 0 && outer.inner_strides[2] == 0;
  for_blocks(space, "mtf::fill", plan.table_size, FillKernel<T>{table, T(0)});
  if constexpr (on_host<Space> && std::is_floating_point_v<T>) {
    wait_for(space);  // the ids are read here
    const ScatterSums<T, Id> sums(plan, outer, table, rows, ids);
    return separate ? sums.of_rows(space) : sums.of_numbers();
  }
  const std::int64_t width = separate ? 64 : outer.inner;
  for_blocks(space, "mtf::scatter", (outer.inner + width - 1) / width,
             ScatterAddKernel<T, Id>{outer, plan, table, rows, ids, width});
}

}  // namespace kernels

}  // namespace v0
}  // namespace mtf
