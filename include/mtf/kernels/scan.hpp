// Cumulative sums along a dim.
#pragma once

#include <mtf/core/arithmetic.hpp>
#include <mtf/kernels/launch.hpp>
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
