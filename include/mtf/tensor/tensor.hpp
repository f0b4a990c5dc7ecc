// Tensor: a typed handle to one immutable global array.
#pragma once

#include <concepts>
#include <type_traits>
#include <utility>

#include <mtf/tensor/check.hpp>
#include <mtf/tensor/node.hpp>

namespace mtf {
inline namespace v0 {

struct OperandBase {};  ///< Base of what operations take: tensors and variables.

/// What an operation takes: a tensor, a variable (read at its present version) or the poisoned result of a mistake.
template <class X>
concept operand =
    std::derived_from<std::remove_cvref_t<X>, OperandBase> || std::same_as<std::remove_cvref_t<X>, poisoned>;

namespace detail {
/// Whether two packs of dims have the same names in the same order.
template <class A, class B>
inline constexpr bool same_names = false;
template <class... A, class... B>
  requires(sizeof...(A) == sizeof...(B))
inline constexpr bool same_names<DimList<A...>, DimList<B...>> = (same_name<A, B> && ...);
}  // namespace detail

/// A global array of shape [Dims...] of which each rank holds a slice; placement follows from the world's layout. A
/// value: copies share the array, no operation changes it. Tensors whose dims are spelt differently but have the same
/// names in the same order convert into each other.
template <class World, element T, dim_like... Dims>
class Tensor : public OperandBase {
 public:
  using world_type = World;
  using element_type = T;
  using engine_type = typename World::engine_type;
  using dims = DimList<Dims...>;
  static constexpr int rank = sizeof...(Dims);

  /// Wraps an untyped array whose placement has these dims.
  constexpr explicit Tensor(Array&& array) : array_(std::move(array)) {
    if constexpr (!placeable<World, Dims...>) (void)not_placeable<World, Dims...>{};
  }
  constexpr explicit Tensor(const Array& array) : array_(array) {
    if constexpr (!placeable<World, Dims...>) (void)not_placeable<World, Dims...>{};
  }
  /// Only in a program that does not compile: a declared type adds no second message.
  constexpr Tensor(poisoned) {}
  template <class... Others>
    requires(detail::same_names<DimList<Others...>, dims>)
  constexpr Tensor(const Tensor<World, T, Others...>& other) : array_(other.array()) {}

  [[nodiscard]] constexpr const Array& array() const { return array_; }
  [[nodiscard]] constexpr const KeptPlacement& placement() const { return array_.value->placement; }
  [[nodiscard]] constexpr engine_type& engine() const { return static_cast<engine_type&>(array_.value->backend()); }
  /// Extents of the global array.
  [[nodiscard]] constexpr ShapeValue shape() const { return placement().shape(); }
  /// Elements of the global array.
  [[nodiscard]] constexpr std::int64_t size() const { return placement().size(); }

 private:
  Array array_;
};

namespace detail {

template <class World, class T, class List>
struct TensorOf;
template <class World, class T, class... Dims>
struct TensorOf<World, T, DimList<Dims...>> {
  using type = Tensor<World, T, Dims...>;
};

template <class... Lists>
struct Concatenate;
template <class... A>
struct Concatenate<DimList<A...>> {
  using type = DimList<A...>;
};
template <class... A, class... B, class... Rest>
struct Concatenate<DimList<A...>, DimList<B...>, Rest...> : Concatenate<DimList<A..., B...>, Rest...> {};

}  // namespace detail

/// Tensor of the dims of a DimList.
template <class World, class T, class List>
using tensor_of = typename detail::TensorOf<World, T, List>::type;

/// All dims of several DimLists one after the other; names may repeat.
template <class... Lists>
using concatenate = typename detail::Concatenate<Lists...>::type;

/// The union of DimLists by name, in order of first appearance.
template <class... Lists>
using unite_dims = select_dims<first_occurrences(concatenate<Lists...>::shape()), concatenate<Lists...>>;

namespace detail {
template <class... Lists>
constexpr Selection select_broadcast() {
  ShapeValue result;
  ((result = broadcast_shape(result, Lists::shape())), ...);
  return positions(concatenate<Lists...>::shape(), result);
}
}  // namespace detail

/// The dims of an element-wise operation on operands of these dims, see `broadcast_shape`.
template <class... Lists>
using broadcast_dims = select_dims<detail::select_broadcast<Lists...>(), concatenate<Lists...>>;

/// The world type of an operand, of any reference to it; not of poisoned.
template <class X>
using world_of = typename std::remove_cvref_t<X>::world_type;
/// The element type of an operand; of a variable of several types that of its reads.
template <class X>
using element_of = typename std::remove_cvref_t<X>::element_type;
/// The DimList of an operand's dims, in order.
template <class X>
using dims_of = typename std::remove_cvref_t<X>::dims;

namespace detail {
/// The DimList of the dims of X but those with the names of Ds, in order.
template <class X, class... Ds>
using dims_without = select_dims<remaining(dims_of<X>::shape(), static_shape<Ds...>()), dims_of<X>>;

template <class Old, class New, class List>
struct ReplaceDim;
template <class Old, class New, class... Dims>
struct ReplaceDim<Old, New, DimList<Dims...>> {
  using type = DimList<std::conditional_t<same_name<Dims, Old>, New, Dims>...>;
};
/// The dims of a list with New in the place of that of Old's name.
template <class Old, class New, class List>
using replace_dim = typename ReplaceDim<Old, New, List>::type;
}  // namespace detail

template <class... Xs>
inline constexpr bool any_poisoned = (std::same_as<std::remove_cvref_t<Xs>, poisoned> || ...);

namespace detail {
template <class X>
inline constexpr bool counts = !std::same_as<element_of<X>, bool>;
template <>
inline constexpr bool counts<poisoned> = true;
}  // namespace detail

/// Whether operands belong to one world type and have one element type.
template <class X, class... Xs>
concept compatible =
    (std::same_as<world_of<X>, world_of<Xs>> && ...) && (std::same_as<element_of<X>, element_of<Xs>> && ...);

namespace detail {

template <class List>
struct Unpack;
template <class... Dims>
struct Unpack<DimList<Dims...>> {
  // In parentheses for nvcc, which otherwise takes the concepts for types.
  template <class World>
  static constexpr bool placeable = (mtf::placeable<World, Dims...>);
  template <class World>
  static constexpr bool uniteable = (mtf::uniteable<World, Dims...>);
  template <class World>
  using not_placeable = mtf::not_placeable<World, Dims...>;
  template <class World>
  using not_uniteable = mtf::not_uniteable<World, Dims...>;
};

template <class... Xs>
inline constexpr bool unite_legally = false;
template <class X, class... Xs>
  requires compatible<X, Xs...>
inline constexpr bool unite_legally<X, Xs...> =
    Unpack<concatenate<dims_of<X>, dims_of<Xs>...>>::template uniteable<world_of<X>>;

}  // namespace detail

/// Whether an operation takes these operands together: one world, one element type, a legal union of dims.
template <class... Xs>
concept operable = detail::unite_legally<Xs...>;

template <class... Worlds>
struct different_worlds {
  static_assert(always_false<Worlds...>, "mtf: " MTF_RULE_DIFFERENT_WORLDS);
};
template <class... Elements>
struct different_element_types {
  static_assert(always_false<Elements...>, "mtf: " MTF_RULE_DIFFERENT_ELEMENTS);
};

namespace detail {

template <class... Xs>
struct NotOperable;
template <class X, class... Xs>
struct NotOperable<X, Xs...> {
  static consteval auto select() {
    if constexpr (!(std::same_as<world_of<X>, world_of<Xs>> && ...)) {
      return std::type_identity<different_worlds<world_of<X>, world_of<Xs>...>>{};
    } else if constexpr (!(std::same_as<element_of<X>, element_of<Xs>> && ...)) {
      return std::type_identity<different_element_types<element_of<X>, element_of<Xs>...>>{};
    } else {
      return std::type_identity<
          typename Unpack<concatenate<dims_of<X>, dims_of<Xs>...>>::template not_uniteable<world_of<X>>>{};
    }
  }
  using type = typename decltype(select())::type;
};

struct Checked {
  template <class... Xs>
  using of = Checked;
};
struct NotChecked {
  template <class... Xs>
  using of = typename NotOperable<Xs...>::type;
};

}  // namespace detail

/// The first rule that is violated when `operable` does not hold.
template <class... Xs>
using not_operable = typename detail::NotOperable<Xs...>::type;

namespace detail {
/// An empty type if the operands go together (or one is poisoned); otherwise the rule that is violated. An operator
/// makes an object of it in its own body, so that the message is one level away from the user's line.
template <class... Xs>
using checked =
    typename std::conditional_t<any_poisoned<Xs...> || operable<Xs...>, Checked, NotChecked>::template of<Xs...>;
}  // namespace detail

}  // namespace v0
}  // namespace mtf
