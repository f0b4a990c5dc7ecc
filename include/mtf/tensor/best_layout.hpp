// best_layout: the cheapest legal layout of a step as a type, found while compiling.
#pragma once

#include <limits>
#include <type_traits>
#include <utility>

#include <mtf/plan/layout_search.hpp>
#include <mtf/plan/objective.hpp>
#include <mtf/tensor/check.hpp>
#include <mtf/tensor/survey_step.hpp>

namespace mtf {
inline namespace v0 {

/// Names as a value: `static constexpr auto dims = mtf::names("batch", "heads");`
template <class... Texts>
[[nodiscard]] constexpr auto names(const Texts&... texts) {
  InlineVector<Name, max_rules> result;
  (result.push_back(Name(texts)), ...);
  return result;
}

/// What best_layout minimises and considers. Derive a struct and hide what is to differ:
/// `struct Options : mtf::BestLayoutOptions { static constexpr std::int64_t memory_cap = 8_GiB; };`
struct BestLayoutOptions {
  static constexpr std::int64_t memory_cap = std::numeric_limits<std::int64_t>::max();  ///< bytes of a rank
  static constexpr InlineVector<Name, max_rules> dims{};  ///< dims that may be split; none: all
  static constexpr bool several_axes = false;             ///< a dim may also be split over several axes
  static constexpr Machine machine{};                     ///< of the default objective
};

/// How many legal layouts best_layout compares at most.
inline constexpr int max_best_layout_candidates = 100;

namespace detail {

// Each of these is a constant expression of its own, because compilers limit the steps of one.
template <class MeshType, auto Step>
inline constexpr Survey surveyed = survey_step(Step, MeshType::value());

template <class Options>
[[nodiscard]] constexpr SpaceOptions space_options() {
  SpaceOptions result;
  result.dims = Options::dims;
  result.several_axes = Options::several_axes;
  return result;
}
template <class MeshType, auto Step, class Options>
inline constexpr LayoutSpace layout_space =
    LayoutSpace(surveyed<MeshType, Step>, MeshType::value(), space_options<Options>());

struct CandidateList {
  InlineVector<Splits, max_best_layout_candidates> layouts;
  bool complete = true;

  [[nodiscard]] constexpr bool enter(const Splits&) const { return complete; }
  constexpr void leaf(const Splits& splits) {
    complete = !layouts.full();
    if (complete) layouts.push_back(splits);
  }
};
[[nodiscard]] constexpr CandidateList list_candidates(const Survey& survey, const LayoutSpace& space) {
  CandidateList list;
  Splits splits;
  walk(space, survey, splits, list);
  return list;
}
template <class MeshType, auto Step, class Options>
inline constexpr CandidateList candidates =
    list_candidates(surveyed<MeshType, Step>, layout_space<MeshType, Step, Options>);

template <class Options>
[[nodiscard]] constexpr double objective_of(const Cost& cost) {
  if constexpr (requires { Options::objective(cost); }) {
    return Options::objective(cost);
  } else {
    return value_of(cost, Objective::time, Options::machine);
  }
}

template <class MeshType, auto Step, class Options>
[[nodiscard]] constexpr Evaluation evaluate_candidate(int number) {
  const LayoutSpace& space = layout_space<MeshType, Step, Options>;
  const Cost cost = mtf::cost(space.rules(candidates<MeshType, Step, Options>.layouts[number]), Step);
  return {objective_of<Options>(cost), cost.peak_bytes, false};
}
template <class MeshType, auto Step, class Options, int Number>
inline constexpr Evaluation candidate_value = evaluate_candidate<MeshType, Step, Options>(Number);

/// The lower bounds of every candidate (LayoutSpace::bound), from which some are never evaluated.
struct CandidateBounds {
  InlineVector<Evaluation, max_best_layout_candidates> values;
};
template <class MeshType, auto Step, class Options>
[[nodiscard]] constexpr CandidateBounds bound_candidates() {
  const LayoutSpace& space = layout_space<MeshType, Step, Options>;
  CandidateBounds bounds;
  for (const Splits& splits : candidates<MeshType, Step, Options>.layouts) {
    const LowerBound least = space.bound(surveyed<MeshType, Step>, splits);
    bounds.values.push_back({objective_of<Options>(cost_at_least(space.mesh, least)), least.persistent, false});
  }
  return bounds;
}
template <class MeshType, auto Step, class Options>
inline constexpr CandidateBounds candidate_bounds = bound_candidates<MeshType, Step, Options>();

/// The candidate of the smallest bound that may fit; -1 if none does.
[[nodiscard]] constexpr int most_promising(const CandidateBounds& bounds, std::int64_t memory_cap) {
  int best = -1;
  for (int i = 0; i < bounds.values.size(); ++i) {
    const Evaluation& least = bounds.values[i];
    if (least.memory <= memory_cap && (best < 0 || least.objective < bounds.values[best].objective)) best = i;
  }
  return best;
}
/// The candidates that can still be best once the most promising one is known. What cannot is not instantiated, let
/// alone run.
template <class MeshType, auto Step, class Options>
[[nodiscard]] constexpr auto find_contenders() {
  InlineVector<int, max_best_layout_candidates> result;
  constexpr const CandidateBounds& bounds = candidate_bounds<MeshType, Step, Options>;
  constexpr int first = most_promising(bounds, Options::memory_cap);
  if constexpr (first >= 0) {
    constexpr Evaluation incumbent = candidate_value<MeshType, Step, Options, first>;
    for (int i = 0; i < bounds.values.size(); ++i) {
      const bool can_win = incumbent.memory > Options::memory_cap || bounds.values[i].objective <= incumbent.objective;
      if (bounds.values[i].memory <= Options::memory_cap && can_win) result.push_back(i);
    }
  }
  return result;
}
template <class MeshType, auto Step, class Options>
inline constexpr auto contenders = find_contenders<MeshType, Step, Options>();

struct BestFound {
  Ranking ranking;  ///< of the contenders
  std::int64_t smallest_peak =
      std::numeric_limits<std::int64_t>::max();  ///< of all candidates; a lower bound where one was not evaluated
};
template <class MeshType, auto Step, class Options, std::size_t... I>
[[nodiscard]] constexpr BestFound choose_best(std::index_sequence<I...>) {
  constexpr const auto& numbers = contenders<MeshType, Step, Options>.items;
  BestFound best;
  for (const Evaluation& least : candidate_bounds<MeshType, Step, Options>.values) {
    if (least.memory > Options::memory_cap && least.memory < best.smallest_peak) best.smallest_peak = least.memory;
  }
  const auto meet = [&](int number, const Evaluation& value) {
    if (value.memory < best.smallest_peak) best.smallest_peak = value.memory;
    if (value.memory > Options::memory_cap) return;
    best.ranking.add(
        ranked(layout_space<MeshType, Step, Options>, candidates<MeshType, Step, Options>.layouts[number], 0, value));
  };
  (meet(numbers[I], candidate_value<MeshType, Step, Options, numbers[I]>), ...);
  return best;
}
template <class MeshType, auto Step, class Options>
inline constexpr BestFound best_found = choose_best<MeshType, Step, Options>(
    std::make_index_sequence<static_cast<std::size_t>(contenders<MeshType, Step, Options>.count)>{});

/// A layout as a value turned into a type; `Holder::value` is the layout.
template <class Holder>
struct LayoutType {
  template <int R, std::size_t... A>
  static consteval auto split(std::index_sequence<A...>) {
    constexpr const Rule& rule = Holder::value.rules[R];
    return std::type_identity<
        Split<fixed<rule.dim.text.size() + 1>(rule.dim), fixed<rule.axes[A].text.size() + 1>(rule.axes[A])...>>{};
  }
  template <int... R>
  static consteval auto all(std::integer_sequence<int, R...>) {
    return std::type_identity<Layout<typename decltype(split<R>(
        std::make_index_sequence<static_cast<std::size_t>(Holder::value.rules[R].axes.count)>{}))::type...>>{};
  }
  using type = typename decltype(all(std::make_integer_sequence<int, Holder::value.rules.count>{}))::type;
};

/// What the search comes to, whatever it is: an error is BestLayout's to report.
template <class MeshType, auto Step, class Options>
struct Choice {
  struct Holder {
    static constexpr LayoutValue value =
        layout_space<MeshType, Step, Options>.layout(best_found<MeshType, Step, Options>.ranking.layouts[0].splits);
  };
  static constexpr bool is_complete = candidates<MeshType, Step, Options>.complete &&
                                      !layout_space<MeshType, Step, Options>.overflowed &&
                                      !surveyed<MeshType, Step>.overflowed;
  static consteval auto select() {
    if constexpr (is_complete) {
      if constexpr (!best_found<MeshType, Step, Options>.ranking.layouts.empty())
        return LayoutType<Holder>{};
      else
        return std::type_identity<Layout<>>{};
    } else {
      return std::type_identity<Layout<>>{};
    }
  }
  static consteval std::int64_t find_smallest_peak() {
    if constexpr (is_complete) {
      return best_found<MeshType, Step, Options>.smallest_peak;
    } else {
      return 0;
    }
  }
  static constexpr std::int64_t smallest_peak = find_smallest_peak();
  using type = typename decltype(select())::type;
};
template <class MeshType, auto Step, class Options>
  requires(!MeshType::is_static)
struct Choice<MeshType, Step, Options> {
  static constexpr bool is_complete = true;
  static constexpr std::int64_t smallest_peak = 0;
  using type = Layout<>;
};

// The assertions are in bases, so that few lines lie between the sentence and the user's.
template <class MeshType>
struct static_mesh_size {
  static_assert(MeshType::is_static,
                "mtf: best_layout: the mesh has an axis of dynamic size; give all sizes, or run search_layout(step, "
                "mesh) when they are known");
};
template <class MeshType, bool AtMost100>
struct few_legal_layouts {
  static_assert(
      AtMost100,
      "mtf: best_layout: the step has more than 100 legal layouts on this mesh, too many for a compiler; name the dims "
      "that may be split in the "
      "options (dims = mtf::names(...)), or run search_layout(step, mesh) and paste the layout that it prints");
};
template <std::int64_t MemoryCap, std::int64_t SmallestPeak>
struct fits_memory {
  static_assert(SmallestPeak <= MemoryCap,
                "mtf: best_layout: no legal layout of the step keeps its memory under the cap; raise memory_cap, add "
                "processors, or let more dims be split");
};

template <class MeshType, auto Step, class Options>
struct BestLayout : static_mesh_size<MeshType>,
                    few_legal_layouts<MeshType, Choice<MeshType, Step, Options>::is_complete>,
                    fits_memory<Options::memory_cap, Choice<MeshType, Step, Options>::smallest_peak> {
  using type = typename Choice<MeshType, Step, Options>::type;
};

}  // namespace detail

/// The layout that search_layout finds best for `Step` on `MeshType`, as a type: `using Layout = mtf::best_layout<Mesh,
/// step>;`. `Step` is a stateless callable that takes a world, such as a constexpr lambda; all extents and sizes are
/// static. The result is an mtf::Layout<mtf::Split<...>...>.
///
/// One run of the step decides legality; then each candidate that could win is one more run, each a constant expression
/// of its own. Errors, when compiling: more than 100 legal candidates; nothing fits the memory cap; a mesh of dynamic
/// size; what the step itself does wrong.
template <mesh_like MeshType, auto Step, class Options = BestLayoutOptions>
using best_layout = typename detail::BestLayout<MeshType, Step, Options>::type;

}  // namespace v0
}  // namespace mtf
