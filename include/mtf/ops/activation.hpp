// Activations of neural networks, element by element.
#pragma once

#include <limits>

#include <mtf/ops/elementary.hpp>

namespace mtf {
inline namespace v0 {

namespace functions {

struct Relu {
  static constexpr bool is_idempotent = true;
  template <class X>
  MTF_FUNCTION constexpr X operator()(const X& x) const {
    return x > X(0) || x != x ? x : X(0);  // NaN stays
  }
};
struct LeakyRelu {
  double slope;
  template <class X>
  MTF_FUNCTION constexpr X operator()(const X& x) const {
    return x > X(0) ? x : x * static_cast<X>(slope);
  }
};
struct Elu {
  template <class X>
  MTF_FUNCTION X operator()(const X& x) const {
    return x > X(0) ? x : expm1(x);
  }
};
struct Selu {
  // The fixed point that keeps mean 0 and variance 1 (Klambauer et al., Self-Normalizing Neural Networks, 2017).
  static constexpr double alpha = 1.6732632423543772;
  static constexpr double scale = 1.0507009873554805;
  template <class X>
  MTF_FUNCTION X operator()(const X& x) const {
    return x < X(0) ? X(scale * alpha) * expm1(x) : X(scale) * x;
  }
};
struct Softplus {
  template <class X>
  MTF_FUNCTION X operator()(const X& x) const {
    return x > X(0) ? x + log1p(exp(-x)) : log1p(exp(x));  // never the exponential of a positive number
  }
};
/// -infinity, which no factor of 0 brings to 0, counts as the least number: the products then are -0, the limit.
template <std::floating_point X>
MTF_FUNCTION constexpr X not_below_lowest(X x) {
  return x < std::numeric_limits<X>::lowest() ? std::numeric_limits<X>::lowest() : x;
}

// With slopes of their own, which at infinity are the limits 0 and 1 of a sum of a product of 0 and infinity.
struct Swish {
  template <std::floating_point X>
  MTF_FUNCTION X operator()(const X& x) const {
    return not_below_lowest(x) * Sigmoid{}(x);
  }
  template <std::floating_point X>
  MTF_FUNCTION Dual<X> operator()(const Dual<X>& x) const {
    const X s = Sigmoid{}(x.value);
    const X steepness = s * (X(1) - s);
    const X bend = steepness * x.value;
    const X slope = s + (steepness == X(0) ? X(0) : bend);
    return {not_below_lowest(x.value) * s, detail::chained(slope, x.slope)};
  }
};
/// (1 + tanh(u)) / 2 is sigmoid(2 u): one exponential, and no difference of numbers near 1.
struct Gelu {
  static constexpr double factor = 2 * 0.7978845608028654;  // 2 sqrt(2 / pi)
  static constexpr double cubic = factor * 0.044715;
  template <std::floating_point X>
  MTF_FUNCTION X operator()(const X& x) const {
    return not_below_lowest(x) / (X(1) + exp(-x * (X(factor) + X(cubic) * (x * x))));
  }
  template <std::floating_point X>
  MTF_FUNCTION Dual<X> operator()(const Dual<X>& x) const {
    const X square = x.value * x.value;
    const X s = Sigmoid{}(x.value * (X(factor) + X(cubic) * square));
    const X steepness = s * (X(1) - s);  // 0 where the square may overflow
    const X bend = steepness * x.value * (X(factor) + X(3 * cubic) * square);
    const X slope = s + (steepness == X(0) ? X(0) : bend);
    return {not_below_lowest(x.value) * s, detail::chained(slope, x.slope)};
  }
};

}  // namespace functions

// y[dims] = f(x[dims]), no communication; a sum is completed first. float or double, except relu. NaN stays NaN.
// Gradients: the analytic derivative through dual numbers, with the values at 0 that are named here. At infinities
// values and slopes are the limits: swish and gelu are -0 at -infinity, slopes 0 or 1 (or the scale) there.

/// max(x, 0); the gradient at 0 is 0.
template <operand X>
constexpr auto relu(const X& x) {
  return detail::map_named("relu", functions::Relu{}, x);
}
/// x where x > 0, else slope * x; the gradient at 0 is `slope`, which is finite.
template <operand X>
constexpr auto leaky_relu(const X& x, double slope = 0.2) {
  detail::require_parameter("leaky_relu", "slope", slope, detail::is_finite(slope), "finite");
  return detail::map_if(detail::real<X>{}, "leaky_relu", functions::LeakyRelu{slope}, x);
}
/// x where x > 0, else exp(x) - 1.
template <operand X>
constexpr auto elu(const X& x) {
  return detail::map_if(detail::real<X>{}, "elu", functions::Elu{}, x);
}
/// scale * x where x >= 0, else scale * alpha * (exp(x) - 1), with the constants of self-normalizing networks; the
/// gradient at 0 is `scale`.
template <operand X>
constexpr auto selu(const X& x) {
  return detail::map_if(detail::real<X>{}, "selu", functions::Selu{}, x);
}
/// log(1 + exp(x)), which does not overflow.
template <operand X>
constexpr auto softplus(const X& x) {
  return detail::map_if(detail::real<X>{}, "softplus", functions::Softplus{}, x);
}
/// x * sigmoid(x).
template <operand X>
constexpr auto swish(const X& x) {
  return detail::map_if(detail::real<X>{}, "swish", functions::Swish{}, x);
}
/// x / 2 * (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))): the approximation, as in the original.
template <operand X>
constexpr auto gelu(const X& x) {
  return detail::map_if(detail::real<X>{}, "gelu", functions::Gelu{}, x);
}

}  // namespace v0
}  // namespace mtf
