// Cumulative sums along a dim.
#pragma once

#include <mtf/core/arithmetic.hpp>
#include <mtf/kernels/launch.hpp>
#include <mtf/kernels/sum.hpp>
#include <mtf/plan/selection.hpp>

namespace mtf {
inline namespace v0 {

namespace kernels {

/// One block walks along the dim for a chunk of rows together: their sums do not wait for each other.
template <class T>
struct CumulativeSumKernel {
  Outer<3> outer;  ///< output, input, totals
  CumulativeSumPlan plan;
  std::int64_t chunks;
  std::int64_t rows;  ///< of a chunk
  T* out;
  const T* in;
  const T* totals;

  static constexpr std::int64_t width = 64;  ///< at most

  MTF_FUNCTION void operator()(std::int64_t block) const {
    std::int64_t offset[3];
    const std::int64_t around = block < chunks ? 0 : block / chunks;  // divisions are slow
    outer.offsets(around, offset);
    const std::int64_t begin = (block - around * chunks) * rows;
    const std::int64_t count = begin + rows < outer.inner ? rows : outer.inner - begin;
    const Slices slices{
        out + offset[0] + begin * outer.inner_strides[0], in + offset[1] + begin * outer.inner_strides[1],
        plan.first_part == plan.end_part ? nullptr : totals + offset[2] + begin * outer.inner_strides[2], count};
    if constexpr (!std::is_floating_point_v<T>) {
      sum_integers(slices);
    } else if (plan.exclusive) {
      sum<true>(slices);
    } else {
      sum<false>(slices);
    }
  }

 private:
  struct Slices {
    T* to;
    const T* from;
    const T* totals;
    std::int64_t count;
  };
  MTF_FUNCTION void sum_integers(const Slices& slices) const {
    const std::int64_t count = slices.count;
    T sums[static_cast<unsigned>(width)];
    for (std::int64_t i = 0; i < count; ++i) sums[i] = T(0);
    for (std::int64_t part = plan.first_part; part < plan.end_part; ++part) {
      const T* total = slices.totals + part * plan.part_stride;
      for (std::int64_t i = 0; i < count; ++i)
        sums[i] = mtf::detail::sum_of(sums[i], total[i * outer.inner_strides[2]]);
    }
    const std::int64_t to_stride = outer.inner_strides[0];
    const std::int64_t from_stride = outer.inner_strides[1];
    const std::int64_t first = plan.reverse ? (plan.length - 1) * plan.stride : 0;
    const std::int64_t stride = plan.reverse ? -plan.stride : plan.stride;
    const bool exclusive = plan.exclusive;
    T* to = slices.to + first;
    const T* from = slices.from + first;
    for (std::int64_t left = plan.length; left > 0; --left, to += stride, from += stride) {
      for (std::int64_t i = 0; i < count; ++i) {
        const T before = sums[i];
        sums[i] = mtf::detail::sum_of(before, from[i * from_stride]);
        to[i * to_stride] = exclusive ? before : sums[i];
      }
    }
  }

  using Running = LongSums<T, static_cast<int>(width)>;
  /// Doubles are added to pairs four at a time, as a tree.
  static constexpr int steps = std::is_same_v<T, float> ? 1 : 4;

  /// Floating point: what is added to is wider than T (see sum.hpp) and one number, and rounding keeps order: sums of
  /// numbers of one sign do not turn back.
  template <bool Exclusive>
  MTF_FUNCTION void sum(Slices s) const {
    const bool neighbours = outer.inner_strides[0] == 1 && outer.inner_strides[1] == 1;
    Running sums;
    for (std::int64_t i = 0; i < s.count; ++i) sums.set(i, 0);
    for (std::int64_t part = plan.first_part; part < plan.end_part; ++part) {
      const T* total = s.totals + part * plan.part_stride;
      for (std::int64_t i = 0; i < s.count; ++i) sums.add(i, static_cast<double>(total[i * outer.inner_strides[2]]));
    }
    const std::int64_t first = plan.reverse ? (plan.length - 1) * plan.stride : 0;
    const std::int64_t stride = plan.reverse ? -plan.stride : plan.stride;
    s.to += first;
    s.from += first;
    for (std::int64_t begin = 0; begin < plan.length; begin += Running::span) {
      const std::int64_t length = plan.length - begin < Running::span ? plan.length - begin : Running::span;
      if (begin > 0) {
        sums.renew(s.count);
        walk<Exclusive, true, false, false>(sums, s, stride, length);
      } else if (!neighbours) {
        walk<Exclusive, false, false, false>(sums, s, stride, length);
      } else if (s.count == width) {
        walk<Exclusive, false, true, true>(sums, s, stride, length);
      } else {
        walk<Exclusive, false, true, false>(sums, s, stride, length);
      }
      s.to += length * stride;
      s.from += length * stride;
    }
  }
  template <bool Exclusive, bool Long, bool Neighbours, bool Full>
  MTF_FUNCTION void walk(Running& sums, const Slices& slices, std::int64_t stride, std::int64_t length) const {
    const std::int64_t count = Full ? width : slices.count;
    const std::int64_t to_stride = Neighbours ? 1 : outer.inner_strides[0];
    const std::int64_t from_stride = Neighbours ? 1 : outer.inner_strides[1];
    constexpr int at_once = Neighbours ? 4 : 16;  // of one row a line of the cache
    const std::int64_t whole = length / at_once * at_once;
    for (std::int64_t step = 0; step < whole; step += at_once) {
      const T* from = slices.from + step * stride;
      T* to = slices.to + step * stride;
      MTF_INDEPENDENT_ITERATIONS
      for (std::int64_t i = 0; i < count; ++i)
        advance<Exclusive, Long, at_once>(sums, i, from + i * from_stride, to + i * to_stride, stride);
    }
    if (whole == length) return;
    for (std::int64_t i = 0; i < count; ++i) {
      const T* x = slices.from + i * from_stride + whole * stride;
      T* y = slices.to + i * to_stride + whole * stride;
      std::int64_t left = length - whole;
      for (; left >= steps; left -= steps, x += steps * stride, y += steps * stride)
        advance<Exclusive, Long, steps>(sums, i, x, y, stride);
      for (; left > 0; --left, x += stride, y += stride) advance_one<Exclusive, Long>(sums, i, x, y);
    }
  }
  template <bool Long>
  MTF_ALWAYS_INLINE MTF_FUNCTION static T result(const Running& sums, std::int64_t i) {
    if constexpr (std::is_same_v<T, float>) return sums.template result_if<Long>(i);
    return sums.result(i);
  }
  template <bool Exclusive, bool Long>
  MTF_ALWAYS_INLINE MTF_FUNCTION static void advance_one(Running& sums, std::int64_t i, const T* x, T* y) {
    const T value = *x;
    const T before = result<Long>(sums, i);
    sums.add(i, static_cast<double>(value));
    *y = Exclusive ? before : result<Long>(sums, i);
  }
  template <bool Exclusive, bool Long, int Steps>
  MTF_ALWAYS_INLINE MTF_FUNCTION static void advance(Running& sums, std::int64_t i, const T* x, T* y,
                                                     std::int64_t stride) {
    if constexpr (Steps > steps) {
      advance<Exclusive, Long, Steps / 2>(sums, i, x, y, stride);
      advance<Exclusive, Long, Steps / 2>(sums, i, x + Steps / 2 * stride, y + Steps / 2 * stride, stride);
    } else if constexpr (steps == 1) {
      advance_one<Exclusive, Long>(sums, i, x, y);
    } else {
      const T one = x[0];
      const T two = one + x[stride];
      const T three = two + x[2 * stride];
      const T four = two + (x[2 * stride] + x[3 * stride]);
      y[0] = Exclusive ? sums.result(i) : sums.with(i, one);
      y[stride] = sums.with(i, Exclusive ? one : two);
      y[2 * stride] = sums.with(i, Exclusive ? two : three);
      y[3 * stride] = sums.with(i, Exclusive ? three : four);
      sums.add(i, four);
    }
  }
};

template <class Space, class T>
void execute(const Space& space, const CumulativeSumPlan& plan, T* out, const T* in, const T* totals) {
  using Kernel = CumulativeSumKernel<T>;
  const Outer<3> outer(plan.rows);
  // Long lines of neighbours are read faster; of rows apart, each has its own.
  const std::int64_t rows = outer.inner_strides[0] == 1 ? Kernel::width : 32;
  const std::int64_t chunks = (outer.inner + rows - 1) / rows;
  for_blocks(space, "mtf::cumsum", outer.size * chunks, Kernel{outer, plan, chunks, rows, out, in, totals});
}
template <class Space, class T>
void execute(const Space& space, const CumulativeSumPlan& plan, T* out, const T* in) {
  execute(space, plan, out, in, static_cast<const T*>(nullptr));
}

}  // namespace kernels

}  // namespace v0
}  // namespace mtf
