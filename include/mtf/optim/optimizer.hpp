// What optimizers share: slots beside variables, and updates in place.
#pragma once

#include <string_view>
#include <vector>

#include <mtf/ops/gradients.hpp>

namespace mtf {
inline namespace v0 {

namespace detail {

inline constexpr const char* not_negative = "a finite number, at least 0";
constexpr void require_rate(const char* optimizer, double rate) {
  require_parameter(optimizer, "rate", rate, is_finite_and_not_negative(rate), not_negative);
}

template <class T>
constexpr void require_type(const VariableState& state) {
  if (state.slice()->type() != element_type_of<T>::value) {
    raise("optimizer", "variable \"" + std::string(state.path.view()) + "\" is kept as " +
                           std::string(name_of(state.slice()->type())) + ", the optimizer updates " +
                           std::string(name_of(element_type_of<T>::value)));
  }
}

/// The world of an optimizer, which may end before it.
template <class World>
class WorldOfOptimizer {
 public:
  constexpr explicit WorldOfOptimizer(World& world)
      : backend_(static_cast<Backend*>(&world.engine())), world_(&world) {}

  /// The world, for a step with these gradients. Throws if it has ended, or if they are another world's.
  [[nodiscard]] constexpr World& open(const VariableGradients& gradients, const char* operation) const {
    require_alive(*backend_, operation);
    if (!gradients.variables.empty() && gradients.backend() != backend_.object)
      raise(operation, MTF_RULE_DIFFERENT_WORLDS);
    return *world_;
  }

 private:
  Ref<Backend> backend_;
  World* world_;
};

/// The i-th gradient, complete, its elements those of the variable's slice type. That of bfloat16 activations comes as
/// it was summed in float, if nobody has rounded it.
[[nodiscard]] constexpr Ref<Value> gradient_for_update(const VariableGradients& gradients, std::size_t i) {
  const VariableState& state = *gradients.variables[i];
  Ref<Value> gradient = gradients.value(i);
  complete_unrounded(*gradient, state.path.c_str());
  if (gradient->block->wide && state.slice()->type() == ElementType::float32) return gradient;
  return state.to_slice(gradient);
}

/// The optimizer's own variable beside `state`: its path, "/" and `name`; zero at first, not trainable. Throws if the
/// program has a variable of that path, or one of another optimizer that does not fit.
[[nodiscard]] constexpr VariableState& slot(Registry& registry, const VariableState& state, const char* name) {
  const Scope path = state.path / name;
  if (VariableState* found = registry.find(path)) {
    if (found->trainable || !(found->placement() == state.placement()) ||
        found->slice()->type() != state.slice()->type()) {
      raise("optimizer", quoted(path.view()) + " is to hold what the optimizer keeps for " + quoted(state.path.view()) +
                             " " + describe(state.placement().shape()) +
                             ", but there is a variable of that path already, of dims " +
                             describe(found->placement().shape()) + "; give it another path");
    }
    return *found;
  }
  const ElementOperations* elements = state.types.elements;
  return registry.add_slot(path, elements->fill(state.leaf.value->backend(), state.placement(), 0.0), elements);
}

}  // namespace detail

}  // namespace v0
}  // namespace mtf
