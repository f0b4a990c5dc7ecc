// Compile-time checks of placements, with messages that name the rule, the dims and the way out.
//
// A concept says whether something is legal; generic code can ask it. An operation that finds its concept violated
// names the reason, `return poisoned(not_placeable<World, Dims...>{})`: a template that exists only to stop the
// compiler with a sentence, and whose arguments show dims, axes and numbers. It is named in the body of the public
// function, because every function in between adds lines to what the user reads.
#pragma once

#include <type_traits>

#include <mtf/core/placement.hpp>

namespace mtf {
inline namespace v0 {

/// The result of an operation that did not compile: operations accept it silently, so one mistake gives one message.
struct poisoned {
  // A scalar to code that asks first, such as item and print.
  using dims = DimList<>;
  using element_type = float;

  constexpr poisoned() = default;
  /// Stops the compiler with the sentence of `Reason`.
  template <class Reason>
  constexpr explicit poisoned(Reason) {}
};

template <class...>
inline constexpr bool always_false = false;

// One template per rule: its arguments show the dims, axes and numbers in the compiler's output.
template <class Dim, class OtherDim, FixedString Axis>
struct axis_used_twice {
  static_assert(always_false<Dim>, "mtf: " MTF_RULE_AXIS_USED_TWICE);
};
template <class Dim, std::int64_t Extent, std::int64_t Parts, FixedString... Axes>
struct indivisible_extent {
  static_assert(always_false<Dim>, "mtf: " MTF_RULE_INDIVISIBLE_EXTENT);
};
template <class Dim>
struct repeated_dim {
  static_assert(always_false<Dim>, "mtf: " MTF_RULE_REPEATED_DIM);
};
template <class Dim, class OtherDim, std::int64_t Extent, std::int64_t OtherExtent>
struct unequal_extents {
  static_assert(always_false<Dim>, "mtf: " MTF_RULE_UNEQUAL_EXTENTS);
};
template <int Dims>
struct too_many_dims {
  static_assert(always_false<std::integral_constant<int, Dims>>, "mtf: " MTF_RULE_TOO_MANY_DIMS);
};
template <class Dim, std::int64_t Extent, std::int64_t ElementsOfOtherDims>
struct too_many_elements {
  static_assert(always_false<Dim>, "mtf: " MTF_RULE_TOO_MANY_ELEMENTS);
};
template <FixedString Dim, FixedString Axis, class Mesh>
struct unknown_axis {
  static_assert(always_false<Mesh>, "mtf: " MTF_RULE_UNKNOWN_AXIS);
};
template <FixedString Dim, class Layout>
struct repeated_rule {
  static_assert(always_false<Layout>, "mtf: " MTF_RULE_REPEATED_RULE);
};
template <FixedString Dim, FixedString Axis, class Layout>
struct repeated_axis {
  static_assert(always_false<Layout>, "mtf: " MTF_RULE_REPEATED_AXIS);
};

namespace detail {

/// What is wrong with rules that are types; nothing if they are known at run time only.
template <class Mesh, class Layout>
[[nodiscard]] constexpr Violations violations_of_rules() {
  Violations found;
  if constexpr (layout_like<Layout> && mesh_like<Mesh>) {
    if constexpr (Layout::is_static && Mesh::has_static_names) (void)resolve(Layout::value(), Mesh::value(), found);
  }
  return found;
}
template <class Mesh, class Layout>
inline constexpr Violations rule_violations = violations_of_rules<Mesh, Layout>();

/// Placement rules of a world whose layout and axis names are types; empty rules otherwise, which leaves the checks of
/// names and extents.
template <class World>
[[nodiscard]] constexpr PlacementRules static_rules() {
  using Mesh = typename World::mesh_type;
  using Layout = typename World::layout_type;
  if constexpr (layout_like<Layout> && mesh_like<Mesh>) {
    if constexpr (Layout::is_static && Mesh::has_static_names) {
      Violations ignored;  // the World itself reports what is wrong with its rules
      return resolve(Layout::value(), Mesh::value(), ignored);
    }
  }
  return {};
}

template <class World>
inline constexpr PlacementRules rules_of = static_rules<World>();

template <class World, class... Dims>
inline constexpr Violations tensor_violations = check(rules_of<World>, static_shape<Dims...>(), true);
template <class World, class... Dims>
inline constexpr Violations union_violations = check(rules_of<World>, static_shape<Dims...>(), false);

/// A name as a template argument, which compilers print as text.
template <std::size_t Size>
[[nodiscard]] consteval FixedString<Size> fixed(const Name& name) {
  char text[Size]{};
  for (std::size_t i = 0; i + 1 < Size; ++i) text[i] = name.text[i];
  return FixedString<Size>(text);
}

// Where violations were found and by which rules: a type, since nvcc takes no variable template by reference.
template <class World, class... Dims>
struct OfTensor {
  static consteval const Violations& found() { return tensor_violations<World, Dims...>; }
  static consteval const PlacementRules& rules() { return rules_of<World>; }
};
template <class World, class... Dims>
struct OfUnion {
  static consteval const Violations& found() { return union_violations<World, Dims...>; }
  static consteval const PlacementRules& rules() { return rules_of<World>; }
};

/// The template that says the first of `Source::found()`, without instantiating it.
template <class Source, class... Dims>
struct FirstOf {
  /// The I-th axis that splits the dim of the first.
  template <std::size_t I>
  static consteval const Name& axis_name() {
    return Source::rules().mesh.axes[Source::rules().axes_of(Source::found()[0].dim)[static_cast<int>(I)]].name;
  }
  template <class Dim, std::size_t... I>
  static consteval auto indivisible(std::index_sequence<I...>) {
    return std::type_identity<indivisible_extent<Dim, Source::found()[0].extent, Source::found()[0].other_extent,
                                                 fixed<axis_name<I>().text.size() + 1>(axis_name<I>())...>>{};
  }
  static consteval auto select() {
    constexpr const Violation& first = Source::found()[0];
    constexpr auto position = static_cast<std::size_t>(first.position);
    constexpr auto other = static_cast<std::size_t>(first.other_position);
    if constexpr (first.fault == Fault::axis_used_twice) {
      constexpr auto axis = fixed<first.axis.text.size() + 1>(first.axis);
      // In the order of their names, so that [a, b] and [b, a] are one mistake and give one message.
      constexpr bool in_order = first.other_dim.text < first.dim.text;
      return std::type_identity<axis_used_twice<dim_at<in_order ? other : position, Dims...>,
                                                dim_at<in_order ? position : other, Dims...>, axis>>{};
    } else if constexpr (first.fault == Fault::indivisible_extent) {
      constexpr auto axes = static_cast<std::size_t>(Source::rules().axes_of(first.dim).size());
      return indivisible<dim_at<position, Dims...>>(std::make_index_sequence<axes>{});
    } else if constexpr (first.fault == Fault::repeated_dim) {
      return std::type_identity<repeated_dim<dim_at<position, Dims...>>>{};
    } else if constexpr (first.fault == Fault::unequal_extents) {
      return std::type_identity<
          unequal_extents<dim_at<other, Dims...>, dim_at<position, Dims...>, first.other_extent, first.extent>>{};
    } else if constexpr (first.fault == Fault::too_many_elements) {
      return std::type_identity<too_many_elements<dim_at<position, Dims...>, first.extent, first.other_extent>>{};
    } else {
      return std::type_identity<too_many_dims<static_cast<int>(first.extent)>>{};
    }
  }
  using type = typename decltype(select())::type;
};

template <class Mesh, class Layout>
struct FirstOfRules {
  static consteval auto select() {
    constexpr const Violation& first = rule_violations<Mesh, Layout>[0];
    constexpr auto dim = fixed<first.dim.text.size() + 1>(first.dim);
    constexpr auto axis = fixed<first.axis.text.size() + 1>(first.axis);
    if constexpr (first.fault == Fault::unknown_axis) {
      return std::type_identity<unknown_axis<dim, axis, Mesh>>{};
    } else if constexpr (first.fault == Fault::repeated_rule) {
      return std::type_identity<repeated_rule<dim, Layout>>{};
    } else {
      return std::type_identity<repeated_axis<dim, axis, Layout>>{};
    }
  }
  using type = typename decltype(select())::type;
};

}  // namespace detail

/// Whether every rule of a layout names an axis of the mesh, and each dim and axis once.
template <class Mesh, class Layout>
concept applicable = detail::rule_violations<Mesh, Layout>.empty();

/// Whether a tensor of these dims exists in the world.
template <class World, class... Dims>
concept placeable = detail::tensor_violations<World, Dims...>.empty();

/// Whether an operation over all these dims together is legal: the rule of einsum and broadcasting.
template <class World, class... Dims>
concept uniteable = detail::union_violations<World, Dims...>.empty();

// The first rule that is violated when the concept does not hold.
template <class Mesh, class Layout>
using not_applicable = typename detail::FirstOfRules<Mesh, Layout>::type;
template <class World, class... Dims>
using not_placeable = typename detail::FirstOf<detail::OfTensor<World, Dims...>, Dims...>::type;
template <class World, class... Dims>
using not_uniteable = typename detail::FirstOf<detail::OfUnion<World, Dims...>, Dims...>::type;

}  // namespace v0
}  // namespace mtf
