// What optimizers share: slots beside variables, and updates in place.
#pragma once

#include <string_view>
#include <vector>

#include <mtf/ops/gradients.hpp>

namespace mtf {
inline namespace v0 {

namespace detail {

template <class T>
constexpr void require_type(const VariableState& state) {
  if (state.leaf.value->type() != element_type_of<T>::value) {
    raise("optimizer", "variable \"" + std::string(state.path.view()) + "\" is " + std::string(name_of(state.leaf.value->type())) +
                           ", the optimizer updates " + std::string(name_of(element_type_of<T>::value)));
  }
}

/// Memory of a variable that may be written: its own if nobody holds the present version, else a copy.
[[nodiscard]] constexpr Ref<Value> writable(const VariableState& state) {
  const Ref<Value>& value = state.leaf.value;
  if (value->references == 1 && value->block->references == 1 && !value->block->lent) return value;
  return VariableState::copy_of(*value);
}

/// The optimizer's own variable beside `state`: its path, "/" and `name`; zero at first, not trainable.
[[nodiscard]] constexpr VariableState& slot(Registry& registry, const VariableState& state, std::string_view name) {
  const Scope path = state.path / name;
  if (VariableState* found = registry.find(path.view())) return *found;
  const ElementOperations* elements = state.leaf.node->elements;
  return registry.add(path, elements->fill(state.leaf.value->backend(), state.placement(), 0.0), elements, false);
}

}  // namespace detail

}  // namespace v0
}  // namespace mtf
