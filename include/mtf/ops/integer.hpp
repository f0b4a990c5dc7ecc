// Division with a whole quotient, and its remainder.
#pragma once

#include <mtf/ops/number.hpp>

namespace mtf {
inline namespace v0 {

namespace functions {

/// The quotient rounded towards minus infinity.
struct FloorDivide {
  static constexpr bool has_gradient = false;
  template <class X>
  MTF_FUNCTION constexpr X operator()(const X& a, const X& b) const {
    if constexpr (std::integral<X>) {
      // The processor traps on these two; a trap on one rank would end the job without a word.
      if (b == X(0)) return X(0);
      if (b == X(-1)) return static_cast<X>(std::make_unsigned_t<X>(0) - static_cast<std::make_unsigned_t<X>>(a));
      const X quotient = static_cast<X>(a / b);
      return static_cast<X>(quotient - (a % b != X(0) && (a < X(0)) != (b < X(0)) ? 1 : 0));
    } else {
      if (b == X(0)) return a / b;
      // From the exact remainder: a / b may round up to the next whole number.
      const X rest = std::fmod(a, b);
      X quotient = (a - rest) / b;
      if (rest != X(0) && (rest < X(0)) != (b < X(0))) quotient -= X(1);
      const X whole = std::floor(quotient);
      const X nearest = quotient - whole > X(0.5) ? whole + X(1) : whole;
      return nearest == X(0) ? std::copysign(nearest, a / b) : nearest;
    }
  }
};
/// The remainder, which has the divisor's sign.
struct Modulo {
  static constexpr bool has_gradient = false;
  template <class X>
  MTF_FUNCTION constexpr X operator()(const X& a, const X& b) const {
    if constexpr (std::integral<X>) {
      if (b == X(0) || b == X(-1)) return X(0);
      const X rest = static_cast<X>(a % b);
      return static_cast<X>(rest != X(0) && (rest < X(0)) != (b < X(0)) ? rest + b : rest);
    } else {
      const X rest = std::fmod(a, b);
      if (rest == X(0)) return std::copysign(X(0), b);
      return (rest < X(0)) != (b < X(0)) ? rest + b : rest;
    }
  }
};

}  // namespace functions

template <class Element>
struct not_divisible {
  static_assert(always_false<Element>,
                "mtf: floor_divide and mod take numbers, not bool; convert with cast<std::int32_t>(x)");
};

namespace detail {
template <class X, class Y>
struct DivisionCheck {
  using type = std::conditional_t<std::same_as<element_of<X>, bool>, not_divisible<element_of<X>>, fitting_pair<X, Y>>;
};
template <scalar C, operand X>
struct DivisionCheck<C, X> : DivisionCheck<X, C> {};
template <class X, class Y>
using dividing = typename DivisionCheck<X, Y>::type;
}  // namespace detail

// Element-wise with Python's rule: the quotient is rounded down and the remainder has the sign of the divisor, so that
// floor_divide(x, y) * y + mod(x, y) is x. Broadcasting; one of the two may be a host number. Integers and floating
// point. An integer divided by 0 gives quotient 0 and remainder 0, the least integer divided by -1 itself and remainder
// 0; a floating-point number divided by 0 an infinity or NaN, and remainder NaN, as an infinity divided by any number
// gives NaN and NaN. No communication; gradients take the result as a constant.

/// The largest whole number not above x / y.
template <class X, class Y>
  requires operands_or_number<X, Y>
constexpr auto floor_divide(const X& x, const Y& y) {
  return detail::map_pair(detail::dividing<X, Y>{}, "floor_divide", functions::FloorDivide{}, x, y);
}
/// x - floor_divide(x, y) * y.
template <class X, class Y>
  requires operands_or_number<X, Y>
constexpr auto mod(const X& x, const Y& y) {
  return detail::map_pair(detail::dividing<X, Y>{}, "mod", functions::Modulo{}, x, y);
}

}  // namespace v0
}  // namespace mtf
