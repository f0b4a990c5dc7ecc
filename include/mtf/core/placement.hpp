// Placement: where the elements of a tensor live, a pure function of layout, mesh and dims.
#pragma once

#include <mtf/core/layout.hpp>
#include <mtf/core/shape.hpp>

namespace mtf {
inline namespace v0 {

/// Axes that split one dim, as positions in the mesh, major first.
using AxisList = InlineVector<std::int8_t, max_axes_of_dim>;

[[nodiscard]] constexpr AxisSet set_of(const AxisList& axes) {
  AxisSet set;
  for (const std::int8_t axis : axes) set |= AxisSet::of(axis);
  return set;
}

/// A layout whose rules were matched with the axes of a mesh: all that placement needs.
struct PlacementRules {
  struct Resolved {
    Name dim;
    AxisList axes;
  };
  MeshValue mesh;
  InlineVector<Resolved, max_rules> rules;

  /// The axes that split `dim`; empty when no rule names it.
  [[nodiscard]] constexpr AxisList axes_of(const Name& dim) const {
    for (int i = 0; i < rules.count; ++i) {
      if (rules.items[i].dim.hash == dim.hash && rules.items[i].dim == dim) return rules.items[i].axes;
    }
    return {};
  }
};

/// Matches rules with axes. A rule that names an axis absent from the mesh, a second rule for a dim and an axis named
/// twice in a rule are added to `violations`; `position` there counts the rules.
MTF_NOINLINE [[nodiscard]] constexpr PlacementRules resolve(const LayoutValue& layout, const MeshValue& mesh,
                                                            Violations& violations) {
  PlacementRules result;
  result.mesh = mesh;
  for (int r = 0; r < layout.rules.size(); ++r) {
    const Rule& rule = layout.rules[r];
    PlacementRules::Resolved resolved;
    resolved.dim = rule.dim;
    bool good = true;
    for (const Name& name : rule.axes) {
      const int axis = mesh.find(name);
      if (axis < 0) {
        if (!rule.optional)
          add(violations, {.fault = Fault::unknown_axis, .dim = rule.dim, .axis = name, .position = r});
        good = false;
      } else if (set_of(resolved.axes).has(axis)) {
        add(violations, {.fault = Fault::repeated_axis, .dim = rule.dim, .axis = name, .position = r});
        good = false;
      } else {
        resolved.axes.push_back(static_cast<std::int8_t>(axis));
      }
    }
    if (!good) continue;
    if (!result.axes_of(rule.dim).empty()) {
      add(violations, {.fault = Fault::repeated_rule, .dim = rule.dim, .position = r});
      continue;
    }
    result.rules.push_back(resolved);
  }
  return result;
}

/// A dim of a placed tensor.
struct PlacedDim {
  Name name;
  std::int64_t extent = 1;
  std::int64_t parts = 1;  ///< slices it is divided into: the product of the sizes of its axes
  AxisList axes;           ///< the axes that split it, major first

  [[nodiscard]] constexpr std::int64_t local() const { return extent / parts; }
  friend constexpr bool operator==(const PlacedDim&, const PlacedDim&) = default;
};

/// The dims of one tensor with the axes that split them; along all other axes the tensor is replicated.
struct Placement {
  InlineVector<PlacedDim, max_rank> dims;

  [[nodiscard]] constexpr int rank() const { return dims.size(); }
  [[nodiscard]] constexpr int find(const Name& name) const {
    for (int i = 0; i < dims.count; ++i) {
      if (dims.items[i].name.hash == name.hash && dims.items[i].name == name) return i;
    }
    return -1;
  }
  /// Elements of the global array.
  [[nodiscard]] constexpr std::int64_t size() const {
    std::int64_t product = 1;
    for (const PlacedDim& dim : dims) product *= dim.extent;
    return product;
  }
  /// Elements of one slice.
  [[nodiscard]] constexpr std::int64_t local_size() const {
    std::int64_t product = 1;
    for (const PlacedDim& dim : dims) product *= dim.local();
    return product;
  }
  /// The axes that split some dim.
  [[nodiscard]] constexpr AxisSet split_axes() const {
    AxisSet set;
    for (const PlacedDim& dim : dims) set |= set_of(dim.axes);
    return set;
  }
  [[nodiscard]] constexpr ShapeValue shape() const {
    ShapeValue result;
    for (const PlacedDim& dim : dims) result.push_back({dim.name, dim.extent});
    return result;
  }
  friend constexpr bool operator==(const Placement&, const Placement&) = default;
};

/// The dims of `placement` but the one named.
MTF_NOINLINE [[nodiscard]] constexpr Placement without(const Placement& placement, const Name& dim) {
  Placement result;
  for (const PlacedDim& other : placement.dims) {
    if (!(other.name == dim)) result.dims.push_back(other);
  }
  return result;
}

/// Which slice of a dim the processor at `at` holds.
[[nodiscard]] constexpr std::int64_t slice_number(const PlacedDim& dim, const MeshValue& mesh, const Coordinates& at) {
  std::int64_t number = 0;
  for (const std::int8_t axis : dim.axes) number = number * mesh.axes[axis].size + at[axis];
  return number;
}
/// Global index of the first element of a dim that the processor at `at` holds.
MTF_NOINLINE [[nodiscard]] constexpr std::int64_t slice_begin(const PlacedDim& dim, const MeshValue& mesh,
                                                              const Coordinates& at) {
  return slice_number(dim, mesh, at) * dim.local();
}

MTF_NOINLINE [[nodiscard]] constexpr PlacedDim place(const PlacementRules& rules, const DimValue& dim) {
  PlacedDim placed;
  placed.name = dim.name;
  placed.extent = dim.extent;
  placed.axes = rules.axes_of(dim.name);
  if (placed.axes.count != 0) placed.parts = rules.mesh.size(set_of(placed.axes));
  return placed;
}

/// Where a tensor of these dims lives. The dims must have passed `check`.
MTF_NOINLINE [[nodiscard]] constexpr Placement place(const PlacementRules& rules, const ShapeValue& shape) {
  Placement result;
  for (const DimValue& dim : shape) result.dims.push_back(place(rules, dim));
  return result;
}

/// Every rule that a list of dims breaks: of one tensor (`names_are_unique`: a name may occur only once) or of all
/// operands of an operation together (a name may recur with the same extent; legality is that of the union). Extents
/// and axis sizes that are `dynamic` are taken to fit: they are checked again when they are known.
MTF_NOINLINE [[nodiscard]] constexpr Violations check(const PlacementRules& rules, DimsView dims,
                                                      bool names_are_unique) {
  Violations violations;
  InlineVector<int, max_axes> splitter;  // position of the dim that each axis splits, or -1
  for (int i = 0; i < rules.mesh.rank(); ++i) splitter.push_back(-1);
  int distinct = 0;
  const std::int64_t limit = names_are_unique ? max_elements : max_union_elements;
  std::int64_t elements = 1;  // of the dims so far; 0 when they are too many to count
  for (int i = 0; i < dims.size(); ++i) {
    int first = 0;  // where the name occurs first, at i itself at the latest
    while (!(dims[first].name == dims[i].name)) ++first;
    if (first < i) {
      const bool known = dims[i].extent != dynamic && dims[first].extent != dynamic;
      if (names_are_unique) {
        add(violations, {.fault = Fault::repeated_dim,
                         .dim = dims[i].name,
                         .other_dim = dims[i].name,
                         .position = i,
                         .other_position = first});
      } else if (known && dims[i].extent != dims[first].extent) {
        add(violations, {.fault = Fault::unequal_extents,
                         .dim = dims[i].name,
                         .other_dim = dims[i].name,
                         .extent = dims[i].extent,
                         .other_extent = dims[first].extent,
                         .position = i,
                         .other_position = first});
      }
      continue;
    }
    ++distinct;
    if (dims[i].extent < 1 && dims[i].extent != dynamic) {
      add(violations, {.fault = Fault::empty_dim, .dim = dims[i].name, .extent = dims[i].extent, .position = i});
    }
    if (dims[i].extent > 0 && elements != 0) {
      if (dims[i].extent > limit / elements) {
        add(violations, {.fault = Fault::too_many_elements,
                         .dim = dims[i].name,
                         .extent = dims[i].extent,
                         .other_extent = elements,
                         .position = i});
        elements = 0;
      } else {
        elements *= dims[i].extent;
      }
    }
    const AxisList axes = rules.axes_of(dims[i].name);
    std::int64_t parts = 1;
    for (const std::int8_t axis : axes) {
      const AxisValue& value = rules.mesh.axes[axis];
      if (splitter[axis] >= 0) {
        add(violations, {.fault = Fault::axis_used_twice,
                         .dim = dims[i].name,
                         .other_dim = dims[splitter[axis]].name,
                         .axis = value.name,
                         .position = i,
                         .other_position = splitter[axis]});
      }
      splitter[axis] = i;
      if (value.size != dynamic) parts *= value.size;
    }
    if (dims[i].extent != dynamic && dims[i].extent % parts != 0) {
      add(violations, {.fault = Fault::indivisible_extent,
                       .dim = dims[i].name,
                       .axis = rules.mesh.axes[axes[0]].name,
                       .axes = set_of(axes).bits,
                       .extent = dims[i].extent,
                       .other_extent = parts,
                       .position = i});
    }
  }
  if (distinct > (names_are_unique ? max_rank : max_union_rank))
    add(violations, {.fault = Fault::too_many_dims, .extent = distinct});
  return violations;
}

}  // namespace v0
}  // namespace mtf
