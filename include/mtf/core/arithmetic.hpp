// Arithmetic without undefined behaviour: integers wrap around, conversions to them saturate.
#pragma once

#include <limits>
#include <type_traits>

#include <mtf/core/config.hpp>

namespace mtf {
inline namespace v0 {
namespace detail {

/// Integers that C++ lets overflow only at the price of undefined behaviour.
template <class X>
inline constexpr bool wraps = std::is_integral_v<X> && !std::is_same_v<X, bool>;

// Modulo 2^bits, as two's complement has it and as NumPy and PyTorch do: through the unsigned type. Other types as
// ever.
template <class X>
MTF_FUNCTION constexpr X sum_of(const X& a, const X& b) {
  if constexpr (wraps<X>) {
    using U = std::make_unsigned_t<X>;
    return static_cast<X>(static_cast<U>(a) + static_cast<U>(b));
  } else {
    return static_cast<X>(a + b);
  }
}
template <class X>
MTF_FUNCTION constexpr X difference_of(const X& a, const X& b) {
  if constexpr (wraps<X>) {
    using U = std::make_unsigned_t<X>;
    return static_cast<X>(static_cast<U>(a) - static_cast<U>(b));
  } else {
    return static_cast<X>(a - b);
  }
}
template <class X>
MTF_FUNCTION constexpr X product_of(const X& a, const X& b) {
  if constexpr (wraps<X>) {
    using U = std::make_unsigned_t<X>;
    return static_cast<X>(static_cast<U>(a) * static_cast<U>(b));
  } else {
    return static_cast<X>(a * b);
  }
}

/// x as a To. A floating-point number outside of an integer type becomes its nearest end, NaN becomes 0; integers are
/// taken modulo 2^bits; floating-point numbers are rounded to nearest, beyond the largest to infinity. Without
/// branches: the number that is converted is in range always.
template <class To, class From>
MTF_FUNCTION constexpr To converted(const From& x) {
  if constexpr (wraps<To> && std::is_floating_point_v<From>) {
    constexpr To least = std::numeric_limits<To>::min();
    constexpr To largest = std::numeric_limits<To>::max();
    constexpr From low = static_cast<From>(least);  // a power of 2
    constexpr From high = -low;
    constexpr int unused_bits = std::numeric_limits<To>::digits - std::numeric_limits<From>::digits;
    constexpr To below_high = unused_bits > 0 ? static_cast<To>(largest >> unused_bits << unused_bits) : largest;
    const From from_low = x >= low ? x : low;
    const From within = from_low < high ? from_low : static_cast<From>(below_high);
    const To whole = static_cast<To>(within);
    const To saturated = x >= high ? largest : whole;
    return x == x ? saturated : To(0);
  } else {
    return static_cast<To>(x);
  }
}

}  // namespace detail
}  // namespace v0
}  // namespace mtf
