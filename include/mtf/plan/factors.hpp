// Factors: how two shapes of equal size, with what splits them, are cut into the same pieces.
#pragma once

#include <mtf/plan/runs.hpp>

namespace mtf {
inline namespace v0 {

/// A factor of the global array: a dim or a part of one, and what chooses among its indices before and after.
struct Atom {
  std::int64_t extent = 1;
  Digit before, after;
};
using Atoms = InlineVector<Atom, 8 * max_rank>;

/// The global array before and after as common factors.
struct Factors {
  Atoms atoms;  ///< minor first
  /// The atom (-1: none) in which the shapes have no common factors, so that the slices have to be compared run by run,
  /// and its parts before and after.
  int tangled = -1;
  Parts before, after;
};

namespace detail {

constexpr void append(Parts& parts, const Part& part) {
  if (part.extent == 1) return;
  if (!parts.empty() && parts.back().digit.axis < 0 && part.digit.axis < 0) {
    parts.back().extent *= part.extent;
  } else {
    parts.push_back(part);
  }
}
/// Each dim as its distributed parts, major first, then the local rest; neighbouring local parts are one.
[[nodiscard]] constexpr Parts parts_of(const Placement& placement, const MeshValue& mesh) {
  Parts parts;
  for (const PlacedDim& dim : placement.dims) {
    for (const std::int8_t axis : dim.axes) append(parts, {mesh.axes[axis].size, {axis}});
    append(parts, {dim.local(), {}});
  }
  return parts;
}
/// The same after the part at `gathered` became local.
[[nodiscard]] constexpr Parts with_local(const Parts& parts, int gathered) {
  Parts result;
  for (int i = 0; i < parts.size(); ++i) append(result, i == gathered ? Part{parts[i].extent, {}} : parts[i]);
  return result;
}

[[nodiscard]] constexpr std::int64_t common_divisor(std::int64_t a, std::int64_t b) {
  while (b != 0) {
    const std::int64_t rest = a % b;
    a = b;
    b = rest;
  }
  return a;
}
/// Takes `extent` off the minor end, part `last` and those before it.
constexpr void take_off(Parts& parts, int& last, std::int64_t extent) {
  while (extent > 1) {
    Part& part = parts[last];
    const std::int64_t taken = part.extent < extent ? part.extent : extent;
    part.extent /= taken;
    if (part.digit.axis >= 0) part.digit.weight *= taken;
    extent /= taken;
    if (part.extent == 1) --last;
  }
}
/// The smallest factor, more than 1, at which both lists can be cut, from parts i and j backwards.
[[nodiscard]] constexpr std::int64_t common_factor(const Parts& before, int last_before, const Parts& after,
                                                   int last_after) {
  std::int64_t smallest = 0;
  std::int64_t below_i = 1;
  for (int i = last_before; i >= 0; below_i *= before[i--].extent) {
    std::int64_t below_j = 1;
    for (int j = last_after; j >= 0; below_j *= after[j--].extent) {
      const std::int64_t factor_i = below_j / common_divisor(below_i, below_j);  // least common multiple / below_i
      const std::int64_t factor_j = below_i / common_divisor(below_i, below_j);
      if (before[i].extent % factor_i != 0 || after[j].extent % factor_j != 0) continue;
      const std::int64_t factor = below_i * factor_i;
      if (factor > 1 && (smallest == 0 || factor < smallest)) smallest = factor;
    }
  }
  if (smallest != 0) return smallest;
  return below_i;  // all that is left
}
/// The parts of the factors from `low` up to `high`, at which the list can be cut.
[[nodiscard]] constexpr Parts parts_within(const Parts& parts, std::int64_t low, std::int64_t high) {
  Parts rest = parts;
  int last = rest.size() - 1;
  take_off(rest, last, low);
  rest.count = last + 1;
  Parts minor_first;
  for (std::int64_t extent = high / low; extent > 1; --last) {
    Part part = rest[last];
    if (part.extent > extent) part.extent = extent;
    extent /= part.extent;
    minor_first.push_back(part);
  }
  Parts result;
  for (int i = minor_first.size() - 1; i >= 0; --i) result.push_back(minor_first[i]);
  return result;
}

/// Cuts both sides into common factors from the minor end. Where they do not line up, all up to the next place at which
/// both can be cut is one tangled atom; there is at most one, from the first such place to the last.
constexpr void cut(const Parts& before, const Parts& after, Factors& factors) {
  Parts old_parts = before;
  Parts new_parts = after;
  factors.atoms = {};
  factors.tangled = -1;
  int i = before.size() - 1;
  int j = after.size() - 1;
  std::int64_t size = 1;  // of the atoms so far
  std::int64_t low = 1;   // of those below the tangled one
  while (i >= 0 && j >= 0) {
    std::int64_t extent = common_divisor(old_parts[i].extent, new_parts[j].extent);
    if (extent > 1) {
      factors.atoms.push_back({extent, old_parts[i].digit, new_parts[j].digit});
      size *= extent;
    } else {
      extent = common_factor(old_parts, i, new_parts, j);
      if (factors.tangled < 0) {
        factors.tangled = factors.atoms.size();
        low = size;
      }
      size *= extent;
      factors.atoms.count = factors.tangled;
      factors.atoms.push_back({size / low, {}, {}});
    }
    take_off(old_parts, i, extent);
    take_off(new_parts, j, extent);
  }
  if (factors.tangled < 0) return;
  const std::int64_t high = low * factors.atoms[factors.tangled].extent;
  factors.before = parts_within(before, low, high);
  factors.after = parts_within(after, low, high);
}

}  // namespace detail

}  // namespace v0
}  // namespace mtf
