// Arithmetic with broadcasting by name.
#pragma once

#include <mtf/ops/number.hpp>

namespace mtf {
inline namespace v0 {

// Of floating-point numbers as IEEE 754 has it. Integers wrap around where they overflow: sums, differences, products
// and squares are those modulo 2^bits, and the negative of the least integer is the integer itself.

/// Function objects for `map`; each also has a free function. Add and Subtract are in tensor/form.hpp.
namespace functions {

struct Multiply {
  template <class X>
  MTF_FUNCTION constexpr X operator()(const X& a, const X& b) const {
    return detail::product_of(a, b);
  }
  template <class X>
  MTF_FUNCTION constexpr X partial(int argument, const X& a, const X& b) const {
    return argument == 0 ? b : a;
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
    const X difference = detail::difference_of(a, b);
    return detail::product_of(difference, difference);
  }
};

}  // namespace functions

template <class Dividend, class Divisor>
struct division_of_integers {
  static_assert(
      always_false<Dividend>,
      "mtf: integers are not divided by the operator /; write floor_divide(x, y), or cast<float>(x) / y and cast back "
      "if integers are wanted (which rounds towards zero)");
};

namespace detail {
template <class X>
inline constexpr bool divisible = floating<element_of<X>>;

/// x divided by a number: not a product with its inverse, which is rounded twice and may overflow.
struct Quotient {
  static constexpr bool linear = true;
  double divisor;
  [[nodiscard]] constexpr double coefficient(int) const { return 1 / divisor; }
  template <class X>
  MTF_FUNCTION constexpr X operator()(const X& x) const {
    return x / static_cast<X>(divisor);
  }
};

/// What a kernel takes as the number in arithmetic with elements of type T.
template <class T>
using number_for = std::conditional_t<floating<T>, double, T>;
/// The number as that; `number_as` says when it is none.
template <class T, class C>
[[nodiscard]] constexpr number_for<T> number_of(const char* name, C c) {
  if constexpr (floating<T>) {
    return static_cast<double>(c);
  } else {
    return number_as<T>(name, c);
  }
}
}  // namespace detail

/// x + y element by element, of tensors that broadcast by name (see `broadcast_shape`). A sum of tensors pending over
/// the same axes stays pending. No communication otherwise. Gradients: g, summed to the operands' dims.
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
/// x / y of floating-point elements, broadcasting; completes pending operands. Gradients: g / y and -g x / y^2. For
/// integers there is floor_divide.
template <operand X, operand Y>
constexpr auto operator/(const X& x, const Y& y) {
  if constexpr (any_poisoned<X, Y>) {
    return poisoned{};
  } else if constexpr (detail::divisible<X>) {
    return detail::map_checked(detail::checked<X, Y>{}, "divide", functions::Divide{}, x, y);
  } else {
    return poisoned(division_of_integers<element_of<X>, element_of<Y>>{});
  }
}

/// Arithmetic with a host number, which is converted to the element type. An integer tensor takes no fraction, and a
/// number that is no element of it is an exception. Scaling keeps a sum pending.
template <operand X, scalar C>
constexpr auto operator*(const X& x, C c) {
  static_assert(detail::counts<X>, "mtf: " MTF_RULE_SUM_OF_BOOL);
  using Fit = detail::fitting<X, C>;
  if constexpr (!std::same_as<Fit, detail::Checked>) {
    return poisoned(Fit{});
  } else {
    return detail::map_named("scale", detail::Scale{detail::number_of<element_of<X>>("scale", c)}, x);
  }
}
template <operand X, scalar C>
constexpr auto operator*(C c, const X& x) {
  return x * c;
}
/// A tensor of float or double divided by a number, or a number by it. The quotient of a pending sum stays pending.
template <operand X, scalar C>
constexpr auto operator/(const X& x, C c) {
  if constexpr (detail::divisible<X>) {
    return detail::map_named("divide", detail::Quotient{static_cast<double>(c)}, x);
  } else {
    return poisoned(division_of_integers<element_of<X>, C>{});
  }
}
template <operand X, scalar C>
constexpr auto operator/(C c, const X& x) {
  if constexpr (detail::divisible<X>) {
    // Not the reciprocal times c, which is rounded twice and may overflow.
    return detail::map_named("divide", detail::WithLeft<functions::Divide, double>{{}, static_cast<double>(c)}, x);
  } else {
    return poisoned(division_of_integers<C, element_of<X>>{});
  }
}
template <operand X, scalar C>
constexpr auto operator+(const X& x, C c) {
  static_assert(detail::counts<X>, "mtf: " MTF_RULE_SUM_OF_BOOL);
  using Fit = detail::fitting<X, C>;
  if constexpr (std::same_as<Fit, detail::Checked> && floating<element_of<X>>) {
    return detail::map_named("add", functions::AddScalar{static_cast<double>(c)}, x);
  } else {
    return detail::map_right(Fit{}, "add", functions::Add{}, x, c);
  }
}
template <operand X, scalar C>
constexpr auto operator+(C c, const X& x) {
  return x + c;
}
template <operand X, scalar C>
constexpr auto operator-(const X& x, C c) {
  static_assert(detail::counts<X>, "mtf: " MTF_RULE_SUM_OF_BOOL);
  using Fit = detail::fitting<X, C>;
  if constexpr (std::same_as<Fit, detail::Checked> && floating<element_of<X>>) {
    return x + -static_cast<double>(c);
  } else {
    return detail::map_right(Fit{}, "subtract", functions::Subtract{}, x, c);
  }
}
template <operand X, scalar C>
constexpr auto operator-(C c, const X& x) {
  static_assert(detail::counts<X>, "mtf: " MTF_RULE_SUM_OF_BOOL);
  using Fit = detail::fitting<X, C>;
  if constexpr (std::same_as<Fit, detail::Checked> && floating<element_of<X>>) {
    return x * -1 + c;
  } else {
    return detail::map_left(Fit{}, "subtract", functions::Subtract{}, c, x);
  }
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

/// x, but at least `low` and at most `high`, which are tensors or host numbers; the gradient where a bound holds is the
/// bound's, at ties both have it (see maximum). Throws if a number is NaN, or both are numbers and low > high.
template <operand X, class Low, class High>
constexpr auto clip(const X& x, const Low& low, const High& high) {
  if constexpr (scalar<Low>) {
    detail::require_parameter("clip", "low", static_cast<double>(low), low == low, "a number");
    if constexpr (scalar<High>) {
      detail::require_parameter("clip", "high", static_cast<double>(high),
                                !(static_cast<double>(high) < static_cast<double>(low)), "no less than low");
    }
  }
  if constexpr (scalar<High>)
    detail::require_parameter("clip", "high", static_cast<double>(high), high == high, "a number");
  return minimum(maximum(x, low), high);
}
/// The sum of tensors that broadcast by name, from the left.
template <operand X, operand... Xs>
constexpr auto add_n(const X& x, const Xs&... xs) {
  return (x + ... + xs);
}

}  // namespace v0
}  // namespace mtf
