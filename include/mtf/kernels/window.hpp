// Patches of sliding windows, their transpose, and the gradient of pooling.
#pragma once

#include <mtf/kernels/column_sums.hpp>
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

/// One block is one row of the array.
template <class T, bool Ties>
struct PoolGradientKernel {
  PoolGradientPlan plan;
  T* dx;
  const T* x;
  const T* y;
  const T* dy;

  MTF_FUNCTION void operator()(std::int64_t row) const {
    const int last = plan.loop.dims.count - 1;
    const LoopDim& inner = plan.loop.dims.items[last];
    std::int64_t at[static_cast<unsigned>(max_union_rank)]{};
    std::int64_t in = 0;
    std::int64_t out = 0;
    for (int d = last - 1; d >= 0; --d) {
      const LoopDim& dim = plan.loop.dims.items[d];
      at[d] = row % dim.extent;
      row /= dim.extent;
      in += at[d] * dim.strides[0];
      out += at[d] * dim.strides[1];
    }
    bool slides_inside = false;
    for (int s = 0; s < plan.sliding.count; ++s) slides_inside = slides_inside || plan.sliding.items[s].dim == last;
    if (!slides_inside) {
      run(at, in, out, inner.extent, inner);
    } else {
      for (at[last] = 0; at[last] < inner.extent; ++at[last])
        run(at, in + at[last] * inner.strides[0], out + at[last] * inner.strides[1], 1, inner);
    }
  }

  /// `count` elements that the same windows see.
  MTF_FUNCTION void run(const std::int64_t* at, std::int64_t in, std::int64_t out, std::int64_t count,
                        const LoopDim& inner) const {
    Windows windows;
    for (int s = 0; s < plan.sliding.count; ++s) {
      const PoolGradientPlan::Sliding& w = plan.sliding.items[s];
      const std::int64_t index = at[w.dim] - w.begin;  // window o sees it if o * step <= index < o * step + size
      windows.first[s] = index < w.size ? 0 : (index - w.size) / w.step + 1;
      windows.end[s] = index / w.step + 1 < w.outputs ? index / w.step + 1 : w.outputs;
      if (index < 0 || windows.first[s] >= windows.end[s]) {
        for (std::int64_t i = 0; i < count; ++i) dx[in + i * inner.strides[0]] = T(0);
        return;
      }
      windows.count *= windows.end[s] - windows.first[s];
      windows.begin += windows.first[s] * w.stride;
    }
    if (windows.count > few) {
      for (std::int64_t begin = 0; begin < count; begin += width) {
        sum_many(windows, in + begin * inner.strides[0], out + begin * inner.strides[1],
                 count - begin < width ? count - begin : width, inner);
      }
    } else if (inner.strides[0] == 1 && inner.strides[1] == 1) {
      sum_few<true>(windows, in, out, count, inner);
    } else {
      sum_few<false>(windows, in, out, count, inner);
    }
  }

 private:
  static constexpr int width = 64;
  /// m terms one after the other are off by at most (m - 1) / 2 units in the last place, for so many at most log2(m).
  static constexpr std::int64_t few = 6;
  struct Windows {
    std::int64_t first[static_cast<unsigned>(max_windows)]{};
    std::int64_t end[static_cast<unsigned>(max_windows)]{};
    std::int64_t count = 1;
    std::int64_t begin = 0;  ///< offset of the first output
  };

  /// visit(offset of the output), window after window.
  template <class Visit>
  MTF_FUNCTION void each(const Windows& windows, std::int64_t out, const Visit& visit) const {
    std::int64_t now[static_cast<unsigned>(max_windows)]{};
    for (int s = 0; s < plan.sliding.count; ++s) now[s] = windows.first[s];
    while (true) {
      std::int64_t from = out;
      for (int s = 0; s < plan.sliding.count; ++s) from += now[s] * plan.sliding.items[s].stride;
      visit(from);
      int s = plan.sliding.count - 1;
      for (; s >= 0 && ++now[s] == windows.end[s]; --s) now[s] = windows.first[s];
      if (s < 0) return;
    }
  }
  template <bool Unit>
  MTF_FUNCTION void sum_few(const Windows& windows, std::int64_t in, std::int64_t out, std::int64_t count,
                            const LoopDim& inner) const {
    const std::int64_t to = Unit ? 1 : inner.strides[0];
    const std::int64_t by = Unit ? 1 : inner.strides[1];
    const T factor = Ties ? T(1) : static_cast<T>(plan.factor);
    T* const sums = dx + in;
    const T* const values = x + in;
    const auto term = [=](const T* outputs, const T* terms, std::int64_t i) {
      if constexpr (Ties) return values[i * to] == outputs[i * by] ? terms[i * by] : T(0);
      return terms[i * by] * factor;
    };
    const auto set = [=, this](std::int64_t from) {
      const T *outputs = y + from, *terms = dy + from;
      MTF_INDEPENDENT_ITERATIONS
      for (std::int64_t i = 0; i < count; ++i) sums[i * to] = term(outputs, terms, i);
    };
    const auto add = [=, this](std::int64_t from) {
      const T *outputs = y + from, *terms = dy + from;
      MTF_INDEPENDENT_ITERATIONS
      for (std::int64_t i = 0; i < count; ++i) sums[i * to] += term(outputs, terms, i);
    };
    if (windows.count == 1) return set(out + windows.begin);
    bool is_first = true;
    each(windows, out, [&](std::int64_t from) {
      is_first ? set(from) : add(from);
      is_first = false;
    });
  }
  /// Large windows in small steps: many of them see an element. See sum.hpp.
  MTF_FUNCTION void sum_many(const Windows& windows, std::int64_t in, std::int64_t out, std::int64_t count,
                             const LoopDim& inner) const {
    ColumnSums<T, width> sums(count, Ties ? 1 : inner.strides[1]);
    if constexpr (Ties) {
      constexpr int kept = 9;  // eight rows of terms that are not added yet, and a new one
      T terms[static_cast<unsigned>(kept * width)];
      int row = 0;
      each(windows, out, [&](std::int64_t from) {
        T* to = terms + row * width;
        for (std::int64_t i = 0; i < count; ++i) {
          const std::int64_t b = from + i * inner.strides[1];
          to[i] = x[in + i * inner.strides[0]] == y[b] ? dy[b] : T(0);
        }
        sums.add(to);
        row = row + 1 < kept ? row + 1 : 0;
      });
      sums.write(dx + in, inner.strides[0]);
    } else {
      each(windows, out, [&](std::int64_t from) { sums.add(dy + from); });
      sums.write(dx + in, inner.strides[0], static_cast<T>(plan.factor));
    }
  }
};
template <class Space, class T>
void execute(const Space& space, const PoolGradientPlan& plan, T* dx, const T* x, const T* y, const T* dy) {
  std::int64_t rows = 1;
  for (int d = 0; d + 1 < plan.loop.dims.size(); ++d) rows *= plan.loop.dims[d].extent;
  if (plan.ties) {
    for_blocks(space, "mtf::pool'", rows, PoolGradientKernel<T, true>{plan, dx, x, y, dy});
  } else {
    for_blocks(space, "mtf::pool'", rows, PoolGradientKernel<T, false>{plan, dx, x, y, dy});
  }
}

}  // namespace kernels

}  // namespace v0
}  // namespace mtf
