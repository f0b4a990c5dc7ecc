// Element types of tensors.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include <mtf/core/bfloat16.hpp>

namespace mtf {
inline namespace v0 {

enum class ElementType : std::uint8_t { float32, float64, int32, int64, boolean, bfloat16 };

template <class T>
struct element_type_of;  // not defined: T cannot be an element of a tensor
template <>
struct element_type_of<float> {
  static constexpr ElementType value = ElementType::float32;
};
template <>
struct element_type_of<double> {
  static constexpr ElementType value = ElementType::float64;
};
template <>
struct element_type_of<std::int32_t> {
  static constexpr ElementType value = ElementType::int32;
};
template <>
struct element_type_of<std::int64_t> {
  static constexpr ElementType value = ElementType::int64;
};
template <>
struct element_type_of<bool> {
  static constexpr ElementType value = ElementType::boolean;
};

template <>
struct element_type_of<bfloat16> {
  static constexpr ElementType value = ElementType::bfloat16;
};

/// What a tensor may hold: float, double, bfloat16, std::int32_t, std::int64_t, bool.
template <class T>
concept element = requires { element_type_of<T>::value; };

/// An element type with gradients: float, double, bfloat16.
template <class T>
concept floating = element<T> && std::floating_point<computed<T>>;

/// Bytes of an element, in the order of ElementType.
inline constexpr std::int64_t element_sizes[] = {4, 8, 4, 8, 1, 2};
[[nodiscard]] constexpr std::int64_t bytes_of(ElementType type) { return element_sizes[static_cast<int>(type)]; }

[[nodiscard]] constexpr std::string_view name_of(ElementType type) {
  switch (type) {
    case ElementType::float32: return "float";
    case ElementType::float64: return "double";
    case ElementType::int32: return "int32";
    case ElementType::int64: return "int64";
    case ElementType::boolean: return "bool";
    case ElementType::bfloat16: return "bfloat16";
  }
  return {};
}

/// How a reduction or an allreduce combines elements. NaN propagates through max and min.
enum class Combine : std::uint8_t { sum, max, min, logical_and, logical_or };

[[nodiscard]] constexpr std::string_view name_of(Combine combine) {
  switch (combine) {
    case Combine::sum: return "sum";
    case Combine::max: return "max";
    case Combine::min: return "min";
    case Combine::logical_and: return "and";
    case Combine::logical_or: return "or";
  }
  return {};
}

}  // namespace v0
}  // namespace mtf
