// Variable: a named, mutable, persistent array, owned by the world's registry.
#pragma once

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

  MTF_NOINLINE constexpr void require_assignable(const Value& value) const {
    const Backend& backend = leaf.value->backend();
    detail::require_open(backend, "assign");
    if (&value.backend() != &backend) raise("assign", std::string("the variable and the value belong to different worlds"));
    if (!(value.placement == placement())) {
      raise("assign", "\"" + std::string(path.view()) + "\" has dims " + describe(placement().shape()) + ", the value " +
                          describe(value.placement.shape()));
    }
  }
  /// A new version. The old one stays as it was for everyone who holds it.
  MTF_NOINLINE constexpr void assign(const Ref<Value>& value) {
    complete(*value, "assign");
    const Node& old = *leaf.node;
    Ref<Node> node = make_node(*old.backend, value->placement, old.elements);
    node->name = path.view();
    leaf = {value, node};
    if (value->block->lent) leaf.value = copy_of(*value);  // the lender takes its memory back
    ++version;
  }
};

/// The variables of a world in order of creation, by path. Owns them.
class Registry {
 public:
  constexpr Registry() = default;
  Registry(const Registry&) = delete;
  Registry& operator=(const Registry&) = delete;
  constexpr ~Registry() { clear(); }

  [[nodiscard]] constexpr VariableState* find(std::string_view path) const {
    for (VariableState* state : states_) {
      if (state->path.view() == path) return state;
    }
    return nullptr;
  }
  MTF_NOINLINE constexpr void require_free(const Scope& path) const {
    if (find(path.view()) != nullptr) {
      raise("variable", "\"" + std::string(path.view()) + "\" exists already; give it another path, or read the first one through its handle");
    }
  }
  /// Adds a variable of this value; a second one of the same path is an error.
  MTF_NOINLINE constexpr VariableState& add(const Scope& path, const Ref<Value>& value, const ElementOperations* elements, bool trainable) {
    require_free(path);
    states_.push_back(new VariableState());
    VariableState* state = states_.back();
    state->path = path;
    state->trainable = trainable;
    state->leaf.node = make_node(value->backend(), value->placement, elements);
    state->leaf.node->name = state->path.view();
    state->leaf.value = value;
    return *state;
  }
  [[nodiscard]] constexpr const std::vector<VariableState*>& all() const { return states_; }
  constexpr void clear() {
    for (VariableState* state : states_) delete state;
    states_.clear();
  }

 private:
  std::vector<VariableState*> states_;
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

  constexpr explicit Variable(VariableState& state) : state_(&state) {}

  [[nodiscard]] constexpr Tensor<World, T, Dims...> read() const { return Tensor<World, T, Dims...>(state_->leaf); }
  [[nodiscard]] constexpr VariableState& state() const { return *state_; }
  [[nodiscard]] constexpr std::string_view path() const { return state_->path.view(); }
  [[nodiscard]] constexpr ShapeValue shape() const { return state_->placement().shape(); }

  /// Makes `value` the present version. Completes it if it is pending.
  constexpr void assign(const Tensor<World, T, Dims...>& value) const {
    state_->require_assignable(*value.array().value);
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
constexpr const Array& array_of(const Variable<World, T, Dims...>& x) {
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
