// survey_step: the one run of a step without layout rules that a search begins with.
#pragma once

#include <mtf/tensor/dry_run.hpp>

namespace mtf {
inline namespace v0 {

/// What `step(world)` demands of layouts on this mesh. Runs the step once, without rules; a constant expression if all
/// extents are static. `trace`, if given, is filled with the order in which arrays come and go.
template <class Step>
[[nodiscard]] constexpr Survey survey_step(const Step& step, const MeshValue& mesh, MemoryTrace* trace = nullptr) {
  Survey survey;
  survey.trace = trace;
  PlacementRules rules;
  rules.mesh = mesh;
  DryRun<dynamic_mesh, dynamic_layout> world(rules);
  world.engine().survey = &survey;
  step(world);
  world.engine().survey = nullptr;
  survey.trace = nullptr;
  for (const VariableState* state : world.registry().all()) {
    survey.keep(state->placement(), state->leaf.value->type());
  }
  return survey;
}

}  // namespace v0
}  // namespace mtf
