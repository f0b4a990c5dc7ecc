// Dual numbers, and scalar functions found by argument-dependent lookup that work on both numbers and duals.
#pragma once

#include <cmath>
#include <concepts>

#include <mtf/core/config.hpp>

namespace mtf {
inline namespace v0 {

/// A value and its derivative with respect to one input: evaluating a function on duals differentiates it.
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
    return {a.value * b.value, a.slope * b.value + a.value * b.slope};
  }
  MTF_FUNCTION friend constexpr Dual operator/(Dual a, Dual b) {
    const T quotient = a.value / b.value;
    return {quotient, (a.slope - quotient * b.slope) / b.value};
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
    if (!(x > 0)) return x == 0 ? x : T(0) / T(0);
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
template <class T>
  requires std::is_arithmetic_v<T>
MTF_FUNCTION constexpr T abs(T a) {
  return a < 0 ? -a : a;
}

template <class T>
MTF_FUNCTION Dual<T> exp(Dual<T> x) {
  const T y = std::exp(x.value);
  return {y, y * x.slope};
}
template <class T>
MTF_FUNCTION Dual<T> log(Dual<T> x) {
  return {std::log(x.value), x.slope / x.value};
}
template <class T>
MTF_FUNCTION Dual<T> log1p(Dual<T> x) {
  return {std::log1p(x.value), x.slope / (1 + x.value)};
}
template <class T>
MTF_FUNCTION Dual<T> expm1(Dual<T> x) {
  return {std::expm1(x.value), std::exp(x.value) * x.slope};
}
/// A slope that does not move an argument does not ask for its derivative: x^2 has a slope at x < 0, where log x has no
/// value. At x = 0 the slope in the exponent is 0.
template <class T>
MTF_FUNCTION Dual<T> pow(Dual<T> x, Dual<T> y) {
  const T value = std::pow(x.value, y.value);
  T slope = 0;
  if (x.slope != 0 && y.value != 0) slope += x.slope * y.value * std::pow(x.value, y.value - 1);
  if (y.slope != 0 && x.value != 0) slope += y.slope * value * std::log(x.value);
  return {value, slope};
}
/// Where it is flat the slope is 0, also if x runs to infinity faster than it gets there.
template <class T>
MTF_FUNCTION Dual<T> tanh(Dual<T> x) {
  const T y = std::tanh(x.value);
  const T slope = 1 - y * y;
  return {y, slope == T(0) ? T(0) : slope * x.slope};
}
template <class T>
MTF_FUNCTION Dual<T> sin(Dual<T> x) {
  return {std::sin(x.value), std::cos(x.value) * x.slope};
}
template <class T>
MTF_FUNCTION Dual<T> cos(Dual<T> x) {
  return {std::cos(x.value), -std::sin(x.value) * x.slope};
}
template <class T>
MTF_FUNCTION Dual<T> sqrt(Dual<T> x) {
  const T y = std::sqrt(x.value);
  return {y, x.slope / (2 * y)};
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
  return {x.value < 0 ? -x.value : x.value, sign * x.slope};
}

}  // namespace v0
}  // namespace mtf
