// Registry: the variables of a world, without their types.
#pragma once

#include <cstdint>

#include <mtf/core/path.hpp>
#include <mtf/tensor/form.hpp>

namespace mtf {
inline namespace v0 {

/// How a variable whose slices and activations differ in type goes from one to the other.
struct SliceOperations {
  const ElementOperations* elements = nullptr;               ///< of the slice type
  Ref<Value> (*to_activation)(const Ref<Value>&) = nullptr;  ///< null if the types are the same
  Ref<Value> (*to_slice)(const Ref<Value>&) = nullptr;
  ElementType master{};
};

/// A variable without its types. All reads of one version are one leaf of the graph. It is the registry's and that of
/// every handle, so that a handle may outlive its world.
struct VariableState : Counted {
  Scope path;
  Array leaf;         ///< what is read, in the activation type
  Ref<Value> stored;  ///< in the slice type, if that is another one
  SliceOperations types;
  std::int64_t version = 0;
  bool trainable = true;
  VariableState* next = nullptr;  ///< in the registry, of those whose paths have a similar hash

  /// The present version in the slice type: what is updated and saved.
  [[nodiscard]] constexpr const Ref<Value>& slice() const { return stored.object != nullptr ? stored : leaf.value; }
  /// A value of the activation type, such as a gradient, in the slice type.
  [[nodiscard]] constexpr Ref<Value> to_slice(const Ref<Value>& value) const {
    if (types.to_slice == nullptr) return value;
    return types.to_slice(value);
  }
  [[nodiscard]] constexpr const KeptPlacement& placement() const { return leaf.value.object->placement; }

  [[nodiscard]] static constexpr Ref<Value> copy_of(const Value& value) {
    Ref<Value> copy = make_value(value.backend(), value.placement, value.type());
    value.backend().copy(plan_copy(value.backend(), value.placement, value.placement), *copy->block, *value.block);
    return copy;
  }

  /// Memory of the slice that may be written: its own if nobody holds the present version, else a copy.
  [[nodiscard]] constexpr Ref<Value> writable() const {
    const Ref<Value>& value = slice();
    if (is_sole_owner(value)) return value;
    return copy_of(*value);
  }

  /// A new version, of the slice type. The old one stays as it was for everyone who holds it.
  MTF_NOINLINE constexpr void assign(const Ref<Value>& value) {
    complete(*value.object->block.object, "assign");
    if (leaf.node.object != nullptr && is_read(*leaf.node.object)) {
      Ref<Node> node = make_node(*leaf.node->backend, value->placement, leaf.node->elements);
      node->name = path.view();
      leaf.node = std::move(node);
    }
    if (value.object->block.object->lent) {
      set(copy_of(*value));  // the lender takes its memory back
    } else {
      set(value);
    }
    ++version;
  }
  /// Whether someone may know this leaf: it then stays that of the version it was made for.
  [[nodiscard]] static constexpr bool is_read(const Node& node) {
    return node.references > 1 || node.scope != 0 || node.backend.object->scope != nullptr;
  }
  constexpr void set(const Ref<Value>& value) {
    if (types.to_activation == nullptr) {
      leaf.value = value;
    } else {
      leaf.value = types.to_activation(value);
      stored = value;
    }
  }
};

constexpr void dispose(VariableState* state) { destroy(state); }

/// The variables of a world in order of creation, by path.
class Registry {
 public:
  constexpr Registry() = default;
  Registry(const Registry&) = delete;
  Registry& operator=(const Registry&) = delete;
  constexpr ~Registry() { release(); }

  [[nodiscard]] constexpr VariableState* find(const Scope& path) const {
    VariableState* state = buckets_[path.hash() % buckets];
    while (state != nullptr && !(state->path == path)) state = state->next;
    return state;
  }
  /// Throws if a variable of this path cannot be made now.
  MTF_NOINLINE constexpr void require_new(const Backend& backend, const Scope& path) const {
    if (backend.replaying != nullptr) {
      raise("variable",
            quoted(path.view()) + " is made while " + backend.replaying +
                " runs a function for its gradient; make variables before, and let the function refer to them");
    }
    if (find(path) != nullptr) {
      raise("variable",
            quoted(path.view()) + " exists already; give it another path, or read the first one through its handle");
    }
  }
  /// Adds a slot of an optimizer, of this value: it is not trained, and no graph knows it. The path must be new.
  constexpr VariableState& add_slot(const Scope& path, const Ref<Value>& value, const ElementOperations* elements) {
    VariableState& state = add(path, value, {.elements = elements, .master = value->type()});
    state.trainable = false;
    return state;
  }
  /// Adds a variable of this value, of the slice type; `elements` is of the activation type. A second one of a path is
  /// an error.
  constexpr VariableState& add(const Scope& path, const Ref<Value>& value, const ElementOperations* elements,
                               const SliceOperations& types) {
    require_new(value->backend(), path);
    VariableState& state = add(path, value, types);
    state.leaf.node = make_node(value->backend(), value->placement, elements);
    state.leaf.node->name = state.path.view();
    return state;
  }
  [[nodiscard]] constexpr const RecycledVector<VariableState*>& all() const { return states_; }
  constexpr void clear() {
    release();
    for (VariableState*& bucket : buckets_) bucket = nullptr;
  }

 private:
  MTF_NOINLINE constexpr VariableState& add(const Scope& path, const Ref<Value>& value, const SliceOperations& types) {
    auto* state = make<VariableState>();
    ++state->references;
    states_.push_back(state);
    state->path = path;
    state->types = types;
    VariableState*& bucket = buckets_[path.hash() % buckets];
    state->next = bucket;
    bucket = state;
    state->set(value);
    return *state;
  }
  constexpr void release() {
    for (VariableState* state : states_) {
      if (--state->references == 0) dispose(state);
    }
    states_.clear();
  }

  static constexpr std::uint64_t buckets = 256;
  RecycledVector<VariableState*> states_;  ///< in order of creation
  VariableState* buckets_[buckets]{};
};

}  // namespace v0
}  // namespace mtf
