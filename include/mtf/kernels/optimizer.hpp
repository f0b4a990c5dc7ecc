// Optimizer updates in one pass over a slice.
#pragma once

#include <cmath>

#include <mtf/kernels/launch.hpp>
#include <mtf/plan/optimizer.hpp>

namespace mtf {
inline namespace v0 {

namespace kernels {

/// Runs `step(i)` for all elements, in chunks that the compiler vectorises.
template <class Step>
struct UpdateKernel {
  Step step;
  std::int64_t count;
  MTF_FUNCTION void operator()(std::int64_t block) const {
    const std::int64_t begin = block * chunk;
    const std::int64_t end = begin + chunk < count ? begin + chunk : count;
    for (std::int64_t i = begin; i < end; ++i) step(i);
  }
};
template <class Space, class Step>
void update(const Space& space, const char* name, std::int64_t count, const Step& step) {
  for_blocks(space, name, (count + chunk - 1) / chunk, UpdateKernel<Step>{step, count});
}

template <class T>
struct MomentumStep {
  T rate, momentum;
  T* w;
  T* v;
  const T* g;
  MTF_FUNCTION void operator()(std::int64_t i) const {
    v[i] = momentum * v[i] + rate * g[i];
    w[i] -= v[i];
  }
};
template <class T>
struct DescentStep {
  T rate;
  T* w;
  const T* g;
  MTF_FUNCTION void operator()(std::int64_t i) const { w[i] -= rate * g[i]; }
};
template <class Space, class T>
void execute(const Space& space, const MomentumPlan& plan, T* w, T* v, const T* g) {
  update(space, "mtf::momentum", plan.count,
         MomentumStep<T>{static_cast<T>(plan.rate), static_cast<T>(plan.momentum), w, v, g});
}
template <class Space, class T>
void execute(const Space& space, const MomentumPlan& plan, T* w, const T* g) {
  update(space, "mtf::descent", plan.count, DescentStep<T>{static_cast<T>(plan.rate), w, g});
}

template <class T>
struct AdamStep {
  T rate, beta1, beta2, epsilon, decay;
  T* w;
  T* m;
  T* v;
  const T* g;
  MTF_FUNCTION void operator()(std::int64_t i) const {
    m[i] = beta1 * m[i] + (T(1) - beta1) * g[i];
    v[i] = beta2 * v[i] + (T(1) - beta2) * g[i] * g[i];
    w[i] -= rate * (m[i] / (std::sqrt(v[i]) + epsilon) + decay * w[i]);
  }
};
template <class Space, class T>
void execute(const Space& space, const AdamPlan& plan, T* w, T* m, T* v, const T* g) {
  update(space, "mtf::adam", plan.count,
         AdamStep<T>{static_cast<T>(plan.rate), static_cast<T>(plan.beta1), static_cast<T>(plan.beta2),
                     static_cast<T>(plan.epsilon), static_cast<T>(plan.decay), w, m, v, g});
}

}  // namespace kernels

}  // namespace v0
}  // namespace mtf
