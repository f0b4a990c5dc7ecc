// Variable: a named, mutable, persistent array, owned by the world's registry.
#pragma once

#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <mtf/core/path.hpp>
#include <mtf/tensor/form.hpp>
#include <mtf/tensor/tensor.hpp>

namespace mtf {
inline namespace v0 {

/// A variable without its types. All reads of one version are one leaf of the graph.
struct VariableState {
  Scope path;
  Array leaf;
  std::int64_t version = 0;
  bool trainable = true;

  [[nodiscard]] constexpr const Placement& placement() const { return leaf.value->placement; }

  [[nodiscard]] static constexpr Ref<Value> copy_of(const Value& value) {
    Ref<Value> copy = make_value(value.backend(), value.placement, value.type());
    const StridedShape shape = row_major(value.placement);
    value.backend().copy(plan_copy(shape, shape), *copy->block, *value.block);
    return copy;
  }

  /// A new version. The old one stays as it was for everyone who holds it.
  constexpr void assign(Ref<Value> value) {
    complete(*value, "assign");
    if (value->block->lent) value = copy_of(*value);  // the lender takes its memory back
    const Node& old = *leaf.node;
    Ref<Node> node = make_node(*old.backend, value->placement, old.elements);
    node->name = path.view();
    leaf = {std::move(value), std::move(node)};
    ++version;
  }
};

/// The variables of a world in order of creation, by path.
class Registry {
 public:
  [[nodiscard]] constexpr VariableState* find(std::string_view path) const {
    for (const auto& state : states_) {
      if (state->path.view() == path) return state.get();
    }
    return nullptr;
  }
  /// Throws if a variable of this path cannot be made now.
  void require_new(const Backend& backend, const Scope& path) const {
    if (backend.replaying != nullptr) {
      raise("variable", "\"" + std::string(path.view()) + "\" is made while " + backend.replaying +
                            " runs a function for its gradient; make variables before, and let the function refer to them");
    }
    if (find(path.view()) != nullptr) {
      raise("variable", "\"" + std::string(path.view()) + "\" exists already; give it another path, or read the first one through its handle");
    }
  }
  /// Adds a variable of this value; a second one of the same path is an error.
  VariableState& add(const Scope& path, Ref<Value> value, const ElementOperations* elements, bool trainable) {
    require_new(value->backend(), path);
    auto state = std::make_unique<VariableState>();
    state->path = path;
    state->trainable = trainable;
    state->leaf.node = make_node(value->backend(), value->placement, elements);
    state->leaf.node->name = state->path.view();
    state->leaf.value = std::move(value);
    states_.push_back(std::move(state));
    return *states_.back();
  }
  [[nodiscard]] const std::vector<std::unique_ptr<VariableState>>& all() const { return states_; }
  void clear() { states_.clear(); }

 private:
  std::vector<std::unique_ptr<VariableState>> states_;
};

/// A handle to a variable of shape [Dims...]. Used as an operand it is read at its present version; the tensor read is a
/// snapshot that later assignments do not change.
template <class World, element T, dim_like... Dims>
class Variable : public OperandBase {
 public:
  using world_type = World;
  using element_type = T;
  using engine_type = typename World::engine_type;
  using dims = DimList<Dims...>;

  explicit Variable(VariableState& state) : state_(&state) {}

  [[nodiscard]] Tensor<World, T, Dims...> read() const { return Tensor<World, T, Dims...>(state_->leaf); }
  [[nodiscard]] VariableState& state() const { return *state_; }
  [[nodiscard]] std::string_view path() const { return state_->path.view(); }
  [[nodiscard]] ShapeValue shape() const { return state_->placement().shape(); }

  /// Makes `value` the present version. Completes it if it is pending.
  void assign(const Tensor<World, T, Dims...>& value) const {
    const Backend& backend = state_->leaf.value->backend();
    detail::require_open(backend, "assign");
    if (&value.array().value->backend() != &backend) raise("assign", std::string("the variable and the value belong to different worlds"));
    if (!(value.placement() == state_->placement())) {
      raise("assign", "\"" + std::string(path()) + "\" has dims " + describe(shape()) + ", the value " + describe(value.shape()));
    }
    state_->assign(value.array().value);
  }

 private:
  VariableState* state_;
};

namespace detail {

template <class World, class T, class... Dims>
constexpr const Array& array_of(const Tensor<World, T, Dims...>& x) {
  return x.array();
}
template <class World, class T, class... Dims>
const Array& array_of(const Variable<World, T, Dims...>& x) {
  return x.state().leaf;
}

template <class Arrays>
constexpr void require_same_backend(const Backend& backend, const char* operation, const Arrays& arrays) {
  for (const Array& array : arrays) {
    if (&array.value->backend() != &backend) {
      raise(operation, std::string("the operands belong to different worlds; use from_global(other_world, to_host(x)) to carry data over"));
    }
  }
}

}  // namespace detail

}  // namespace v0
}  // namespace mtf
