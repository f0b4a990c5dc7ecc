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
  T* out;
  const T* in;
  const T* totals;

  static constexpr std::int64_t width = 32;

  MTF_FUNCTION void operator()(std::int64_t block) const {
    std::int64_t offset[3];
    outer.offsets(block / chunks, offset);
    const std::int64_t begin = block % chunks * width;
    const std::int64_t count = begin + width < outer.inner ? width : outer.inner - begin;
    if constexpr (std::is_floating_point_v<T>) {
      const bool unit = outer.inner_strides[0] == 1 && outer.inner_strides[1] == 1;
      const Slices slices{
          out + offset[0] + begin * outer.inner_strides[0], in + offset[1] + begin * outer.inner_strides[1],
          plan.first_part == plan.end_part ? nullptr : totals + offset[2] + begin * outer.inner_strides[2], count};
      if (plan.exclusive) {
        unit ? sum<true, true>(slices) : sum<true, false>(slices);
      } else {
        unit ? sum<false, true>(slices) : sum<false, false>(slices);
      }
      return;
    }
    T sums[static_cast<unsigned>(width)];
    for (std::int64_t i = 0; i < count; ++i) sums[i] = T(0);
    for (std::int64_t part = plan.first_part; part < plan.end_part; ++part) {
      const T* total = totals + part * plan.part_stride + offset[2] + begin * outer.inner_strides[2];
      for (std::int64_t i = 0; i < count; ++i)
        sums[i] = mtf::detail::sum_of(sums[i], total[i * outer.inner_strides[2]]);
    }
    for (std::int64_t step = 0; step < plan.length; ++step) {
      const std::int64_t along = (plan.reverse ? plan.length - 1 - step : step) * plan.stride;
      T* to = out + offset[0] + begin * outer.inner_strides[0] + along;
      const T* from = in + offset[1] + begin * outer.inner_strides[1] + along;
      for (std::int64_t i = 0; i < count; ++i) {
        const T before = sums[i];
        sums[i] = mtf::detail::sum_of(sums[i], from[i * outer.inner_strides[1]]);
        to[i * outer.inner_strides[0]] = plan.exclusive ? before : sums[i];
      }
    }
  }

 private:
  struct Slices {
    T* to;
    const T* from;
    const T* totals;
    std::int64_t count;
  };
  /// Floating point, four steps at a time: their sums as a tree, those of the steps before wider than T (see sum.hpp).
  /// What is added to is one number, and rounding keeps order: sums of numbers of one sign do not turn back.
  template <bool Exclusive, bool Unit>
  MTF_FUNCTION void sum(const Slices& slices) const {
    const std::int64_t count = slices.count;
    const std::int64_t to_stride = Unit ? 1 : outer.inner_strides[0];
    const std::int64_t from_stride = Unit ? 1 : outer.inner_strides[1];
    Sums<T, static_cast<int>(width)> sums;
    for (std::int64_t i = 0; i < count; ++i) sums.set(i, T(0));
    for (std::int64_t part = plan.first_part; part < plan.end_part; ++part) {
      const T* total = slices.totals + part * plan.part_stride;
      for (std::int64_t i = 0; i < count; ++i) sums.add(i, total[i * outer.inner_strides[2]]);
    }
    const std::int64_t first = plan.reverse ? (plan.length - 1) * plan.stride : 0;
    const std::int64_t stride = plan.reverse ? -plan.stride : plan.stride;
    T* to = slices.to + first;
    const T* from = slices.from + first;
    std::int64_t left = plan.length;
    for (; left >= 4; left -= 4, from += 4 * stride, to += 4 * stride) {
      MTF_INDEPENDENT_ITERATIONS
      for (std::int64_t i = 0; i < count; ++i) {
        const T* x = from + i * from_stride;
        T* y = to + i * to_stride;
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
    for (; left > 0; --left, from += stride, to += stride) {
      for (std::int64_t i = 0; i < count; ++i) {
        const T x = from[i * from_stride];
        to[i * to_stride] = Exclusive ? sums.result(i) : sums.with(i, x);
        sums.add(i, x);
      }
    }
  }
};

template <class Space, class T>
void execute(const Space& space, const CumulativeSumPlan& plan, T* out, const T* in, const T* totals) {
  using Kernel = CumulativeSumKernel<T>;
  const Outer<3> outer(plan.rows);
  const std::int64_t chunks = (outer.inner + Kernel::width - 1) / Kernel::width;
  for_blocks(space, "mtf::cumsum", outer.size * chunks, Kernel{outer, plan, chunks, out, in, totals});
}
template <class Space, class T>
void execute(const Space& space, const CumulativeSumPlan& plan, T* out, const T* in) {
  execute(space, plan, out, in, static_cast<const T*>(nullptr));
}

}  // namespace kernels

}  // namespace v0
}  // namespace mtf
