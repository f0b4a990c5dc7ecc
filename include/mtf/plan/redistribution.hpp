// How a reshape moves data: row-major reinterpretation of the global array under the old and the new placement.
#pragma once

#include <mtf/plan/collective.hpp>
#include <mtf/plan/exchange.hpp>

namespace mtf {
inline namespace v0 {

/// Digits of the coordinate along an axis, or (axis < 0) indices that every rank of the group holds.
struct Digit {
  int axis = -1;
  std::int64_t weight = 1;  ///< digit = coordinate / weight % extent

  [[nodiscard]] constexpr std::int64_t of(const Coordinates& at, std::int64_t extent) const {
    return at[axis] / weight % extent;
  }
  friend constexpr bool operator==(const Digit&, const Digit&) = default;
};

/// A factor of the global array: a dim or a part of one, and what chooses among its indices before and after.
struct Atom {
  std::int64_t extent = 1;
  Digit before, after;
};
using Atoms = InlineVector<Atom, 8 * max_rank>;

/// One step on the local array. All but `exchange` see it as [outer, size, inner], where `size` is the size of the
/// axis.
struct RedistributionStep {
  enum class Kind : std::uint8_t {
    slice,       ///< keep the own part of the middle dim: no communication
    all_to_all,  ///< split the middle dim [outer, size, inner], concatenate along [other_outer, size, other_inner]
    gather,      ///< concatenate along the middle dim
    exchange,    ///< everything that is left, in one exchange
  };
  Kind kind{};
  int axis = 0;
  std::int64_t outer = 1, inner = 1;
  std::int64_t other_outer = 1, other_inner = 1;
};

/// The steps from one placement to another, in order. Any placement can be reached from any other.
struct Redistribution {
  InlineVector<RedistributionStep, 2 * max_rank + max_axes> steps;
  Atoms atoms;  ///< of the exchange, minor first
};

namespace detail {

struct Part {
  std::int64_t extent = 1;
  Digit digit;
};
using Parts = InlineVector<Part, 4 * max_rank>;

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

/// Cuts both sides into common factors from the minor end. Where they do not line up, returns the part of `before` that
/// has to be gathered first; else -1.
[[nodiscard]] constexpr int cut(Parts before, Parts after, Atoms& atoms) {
  atoms = {};
  int i = before.size() - 1;
  int j = after.size() - 1;
  while (i >= 0 && j >= 0) {
    Part& a = before[i];
    Part& b = after[j];
    const std::int64_t extent = a.extent < b.extent ? a.extent : b.extent;
    if (a.extent % extent != 0 || b.extent % extent != 0) {
      // Above a part that is local lie a distributed one, or nothing and then it holds all that is left.
      return a.digit.axis >= 0 ? i : i - 1;
    }
    atoms.push_back({extent, a.digit, b.digit});
    for (Part* part : {&a, &b}) {
      part->extent /= extent;
      if (part->digit.axis >= 0) part->digit.weight *= extent;
    }
    if (a.extent == 1) --i;
    if (b.extent == 1) --j;
  }
  return -1;
}

/// The steps by MPI's own collectives, if the atoms are whole axes and no axis stands where another has to go: slices,
/// all-to-alls, gathers.
[[nodiscard]] constexpr bool plan_collectives(const Atoms& atoms, const MeshValue& mesh, Redistribution& plan) {
  using Kind = RedistributionStep::Kind;
  std::int64_t current[8 * max_rank]{};  // local extent of each atom
  for (int n = 0; n < atoms.size(); ++n) {
    const Atom& atom = atoms[n];
    if (!(atom.before == atom.after)) {
      if (atom.before.axis >= 0 && atom.after.axis >= 0) return false;
      const int axis = atom.before.axis >= 0 ? atom.before.axis : atom.after.axis;
      if (mesh.axes[axis].size != atom.extent) return false;
    }
    current[n] = atom.before.axis < 0 ? atom.extent : 1;
  }
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
  const auto source_of = [&](int axis) {
    for (int n = 0; n < atoms.size(); ++n) {
      if (atoms[n].before.axis == axis) return n;
    }
    return -1;
  };
  for (int n = 0; n < atoms.size(); ++n) {
    if (atoms[n].after.axis < 0 || source_of(atoms[n].after.axis) >= 0) continue;
    plan.steps.push_back({.kind = Kind::slice, .axis = atoms[n].after.axis, .outer = major(n), .inner = minor(n)});
    current[n] = 1;
  }
  for (int n = 0; n < atoms.size(); ++n) {
    const int source =
        atoms[n].after.axis < 0 || atoms[n].before == atoms[n].after ? -1 : source_of(atoms[n].after.axis);
    if (source < 0) continue;
    RedistributionStep step{
        .kind = Kind::all_to_all, .axis = atoms[n].after.axis, .outer = major(n), .inner = minor(n)};
    current[n] = 1;
    step.other_outer = major(source);
    step.other_inner = minor(source);
    current[source] = atoms[source].extent;
    plan.steps.push_back(step);
  }
  for (int n = atoms.size() - 1; n >= 0; --n) {
    if (atoms[n].before.axis < 0 || current[n] == atoms[n].extent || atoms[n].before == atoms[n].after) continue;
    plan.steps.push_back({.kind = Kind::gather, .axis = atoms[n].before.axis, .outer = major(n), .inner = minor(n)});
    current[n] = atoms[n].extent;
  }
  return true;
}

}  // namespace detail

/// Plans a reshape (equal sizes). Both shapes are cut into common factors from the minor end; an axis that splits a
/// factor which the other shape cuts elsewhere is gathered first. Then every axis stays, is sliced, is gathered, or
/// moves from one factor to another. A single collective of MPI does what it can, several gathers follow each other;
/// anything else is one exchange, in which every rank receives just what it lacks: no sequence of collectives moves
/// less. An axis of size 1 moves nothing.
MTF_NOINLINE [[nodiscard]] constexpr Redistribution plan_redistribution(const Placement& from, const Placement& to,
                                                                        const MeshValue& mesh) {
  using Kind = RedistributionStep::Kind;
  Redistribution plan;
  detail::Parts before = detail::parts_of(from, mesh);
  const detail::Parts after = detail::parts_of(to, mesh);
  Atoms atoms;
  for (int gathered = detail::cut(before, after, atoms); gathered >= 0; gathered = detail::cut(before, after, atoms)) {
    RedistributionStep step{.kind = Kind::gather, .axis = before[gathered].digit.axis};
    for (int i = 0; i < before.size(); ++i) {
      if (before[i].digit.axis < 0) (i < gathered ? step.outer : step.inner) *= before[i].extent;
    }
    plan.steps.push_back(step);
    before = detail::with_local(before, gathered);
  }
  Redistribution direct = plan;
  bool simple = detail::plan_collectives(atoms, mesh, direct);
  int messages = 0;
  for (int i = plan.steps.size(); simple && i < direct.steps.size(); ++i) {
    simple = direct.steps[i].kind != Kind::all_to_all || messages == 0;
    messages += direct.steps[i].kind != Kind::slice ? 1 : 0;
  }
  if (simple && (messages <= 1 || direct.steps[direct.steps.size() - messages].kind == Kind::gather)) return direct;
  plan.steps.push_back({.kind = Kind::exchange});
  plan.atoms = atoms;
  return plan;
}

/// The exchange that brings the atoms from their old places to the new ones, for the rank at `at`. O(members x atoms).
MTF_NOINLINE [[nodiscard]] constexpr ExchangePlan plan_moves(const Atoms& atoms, const MeshValue& mesh,
                                                             const Coordinates& at) {
  ExchangePlan plan;
  AxisSet held;  // axes that choose among the source's slices; along the others a rank takes from its own copy
  std::int64_t source_strides[8 * max_rank]{};
  std::int64_t target_strides[8 * max_rank]{};
  std::int64_t source_stride = 1;
  std::int64_t target_stride = 1;
  for (int n = 0; n < atoms.size(); ++n) {
    const Atom& atom = atoms[n];
    if (atom.before.axis >= 0) held |= AxisSet::of(atom.before.axis);
    if (!(atom.before == atom.after)) {
      for (const Digit& digit : {atom.before, atom.after}) {
        if (digit.axis >= 0) plan.axes |= AxisSet::of(digit.axis);
      }
      plan.communicates = plan.communicates || atom.before.axis >= 0;
    }
    source_strides[n] = source_stride;
    target_strides[n] = target_stride;
    if (atom.before.axis < 0) source_stride *= atom.extent;
    if (atom.after.axis < 0) target_stride *= atom.extent;
  }
  plan.loop.operands = 2;
  for (int n = atoms.size() - 1; n >= 0; --n) {
    if (atoms[n].before.axis < 0 && atoms[n].after.axis < 0)
      plan.loop.dims.push_back({atoms[n].extent, {target_strides[n], source_strides[n]}});
  }
  plan.members = mesh.size(plan.axes);
  const std::int64_t position = mesh.position(at, plan.axes);
  const auto takes_from = [&](const Coordinates& to, const Coordinates& from) {
    for (int axis = 0; axis < mesh.rank(); ++axis) {
      if (!held.has(axis) && to[axis] != from[axis]) return false;
    }
    for (const Atom& atom : atoms) {
      if (atom.before.axis >= 0 && atom.after.axis >= 0 &&
          atom.before.of(from, atom.extent) != atom.after.of(to, atom.extent))
        return false;
    }
    return true;
  };
  const auto offset = [&](const Coordinates& other, bool in_source) {
    std::int64_t result = 0;
    for (int n = 0; n < atoms.size(); ++n) {
      const Atom& atom = atoms[n];
      if (in_source && atom.before.axis < 0 && atom.after.axis >= 0)
        result += atom.after.of(other, atom.extent) * source_strides[n];
      if (!in_source && atom.before.axis >= 0 && atom.after.axis < 0)
        result += atom.before.of(other, atom.extent) * target_strides[n];
    }
    return result;
  };
  for (std::int64_t member = 0; member < plan.members; ++member) {
    const Coordinates other = mesh.member(at, plan.axes, member);
    if (member == position) {
      if (takes_from(at, at)) plan.kept.push_back({offset(at, true), offset(at, false), 1});
      continue;
    }
    if (takes_from(other, at)) plan.sent.push_back({member, offset(other, true), 1});
    if (takes_from(at, other)) plan.received.push_back({member, offset(other, false), 1});
  }
  return plan;
}

}  // namespace v0
}  // namespace mtf
