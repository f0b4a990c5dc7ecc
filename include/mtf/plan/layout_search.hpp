// The search itself: branch and bound over a LayoutSpace, for any way to value a layout.
#pragma once

#include <mtf/plan/layout_space.hpp>

namespace mtf {
inline namespace v0 {

/// What a layout is worth.
struct Evaluation {
  double objective = 0;     ///< the smaller the better
  std::int64_t memory = 0;  ///< peak of a rank in bytes
  bool refused = false;     ///< the step does not run under this layout
};

/// An axis by what it does: its size and the dims it splits.
struct AxisUse {
  std::int64_t size = 1;
  DimSet dims = 0;

  friend constexpr bool operator==(const AxisUse&, const AxisUse&) = default;
};

/// A layout in the order of preference.
struct RankedLayout {
  Splits splits;
  int mesh = 0;  ///< number of the mesh, in a search over meshes
  Evaluation value;
  int rules = 0;
  InlineVector<AxisUse, max_axes> axes;  ///< in ascending order: equal for layouts that differ in names of axes only
};

[[nodiscard]] constexpr RankedLayout ranked(const LayoutSpace& space, const Splits& splits, int mesh,
                                            const Evaluation& value) {
  RankedLayout layout;
  layout.splits = splits;
  layout.mesh = mesh;
  layout.value = value;
  for (const AxisSet axes : splits) layout.rules += axes.empty() ? 0 : 1;
  for (int axis = 0; axis < space.mesh.rank(); ++axis) {
    AxisUse use{space.mesh.axes[axis].size, 0};
    for (int i = 0; i < splits.size(); ++i) use.dims |= splits[i].has(axis) ? bit(space.dims[i].surveyed) : 0;
    layout.axes.push_back(use);
    for (int i = axis; i > 0; --i) {
      const AxisUse earlier = layout.axes[i - 1];
      if (earlier.size < use.size || (earlier.size == use.size && earlier.dims <= use.dims)) break;
      layout.axes[i - 1] = use;
      layout.axes[i] = earlier;
    }
  }
  return layout;
}

/// The best layouts found so far: the best and three runners-up. Equal objectives go by memory, then by the number of
/// rules, then first come; `prefers_splits` (the tie-break of Mesh-TensorFlow's automatic layout) takes more rules
/// first.
struct Ranking {
  static constexpr int kept = 4;
  InlineVector<RankedLayout, kept> layouts;
  bool prefers_splits = false;

  [[nodiscard]] constexpr bool before(const RankedLayout& a, const RankedLayout& b) const {
    if (a.value.objective != b.value.objective) return a.value.objective < b.value.objective;
    if (prefers_splits && a.rules != b.rules) return a.rules > b.rules;
    if (a.value.memory != b.value.memory) return a.value.memory < b.value.memory;
    return a.rules < b.rules;
  }
  /// A layout that costs the same as one kept and differs from it in the names of axes only, its mirror image, is left
  /// out.
  constexpr void add(const RankedLayout& layout) {
    for (const RankedLayout& known : layouts) {
      if (known.value.objective == layout.value.objective && known.value.memory == layout.value.memory &&
          known.axes == layout.axes)
        return;
    }
    if (layouts.full()) {
      if (!before(layout, layouts.back())) return;
      layouts.erase(kept - 1);
    }
    layouts.push_back(layout);
    for (int i = layouts.size() - 1; i > 0 && before(layouts[i], layouts[i - 1]); --i) {
      const RankedLayout earlier = layouts[i - 1];
      layouts[i - 1] = layouts[i];
      layouts[i] = earlier;
    }
  }
  /// Whether a layout of this objective or more cannot enter. Equal objectives can, by their other merits.
  [[nodiscard]] constexpr bool excludes(double objective) const {
    return layouts.full() && objective > layouts.back().value.objective;
  }
};

/// What a search did.
struct SearchCounts {
  double candidates = 0;     ///< assignments of axes to dims, the illegal ones included
  double legal = 0;          ///< legal layouts
  bool all_counted = true;   ///< false: there are more legal layouts than `legal`; counting them would take too long
  std::int64_t visited = 0;  ///< nodes of the search tree: partly decided layouts
  std::int64_t pruned = 0;   ///< of these, left because nothing below can be among the best
  std::int64_t pruned_by_memory = 0;  ///< left because the variables alone exceed the memory cap everywhere below
  std::int64_t evaluated = 0;         ///< layouts whose cost was counted
  std::int64_t over_memory = 0;       ///< of these, above the memory cap
  std::int64_t refused = 0;           ///< of these, refused by the step

  [[nodiscard]] constexpr double illegal() const { return candidates - legal; }
  constexpr void add(const SearchCounts& other) {
    candidates += other.candidates;
    legal += other.legal;
    all_counted = all_counted && other.all_counted;
    visited += other.visited;
    pruned += other.pruned;
    pruned_by_memory += other.pruned_by_memory;
    evaluated += other.evaluated;
    over_memory += other.over_memory;
    refused += other.refused;
  }
};

namespace detail {

/// Counts the legal layouts below a node that is left.
struct LegalCounter {
  static constexpr std::int64_t enough = 20'000'000;  ///< nodes, about a second
  std::int64_t visited = 0;
  double legal = 0;

  [[nodiscard]] constexpr bool enter(const Splits&) { return ++visited < enough; }
  constexpr void leaf(const Splits&) { ++legal; }
};

template <class Bound, class Evaluate>
struct BranchAndBound {
  const LayoutSpace& space;
  const Survey& survey;
  std::int64_t memory_cap;
  bool exhaustive;
  int mesh;
  const Bound& bound;
  const Evaluate& evaluate;
  Ranking& ranking;
  SearchCounts& counts;
  LegalCounter counter{};

  [[nodiscard]] constexpr bool enter(const Splits& splits) {
    ++counts.visited;
    if (exhaustive) return true;
    const LowerBound least = space.bound(survey, splits);
    if (least.persistent > memory_cap) return leave(splits, counts.pruned_by_memory);
    if (ranking.layouts.full() && ranking.excludes(bound(splits, least))) return leave(splits, counts.pruned);
    return true;
  }
  constexpr void leaf(const Splits& splits) {
    ++counts.legal;
    ++counts.evaluated;
    const Evaluation value = evaluate(splits);
    if (value.refused) {
      ++counts.refused;
    } else if (value.memory > memory_cap) {
      ++counts.over_memory;
    } else {
      ranking.add(ranked(space, splits, mesh, value));
    }
  }

 private:
  [[nodiscard]] constexpr bool leave(const Splits& splits, std::int64_t& reason) {
    ++reason;
    if (counter.visited < LegalCounter::enough) {
      counter.legal = 0;
      Splits below = splits;
      walk(space, survey, below, counter);
      counts.legal += counter.legal;
    }
    counts.all_counted = counts.all_counted && counter.visited < LegalCounter::enough;
    return false;
  }
};

}  // namespace detail

/// Adds the layouts of a space to `ranking` if they are among the best: branch and bound. `evaluate(splits)` values a
/// layout, an Evaluation; `bound(splits, least)` says for the LowerBound of a part of the space what objective no
/// layout in it can undercut. `mesh` is kept with the layouts. `exhaustive` evaluates every legal layout.
///
/// A part is left only if its bound is above the objective of the last layout kept, so the result is that of the
/// exhaustive search, runners-up and ties included: the kept objective only falls, and no layout below has an objective
/// under the bound.
/// Complexity: one bound for each node visited, one evaluation for each layout that is not pruned.
template <class Bound, class Evaluate>
constexpr SearchCounts branch_and_bound(const LayoutSpace& space, const Survey& survey, std::int64_t memory_cap,
                                        bool exhaustive, int mesh, const Bound& bound, const Evaluate& evaluate,
                                        Ranking& ranking) {
  SearchCounts counts;
  counts.candidates = space.candidates;
  detail::BranchAndBound<Bound, Evaluate> search{space, survey,   memory_cap, exhaustive, mesh,
                                                 bound, evaluate, ranking,    counts};
  Splits splits;
  walk(space, survey, splits, search);
  return counts;
}

}  // namespace v0
}  // namespace mtf
