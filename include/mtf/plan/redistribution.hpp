// How a reshape moves data: row-major reinterpretation of the global array under the old and the new placement.
#pragma once

#include <mtf/plan/collective.hpp>
#include <mtf/plan/factors.hpp>

namespace mtf {
inline namespace v0 {

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
  Factors factors;  ///< of the exchange (see moves.hpp)
};

namespace detail {

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
[[nodiscard]] constexpr bool plan_gathers(Parts before, const Parts& after, const Factors& tangled,
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
  Factors rest;
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
  detail::cut(before, after, plan.factors);
  Redistribution direct;
  if (plan.factors.tangled >= 0) {
    if (detail::plan_gathers(before, after, plan.factors, mesh, direct)) return direct;
    plan.steps.push_back({.kind = Kind::exchange});
    return plan;
  }
  bool simple = detail::plan_collectives(plan.factors.atoms, mesh, direct);
  int messages = 0;
  for (int i = 0; simple && i < direct.steps.size(); ++i) {
    simple = direct.steps[i].kind != Kind::all_to_all || messages == 0;
    messages += direct.steps[i].kind != Kind::slice ? 1 : 0;
  }
  if (simple && (messages <= 1 || direct.steps[direct.steps.size() - messages].kind == Kind::gather)) return direct;
  plan.steps.push_back({.kind = Kind::exchange});
  return plan;
}

}  // namespace v0
}  // namespace mtf
