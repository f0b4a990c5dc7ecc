// How a reshape moves data: row-major reinterpretation of the global array under the old and the new placement.
#pragma once

#include <mtf/plan/collective.hpp>
#include <mtf/plan/loop.hpp>

namespace mtf {
inline namespace v0 {

/// One step on the local array seen as [outer, size, inner], where `size` is the size of the axis.
struct RedistributionStep {
  enum class Kind : std::uint8_t {
    slice,       ///< keep the own part of the middle dim: no communication
    all_to_all,  ///< split the middle dim [outer, size, inner], concatenate along [other_outer, size, other_inner]
    gather,      ///< concatenate along the middle dim
  };
  Kind kind{};
  int axis = 0;
  std::int64_t outer = 1, inner = 1;
  std::int64_t other_outer = 1, other_inner = 1;
};

/// The steps from one placement to another, in order: slices, all-to-alls, gathers.
struct Redistribution {
  InlineVector<RedistributionStep, 2 * max_rank> steps;
  bool possible = true;  ///< false: two axes trade places, or a split part does not line up with the other shape
};

namespace detail {

/// A factor of the global array: a whole dim or a part of one. Parts distributed over an axis have its size as extent.
struct Atom {
  std::int64_t extent = 1;
  int old_axis = -1;  ///< the axis it is distributed over before, or -1
  int new_axis = -1;  ///< and after
};
struct Part {
  std::int64_t extent = 1;
  int axis = -1;
};
using Parts = InlineVector<Part, 4 * max_rank>;

/// Each dim as its distributed parts, major first, then the local rest.
[[nodiscard]] constexpr Parts parts_of(const Placement& placement, const MeshValue& mesh) {
  Parts parts;
  for (const PlacedDim& dim : placement.dims) {
    for (const std::int8_t axis : dim.axes) {
      if (mesh.axes[axis].size > 1) parts.push_back({mesh.axes[axis].size, axis});
    }
    if (dim.local() > 1) parts.push_back({dim.local(), -1});
  }
  return parts;
}

}  // namespace detail

/// Plans a reshape (equal sizes). Both shapes are cut into common factors from the minor end; every axis then stays,
/// is sliced, is gathered, or moves from one factor to another, which is an all-to-all. An axis of size 1 moves nothing.
MTF_NOINLINE [[nodiscard]] constexpr Redistribution plan_redistribution(const Placement& from, const Placement& to, const MeshValue& mesh) {
  using Kind = RedistributionStep::Kind;
  Redistribution plan;
  detail::Parts before = detail::parts_of(from, mesh);
  detail::Parts after = detail::parts_of(to, mesh);
  InlineVector<detail::Atom, 8 * max_rank> atoms;  // minor first
  int i = before.size() - 1;
  int j = after.size() - 1;
  while (i >= 0 && j >= 0) {
    detail::Part& a = before[i];
    detail::Part& b = after[j];
    const std::int64_t extent = a.extent < b.extent ? a.extent : b.extent;
    const bool lines_up = a.extent % extent == 0 && b.extent % extent == 0 && (a.axis < 0 || a.extent == extent || a.axis == b.axis) &&
                          (b.axis < 0 || b.extent == extent || a.axis == b.axis);
    if (!lines_up) {
      plan.possible = false;
      return plan;
    }
    atoms.push_back({extent, a.axis, b.axis});
    a.extent /= extent;
    b.extent /= extent;
    if (a.extent == 1) --i;
    if (b.extent == 1) --j;
  }
  std::int64_t current[8 * max_rank]{};  // local extent of each atom
  for (int n = 0; n < atoms.size(); ++n) current[n] = atoms[n].old_axis < 0 ? atoms[n].extent : 1;
  const auto minor = [&](int n) {  // elements below atom n
    std::int64_t product = 1;
    for (int l = 0; l < n; ++l) product *= current[l];
    return product;
  };
  const auto major = [&](int n) {
    std::int64_t product = 1;
    for (int l = n + 1; l < atoms.size(); ++l) product *= current[l];
    return product;
  };
  const auto find_old = [&](int axis) {
    for (int n = 0; n < atoms.size(); ++n) {
      if (atoms[n].old_axis == axis) return n;
    }
    return -1;
  };
  for (int n = 0; n < atoms.size(); ++n) {
    if (atoms[n].new_axis < 0 || find_old(atoms[n].new_axis) >= 0) continue;
    if (atoms[n].old_axis >= 0) plan.possible = false;
    plan.steps.push_back({.kind = Kind::slice, .axis = atoms[n].new_axis, .outer = major(n), .inner = minor(n)});
    current[n] = 1;
  }
  for (int n = 0; n < atoms.size(); ++n) {
    const int source = atoms[n].new_axis < 0 ? -1 : find_old(atoms[n].new_axis);
    if (source < 0 || source == n) continue;
    if (atoms[n].old_axis >= 0) plan.possible = false;
    RedistributionStep step{.kind = Kind::all_to_all, .axis = atoms[n].new_axis, .outer = major(n), .inner = minor(n)};
    current[n] = 1;
    step.other_outer = major(source);
    step.other_inner = minor(source);
    current[source] = atoms[source].extent;
    plan.steps.push_back(step);
  }
  for (int n = atoms.size() - 1; n >= 0; --n) {
    if (atoms[n].old_axis < 0 || current[n] == atoms[n].extent || atoms[n].new_axis == atoms[n].old_axis) continue;
    plan.steps.push_back({.kind = Kind::gather, .axis = atoms[n].old_axis, .outer = major(n), .inner = minor(n)});
    current[n] = atoms[n].extent;
  }
  return plan;
}

}  // namespace v0
}  // namespace mtf
