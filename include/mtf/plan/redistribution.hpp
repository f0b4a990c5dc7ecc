// How a reshape moves data: row-major reinterpretation of the global array under the old and the new placement.
#pragma once

#include <mtf/plan/collective.hpp>
#include <mtf/plan/exchange.hpp>
#include <mtf/plan/runs.hpp>

namespace mtf {
inline namespace v0 {

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
constexpr void cut(const Parts& before, const Parts& after, Redistribution& plan) {
  Parts old_parts = before;
  Parts new_parts = after;
  plan.atoms = {};
  plan.tangled = -1;
  int i = before.size() - 1;
  int j = after.size() - 1;
  std::int64_t size = 1;  // of the atoms so far
  std::int64_t low = 1;   // of those below the tangled one
  while (i >= 0 && j >= 0) {
    std::int64_t extent = common_divisor(old_parts[i].extent, new_parts[j].extent);
    if (extent > 1) {
      plan.atoms.push_back({extent, old_parts[i].digit, new_parts[j].digit});
      size *= extent;
    } else {
      extent = common_factor(old_parts, i, new_parts, j);
      if (plan.tangled < 0) {
        plan.tangled = plan.atoms.size();
        low = size;
      }
      size *= extent;
      plan.atoms.count = plan.tangled;
      plan.atoms.push_back({size / low, {}, {}});
    }
    take_off(old_parts, i, extent);
    take_off(new_parts, j, extent);
  }
  if (plan.tangled < 0) return;
  const std::int64_t high = low * plan.atoms[plan.tangled].extent;
  plan.before = parts_within(before, low, high);
  plan.after = parts_within(after, low, high);
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

/// The steps of tangled atoms, if whatever they need of others they need whole: gathers and nothing else.
[[nodiscard]] constexpr bool plan_gathers(Parts before, const Parts& after, const Redistribution& tangled,
                                          const MeshValue& mesh, Redistribution& plan) {
  for (const Part& part : tangled.after) {
    if (part.digit.axis >= 0) return false;
  }
  for (const Part& part : tangled.before) {
    if (part.digit.axis < 0) continue;
    int gathered = 0;
    while (before[gathered].digit.axis != part.digit.axis) ++gathered;
    RedistributionStep step{.kind = RedistributionStep::Kind::gather, .axis = part.digit.axis};
    for (int i = 0; i < before.size(); ++i) {
      if (before[i].digit.axis < 0) (i < gathered ? step.outer : step.inner) *= before[i].extent;
    }
    plan.steps.push_back(step);
    before = with_local(before, gathered);
  }
  Redistribution rest;
  cut(before, after, rest);
  if (rest.tangled >= 0 || !plan_collectives(rest.atoms, mesh, plan)) return false;
  for (const RedistributionStep& step : plan.steps) {
    if (step.kind != RedistributionStep::Kind::gather) return false;
  }
  return true;
}

}  // namespace detail

/// Plans a reshape (equal sizes). Both shapes are cut into common factors from the minor end. Then every axis stays, is
/// sliced, is gathered, or moves from one factor to another. A single collective of MPI does what it can, several
/// gathers follow each other; anything else is one exchange, also of what has no common factors. In all cases a rank
/// receives just what it lacks, each element once: no sequence of collectives moves less. An axis of size 1 moves
/// nothing.
MTF_NOINLINE [[nodiscard]] constexpr Redistribution plan_redistribution(const Placement& from, const Placement& to,
                                                                        const MeshValue& mesh) {
  using Kind = RedistributionStep::Kind;
  Redistribution plan;
  const Parts before = detail::parts_of(from, mesh);
  const Parts after = detail::parts_of(to, mesh);
  detail::cut(before, after, plan);
  Redistribution direct;
  if (plan.tangled >= 0) {
    if (detail::plan_gathers(before, after, plan, mesh, direct)) return direct;
    plan.steps.push_back({.kind = Kind::exchange});
    return plan;
  }
  bool simple = detail::plan_collectives(plan.atoms, mesh, direct);
  int messages = 0;
  for (int i = 0; simple && i < direct.steps.size(); ++i) {
    simple = direct.steps[i].kind != Kind::all_to_all || messages == 0;
    messages += direct.steps[i].kind != Kind::slice ? 1 : 0;
  }
  if (simple && (messages <= 1 || direct.steps[direct.steps.size() - messages].kind == Kind::gather)) return direct;
  plan.steps.push_back({.kind = Kind::exchange});
  return plan;
}

/// The exchange that brings the atoms from their old places to the new ones, for the rank at `at`. O(members x atoms);
/// for a tangled atom the runs of its slices (see common_runs) instead, which are at most the extents of its local
/// parts but the innermost, multiplied. What is kept are groups of equal runs.
MTF_NOINLINE [[nodiscard]] constexpr ExchangePlan plan_moves(const Redistribution& moved, const MeshValue& mesh,
                                                             const Coordinates& at) {
  const Atoms& atoms = moved.atoms;
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
    if (n == moved.tangled) {
      for (const Part& part : moved.before) {
        if (part.digit.axis < 0) source_stride *= part.extent;
        if (part.digit.axis >= 0) held |= AxisSet::of(part.digit.axis);
      }
      plan.axes |= held;
      for (const Part& part : moved.after) {
        if (part.digit.axis < 0) target_stride *= part.extent;
        if (part.digit.axis >= 0) plan.axes |= AxisSet::of(part.digit.axis);
      }
      continue;
    }
    if (atom.before.axis < 0) source_stride *= atom.extent;
    if (atom.after.axis < 0) target_stride *= atom.extent;
  }
  plan.loop.operands = 2;
  for (int n = atoms.size() - 1; n >= 0; --n) {
    if (n == moved.tangled) {
      plan.varying = plan.loop.dims.size();
      plan.loop.dims.push_back({1, {target_strides[n], source_strides[n]}});
    } else if (atoms[n].before.axis < 0 && atoms[n].after.axis < 0) {
      plan.loop.dims.push_back({atoms[n].extent, {target_strides[n], source_strides[n]}});
    }
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
  const auto runs = [&](const Coordinates& from, const Coordinates& to) {
    if (moved.tangled >= 0) return common_runs(SliceRuns(moved.before, from), SliceRuns(moved.after, to));
    RecycledVector<CommonRuns> one;
    one.push_back({});
    return one;
  };
  const std::int64_t source_unit = moved.tangled < 0 ? 0 : source_strides[moved.tangled];
  const std::int64_t target_unit = moved.tangled < 0 ? 0 : target_strides[moved.tangled];
  for (std::int64_t member = 0; member < plan.members; ++member) {
    const Coordinates other = mesh.member(at, plan.axes, member);
    if (!plan.communicates) {  // unless the tangled slice of every member is a part of what it had
      std::int64_t rest = SliceRuns(moved.after, other).size();
      for (const CommonRuns& run : runs(other, other)) rest -= run.length * run.count;
      plan.communicates = moved.tangled >= 0 && rest > 0;
    }
    if (member == position) {
      if (!takes_from(at, at)) continue;
      const std::int64_t source = offset(at, true);
      const std::int64_t target = offset(at, false);
      for (const CommonRuns& run : runs(at, at)) {
        plan.kept.push_back({source + run.source * source_unit, target + run.target * target_unit, run.length,
                             run.count, run.source_step * source_unit, run.target_step * target_unit});
      }
      continue;
    }
    if (takes_from(other, at)) {
      const std::int64_t source = offset(other, true);
      for (const CommonRuns& run : runs(at, other)) {
        plan.sent.push_back(
            {member, source + run.source * source_unit, run.length, run.count, run.source_step * source_unit});
      }
    }
    if (takes_from(at, other)) {
      const std::int64_t target = offset(other, false);
      for (const CommonRuns& run : runs(other, at)) {
        plan.received.push_back(
            {member, target + run.target * target_unit, run.length, run.count, run.target_step * target_unit});
      }
    }
  }
  return plan;
}

}  // namespace v0
}  // namespace mtf
