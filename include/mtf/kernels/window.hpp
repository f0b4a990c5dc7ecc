// Patches of sliding windows and their transpose.
#pragma once

#include <mtf/kernels/launch.hpp>
#include <mtf/plan/window.hpp>

namespace mtf {
inline namespace v0 {

namespace kernels {

/// Walks through one row of patches: visit(column, offset in the array, count, stride in the array) for runs of
/// elements, and skip(column, count) for runs in the padding. Only columns [low, high) of the innermost dim if no
/// window slides along it.
template <class Visit, class Skip>
MTF_FUNCTION void walk_row(const PatchesPlan& plan, std::int64_t row, std::int64_t low, std::int64_t high,
                           const Visit& visit, const Skip& skip) {
  std::int64_t origin[static_cast<unsigned>(max_windows)]{};
  std::int64_t base = 0;
  for (int d = plan.rows.count - 1; d >= 0; --d) {
    const PatchesPlan::Part& part = plan.rows.items[d];
    const std::int64_t i = row % part.extent;
    row /= part.extent;
    if (part.slides < 0) {
      base += i * part.stride;
    } else {
      const SlidingDim& s = plan.sliding.items[part.slides];
      origin[part.slides] = s.begin + i * s.step;
    }
  }
  const int last = plan.columns.count - 1;
  const PatchesPlan::Part& inner = plan.columns.items[last];
  std::int64_t at[static_cast<unsigned>(max_union_rank)]{};
  for (std::int64_t column = 0;; column += inner.extent * inner.unit) {
    std::int64_t offset = base;
    bool inside = true;
    for (int d = 0; d < last; ++d) {
      const PatchesPlan::Part& part = plan.columns.items[d];
      if (part.slides < 0) {
        offset += at[d] * part.stride;
      } else {
        const SlidingDim& s = plan.sliding.items[part.slides];
        const std::int64_t index = origin[part.slides] + at[d] * s.dilation;
        inside = inside && index >= 0 && index < s.extent;
        offset += index * s.stride;
      }
    }
    if (!inside) {
      inner.slides < 0 ? skip(column + low, high - low) : skip(column, inner.extent * inner.unit);
    } else if (inner.slides < 0) {
      visit(column + low, offset + low * inner.stride, high - low, inner.stride);
    } else {
      const SlidingDim& s = plan.sliding.items[inner.slides];
      const std::int64_t index = origin[inner.slides];
      // The first index of the window that is not before the array, the first that is behind it.
      std::int64_t begin = index < 0 ? (-index + s.dilation - 1) / s.dilation : 0;
      std::int64_t end = index < s.extent ? (s.extent - index + s.dilation - 1) / s.dilation : 0;
      if (begin > inner.extent) begin = inner.extent;
      if (end > inner.extent) end = inner.extent;
      if (end < begin) end = begin;
      const std::int64_t unit = inner.unit;
      if (begin > 0) skip(column, begin * unit);
      if (end > begin) {
        visit(column + begin * unit, offset + (index + begin * s.dilation) * s.stride, (end - begin) * unit,
              unit > 1 ? 1 : s.dilation * s.stride);
      }
      if (inner.extent > end) skip(column + end * unit, (inner.extent - end) * unit);
    }
    int d = last - 1;
    for (; d >= 0 && ++at[d] == plan.columns.items[d].extent; --d) at[d] = 0;
    if (d < 0) return;
  }
}

template <class T>
struct PatchesKernel {
  PatchesPlan plan;
  std::int64_t width;
  T* patches;
  const T* array;
  MTF_FUNCTION void operator()(std::int64_t row) const {
    T* to = patches + row * width;
    const T* from = array;
    walk_row(
        plan, plan.begin + row, 0, plan.columns.items[plan.columns.count - 1].extent,
        [to, from](std::int64_t column, std::int64_t offset, std::int64_t count, std::int64_t stride) {
          if (stride == 1) {
            for (std::int64_t i = 0; i < count; ++i) to[column + i] = from[offset + i];
          } else {
            for (std::int64_t i = 0; i < count; ++i) to[column + i] = from[offset + i * stride];
          }
        },
        [to](std::int64_t column, std::int64_t count) {
          for (std::int64_t i = 0; i < count; ++i) to[column + i] = T(0);
        });
  }
};
template <class Space, class T>
void execute(const Space& space, const PatchesPlan& plan, T* patches, const T* array) {
  for_blocks(space, "mtf::patches", plan.count, PatchesKernel<T>{plan, plan.width(), patches, array});
}

/// Windows of one image overlap, so its rows are added in order: a block is one image and a range of columns that share
/// no element.
template <class T>
struct AddPatchesKernel {
  AddPatchesPlan plan;
  std::int64_t width;
  std::int64_t image;
  std::int64_t ranges;
  std::int64_t range;
  T* array;
  const T* patches;
  MTF_FUNCTION void operator()(std::int64_t block) const {
    const std::int64_t number = plan.begin / image + block / ranges;
    const std::int64_t first = number * image > plan.begin ? number * image : plan.begin;
    const std::int64_t end =
        plan.begin + plan.count < (number + 1) * image ? plan.begin + plan.count : (number + 1) * image;
    const std::int64_t inner = plan.columns.items[plan.columns.count - 1].extent;
    const std::int64_t low = block % ranges * range;
    const std::int64_t high = low + range < inner ? low + range : inner;
    T* to = array;
    for (std::int64_t row = first; row < end; ++row) {
      const T* from = patches + (row - plan.begin) * width;
      walk_row(
          plan, row, low, high,
          [to, from](std::int64_t column, std::int64_t offset, std::int64_t count, std::int64_t stride) {
            if (stride == 1) {
              for (std::int64_t i = 0; i < count; ++i) to[offset + i] += from[column + i];
            } else {
              for (std::int64_t i = 0; i < count; ++i) to[offset + i * stride] += from[column + i];
            }
          },
          [](std::int64_t, std::int64_t) {});
    }
  }
};
template <class Space, class T>
void execute(const Space& space, const AddPatchesPlan& plan, T* array, const T* patches) {
  if (plan.count == 0) return;
  const std::int64_t image = plan.rows_of_image();
  const PatchesPlan::Part& inner = plan.columns.items[plan.columns.count - 1];
  const std::int64_t range = inner.slides < 0 ? 64 : inner.extent;
  const std::int64_t ranges = (inner.extent + range - 1) / range;
  const std::int64_t images = (plan.begin + plan.count - 1) / image - plan.begin / image + 1;
  for_blocks(space, "mtf::add_patches", images * ranges,
             AddPatchesKernel<T>{plan, plan.width(), image, ranges, range, array, patches});
}

}  // namespace kernels

}  // namespace v0
}  // namespace mtf
