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
    outer.offsets(block / outer.inner, offset);
    for (int o = 0; o < 4; ++o) offset[o] += block % outer.inner * outer.inner_strides[o];
    const auto target = static_cast<std::int64_t>(targets[offset[3]]);
    const bool is_here = target >= plan.begin && target < plan.begin + plan.length;
    const T* row = logits + offset[1];
    const T m = largest[offset[2]];
    out[offset[0]] = is_here ? below(row[(target - plan.begin) * plan.stride], m) : T(0);
    if (plan.smoothing == 0) return;
    // Several sums at a time do not wait for each other.
    Sums<T, lanes> sums;
    T counts[static_cast<unsigned>(lanes)]{};
    for (int l = 0; l < lanes; ++l) sums.set(l, T(0));
    const std::int64_t whole = plan.length / lanes * lanes;
    for (std::int64_t v = 0; v < whole; v += lanes) {
      for (int l = 0; l < lanes; ++l) count(row[(v + l) * plan.stride], m, sums, counts, l);
    }
    for (std::int64_t v = whole; v < plan.length; ++v)
      count(row[v * plan.stride], m, sums, counts, static_cast<int>(v - whole));
    for (int half = lanes / 2; half > 0; half /= 2) {
      for (int l = 0; l < half; ++l) {
        sums.join(l, sums, l + half);
        counts[l] += counts[l + half];
      }
    }
    out[offset[0] + plan.rows] = sums.result(0);
    out[offset[0] + 2 * plan.rows] = counts[0];
  }

 private:
  static constexpr int lanes = 16;

  /// Adds a class, unless it is off, chosen without a branch.
  MTF_FUNCTION static void count(T logit, T m, Sums<T, lanes>& sums, T* counts, int lane) {
    const T difference = logit - m;
    const T distance = logit == m ? T(0) : difference;
    const bool is_off = logit < std::numeric_limits<T>::lowest();
    sums.add(lane, is_off ? T(0) : distance);
    counts[lane] += is_off ? T(0) : T(1);
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
