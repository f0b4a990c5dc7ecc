// Shape: ordered dims with unique names, as a type and as a value, and the algebra on them.
#pragma once

#include <cstddef>
#include <utility>

#include <mtf/core/dim.hpp>
#include <mtf/core/violation.hpp>

namespace mtf {
inline namespace v0 {

/// Dims as values, in order. Names are unique in the shape of a tensor.
using ShapeValue = InlineVector<DimValue, max_union_rank>;

/// The dims of all operands of an operation together, as its check takes them: more than an operation may have, so that
/// the check sees that they are too many. Filled by `add_dims`, or with all dims as they come.
using UnionValue = InlineVector<DimValue, 2 * max_union_rank>;

/// A list of dims of any capacity, as functions take it. Refers to the list.
struct DimsView {
  const DimValue* items;
  int count;

  template <int Capacity>
  constexpr DimsView(const InlineVector<DimValue, Capacity>& dims) : items(dims.items), count(dims.count) {}

  [[nodiscard]] constexpr int size() const { return count; }
  [[nodiscard]] constexpr const DimValue* begin() const { return items; }
  [[nodiscard]] constexpr const DimValue* end() const { return items + count; }
  constexpr const DimValue& operator[](int i) const { return items[i]; }
};

[[nodiscard]] constexpr int find(const ShapeValue& shape, const Name& name) {
  for (int i = 0; i < shape.count; ++i) {
    if (shape.items[i].name.hash == name.hash && shape.items[i].name == name) return i;
  }
  return -1;
}
[[nodiscard]] constexpr int find(DimsView dims, const Name& name) {
  for (int i = 0; i < dims.count; ++i) {
    if (dims.items[i].name.hash == name.hash && dims.items[i].name == name) return i;
  }
  return -1;
}
[[nodiscard]] constexpr bool contains(const ShapeValue& shape, const Name& name) { return find(shape, name) >= 0; }
[[nodiscard]] constexpr bool contains(DimsView dims, const Name& name) { return find(dims, name) >= 0; }

/// Adds the dims of one operand to those of an operation. A name that is there with the same extent adds nothing to the
/// check; one with another extent is kept, for the check to report. What does not fit is left out: then there are more
/// than `max_union_rank` names or as many unequal extents, and the check finds either.
MTF_NOINLINE constexpr void add_dims(UnionValue& all, DimsView dims) {
  for (const DimValue& dim : dims) {
    const int known = find(DimsView(all), dim.name);
    if ((known < 0 || all.items[known].extent != dim.extent) && !all.full()) all.push_back(dim);
  }
}

/// Number of elements; 1 for a scalar.
[[nodiscard]] constexpr std::int64_t size_of(const ShapeValue& shape) {
  std::int64_t product = 1;
  for (const DimValue& dim : shape) product *= dim.extent;
  return product;
}

/// a's dims, then those of b that a does not have: the result of broadcasting by name.
MTF_NOINLINE [[nodiscard]] constexpr ShapeValue unite(const ShapeValue& a, const ShapeValue& b) {
  ShapeValue result = a;
  for (const DimValue& dim : b) {
    if (!contains(result, dim.name) && !result.full()) result.push_back(dim);
  }
  return result;
}

/// Whether a's names occur in b in the same order.
[[nodiscard]] constexpr bool is_subsequence(const ShapeValue& a, const ShapeValue& b) {
  int next = 0;
  for (const DimValue& dim : b) {
    if (next < a.size() && a[next].name == dim.name) ++next;
  }
  return next == a.size();
}

/// Dims of an element-wise operation on a and b: the longer list if the other is a subsequence of it, else a's dims,
/// then b's new ones (the rule of Mesh-TensorFlow's binary operations).
MTF_NOINLINE [[nodiscard]] constexpr ShapeValue broadcast_shape(const ShapeValue& a, const ShapeValue& b) {
  return is_subsequence(a, b) ? b : unite(a, b);
}

/// a's dims without those named in b.
MTF_NOINLINE [[nodiscard]] constexpr ShapeValue minus(const ShapeValue& a, const ShapeValue& b) {
  ShapeValue result;
  for (const DimValue& dim : a) {
    if (!contains(b, dim.name)) result.push_back(dim);
  }
  return result;
}

[[nodiscard]] constexpr bool includes(DimsView a, DimsView b) {
  for (const DimValue& dim : b) {
    if (!contains(a, dim.name)) return false;
  }
  return true;
}

/// Ordered dims with unique names. Stores only the extents that are dynamic.
template <dim_like... Dims>
struct Shape : private Dims... {
  static_assert(sizeof...(Dims) <= static_cast<std::size_t>(max_union_rank), "mtf: " MTF_RULE_TOO_MANY_DIMS);
  static constexpr int rank = sizeof...(Dims);

  constexpr Shape()
    requires((Dims::static_extent != dynamic) && ...)
  = default;
  constexpr Shape(const Dims&... dims)
    requires(sizeof...(Dims) > 0)
      : Dims(dims)... {}

  [[nodiscard]] constexpr ShapeValue value() const {
    ShapeValue result;
    (result.push_back({Dims::name, static_cast<const Dims&>(*this).extent()}), ...);
    return result;
  }
  [[nodiscard]] constexpr std::int64_t size() const { return size_of(value()); }
};
template <class... Dims>
Shape(const Dims&...) -> Shape<Dims...>;

namespace detail {
/// Of a list of dim types. A tensor's fit into a ShapeValue; operands one after the other may be more.
template <std::size_t Size>
inline constexpr int list_capacity =
    Size <= static_cast<std::size_t>(max_union_rank) ? max_union_rank : static_cast<int>(Size);
}  // namespace detail

/// The dims of a type list as a value; dynamic extents appear as `dynamic`. A ShapeValue unless they are more.
template <class... Dims>
[[nodiscard]] constexpr InlineVector<DimValue, detail::list_capacity<sizeof...(Dims)>> static_shape() {
  InlineVector<DimValue, detail::list_capacity<sizeof...(Dims)>> result;
  (result.push_back({Dims::name, Dims::static_extent}), ...);
  return result;
}

template <class... Dims>
struct DimList {  ///< A pack of dim types; holds no extents.
  static constexpr int size = sizeof...(Dims);
  [[nodiscard]] static constexpr auto shape() { return static_shape<Dims...>(); }
};

namespace detail {
template <std::size_t I, class D>
struct IndexedDim {};
template <class Indices, class... Dims>
struct IndexedDims;
template <std::size_t... I, class... Dims>
struct IndexedDims<std::index_sequence<I...>, Dims...> : IndexedDim<I, Dims>... {};
template <std::size_t I>
struct DimAt {
  template <class D>
  static D of(IndexedDim<I, D>);
};
}  // namespace detail

/// The I-th of a pack of dims.
template <std::size_t I, class... Dims>
using dim_at = decltype(detail::DimAt<I>::of(detail::IndexedDims<std::index_sequence_for<Dims...>, Dims...>{}));

/// Positions in a list of dims, chosen by a constexpr function and turned back into types by `select_dims`.
using Selection = InlineVector<int, max_union_rank>;

namespace detail {
template <Selection Positions, class List>
struct SelectDims;
template <Selection Positions, class... Dims>
struct SelectDims<Positions, DimList<Dims...>> {
  template <std::size_t... I>
  static DimList<dim_at<static_cast<std::size_t>(Positions.items[I]), Dims...>...> pick(std::index_sequence<I...>);
  using type = decltype(pick(std::make_index_sequence<static_cast<std::size_t>(Positions.count)>{}));
};
}  // namespace detail

/// DimList of the dims at `Positions` of `List`.
template <Selection Positions, class List>
using select_dims = typename detail::SelectDims<Positions, List>::type;

/// Positions in `dims` of the names of `wanted`, in its order.
[[nodiscard]] constexpr Selection positions(DimsView dims, DimsView wanted) {
  Selection result;
  for (const DimValue& dim : wanted) result.push_back(find(dims, dim.name));
  return result;
}
/// Positions of the first occurrence of every name: the union of a concatenation of dims, `max_union_rank` at most.
[[nodiscard]] constexpr Selection first_occurrences(DimsView dims) {
  Selection result;
  for (int i = 0; i < dims.size() && !result.full(); ++i) {
    if (find(dims, dims[i].name) == i) result.push_back(i);
  }
  return result;
}
/// Positions of the names that occur exactly once: Mesh-TensorFlow's default output of an einsum.
[[nodiscard]] constexpr Selection single_occurrences(DimsView dims) {
  Selection result;
  for (int i = 0; i < dims.size() && !result.full(); ++i) {
    int count = 0;
    for (const DimValue& dim : dims) count += dim.name == dims[i].name ? 1 : 0;
    if (count == 1) result.push_back(i);
  }
  return result;
}
/// Positions of the dims whose names are not in `removed`.
[[nodiscard]] constexpr Selection remaining(DimsView dims, DimsView removed) {
  Selection result;
  for (int i = 0; i < dims.size() && !result.full(); ++i) {
    if (!contains(removed, dims[i].name)) result.push_back(i);
  }
  return result;
}

}  // namespace v0
}  // namespace mtf
