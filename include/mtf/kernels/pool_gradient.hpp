// The gradient of pooling.
#pragma once

#include <mtf/kernels/column_sums.hpp>
#include <mtf/kernels/launch.hpp>
#include <mtf/plan/window.hpp>

namespace mtf {
inline namespace v0 {

namespace kernels {

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

  [[nodiscard]] MTF_FUNCTION T factor_of_term() const { return Ties ? T(1) : static_cast<T>(plan.factor); }
  /// All elements that are the largest have the whole gradient.
  MTF_ALWAYS_INLINE MTF_FUNCTION static T of_tie(T element, T largest, T gradient) {
    return element == largest ? gradient : T(0);
  }
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
    const T factor = factor_of_term();
    T* const sums = dx + in;
    const T* const values = x + in;
    const auto term = [=](const T* outputs, const T* terms, std::int64_t i) {
      if constexpr (Ties) return of_tie(values[i * to], outputs[i * by], terms[i * by]);
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
          to[i] = of_tie(x[in + i * inner.strides[0]], y[b], dy[b]);
        }
        sums.add(to);
        row = row + 1 < kept ? row + 1 : 0;
      });
      sums.write(dx + in, inner.strides[0]);
    } else {
      each(windows, out, [&](std::int64_t from) { sums.add(dy + from); });
      sums.write(dx + in, inner.strides[0], factor_of_term());
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
