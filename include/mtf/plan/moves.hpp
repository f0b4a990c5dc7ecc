// The exchange of a redistribution: who sends which elements to whom.
#pragma once

#include <mtf/plan/exchange.hpp>
#include <mtf/plan/factors.hpp>

namespace mtf {
inline namespace v0 {

/// The exchange that brings the atoms from their old places to the new ones, for the rank at `at`. O(members x atoms);
/// for a tangled atom the runs of its slices (see common_runs) instead, which are at most the extents of its local
/// parts but the innermost, multiplied. What is kept are groups of equal runs.
MTF_NOINLINE [[nodiscard]] constexpr ExchangePlan plan_moves(const Factors& moved, const MeshValue& mesh,
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
