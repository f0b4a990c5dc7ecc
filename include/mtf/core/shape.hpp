// Shape: ordered dims with unique names, as a type and as a value, and the algebra on them.
#pragma once

#include <cstddef>
#include <utility>

#include <mtf/core/dim.hpp>

namespace mtf {
inline namespace v0 {

/// Dims as values, in order. Names are unique in the shape of a tensor; a list that collects the operands of an
/// operation may repeat them (see `unite`).
using ShapeValue = InlineVector<DimValue, max_union_rank>;

[[nodiscard]] constexpr int find(const ShapeValue& shape, const Name& name) {
  for (int i = 0; i < shape.count; ++i) {
    if (shape.items[i].name.hash == name.hash && shape.items[i].name == name) return i;
  }
  return -1;
}
[[nodiscard]] constexpr bool contains(const ShapeValue& shape, const Name& name) { return find(shape, name) >= 0; }

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

[[nodiscard]] constexpr bool includes(const ShapeValue& a, const ShapeValue& b) {
  for (const DimValue& dim : b) {
    if (!contains(a, dim.name)) return false;
  }
  return true;
}

/// Ordered dims with unique names. Stores only the extents that are dynamic.
template <dim_like... Dims>
struct Shape : private Dims... {
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

/// The dims of a type list as a value; dynamic extents appear as `dynamic`.
template <class... Dims>
[[nodiscard]] constexpr ShapeValue static_shape() {
  ShapeValue result;
  (result.push_back({Dims::name, Dims::static_extent}), ...);
  return result;
}

template <class... Dims>
struct DimList {  ///< A pack of dim types; holds no extents.
  static constexpr int size = sizeof...(Dims);
  [[nodiscard]] static constexpr ShapeValue shape() { return static_shape<Dims...>(); }
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
[[nodiscard]] constexpr Selection positions(const ShapeValue& dims, const ShapeValue& wanted) {
  Selection result;
  for (const DimValue& dim : wanted) result.push_back(find(dims, dim.name));
  return result;
}
/// Positions of the first occurrence of every name: the union of a concatenation of dims.
[[nodiscard]] constexpr Selection first_occurrences(const ShapeValue& dims) {
  Selection result;
  for (int i = 0; i < dims.size(); ++i) {
    if (find(dims, dims[i].name) == i) result.push_back(i);
  }
  return result;
}
/// Positions of the names that occur exactly once: Mesh-TensorFlow's default output of an einsum.
[[nodiscard]] constexpr Selection single_occurrences(const ShapeValue& dims) {
  Selection result;
  for (int i = 0; i < dims.size(); ++i) {
    int count = 0;
    for (const DimValue& dim : dims) count += dim.name == dims[i].name ? 1 : 0;
    if (count == 1) result.push_back(i);
  }
  return result;
}
/// Positions of the dims whose names are not in `removed`.
[[nodiscard]] constexpr Selection remaining(const ShapeValue& dims, const ShapeValue& removed) {
  Selection result;
  for (int i = 0; i < dims.size(); ++i) {
    if (!contains(removed, dims[i].name)) result.push_back(i);
  }
  return result;
}

}  // namespace v0
}  // namespace mtf
