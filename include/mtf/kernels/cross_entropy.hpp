// Cross-entropy of a slice of the logits.
#pragma once

#include <cmath>
#include <limits>

#include <mtf/kernels/launch.hpp>
#include <mtf/kernels/run_sum.hpp>
#include <mtf/plan/cross_entropy.hpp>

namespace mtf {
inline namespace v0 {

namespace kernels {

template <class T, class Id>
struct TargetLogitKernel {
  Outer<4> outer;  ///< output, logits, largest, targets
  TargetLogitPlan plan;
  T* out;
  const T* logits;
  const T* largest;
  const Id* targets;

  /// Below the largest, also where both are infinite: +inf is not below +inf.
  MTF_FUNCTION static T below(T logit, T m) { return logit == m ? T(0) : logit - m; }

  MTF_FUNCTION void operator()(std::int64_t block) const {
    std::int64_t offset[4];
    const std::int64_t around = block < outer.inner ? 0 : block / outer.inner;  // divisions are slow
    outer.offsets(around, offset);
    for (int o = 0; o < 4; ++o) offset[o] += (block - around * outer.inner) * outer.inner_strides[o];
    const auto target = static_cast<std::int64_t>(targets[offset[3]]);
    const bool is_here = target >= plan.begin && target < plan.begin + plan.length;
    const T* row = logits + offset[1];
    const T m = largest[offset[2]];
    out[offset[0]] = is_here ? below(row[(target - plan.begin) * plan.stride], m) : T(0);
    if (plan.smoothing != 0) smooth(row, m, out + offset[0]);
  }

 private:
  /// How far a class is below the largest; 0 if it is off, chosen without a branch.
  struct BelowUnlessOff {
    T largest;
    MTF_ALWAYS_INLINE MTF_FUNCTION T operator()(T logit) const {
      const T difference = logit - largest;
      return is_off(logit) | (logit == largest) ? T(0) : difference;
    }
  };
  MTF_ALWAYS_INLINE MTF_FUNCTION static bool is_off(T logit) { return logit < std::numeric_limits<T>::lowest(); }

  /// The sum over the classes that are not off, and their number.
  MTF_FUNCTION void smooth(const T* row, T m, T* to) const {
    RunSum<T, BelowUnlessOff> sum(BelowUnlessOff{m});
    sum.add(row, plan.length, plan.stride);
    std::int64_t off = 0;
    std::int64_t v = 0;
    if (plan.stride == 1) {
      constexpr int width = 64;
      for (; v + width <= plan.length; v += width) {
        int here = 0;
        for (int i = 0; i < width; ++i) here += is_off(row[v + i]) ? 1 : 0;
        off += here;
      }
    }
    for (; v < plan.length; ++v) off += is_off(row[v * plan.stride]) ? 1 : 0;
    to[plan.rows] = sum.result();
    to[2 * plan.rows] = static_cast<T>(plan.length - off);
  }
};
template <class Space, class T, class Id>
void execute(const Space& space, const TargetLogitPlan& plan, T* out, const T* logits, const T* largest,
             const Id* targets) {
  const Outer<4> outer(plan.loop);
  for_blocks(space, "mtf::target", outer.size * outer.inner,
             TargetLogitKernel<T, Id>{outer, plan, out, logits, largest, targets});
}

template <class T, class Id>
struct CrossEntropyGradientKernel {
  Outer<7> outer;  ///< dlogits, dy, logits, largest, sum, number of classes, targets
  CrossEntropyGradientPlan plan;
  T* out;
  const T* dy;
  const T* logits;
  const T* largest;
  const T* sums;
  const T* counts;
  const Id* targets;
  MTF_FUNCTION void operator()(std::int64_t block) const {
    constexpr T lowest = std::numeric_limits<T>::lowest();
    std::int64_t offset[7];
    outer.offsets(block / outer.inner, offset);
    for (int o = 0; o < 7; ++o) offset[o] += block % outer.inner * outer.inner_strides[o];
    const auto target = static_cast<std::int64_t>(targets[offset[6]]);
    const bool is_here = target >= plan.begin && target < plan.begin + plan.length;
    const bool has_class = target >= 0 && target < plan.extent;
    const T* row = logits + offset[2];
    T* to = out + offset[0];
    const T slope = dy[offset[1]];
    const T m = largest[offset[3]];
    const T sum = sums[offset[4]];
    if (sum == T(0) || slope == T(0)) {  // every class is off, or nothing depends on the row
      for (std::int64_t v = 0; v < plan.length; ++v) to[v * plan.stride] = T(0);
      return;
    }
    T scale = slope * static_cast<T>(plan.smoothing + (has_class ? 1 - plan.smoothing : 0.0));
    if (plan.z_loss != 0) scale += slope * T(2) * static_cast<T>(plan.z_loss) * (m + std::log(sum));
    scale /= sum;                             // not in the exponent, where the logarithm is lost beside large logits
    if (m > std::numeric_limits<T>::max()) {  // the classes of +inf share the row
      for (std::int64_t v = 0; v < plan.length; ++v) to[v * plan.stride] = row[v * plan.stride] == m ? scale : T(0);
    } else {
      for (std::int64_t v = 0; v < plan.length; ++v) to[v * plan.stride] = scale * std::exp(row[v * plan.stride] - m);
    }
    if (plan.smoothing != 0) {
      const T off = slope * static_cast<T>(plan.smoothing) / counts[offset[5]];
      for (std::int64_t v = 0; v < plan.length; ++v) to[v * plan.stride] -= row[v * plan.stride] < lowest ? T(0) : off;
    }
    if (is_here) to[(target - plan.begin) * plan.stride] -= slope * static_cast<T>(1 - plan.smoothing);
  }
};
template <class Space, class T, class Id>
void execute(const Space& space, const CrossEntropyGradientPlan& plan, T* out, const T* dy, const T* logits,
             const T* largest, const T* sums, const T* counts, const Id* targets) {
  const Outer<7> outer(plan.loop);
  for_blocks(space, "mtf::xent'", outer.size * outer.inner,
             CrossEntropyGradientKernel<T, Id>{outer, plan, out, dy, logits, largest, sums, counts, targets});
}

}  // namespace kernels

}  // namespace v0
}  // namespace mtf
