// Element-wise functions of a tensor and a host number.
#pragma once

#include <mtf/ops/map.hpp>

namespace mtf {
inline namespace v0 {

/// A number of the host's, bool among them, that an operation converts to the element type of its tensor.
template <class X>
concept scalar = std::is_arithmetic_v<std::remove_cvref_t<X>>;

/// Two tensors, or a tensor and a host number in either order.
template <class X, class Y>
concept operands_or_number = (operand<X> && (operand<Y> || scalar<Y>)) || (scalar<X> && operand<Y>);

template <class Element, class Number>
struct number_loses_fraction {
  static_assert(
      always_false<Element>,
      "mtf: an integer tensor and a floating-point number would lose the fraction; cast<float>(x) first, or give "
      "an integer");
};
template <class Element>
struct not_floating {
  static_assert(always_false<Element>, "mtf: this function takes float or double; convert with cast<float>(x)");
};
template <class Element>
struct not_boolean {
  static_assert(always_false<Element>, "mtf: a logical operation takes bool; compare first, as in not_equal(x, 0)");
};

namespace detail {

/// The number as the second or the first argument of a function of two.
template <class F, class T>
struct WithRight {
  F f;
  T number;
  static constexpr bool has_gradient = !without_gradient<F>;
  template <class X>
  MTF_FUNCTION constexpr auto operator()(const X& x) const {
    return f(x, static_cast<X>(number));
  }
};
template <class F, class T>
struct WithLeft {
  F f;
  T number;
  static constexpr bool has_gradient = !without_gradient<F>;
  template <class X>
  MTF_FUNCTION constexpr auto operator()(const X& x) const {
    return f(static_cast<X>(number), x);
  }
};

// As `checked`: an object of the type stops the compiler, in the body of the public function.
template <class X, class C>
using fitting =
    std::conditional_t<floating<element_of<X>> || std::integral<C>, Checked, number_loses_fraction<element_of<X>, C>>;
template <class X>
using real = std::conditional_t<floating<element_of<X>>, Checked, not_floating<element_of<X>>>;
template <class X>
using boolean =
    std::conditional_t<std::same_as<element_of<X>, bool> || any_poisoned<X>, Checked, not_boolean<element_of<X>>>;

// Of two tensors, whether they go together; of a tensor and a number, whether the number fits.
template <class X, class Y>
struct PairCheck {
  using type = checked<X, Y>;
};
template <operand X, scalar C>
struct PairCheck<X, C> {
  using type = fitting<X, C>;
};
template <scalar C, operand X>
struct PairCheck<C, X> {
  using type = fitting<X, C>;
};
template <class X, class Y>
using fitting_pair = typename PairCheck<X, Y>::type;

/// The number as an element. An integer that the element type does not hold is an error: it would silently be another
/// one.
template <class T, class C>
[[nodiscard]] constexpr T number_as(const char* name, C c) {
  const T number = static_cast<T>(c);
  if constexpr (std::integral<T>) {
    if (static_cast<C>(number) != c || (number < T(0)) != (c < C(0))) {
      raise(name, "the number " + std::to_string(c) + " is no element of a tensor of " +
                      std::string(name_of(element_type_of<T>::value)) + "; cast the tensor to a larger type");
    }
  }
  return number;
}

template <class F, class X, class C>
constexpr auto map_right(Checked, const char* name, const F& f, const X& x, C c) {
  using T = element_of<X>;
  return map_named(name, WithRight<F, T>{f, number_as<T>(name, c)}, x);
}
template <class F, class X, class C>
constexpr auto map_left(Checked, const char* name, const F& f, C c, const X& x) {
  using T = element_of<X>;
  return map_named(name, WithLeft<F, T>{f, number_as<T>(name, c)}, x);
}
template <class Reason, class... Ignored>
constexpr poisoned map_right(Reason, const char*, const Ignored&...) {
  return {};
}
template <class Reason, class... Ignored>
constexpr poisoned map_left(Reason, const char*, const Ignored&...) {
  return {};
}

/// f of two tensors, or of a tensor and a number.
template <class F, class X, class Y>
constexpr auto map_pair(Checked, const char* name, const F& f, const X& x, const Y& y) {
  if constexpr (scalar<Y>) {
    return map_right(Checked{}, name, f, x, y);
  } else if constexpr (scalar<X>) {
    return map_left(Checked{}, name, f, x, y);
  } else {
    return map_named(name, f, x, y);
  }
}
template <class Reason, class F, class X, class Y>
constexpr poisoned map_pair(Reason, const char*, const F&, const X&, const Y&) {
  return {};
}

/// f of tensors whose element type was found good (`real`, `boolean`); nothing more to say if it was not.
template <class F, class... Xs>
constexpr auto map_if(Checked, const char* name, const F& f, const Xs&... xs) {
  return map_named(name, f, xs...);
}
template <class Reason, class F, class... Xs>
constexpr poisoned map_if(Reason, const char*, const F&, const Xs&...) {
  return {};
}

}  // namespace detail

}  // namespace v0
}  // namespace mtf
