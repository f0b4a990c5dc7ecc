// Cross-entropy of a slice of the logits.
#pragma once

#include <cmath>
#include <limits>

#include <mtf/kernels/launch.hpp>
#include <mtf/kernels/sum.hpp>
#include <mtf/plan/cross_entropy.hpp>

namespace mtf {
inline namespace v0 {

namespace kernels {

template <class T, class Id>
struct TargetLogitKernel {
  Outer<3> outer;  ///< output, logits, targets
  TargetLogitPlan plan;
  T* out;
  const T* logits;
  const Id* targets;
  MTF_FUNCTION void operator()(std::int64_t block) const {
    std::int64_t offset[3];
    outer.offsets(block / outer.inner, offset);
    for (int o = 0; o < 3; ++o) offset[o] += block % outer.inner * outer.inner_strides[o];
    const std::int64_t target = static_cast<std::int64_t>(targets[offset[2]]) - plan.begin;
    const T* row = logits + offset[1];
    T sum = 0;
    if (plan.off != 0) {
      RunSum<T> all;
      all.add(row, plan.length, plan.stride);
      sum = all.result() * static_cast<T>(plan.off);
    }
    if (target >= 0 && target < plan.length) sum += static_cast<T>(plan.on - plan.off) * row[target * plan.stride];
    out[offset[0]] = sum;
  }
};
template <class Space, class T, class Id>
void execute(const Space& space, const TargetLogitPlan& plan, T* out, const T* logits, const Id* targets) {
  const Outer<3> outer(plan.loop);
  for_blocks(space, "mtf::target", outer.size * outer.inner,
             TargetLogitKernel<T, Id>{outer, plan, out, logits, targets});
}

template <class T, class Id>
struct CrossEntropyGradientKernel {
  Outer<5> outer;  ///< dlogits, dy, logits, log Z, targets
  CrossEntropyGradientPlan plan;
  T* out;
  const T* dy;
  const T* logits;
  const T* log_z;
  const Id* targets;
  MTF_FUNCTION void operator()(std::int64_t block) const {
    std::int64_t offset[5];
    outer.offsets(block / outer.inner, offset);
    for (int o = 0; o < 5; ++o) offset[o] += block % outer.inner * outer.inner_strides[o];
    const auto class_of_row = static_cast<std::int64_t>(targets[offset[4]]);
    const bool inside = class_of_row >= 0 && class_of_row < plan.extent;
    const T weight_sum =
        static_cast<T>(plan.off * static_cast<double>(plan.extent) + (inside ? plan.on - plan.off : 0.0));
    const T slope = dy[offset[1]];
    const T z = log_z[offset[3]];
    const T scale = slope * (weight_sum + T(2) * static_cast<T>(plan.z_loss) * z);
    const T off = slope * static_cast<T>(plan.off);
    const T* row = logits + offset[2];
    T* to = out + offset[0];
    if (z == -std::numeric_limits<T>::infinity()) {  // every class is switched off
      for (std::int64_t v = 0; v < plan.length; ++v) to[v * plan.stride] = T(0);
      return;
    }
    for (std::int64_t v = 0; v < plan.length; ++v)
      to[v * plan.stride] = scale * std::exp(row[v * plan.stride] - z) - off;
    const std::int64_t target = class_of_row - plan.begin;
    if (target >= 0 && target < plan.length) to[target * plan.stride] -= slope * static_cast<T>(plan.on - plan.off);
  }
};
template <class Space, class T, class Id>
void execute(const Space& space, const CrossEntropyGradientPlan& plan, T* out, const T* dy, const T* logits,
             const T* log_z, const Id* targets) {
  const Outer<5> outer(plan.loop);
  for_blocks(space, "mtf::xent'", outer.size * outer.inner,
             CrossEntropyGradientKernel<T, Id>{outer, plan, out, dy, logits, log_z, targets});
}

}  // namespace kernels

}  // namespace v0
}  // namespace mtf
