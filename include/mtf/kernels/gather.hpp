// Lookups by index and their transpose.
#pragma once

#include <vector>

#include <mtf/kernels/elementwise.hpp>
#include <mtf/kernels/sum.hpp>
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
/// One row of the table and a range of its columns, from the rows that have its id.
template <class T>
struct SumRowsKernel {
  std::int64_t row_stride, row_size;  ///< of the table: between the columns of a row; elements until the next such rows
  std::int64_t columns, element_stride;
  std::int64_t chunks;
  T* table;
  const T* rows;
  const std::int64_t* begins;   ///< by row of the table, in `offsets`
  const std::int64_t* offsets;  ///< of the rows that are added, those of one id in their order
  static constexpr int width = 128;

  MTF_FUNCTION void operator()(std::int64_t block) const {
    const std::int64_t row = block / chunks;
    const std::int64_t begin = block % chunks * width;
    const std::int64_t count = columns - begin < width ? columns - begin : width;
    T* to = table + row / row_stride * row_size + row % row_stride + begin * row_stride;
    if (begins[row] == begins[row + 1]) {
      for (std::int64_t i = 0; i < count; ++i) to[i * row_stride] = T(0);
      return;
    }
    ColumnSums<T, width> sums(count, element_stride);
    for (std::int64_t i = begins[row]; i < begins[row + 1]; ++i) sums.add(rows + offsets[i] + begin * element_stride);
    sums.write(to, row_stride);
  }
};

/// On the host, with what is kept between calls of one thread: floating-point rows are put in the order of their ids,
/// so that each row of the table is one sum (see sum.hpp) and no rows wait for each other; single elements are added to
/// a wider table.
template <class Space, class T, class Id>
void scatter_sums(const Space& space, const ScatterAddPlan& plan, const Outer<3>& outer, bool separate, T* table,
                  const T* rows, const Id* ids) {
  wait_for(space);  // the ids are read here
  const auto each = [&](std::int64_t inner, const auto& visit) {
    for (std::int64_t row = 0; row < outer.size; ++row) {
      std::int64_t offset[3];
      outer.offsets(row, offset);
      for (std::int64_t i = 0; i < inner; ++i) {
        const auto id = static_cast<std::int64_t>(ids[offset[2] + i * outer.inner_strides[2]]) - plan.begin;
        if (id >= 0 && id < plan.length)
          visit(offset[1] + i * outer.inner_strides[1] + id * plan.stride, offset[0] + i * outer.inner_strides[0]);
      }
    }
  };
  if (!separate) {
    static thread_local std::vector<Sums<T, 1>> wide;
    Sums<T, 1> zero;
    zero.set(0, T(0));
    wide.assign(static_cast<std::size_t>(plan.table_size), zero);
    each(outer.inner,
         [&](std::int64_t at, std::int64_t from) { wide[static_cast<std::size_t>(at)].add(0, rows[from]); });
    for (std::int64_t i = 0; i < plan.table_size; ++i) table[i] = wide[static_cast<std::size_t>(i)].result(0);
    return;
  }
  const std::int64_t stride = outer.inner_strides[1];
  const std::int64_t size = stride * outer.inner;
  const std::int64_t table_rows = plan.table_size / outer.inner;
  static thread_local std::vector<std::int64_t> begins, offsets;
  begins.assign(static_cast<std::size_t>(table_rows) + 2, 0);
  const auto begin_of = [&](std::int64_t at, std::size_t later) -> std::int64_t& {
    return begins[static_cast<std::size_t>(at / size * stride + at % stride) + later];
  };
  each(1, [&](std::int64_t at, std::int64_t) { ++begin_of(at, 2); });
  for (std::size_t i = 2; i < begins.size(); ++i) begins[i] += begins[i - 1];
  offsets.resize(static_cast<std::size_t>(begins.back()));
  each(1, [&](std::int64_t at, std::int64_t from) {
    offsets[static_cast<std::size_t>(begin_of(at, 1)++)] = from;  // afterwards the ends of the rows, their next begins
  });
  using Kernel = SumRowsKernel<T>;
  const std::int64_t chunks = (outer.inner + Kernel::width - 1) / Kernel::width;
  for_blocks(
      space, "mtf::scatter", table_rows * chunks,
      Kernel{stride, size, outer.inner, outer.inner_strides[0], chunks, table, rows, begins.data(), offsets.data()});
  wait_for(space);  // what it reads is kept for the next call only
}

template <class Space, class T, class Id>
void execute(const Space& space, const ScatterAddPlan& plan, T* table, const T* rows, const Id* ids) {
  const Outer<3> outer(plan.loop);
  // Columns that share a place in the table (stride 0, or a shape without a free column) stay in one block.
  const bool separate = outer.inner_strides[1] != 0 && outer.inner_strides[2] == 0;
  if constexpr (on_host<Space> && std::is_floating_point_v<T>)
    return scatter_sums(space, plan, outer, separate, table, rows, ids);
  for_blocks(space, "mtf::fill", plan.table_size, FillKernel<T>{table, T(0)});
  const std::int64_t width = separate ? 64 : outer.inner;
  for_blocks(space, "mtf::scatter", (outer.inner + width - 1) / width,
             ScatterAddKernel<T, Id>{outer, plan, table, rows, ids, width});
}

}  // namespace kernels

}  // namespace v0
}  // namespace mtf
