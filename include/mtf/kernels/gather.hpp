// Lookups by index and their transpose.
#pragma once

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
template <class Space, class T, class Id>
void execute(const Space& space, const ScatterAddPlan& plan, T* table, const T* rows, const Id* ids) {
  const Outer<3> outer(plan.loop);
  for_blocks(space, "mtf::fill", plan.table_size, FillKernel<T>{table, T(0)});
  // Columns that share a place in the table (stride 0, or a shape without a free column) stay in one block.
  const bool separate = outer.inner_strides[1] != 0 && outer.inner_strides[2] == 0;
  const std::int64_t width = separate ? 64 : outer.inner;
  for_blocks(space, "mtf::scatter", (outer.inner + width - 1) / width,
             ScatterAddKernel<T, Id>{outer, plan, table, rows, ids, width});
}

}  // namespace kernels

}  // namespace v0
}  // namespace mtf
