// Compile-time checks of placements, with messages that name the rule, the dims and the way out.
#pragma once

#include <type_traits>

#include <mtf/core/placement.hpp>

namespace mtf {
inline namespace v0 {

/// The result of an operation that did not compile: operations accept it silently, so one mistake gives one message.
struct poisoned {};

template <class...>
inline constexpr bool always_false = false;

// One template per rule: its arguments show the dims, axes and numbers in the compiler's output.
template <class Dim, class OtherDim>
struct axis_used_twice {
  static_assert(always_false<Dim>, "mtf: " MTF_RULE_AXIS_USED_TWICE);
};
template <class Dim, std::int64_t Extent, std::int64_t Parts>
struct indivisible_extent {
  static_assert(always_false<Dim>, "mtf: " MTF_RULE_INDIVISIBLE_EXTENT);
};
template <class Dim>
struct repeated_dim {
  static_assert(always_false<Dim>, "mtf: " MTF_RULE_REPEATED_DIM);
};
template <class Dim, std::int64_t Extent, std::int64_t OtherExtent>
struct unequal_extents {
  static_assert(always_false<Dim>, "mtf: " MTF_RULE_UNEQUAL_EXTENTS);
};
template <int Dims>
struct too_many_dims {
  static_assert(always_false<std::integral_constant<int, Dims>>, "mtf: " MTF_RULE_TOO_MANY_DIMS);
};

namespace detail {

/// Placement rules of a world whose layout and axis names are types; empty rules otherwise, which leaves the checks of
/// names and extents.
template <class World>
[[nodiscard]] constexpr PlacementRules static_rules() {
  if constexpr (World::layout_type::is_static && World::mesh_type::has_static_names) {
    Violations ignored;  // the World itself reports what is wrong with its rules
    return resolve(World::layout_type::value(), World::mesh_type::value(), ignored);
  } else {
    return {};
  }
}

template <class World>
inline constexpr PlacementRules rules_of = static_rules<World>();

template <class World, class... Dims>
inline constexpr Violations tensor_violations = check(rules_of<World>, static_shape<Dims...>(), true);
template <class World, class... Dims>
inline constexpr Violations union_violations = check(rules_of<World>, static_shape<Dims...>(), false);

template <class... Dims>
struct Report {
  /// Instantiates the template of the first violation: the compiler stops there with its sentence.
  template <auto V>
  static constexpr bool fail() {
    constexpr auto position = static_cast<std::size_t>(V.position);
    constexpr auto other = static_cast<std::size_t>(V.other_position);
    if constexpr (V.fault == Fault::axis_used_twice) {
      return sizeof(axis_used_twice<dim_at<other, Dims...>, dim_at<position, Dims...>>) > 0;
    } else if constexpr (V.fault == Fault::indivisible_extent) {
      return sizeof(indivisible_extent<dim_at<position, Dims...>, V.extent, V.other_extent>) > 0;
    } else if constexpr (V.fault == Fault::repeated_dim) {
      return sizeof(repeated_dim<dim_at<position, Dims...>>) > 0;
    } else if constexpr (V.fault == Fault::unequal_extents) {
      return sizeof(unequal_extents<dim_at<position, Dims...>, V.other_extent, V.extent>) > 0;
    } else {
      return sizeof(too_many_dims<static_cast<int>(V.extent)>) > 0;
    }
  }
};

/// A Violation without its names, so that it can be a template argument.
struct Numbers {
  Fault fault;
  std::int64_t extent;
  std::int64_t other_extent;
  int position;
  int other_position;
};
[[nodiscard]] constexpr Numbers numbers(const Violation& v) {
  return {v.fault, v.extent, v.other_extent, v.position, v.other_position};
}

}  // namespace detail

/// Whether a tensor of these dims exists in the world.
template <class World, class... Dims>
concept placeable = detail::tensor_violations<World, Dims...>.empty();

/// Whether an operation over all these dims together is legal: the rule of einsum and broadcasting.
template <class World, class... Dims>
concept uniteable = detail::union_violations<World, Dims...>.empty();

/// Stops the compiler with the sentence of the first violated rule, if there is one. True if all is well.
template <class World, class... Dims>
constexpr bool require_placeable() {
  if constexpr (!placeable<World, Dims...>) {
    return detail::Report<Dims...>::template fail<detail::numbers(detail::tensor_violations<World, Dims...>[0])>();
  }
  return placeable<World, Dims...>;
}
template <class World, class... Dims>
constexpr bool require_uniteable() {
  if constexpr (!uniteable<World, Dims...>) {
    return detail::Report<Dims...>::template fail<detail::numbers(detail::union_violations<World, Dims...>[0])>();
  }
  return uniteable<World, Dims...>;
}

}  // namespace v0
}  // namespace mtf
