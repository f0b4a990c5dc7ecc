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

/// Of one row of logits, what label smoothing needs: how far all classes that are not off are below the largest, and how
/// many these are.
template <class T>
struct SmoothedRow {
  T below;
  std::int64_t classes;

  MTF_FUNCTION SmoothedRow(const T* row, std::int64_t length, std::int64_t stride, T largest)
      : below(sum(Below{largest}, row, length, stride)), classes(length) {
    if (below - below == T(0)) return;  // finite: no class is off, and the largest is finite
    for (std::int64_t v = 0; v < length; ++v) classes -= is_off(row[v * stride]) ? 1 : 0;
    below = sum(BelowUnlessOff{largest}, row, length, stride);
  }

 private:
  struct Below {
    T largest;
    MTF_ALWAYS_INLINE MTF_FUNCTION T operator()(T logit) const { return logit - largest; }
  };
  /// 0 where both are infinite.
  struct BelowUnlessOff {
    T largest;
    MTF_ALWAYS_INLINE MTF_FUNCTION T operator()(T logit) const {
      return is_off(logit) || logit == largest ? T(0) : logit - largest;
    }
  };
  MTF_ALWAYS_INLINE MTF_FUNCTION static bool is_off(T logit) { return logit < std::numeric_limits<T>::lowest(); }
  template <class F>
  MTF_FUNCTION static T sum(const F& f, const T* row, std::int64_t length, std::int64_t stride) {
    if (length <= 8) return RunSum<T, F>::of_few(row, length, stride, f);
    RunSum<T, F> sum(f);
    sum.add(row, length, stride);
    return sum.result();
  }
};

template <class T, class Id, bool Smoothed>
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
    if constexpr (Smoothed) {
      const SmoothedRow<T> smoothed(row, plan.length, plan.stride, m);
      out[offset[0] + plan.rows] = smoothed.below;
      out[offset[0] + 2 * plan.rows] = static_cast<T>(smoothed.classes);
    }
  }
};
template <class Space, class T, class Id>
void execute(const Space& space, const TargetLogitPlan& plan, T* out, const T* logits, const T* largest,
             const Id* targets) {
  const Outer<4> outer(plan.loop);
  const std::int64_t rows = outer.size * outer.inner;
  if (plan.smoothing == 0) {
    for_blocks(space, "mtf::target", rows, TargetLogitKernel<T, Id, false>{outer, plan, out, logits, largest, targets});
  } else {
    for_blocks(space, "mtf::target", rows, TargetLogitKernel<T, Id, true>{outer, plan, out, logits, largest, targets});
  }
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
