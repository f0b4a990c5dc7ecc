// The n-th largest or smallest element along one dim, which may be split.
#pragma once

#include <mtf/ops/top_k.hpp>

namespace mtf {
inline namespace v0 {

namespace untyped {

template <class E, class T>
[[nodiscard]] constexpr Array nth_element(E& engine, const Array& x, const Name& dim, std::int64_t n, bool largest,
                                          const char* name) {
  mtf::detail::require_open(engine, name);
  const KeptPlacement& from = x.value->placement;
  const PlacedDim& along = from.dims[from.find(dim)];
  require_indices(name, along);
  if (n < 0 || n >= along.extent) {
    raise(name, "n is " + std::to_string(n) + ", dim \"" + std::string(dim.text) + "\" has elements 0 to " +
                    std::to_string(along.extent - 1));
  }
  return select_range<E, T>(engine, x, dim, without(from, dim).shape(), n + 1, n, 1, largest, name).values;
}

}  // namespace untyped

namespace detail {

template <class D, class X>
constexpr auto nth_named(const X& x, std::int64_t n, bool largest, const char* name) {
  if constexpr (any_poisoned<X>) {
    return poisoned{};
  } else {
    constexpr bool known = has_dim<D, X>;
    static_assert(known, "mtf: nth_largest_element, nth_smallest_element: " MTF_RULE_MISSING_DIM);
    if constexpr (!known) {
      return poisoned{};
    } else if constexpr (std::same_as<element_of<X>, bool>) {
      return poisoned(not_ordered<element_of<X>>{});
    } else {
      using E = typename world_of<X>::engine_type;
      return tensor_of<world_of<X>, element_of<X>, dims_without<X, D>>(
          untyped::nth_element<E, element_of<X>>(engine_of(x), array_of(x), D::name, n, largest, name));
    }
  }
}

}  // namespace detail

/// y[rest] = the element at place n, from 0, of the elements along D from the largest to the smallest. Throws unless 0
/// <= n < extent. Order, communication and gradient are those of top_k with k = n + 1.
template <dim_like D, operand X>
constexpr auto nth_largest_element(const X& x, std::int64_t n) {
  return detail::nth_named<D>(x, n, true, "nth_largest_element");
}
/// The same from the smallest to the largest, NaN last.
template <dim_like D, operand X>
constexpr auto nth_smallest_element(const X& x, std::int64_t n) {
  return detail::nth_named<D>(x, n, false, "nth_smallest_element");
}

}  // namespace v0
}  // namespace mtf
