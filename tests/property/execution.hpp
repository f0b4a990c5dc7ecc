// What runs random programs: arrays of a world from drawn numbers and back, losses, and how near is near enough.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <optional>

#include "program.hpp"

namespace property {

using Host = std::vector<double>;

inline std::vector<Kind> all_kinds() {
  std::vector<Kind> all;
  for (const std::span<const Kind> family :
       {contractions(), elementwise(), reductions(), movements(), selections(), windows(), noise(), pending()}) {
    all.insert(all.end(), family.begin(), family.end());
  }
  return all;
}

/// The dim that sums are outstanding over.
inline constexpr std::string_view outstanding = "z";

/// Calls f with an object of the element type.
template <class F>
auto dispatch(ElementType type, const F& f) {
  switch (type) {
    case ElementType::float32: return f(float{});
    case ElementType::float64: return f(double{});
    case ElementType::int32: return f(std::int32_t{});
    case ElementType::int64: return f(std::int64_t{});
    case ElementType::bfloat16: return f(mtf::bfloat16{});
    case ElementType::boolean: break;
  }
  return f(std::uint8_t{});  // a bool is held in a byte
}

/// A number of Content::special; `odd` is the percentage of NaN, and that of infinities.
inline double special_number(Draw& draw, int odd_nan, int odd_infinity) {
  if (draw.chance(odd_nan)) return std::nan("");
  const double sign = draw.chance(50) ? 1 : -1;
  if (draw.chance(odd_infinity)) return sign * HUGE_VAL;
  switch (draw.number(0, 5)) {
    case 0: return sign * std::ldexp(1.0, static_cast<int>(draw.number(60, 100)));
    case 1: return draw.normal();
    case 2: return sign;
    default: return sign * 0.0;
  }
}
/// One of Content::halves: a number of 8 bits, half of its last one, and what a rounding to float may lose.
inline double half_way(Draw& draw) {
  const auto eight_bits = static_cast<double>(draw.number(128, 255));
  const double near = draw.of({0.0, 0x1p-40, -0x1p-40, 0x1p-12, -0x1p-12});
  return (draw.chance(50) ? 1 : -1) * std::ldexp(eight_bits + 0.5 + near, static_cast<int>(draw.number(-12, -4)));
}
/// Numbers that are elements of the type.
inline Host draw_elements(Draw& draw, const Input& input) {
  Host elements(static_cast<std::size_t>(mtf::size_of(input.shape)));
  const bool whole = input.content == Content::integers || !is_floating(input.type);
  const bool special = input.content == Content::special && !whole;
  const int odd_nan = special ? draw.of({0, 4, 25}) : 0;
  const int odd_infinity = special ? draw.of({0, 5, 25}) : 0;
  for (double& element : elements) {
    if (whole) {
      element = static_cast<double>(draw.number(input.low, input.high));
      continue;
    }
    const double number = special                            ? special_number(draw, odd_nan, odd_infinity)
                          : input.content == Content::far    ? 1000 * draw.normal()
                          : input.content == Content::halves ? half_way(draw)
                                                             : draw.normal();
    element = dispatch(input.type, [&](auto like) { return static_cast<double>(static_cast<decltype(like)>(number)); });
  }
  return elements;
}
/// A dry run has no elements.
template <class E>
Array array_of(E& engine, const Input& input, const Host& elements) {
  const auto value = mtf::new_value(engine, "test", input.shape, input.type);
  if constexpr (std::same_as<E, Engine>)
    dispatch(input.type, [&](auto like) {
      std::vector<decltype(like)> global;
      for (const double element : elements) global.push_back(static_cast<decltype(like)>(element));
      engine.write_slice(*value->block, value->placement, global.data());
    });
  return {value, {}};
}
inline Host elements_of(Engine& engine, const mtf::Value& value) {
  return dispatch(value.type(), [&](auto like) {
    const auto elements = mtf::detail::gather_to_host<decltype(like)>(engine, value);
    return Host(elements.begin(), elements.end());
  });
}

/// The weight of an output's element in the loss: a number that every floating element type has.
inline double weight(std::size_t output, std::size_t element) {
  const std::uint64_t mixed = (element * 0x9e3779b97f4a7c15U + output * 0xbf58476d1ce4e5b9U) >> 40U;
  return (2 * static_cast<double>(mixed & 31U) - 31) / 16;
}
/// The input with a dim more, where its rule has axes that split no dim of the input: parts that add up to it, all but
/// one of them zeros. Bools are not added.
inline std::optional<Input> in_parts(const mtf::Backend& engine, const Input& input) {
  const mtf::AxisList sum_axes = engine.rules.axes_of(Name(outstanding));
  if (sum_axes.empty() || input.type == ElementType::boolean) return std::nullopt;
  const mtf::AxisSet over = mtf::set_of(sum_axes);
  if (!(over & mtf::place(engine.rules, input.shape).split_axes()).empty()) return std::nullopt;
  Input parts = input;
  parts.shape.push_back({Name(outstanding), engine.rules.mesh.size(over)});
  return parts;
}
inline Host elements_in_parts(const Input& parts, const Host& elements, std::size_t chosen) {
  const auto count = static_cast<std::size_t>(parts.shape[parts.shape.size() - 1].extent);
  Host result(elements.size() * count);
  for (std::size_t i = 0; i < elements.size(); ++i) result[i * count + chosen % count] = elements[i];
  return result;
}
/// The array of an input: a partial sum, if the layout has it so.
template <class E>
Array outstanding_array_of(E& engine, const Input& input, const Host& elements, std::size_t chosen) {
  const std::optional<Input> parts = in_parts(engine, input);
  if (!parts) return array_of(engine, input, elements);
  const Array whole = array_of(engine, *parts, elements_in_parts(*parts, elements, chosen));
  Array sum;
  dispatch(input.type, [&](auto like) {
    using T = decltype(like);
    if constexpr (!std::same_as<T, std::uint8_t>) {
      sum = mtf::untyped::reduce_sum<E, T>(engine, whole, input.shape, 1, "reduce_sum");
    }
  });
  return sum;
}

/// Its gradient is the weights: outstanding sums of them, if the layout has it so.
template <class T, class E>
Array weighted_sum(E& engine, const Array& y, std::size_t output) {
  const Input like{y.value->placement.shape(), type_of<T>};
  Host weights(static_cast<std::size_t>(mtf::size_of(like.shape)));
  for (std::size_t i = 0; i < weights.size(); ++i) weights[i] = weight(output, i);
  if (const std::optional<Input> parts = in_parts(engine, like)) {
    const std::array<Array, 2> factors{y, array_of(engine, *parts, elements_in_parts(*parts, weights, output))};
    return mtf::untyped::einsum<E, T>(engine, factors, {});
  }
  const std::array<Array, 2> factors{y, array_of(engine, like, weights)};
  return mtf::untyped::reduce_sum<E, T>(
      engine, mtf::untyped::map<E, T, T>(engine, "multiply", mtf::functions::Multiply{}, factors), {}, 1, "reduce_sum");
}

inline double roundoff(ElementType type) {
  if (type == ElementType::float64) return 0x1p-53;
  return is_floating(type) ? 0x1p-24 : 0;  // bfloat16 is computed in float
}
/// Of rounding to the element type what was computed in float, relative: the result, and each rank's part of a pending
/// sum.
inline double rounding(ElementType type) { return type == ElementType::bfloat16 ? 0x1p-8 : 0; }

/// What is lost at the lower end of the type's range, where numbers have fewer bits.
inline double underflow(ElementType type) {
  return type == ElementType::float64 ? 0x1p-1020 : is_floating(type) ? 0x1p-124 : 0;
}

/// Elementary functions and products are several roundings.
inline constexpr double slack = 4;
inline double largest(const Host& x) {
  double result = 0;
  for (const double element : x) {
    if (std::isfinite(element)) result = std::max(result, std::abs(element));
  }
  return result;
}

/// Whether all elements agree within tolerance(element); infinities are no tolerance for others.
template <class Tolerance>
bool agree(const Host& got, const Host& expected, const Tolerance& tolerance) {
  if (got.size() != expected.size()) return false;
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (got[i] == expected[i] || (std::isnan(got[i]) && std::isnan(expected[i]))) continue;
    if (!std::isfinite(got[i]) || !std::isfinite(expected[i])) return false;
    if (!(std::abs(got[i] - expected[i]) <= tolerance(i))) return false;
  }
  return true;
}

inline std::uint64_t from_environment(const char* name, std::uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

/// The number of the first program and graph, printed once.
inline std::uint64_t first_number() {
  static const std::uint64_t start = [] {
    const std::uint64_t number = from_environment("MTF_PROPERTY_START", 0);
    if (support::rank_of_process() == 0) fmt::print("random programs from MTF_PROPERTY_START={}\n", number);
    return number;
  }();
  return start;
}

}  // namespace property
