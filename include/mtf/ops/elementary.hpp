// Elementary functions, element by element.
#pragma once

#include <mtf/ops/number.hpp>

namespace mtf {
inline namespace v0 {

namespace functions {

struct Square {
  template <class X>
  MTF_FUNCTION constexpr X operator()(const X& x) const {
    return detail::product_of(x, x);
  }
};
struct Sqrt {
  template <class X>
  MTF_FUNCTION X operator()(const X& x) const {
    return sqrt(x);
  }
};
struct Rsqrt {
  template <class X>
  MTF_FUNCTION X operator()(const X& x) const {
    return X(1) / sqrt(x);
  }
};
struct Exp {
  template <class X>
  MTF_FUNCTION X operator()(const X& x) const {
    return exp(x);
  }
};
struct Log {
  template <class X>
  MTF_FUNCTION X operator()(const X& x) const {
    return log(x);
  }
};
struct Tanh {
  template <class X>
  MTF_FUNCTION X operator()(const X& x) const {
    return tanh(x);
  }
};
/// With an exponential that does not overflow, so that neither does the slope.
struct Sigmoid {
  template <class X>
  MTF_FUNCTION X operator()(const X& x) const {
    if (x < X(0)) {
      const X e = exp(x);
      return e / (X(1) + e);
    }
    return X(1) / (X(1) + exp(-x));
  }
};
struct Sin {
  template <class X>
  MTF_FUNCTION X operator()(const X& x) const {
    return sin(x);
  }
};
struct Cos {
  template <class X>
  MTF_FUNCTION X operator()(const X& x) const {
    return cos(x);
  }
};
struct Abs {
  template <class X>
  MTF_FUNCTION constexpr X operator()(const X& x) const {
    return abs(x);
  }
};
struct Sign {
  static constexpr bool has_gradient = false;
  template <class X>
  MTF_FUNCTION constexpr X operator()(const X& x) const {
    return x > X(0) ? X(1) : x < X(0) ? X(-1) : x;  // 0, -0 and NaN stay
  }
};
struct Power {
  template <class X>
  MTF_FUNCTION X operator()(const X& x, const X& y) const {
    return pow(x, y);
  }
};

}  // namespace functions

// y[dims] = f(x[dims]), no communication; a sum is completed first. Gradients: the analytic derivative through dual
// numbers. Functions with values in between the integers take floating point; of other elements they do not compile.
// At infinities, zeros and NaN values are those of C's functions (Annex F) and slopes the limits of the derivative.

/// x^2, of numbers of any kind; integers wrap around. Gradient: 2 x g.
template <operand X>
constexpr auto square(const X& x) {
  return detail::map_named("square", functions::Square{}, x);
}
/// The square root; NaN below 0. Gradient: g / (2 sqrt(x)), infinite at 0 (with the sign of the zero), and 0 there
/// where g is 0.
template <operand X>
constexpr auto sqrt(const X& x) {
  return detail::map_if(detail::real<X>{}, "sqrt", functions::Sqrt{}, x);
}
/// 1 / sqrt(x).
template <operand X>
constexpr auto rsqrt(const X& x) {
  return detail::map_if(detail::real<X>{}, "rsqrt", functions::Rsqrt{}, x);
}
/// e^x; overflows to infinity. Gradient: g exp(x).
template <operand X>
constexpr auto exp(const X& x) {
  return detail::map_if(detail::real<X>{}, "exp", functions::Exp{}, x);
}
/// The natural logarithm; -infinity at 0, NaN below. Gradient: g / x, and 0 at 0 where g is 0.
template <operand X>
constexpr auto log(const X& x) {
  return detail::map_if(detail::real<X>{}, "log", functions::Log{}, x);
}
/// The hyperbolic tangent, in [-1, 1]. Gradient: g (1 - tanh(x)^2).
template <operand X>
constexpr auto tanh(const X& x) {
  return detail::map_if(detail::real<X>{}, "tanh", functions::Tanh{}, x);
}
/// 1 / (1 + exp(-x)).
template <operand X>
constexpr auto sigmoid(const X& x) {
  return detail::map_if(detail::real<X>{}, "sigmoid", functions::Sigmoid{}, x);
}
/// The sine of x in radians. Gradient: g cos(x).
template <operand X>
constexpr auto sin(const X& x) {
  return detail::map_if(detail::real<X>{}, "sin", functions::Sin{}, x);
}
/// The cosine of x in radians. Gradient: -g sin(x).
template <operand X>
constexpr auto cos(const X& x) {
  return detail::map_if(detail::real<X>{}, "cos", functions::Cos{}, x);
}
/// |x|; the gradient at 0 is 0. The least integer, whose magnitude its type lacks, stays.
template <operand X>
constexpr auto abs(const X& x) {
  return detail::map_named("abs", functions::Abs{}, x);
}
/// 1, 0 or -1; NaN stays. Gradients take it as a constant.
template <operand X>
constexpr auto sign(const X& x) {
  return detail::map_named("sign", functions::Sign{}, x);
}
/// x to the power y, broadcasting; float or double. Negative x has a power where y is a whole number. Values at the
/// corners are C's: pow(x, 0) = pow(1, y) = 1, of NaN too. The gradient in y is that of exp(y log x): 0 where x = 0, NaN
/// where x < 0; that in x is 0 where y = 0.
template <operand X, operand Y>
constexpr auto pow(const X& x, const Y& y) {
  if constexpr (!floating<element_of<X>>) {
    return poisoned(not_floating<element_of<X>>{});
  } else {
    return detail::map_checked(detail::checked<X, Y>{}, "pow", functions::Power{}, x, y);
  }
}
/// x to the power of a host number, for x of any sign if it is a whole number.
template <operand X, scalar C>
constexpr auto pow(const X& x, C exponent) {
  return detail::map_right(detail::real<X>{}, "pow", functions::Power{}, x, exponent);
}
template <scalar C, operand X>
constexpr auto pow(C base, const X& exponent) {
  return detail::map_left(detail::real<X>{}, "pow", functions::Power{}, base, exponent);
}

}  // namespace v0
}  // namespace mtf
