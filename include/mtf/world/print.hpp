// print: formatted output of values, once for the whole world.
#pragma once

#include <cstdio>
#include <string>
#include <type_traits>

#include <fmt/core.h>

#include <mtf/world/transfer.hpp>

namespace mtf {
inline namespace v0 {

namespace detail {

/// A tensor's elements as text, nested by dims: "[[1, 2], [3, 4]]".
template <class T>
std::string elements_text(const std::vector<T>& elements, const ShapeValue& shape, int dim, std::size_t& next) {
  if (dim == shape.size()) return fmt::format("{}", static_cast<computed<T>>(elements[next++]));
  std::string text = "[";
  for (std::int64_t i = 0; i < shape[dim].extent; ++i)
    text += (i > 0 ? ", " : "") + elements_text(elements, shape, dim + 1, next);
  return text + "]";
}

template <class X>
decltype(auto) printable(const X& x) {
  if constexpr (operand<X>) {
    if constexpr (dims_of<X>::size == 0) {
      return static_cast<computed<detail::host_element<element_of<X>>>>(item(x));
    } else {
      std::size_t next = 0;
      return elements_text(to_host(x), array_of(x).value->placement.shape(), 0, next);
    }
  } else {
    return (x);
  }
}

}  // namespace detail

/// Prints on rank 0, in the format of the fmt library; tensors among the arguments are fetched, which is collective:
/// every rank calls it.
template <class World, class... Arguments>
void print(World& world, std::string_view format, const Arguments&... arguments) {
  // Braces fix the order of the collectives.
  const std::tuple<std::decay_t<decltype(detail::printable(arguments))>...> values{detail::printable(arguments)...};
  if (world.rank() != 0) return;
  const std::string text = std::apply(
      [&](const auto&... v) { return fmt::vformat({format.data(), format.size()}, fmt::make_format_args(v...)); },
      values);
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

}  // namespace v0
}  // namespace mtf
