// Gradients that are not the derivative: clip_activation_gradient.
#pragma once

#include <mtf/ops/arithmetic.hpp>
#include <mtf/ops/reduce.hpp>
#include <mtf/tensor/custom_gradient.hpp>

namespace mtf {
inline namespace v0 {

/// x, whose gradient is scaled down to a root mean square of at most `rms` (over the whole array). Source:
/// clip_activation_gradient of Mesh-TensorFlow's layers. Communication in the gradient if x is split: one allreduce of
/// a scalar. Throws unless `rms` is finite and at least 0.
template <operand X>
constexpr auto clip_activation_gradient(const X& x, double rms = 1.0) {
  if constexpr (any_poisoned<X>) {
    return poisoned{};
  } else {
    detail::require_parameter("clip_activation_gradient", "rms", rms, detail::is_finite_and_not_negative(rms),
                              "a finite number, at least 0");
    return custom_gradient([](const auto& input) { return input; },
                           [rms](const auto& dy, const auto&, const auto&) {
                             const auto actual = sqrt(reduce_mean(square(dy)));
                             return dy * map(
                                             [rms](auto r) {
                                               return r > rms ? static_cast<decltype(r)>(rms) / r
                                                              : static_cast<decltype(r)>(1);
                                             },
                                             actual);
                           },
                           x);
  }
}

}  // namespace v0
}  // namespace mtf
