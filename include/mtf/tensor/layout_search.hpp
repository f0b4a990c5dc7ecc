// search_layout and search: the cheapest legal layout of a step, over the rules and over the meshes of a number of
// processors.
#pragma once

#include <mtf/tensor/search_run.hpp>
#include <mtf/tensor/survey_step.hpp>

namespace mtf {
inline namespace v0 {

namespace detail {

template <class Step>
[[nodiscard]] SearchedStep searched(const Step& step) {
  return {[&step](const MeshValue& mesh, MemoryTrace& trace) { return survey_step(step, mesh, &trace); },
          [&step](const PlacementRules& rules) { return mtf::cost(rules, step); }};
}

}  // namespace detail

/// The cheapest layout of `step(world)` on this mesh, the runners-up and what the others fail by. `step` is a template
/// over the world, as `cost` takes it, and runs the same operations on every layout; one instantiation serves all.
///
/// One run without rules decides legality: which dims meet in a tensor or operation, so that they may not share an
/// axis, and which extents a name takes, all of which an axis must divide. Then branch and bound: a part of the space
/// is left when the products alone, split as far as they can be there, cost more than the layouts kept
/// (LayoutSpace::bound has the proof), or the variables exceed the memory cap. A layout costs one run of the step.
/// Throws one plan_error with every reason if nothing is legal or fits.
template <class Step>
[[nodiscard]] LayoutSearch search_layout(const Step& step, const MeshValue& mesh, const SearchOptions& options = {}) {
  return detail::search_meshes(detail::searched(step), std::span<const MeshValue>(&mesh, 1), options, "search_layout");
}
/// The same on a mesh that is a type.
template <mesh_like MeshType, class Step>
  requires(MeshType::is_static)
[[nodiscard]] LayoutSearch search_layout(const Step& step, const SearchOptions& options = {}) {
  return search_layout(step, MeshType::value(), options);
}

/// The same over every mesh of this number of processors with at most `options.mesh_axes` axes, in every order of their
/// sizes.
template <class Step>
[[nodiscard]] LayoutSearch search(const Step& step, std::int64_t processors, const SearchOptions& options = {}) {
  return detail::search_meshes(detail::searched(step), detail::meshes_of(processors, options), options, "search");
}

}  // namespace v0
}  // namespace mtf
