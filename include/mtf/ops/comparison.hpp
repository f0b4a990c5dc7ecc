// Comparisons and logical operations, element by element.
#pragma once

#include <mtf/ops/number.hpp>

namespace mtf {
inline namespace v0 {

namespace functions {

struct Less {
  template <class X>
  MTF_FUNCTION constexpr bool operator()(const X& a, const X& b) const {
    return a < b;
  }
};
struct Greater {
  template <class X>
  MTF_FUNCTION constexpr bool operator()(const X& a, const X& b) const {
    return a > b;
  }
};
struct LessEqual {
  template <class X>
  MTF_FUNCTION constexpr bool operator()(const X& a, const X& b) const {
    return a <= b;
  }
};
struct GreaterEqual {
  template <class X>
  MTF_FUNCTION constexpr bool operator()(const X& a, const X& b) const {
    return a >= b;
  }
};
struct Equal {
  template <class X>
  MTF_FUNCTION constexpr bool operator()(const X& a, const X& b) const {
    return a == b;
  }
};
struct NotEqual {
  template <class X>
  MTF_FUNCTION constexpr bool operator()(const X& a, const X& b) const {
    return a != b;
  }
};
struct LogicalAnd {
  MTF_FUNCTION constexpr bool operator()(bool a, bool b) const { return a && b; }
};
struct LogicalOr {
  MTF_FUNCTION constexpr bool operator()(bool a, bool b) const { return a || b; }
};
struct LogicalNot {
  MTF_FUNCTION constexpr bool operator()(bool a) const { return !a; }
};

}  // namespace functions

// Bool tensors, element-wise and broadcasting by name; one of the two may be a host number. Comparisons with NaN are
// false, except not_equal. No communication; a sum is completed first. A bool has no gradient.

/// x < y.
template <class X, class Y>
  requires operands_or_number<X, Y>
constexpr auto less(const X& x, const Y& y) {
  return detail::map_pair(detail::fitting_pair<X, Y>{}, "less", functions::Less{}, x, y);
}
/// x > y.
template <class X, class Y>
  requires operands_or_number<X, Y>
constexpr auto greater(const X& x, const Y& y) {
  return detail::map_pair(detail::fitting_pair<X, Y>{}, "greater", functions::Greater{}, x, y);
}
/// x <= y.
template <class X, class Y>
  requires operands_or_number<X, Y>
constexpr auto less_equal(const X& x, const Y& y) {
  return detail::map_pair(detail::fitting_pair<X, Y>{}, "less_equal", functions::LessEqual{}, x, y);
}
/// x >= y.
template <class X, class Y>
  requires operands_or_number<X, Y>
constexpr auto greater_equal(const X& x, const Y& y) {
  return detail::map_pair(detail::fitting_pair<X, Y>{}, "greater_equal", functions::GreaterEqual{}, x, y);
}
/// x == y.
template <class X, class Y>
  requires operands_or_number<X, Y>
constexpr auto equal(const X& x, const Y& y) {
  return detail::map_pair(detail::fitting_pair<X, Y>{}, "equal", functions::Equal{}, x, y);
}
/// x != y.
template <class X, class Y>
  requires operands_or_number<X, Y>
constexpr auto not_equal(const X& x, const Y& y) {
  return detail::map_pair(detail::fitting_pair<X, Y>{}, "not_equal", functions::NotEqual{}, x, y);
}
/// Both; bool tensors.
template <operand X, operand Y>
constexpr auto logical_and(const X& x, const Y& y) {
  if constexpr (!std::same_as<element_of<X>, bool> && !any_poisoned<X, Y>) {
    return poisoned(not_boolean<element_of<X>>{});
  } else {
    return detail::map_checked(detail::checked<X, Y>{}, "logical_and", functions::LogicalAnd{}, x, y);
  }
}
/// At least one; bool tensors.
template <operand X, operand Y>
constexpr auto logical_or(const X& x, const Y& y) {
  if constexpr (!std::same_as<element_of<X>, bool> && !any_poisoned<X, Y>) {
    return poisoned(not_boolean<element_of<X>>{});
  } else {
    return detail::map_checked(detail::checked<X, Y>{}, "logical_or", functions::LogicalOr{}, x, y);
  }
}
/// The other of true and false.
template <operand X>
constexpr auto logical_not(const X& x) {
  return detail::map_if(detail::boolean<X>{}, "logical_not", functions::LogicalNot{}, x);
}

}  // namespace v0
}  // namespace mtf
