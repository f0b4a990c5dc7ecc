// bfloat16: float without the lower half of its fraction. For storage; all arithmetic is done in float.
#pragma once

#include <bit>
#include <cstdint>
#include <type_traits>

#include <mtf/core/config.hpp>

namespace mtf {
inline namespace v0 {

/// A number of float's range and 8 significant bits. It becomes a float without being asked, exactly; the way back,
/// which rounds to nearest even, is explicit. NaN stays NaN, infinities and denormals keep their values.
struct bfloat16 {
  std::uint16_t bits = 0;

  constexpr bfloat16() = default;
  MTF_FUNCTION explicit constexpr bfloat16(float value) : bits(rounded(std::bit_cast<std::uint32_t>(value))) {}
  template <class T>
    requires std::is_arithmetic_v<T>
  MTF_FUNCTION explicit constexpr bfloat16(T value) : bfloat16(to_odd(static_cast<double>(value))) {}

  [[nodiscard]] MTF_FUNCTION static constexpr bfloat16 from_bits(std::uint16_t bits) {
    bfloat16 result;
    result.bits = bits;
    return result;
  }
  MTF_FUNCTION constexpr operator float() const {
    return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16U);
  }

  /// The next number towards `to`.
  [[nodiscard]] MTF_FUNCTION constexpr bfloat16 next(bfloat16 to) const {
    const float here = *this;
    const float there = to;
    if (here != here || here == there) return *this;
    if (here == 0) return from_bits(there > 0 ? 0x0001U : 0x8001U);
    const bool grows = (there > here) == (here > 0);
    return from_bits(static_cast<std::uint16_t>(grows ? bits + 1 : bits - 1));
  }

 private:
  [[nodiscard]] MTF_FUNCTION static constexpr std::uint16_t rounded(std::uint32_t word) {
    if ((word & 0x7FFFFFFFU) > 0x7F800000U)
      return static_cast<std::uint16_t>(word >> 16U | 0x40U);  // a NaN, made quiet
    return static_cast<std::uint16_t>((word + 0x7FFFU + (word >> 16U & 1U)) >> 16U);
  }
  /// A float that rounds to the same bfloat16 as the double: cut off, with the last bit set if something was.
  [[nodiscard]] MTF_FUNCTION static constexpr float to_odd(double value) {
    const auto single = static_cast<float>(value);
    const auto back = static_cast<double>(single);
    if (back == value || value != value || value - value != 0) return single;  // exact, NaN, infinite
    auto word = std::bit_cast<std::uint32_t>(single);
    if ((back > 0 ? back : -back) > (value > 0 ? value : -value)) --word;
    return std::bit_cast<float>(word | 1U);
  }
};

namespace detail {
template <class T>
struct Computed {
  using type = T;
};
template <>
struct Computed<bfloat16> {
  using type = float;
};
}  // namespace detail

/// The type in which arithmetic on elements of T is done.
template <class T>
using computed = typename detail::Computed<T>::type;

}  // namespace v0
}  // namespace mtf
