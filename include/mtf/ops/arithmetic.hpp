// Arithmetic with broadcasting by name.
#pragma once

#include <mtf/ops/number.hpp>

namespace mtf {
inline namespace v0 {

/// Function objects for `map`; each also has a free function. Add and Subtract are in tensor/form.hpp.
namespace functions {

struct Multiply {
  template <class X>
  MTF_FUNCTION constexpr X operator()(const X& a, const X& b) const {
    return static_cast<X>(a * b);
  }
};
struct Divide {
  template <class X>
  MTF_FUNCTION constexpr X operator()(const X& a, const X& b) const {
    return static_cast<X>(a / b);
  }
};
struct Maximum {
  template <class X>
  MTF_FUNCTION constexpr X operator()(const X& a, const X& b) const {
    return max(a, b);
  }
};
struct Minimum {
  template <class X>
  MTF_FUNCTION constexpr X operator()(const X& a, const X& b) const {
    return min(a, b);
  }
};
struct AddScalar {
  double term;
  template <class X>
  MTF_FUNCTION constexpr X operator()(const X& x) const {
    return x + static_cast<X>(term);
  }
};
struct Reciprocal {
  template <class X>
  MTF_FUNCTION constexpr X operator()(const X& x) const {
    return X(1) / x;
  }
};
struct SquaredDifference {
  template <class X>
  MTF_FUNCTION constexpr X operator()(const X& a, const X& b) const {
    return static_cast<X>((a - b) * (a - b));
  }
};

}  // namespace functions

template <class Dividend, class Divisor>
struct division_of_integers {
  static_assert(
      always_false<Dividend>,
      "mtf: a tensor of integers is not divided by a number, nor a number by it; write cast<float>(x) / c, then "
      "cast back if integers are wanted (which rounds towards zero)");
};

namespace detail {
template <class X>
inline constexpr bool divisible = floating<element_of<X>>;
}  // namespace detail

/// x + y, x - y, x * y, x / y: element-wise on tensors that broadcast by name (see `broadcast_shape`). Sums and
/// differences of tensors pending over the same axes stay pending. No communication otherwise.
template <operand X, operand Y>
constexpr auto operator+(const X& x, const Y& y) {
  static_assert(detail::counts<X> && detail::counts<Y>, "mtf: " MTF_RULE_SUM_OF_BOOL);
  return detail::map_checked(detail::checked<X, Y>{}, "add", functions::Add{}, x, y);
}
/// x - y, broadcasting; stays pending as a sum does. Gradients: g and -g, summed to the operands' dims.
template <operand X, operand Y>
constexpr auto operator-(const X& x, const Y& y) {
  static_assert(detail::counts<X> && detail::counts<Y>, "mtf: " MTF_RULE_SUM_OF_BOOL);
  return detail::map_checked(detail::checked<X, Y>{}, "subtract", functions::Subtract{}, x, y);
}
/// x * y element by element, broadcasting; completes pending operands. Gradients: g y and g x, summed to the operands'
/// dims. For a product that sums dims out take einsum.
template <operand X, operand Y>
constexpr auto operator*(const X& x, const Y& y) {
  return detail::map_checked(detail::checked<X, Y>{}, "multiply", functions::Multiply{}, x, y);
}
/// x / y element by element, broadcasting; completes pending operands. Gradients: g / y and -g x / y^2. Integers are
/// rounded towards zero and must not be divided by 0, as in C++: floor_divide takes any.
template <operand X, operand Y>
constexpr auto operator/(const X& x, const Y& y) {
  return detail::map_checked(detail::checked<X, Y>{}, "divide", functions::Divide{}, x, y);
}

/// Arithmetic with a host number, which is converted to the element type. Scaling keeps a sum pending.
template <operand X, scalar C>
constexpr auto operator*(const X& x, C c) {
  if constexpr (!any_poisoned<X>) {
    constexpr bool fits = floating<element_of<X>> || std::integral<C>;
    static_assert(fits,
                  "mtf: an integer tensor times a floating-point number would lose the fraction; cast<float>(x) first");
  }
  return detail::map_named("scale", detail::Scale{static_cast<double>(c)}, x);
}
template <operand X, scalar C>
constexpr auto operator*(C c, const X& x) {
  return x * c;
}
template <operand X, scalar C>
constexpr auto operator/(const X& x, C c) {
  if constexpr (detail::divisible<X>) {
    return x * (1.0 / static_cast<double>(c));
  } else {
    return poisoned(division_of_integers<element_of<X>, C>{});
  }
}
template <operand X, scalar C>
constexpr auto operator/(C c, const X& x) {
  if constexpr (detail::divisible<X>) {
    return detail::map_named("reciprocal", functions::Reciprocal{}, x) * c;
  } else {
    return poisoned(division_of_integers<C, element_of<X>>{});
  }
}
template <operand X, scalar C>
constexpr auto operator+(const X& x, C c) {
  return detail::map_named("add", functions::AddScalar{static_cast<double>(c)}, x);
}
template <operand X, scalar C>
constexpr auto operator+(C c, const X& x) {
  return x + c;
}
template <operand X, scalar C>
constexpr auto operator-(const X& x, C c) {
  return x + -static_cast<double>(c);
}
template <operand X, scalar C>
constexpr auto operator-(C c, const X& x) {
  return x * -1 + c;
}
/// -x. A sum stays pending.
template <operand X>
constexpr auto operator-(const X& x) {
  return x * -1;
}

/// 1 / x; float or double.
template <operand X>
constexpr auto reciprocal(const X& x) {
  return detail::map_if(detail::real<X>{}, "reciprocal", functions::Reciprocal{}, x);
}
/// -x. A sum stays pending.
template <operand X>
constexpr auto negative(const X& x) {
  return -x;
}
/// (x - y)^2, broadcasting.
template <operand X, operand Y>
constexpr auto squared_difference(const X& x, const Y& y) {
  return detail::map_checked(detail::checked<X, Y>{}, "squared_difference", functions::SquaredDifference{}, x, y);
}

/// The larger of x and y, broadcasting; at a tie both have the full gradient, summed to their dims. NaN propagates. One
/// of the two may be a host number.
template <operand X, operand Y>
constexpr auto maximum(const X& x, const Y& y) {
  return detail::map_checked(detail::checked<X, Y>{}, "maximum", functions::Maximum{}, x, y);
}
template <operand X, scalar C>
constexpr auto maximum(const X& x, C c) {
  return detail::map_right(detail::fitting<X, C>{}, "maximum", functions::Maximum{}, x, c);
}
template <operand X, scalar C>
constexpr auto maximum(C c, const X& x) {
  return maximum(x, c);
}
/// The smaller of x and y; see maximum.
template <operand X, operand Y>
constexpr auto minimum(const X& x, const Y& y) {
  return detail::map_checked(detail::checked<X, Y>{}, "minimum", functions::Minimum{}, x, y);
}
template <operand X, scalar C>
constexpr auto minimum(const X& x, C c) {
  return detail::map_right(detail::fitting<X, C>{}, "minimum", functions::Minimum{}, x, c);
}
template <operand X, scalar C>
constexpr auto minimum(C c, const X& x) {
  return minimum(x, c);
}

}  // namespace v0
}  // namespace mtf
