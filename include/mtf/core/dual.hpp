// Dual numbers, and scalar functions found by argument-dependent lookup that work on both numbers and duals.
#pragma once

#include <cmath>
#include <concepts>
#include <limits>
#include <type_traits>

#include <mtf/core/arithmetic.hpp>

namespace mtf {
inline namespace v0 {

namespace detail {
// The products are computed before they are chosen, without a branch that would keep a loop from being vectorised;
// compilers refuse infinity times 0 in constant expressions.

/// factor * slope, and 0 of an argument that does not move, whatever the factor: infinity times 0 is no NaN here.
template <class T>
MTF_FUNCTION constexpr T moved_by(T factor, T slope) {
  if (MTF_CONSTANT_EVALUATED && slope == T(0)) return T(0);
  const T product = factor * slope;
  return slope == T(0) ? T(0) : product;
}
/// The same, and 0 where the function is flat, also if its argument runs to infinity faster than it gets there. (Of a
/// finite slope the product says so by itself, and where that is a constant there is nothing to compute.)
template <class T>
MTF_FUNCTION constexpr T chained(T derivative, T slope) {
  if (MTF_CONSTANT_EVALUATED && (slope == T(0) || derivative == T(0))) return T(0);
  const T product = derivative * slope;
  const bool is_finite = slope - slope == T(0);
  return slope == T(0) || (!is_finite && derivative == T(0)) ? T(0) : product;
}
}  // namespace detail

/// A value and its derivative with respect to one input: evaluating a function on duals differentiates it. An argument
/// that does not move (slope 0) adds nothing to a slope, be the values infinite: the slope of x y in x is y at x =
/// infinity too.
template <class T>
struct Dual {
  T value{};
  T slope{};

  constexpr Dual() = default;
  MTF_FUNCTION constexpr Dual(T v) : value(v) {}
  MTF_FUNCTION constexpr Dual(T v, T s) : value(v), slope(s) {}
  template <class U>
    requires(std::is_arithmetic_v<U> && !std::same_as<U, T>)
  MTF_FUNCTION constexpr Dual(U v) : value(static_cast<T>(v)) {}

  MTF_FUNCTION friend constexpr Dual operator+(Dual a, Dual b) { return {a.value + b.value, a.slope + b.slope}; }
  MTF_FUNCTION friend constexpr Dual operator-(Dual a, Dual b) { return {a.value - b.value, a.slope - b.slope}; }
  MTF_FUNCTION friend constexpr Dual operator*(Dual a, Dual b) {
    return {a.value * b.value, detail::moved_by(b.value, a.slope) + detail::moved_by(a.value, b.slope)};
  }
  MTF_FUNCTION friend constexpr Dual operator/(Dual a, Dual b) {
    const T quotient = a.value / b.value;
    const T numerator = a.slope - detail::moved_by(quotient, b.slope);
    const T scaled = numerator / b.value;
    return {quotient, numerator == T(0) ? T(0) : scaled};
  }
  MTF_FUNCTION friend constexpr Dual operator-(Dual a) { return {-a.value, -a.slope}; }
  MTF_FUNCTION friend constexpr bool operator<(Dual a, Dual b) { return a.value < b.value; }
  MTF_FUNCTION friend constexpr bool operator>(Dual a, Dual b) { return a.value > b.value; }
  MTF_FUNCTION friend constexpr bool operator<=(Dual a, Dual b) { return a.value <= b.value; }
  MTF_FUNCTION friend constexpr bool operator>=(Dual a, Dual b) { return a.value >= b.value; }
  MTF_FUNCTION friend constexpr bool operator==(Dual a, Dual b) { return a.value == b.value; }
  MTF_FUNCTION friend constexpr bool operator!=(Dual a, Dual b) { return a.value != b.value; }
};

// Numbers first: the functions below are what a `map` callable may use for either. They keep the element type.
template <std::floating_point T>
MTF_FUNCTION T exp(T x) {
  return std::exp(x);
}
template <std::floating_point T>
MTF_FUNCTION T log(T x) {
  return std::log(x);
}
/// log(1 + x) and exp(x) - 1 without the loss of small x.
template <std::floating_point T>
MTF_FUNCTION T log1p(T x) {
  return std::log1p(x);
}
template <std::floating_point T>
MTF_FUNCTION T expm1(T x) {
  return std::expm1(x);
}
template <std::floating_point T>
MTF_FUNCTION T pow(T x, T y) {
  return std::pow(x, y);
}
template <std::floating_point T>
MTF_FUNCTION T tanh(T x) {
  return std::tanh(x);
}
template <std::floating_point T>
MTF_FUNCTION T sin(T x) {
  return std::sin(x);
}
template <std::floating_point T>
MTF_FUNCTION T cos(T x) {
  return std::cos(x);
}

/// Square root, also in constant expressions (Newton's method there).
template <std::floating_point T>
MTF_FUNCTION constexpr T sqrt(T x) {
  if (MTF_CONSTANT_EVALUATED) {
    if (!(x > 0)) return x == 0 ? x : std::numeric_limits<T>::quiet_NaN();
    if (x > std::numeric_limits<T>::max()) return x;
    T guess = x > 1 ? x : T(1);
    for (T next = (guess + x / guess) / 2; next < guess; next = (guess + x / guess) / 2) guess = next;
    return guess;
  }
  return std::sqrt(x);
}
/// The larger. NaN in either gives NaN.
template <class T>
  requires std::is_arithmetic_v<T>
MTF_FUNCTION constexpr T max(T a, T b) {
  return a > b || a != a ? a : b;
}
/// The smaller. NaN in either gives NaN.
template <class T>
  requires std::is_arithmetic_v<T>
MTF_FUNCTION constexpr T min(T a, T b) {
  return a < b || a != a ? a : b;
}
/// The magnitude, +0 of -0; of the least integer, which has none, the integer itself.
template <class T>
  requires std::is_arithmetic_v<T>
MTF_FUNCTION constexpr T abs(T a) {
  if constexpr (std::floating_point<T>) {
    if (!MTF_CONSTANT_EVALUATED) return std::fabs(a);
    return a <= 0 ? 0 - a : a;
  } else {
    return a < 0 ? detail::difference_of(T(0), a) : a;
  }
}

// Their slopes have the limits of the derivatives at the infinities.
template <class T>
MTF_FUNCTION Dual<T> exp(Dual<T> x) {
  const T y = std::exp(x.value);
  return {y, detail::chained(y, x.slope)};
}
template <class T>
MTF_FUNCTION Dual<T> log(Dual<T> x) {
  return {std::log(x.value), detail::moved_by(1 / x.value, x.slope)};
}
template <class T>
MTF_FUNCTION Dual<T> log1p(Dual<T> x) {
  return {std::log1p(x.value), detail::moved_by(1 / (1 + x.value), x.slope)};
}
template <class T>
MTF_FUNCTION Dual<T> expm1(Dual<T> x) {
  return {std::expm1(x.value), detail::chained(std::exp(x.value), x.slope)};
}
/// Values as std::pow has them (Annex F of C). A slope that does not move an argument does not ask for its derivative:
/// x^2 has a slope at x < 0, where log x has no value. At x = 0 the slope in the exponent is 0.
template <class T>
MTF_FUNCTION Dual<T> pow(Dual<T> x, Dual<T> y) {
  const T value = std::pow(x.value, y.value);
  T slope = 0;
  if (x.slope != 0 && y.value != 0) {
    T power = std::pow(x.value, y.value - 1);
    // The 1 may be lost in an exponent that is large, and so even.
    if (x.value < 0 && y.value - 1 == y.value && y.value - y.value == 0) power = -power;
    // Powers of denormal numbers overflow though y times them does not.
    const bool overflows = power - power != 0 && x.value - x.value == 0 && x.value != 0 && value - value == 0;
    T derivative = overflows ? y.value * value / x.value : power == 0 ? power : power * y.value;
    if (value != value) derivative = value;
    slope += x.slope * derivative;
  }
  if (y.slope != 0 && x.value != 0) {
    const T product = value * std::log(x.value);
    slope += y.slope * (value == 0 && x.value > 0 ? T(0) : product);
  }
  return {value, slope};
}
template <class T>
MTF_FUNCTION Dual<T> tanh(Dual<T> x) {
  const T y = std::tanh(x.value);
  return {y, detail::chained(1 - y * y, x.slope)};
}
template <class T>
MTF_FUNCTION Dual<T> sin(Dual<T> x) {
  return {std::sin(x.value), detail::moved_by(std::cos(x.value), x.slope)};
}
template <class T>
MTF_FUNCTION Dual<T> cos(Dual<T> x) {
  return {std::cos(x.value), detail::moved_by(-std::sin(x.value), x.slope)};
}
template <class T>
MTF_FUNCTION Dual<T> sqrt(Dual<T> x) {
  const T y = std::sqrt(x.value);
  return {y, detail::moved_by(1 / (2 * y), x.slope)};
}
/// At a tie each operand has the full slope (Mesh-TensorFlow's convention).
template <class T>
MTF_FUNCTION constexpr Dual<T> max(Dual<T> a, Dual<T> b) {
  if (a.value == b.value) return {a.value, a.slope + b.slope};
  return a.value > b.value || a.value != a.value ? a : b;
}
template <class T>
MTF_FUNCTION constexpr Dual<T> min(Dual<T> a, Dual<T> b) {
  if (a.value == b.value) return {a.value, a.slope + b.slope};
  return a.value < b.value || a.value != a.value ? a : b;
}
/// Slope 0 at 0.
template <class T>
MTF_FUNCTION constexpr Dual<T> abs(Dual<T> x) {
  const T sign = static_cast<T>((x.value > 0) - (x.value < 0));
  return {abs(x.value), detail::chained(sign, x.slope)};
}

}  // namespace v0
}  // namespace mtf
