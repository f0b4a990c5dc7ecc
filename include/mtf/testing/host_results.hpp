// Results of a program as host arrays, whatever it returns; and the first difference between two lists of them.
#pragma once

#include <cmath>
#include <concepts>
#include <cstdint>
#include <ranges>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include <mtf/world/transfer.hpp>

namespace mtf {
inline namespace v0 {

namespace detail {

/// A result of a program: of integers and bools the numbers, of floating-point elements their values.
struct HostResult {
  std::string name;  ///< where it is in what the program returned: "result 1", "result 1.0"
  std::string type;
  std::string dims;
  std::vector<std::int64_t> extents;
  double tolerance = 0;  ///< of its element type, relative to the largest magnitude
  bool is_floating = false;
  std::vector<double> reals;
  std::vector<std::int64_t> integers;

  [[nodiscard]] std::size_t size() const { return is_floating ? reals.size() : integers.size(); }
  [[nodiscard]] std::string at(std::size_t i) const {
    return is_floating ? fmt::format("{:.17g}", reals[i]) : std::to_string(integers[i]);
  }
  [[nodiscard]] std::string index_of(std::size_t i) const {
    std::string text;
    auto rest = static_cast<std::int64_t>(i);
    for (auto extent = extents.rbegin(); extent != extents.rend(); rest /= *extent++)
      text = std::to_string(rest % *extent) + (text.empty() ? "" : ", ") + text;
    return "[" + text + "]";
  }
};
using HostResults = std::vector<HostResult>;

template <class T>
HostResult host_result(std::string name, std::string dims, std::vector<std::int64_t> extents, std::string_view type) {
  HostResult result{.name = std::move(name),
                    .type = std::string(type),
                    .dims = std::move(dims),
                    .extents = std::move(extents),
                    .reals = {},
                    .integers = {}};
  result.is_floating = !std::integral<T>;
  result.tolerance = std::same_as<T, double> ? 1e-12 : std::same_as<T, float> ? 1e-5 : 2e-2;
  return result;
}
template <class T, class Elements>
void append_elements(HostResult& result, const Elements& elements) {
  for (const auto& element : elements) {
    if constexpr (std::integral<T>) {
      result.integers.push_back(static_cast<std::int64_t>(element));
    } else {
      result.reals.push_back(static_cast<double>(element));
    }
  }
}

template <class R>
concept tuple_like = requires { std::tuple_size<R>::value; };
/// What `top_k` and `sort` return.
template <class R>
concept selection_like = requires(const R& r) {
  r.values;
  r.indices;
};

/// Appends what a program returned: tensors, numbers, ranges of numbers, and tuples and ranges of all these.
template <class R>
void append_results(HostResults& all, const std::string& name, const R& result) {
  if constexpr (operand<R>) {
    using T = element_of<R>;
    const ShapeValue shape = array_of(result).value->placement.shape();
    std::vector<std::int64_t> extents;
    for (const DimValue& dim : shape) extents.push_back(dim.extent);
    all.push_back(host_result<T>(name, describe(shape), extents, name_of(element_type_of<T>::value)));
    append_elements<T>(all.back(), to_host(result));
  } else if constexpr (std::is_arithmetic_v<R> || std::same_as<R, bfloat16>) {
    all.push_back(host_result<R>(name, "[]", {}, std::integral<R> ? "an integer" : "a number"));
    append_elements<R>(all.back(), std::vector<R>{result});
  } else if constexpr (selection_like<R>) {
    append_results(all, name + ".0", result.values);
    append_results(all, name + ".1", result.indices);
  } else if constexpr (tuple_like<R>) {
    int position = 0;
    std::apply([&](const auto&... parts) { (append_results(all, fmt::format("{}.{}", name, position++), parts), ...); },
               result);
  } else {
    static_assert(std::ranges::input_range<R>,
                  "mtf: check_layouts: the program returns tensors, numbers, ranges of numbers, or tuples and ranges "
                  "of these");
    using Member = std::ranges::range_value_t<R>;
    if constexpr (std::is_arithmetic_v<Member> || std::same_as<Member, bfloat16>) {
      const auto size = static_cast<std::int64_t>(std::ranges::distance(result));
      all.push_back(host_result<Member>(name, fmt::format("[{}]", size), {size}, "numbers"));
      append_elements<Member>(all.back(), result);
    } else {
      int position = 0;
      for (const Member& part : result) append_results(all, fmt::format("{}.{}", name, position++), part);
    }
  }
}
template <class R>
HostResults results_of_program(const R& result) {
  HostResults all;
  if constexpr (tuple_like<R> && !operand<R>) {
    int position = 0;
    std::apply([&](const auto&... parts) { (append_results(all, fmt::format("result {}", position++), parts), ...); },
               result);
  } else {
    append_results(all, "result", result);
  }
  return all;
}

/// Where two lists of results differ first.
struct FirstDifference {
  std::int64_t result = -1;  ///< -1: nowhere
  std::int64_t element = 0;
  double worst = 0;  ///< largest relative difference of all floating-point elements
  std::string what;

  void at(std::size_t r, std::size_t i, std::string text) {
    if (result >= 0) return;
    result = static_cast<std::int64_t>(r);
    element = static_cast<std::int64_t>(i);
    what = std::move(text);
  }
};

/// Integers must be equal; floating-point elements within the tolerance (below 0: of the element type) of the largest
/// finite magnitude that is expected in the result. Equal infinities, and NaN in both places, are no difference.
[[nodiscard]] inline FirstDifference first_difference(const HostResults& got, const HostResults& expected,
                                                      double tolerance) {
  FirstDifference found;
  for (std::size_t r = 0; r < expected.size(); ++r) {
    const HostResult& want = expected[r];
    if (r >= got.size()) {
      found.at(r, 0, want.name + " is missing");
      break;
    }
    const HostResult& have = got[r];
    if (have.name != want.name || have.type != want.type || have.dims != want.dims) {
      found.at(r, 0,
               fmt::format("{} is {} {}, on one rank {} {}", have.name, have.type, have.dims, want.type, want.dims));
      continue;
    }
    double scale = 0;
    for (const double element : want.reals)
      scale = std::isfinite(element) ? std::fmax(scale, std::abs(element)) : scale;
    const double allowed = (tolerance < 0 ? want.tolerance : tolerance) * scale;
    for (std::size_t i = 0; i < want.size(); ++i) {
      bool same = false;
      if (want.is_floating) {
        const double a = have.reals[i], b = want.reals[i];
        same = a == b || (std::isnan(a) && std::isnan(b));
        if (!same) {
          const double apart = std::isfinite(a) && std::isfinite(b) ? std::abs(a - b) : HUGE_VAL;
          found.worst = std::fmax(found.worst, scale > 0 ? apart / scale : HUGE_VAL);
          same = apart <= allowed;
        }
      } else {
        same = have.integers[i] == want.integers[i];
      }
      if (same) continue;
      found.at(r, i,
               fmt::format("{}, {} {}, element {} is {}, on one rank {}", want.name, want.type, want.dims,
                           want.index_of(i), have.at(i), want.at(i)));
    }
  }
  if (got.size() > expected.size())
    found.at(expected.size(), 0, got[expected.size()].name + " is not there on one rank");
  return found;
}

}  // namespace detail

}  // namespace v0
}  // namespace mtf
