// Variable: a named, mutable, persistent array, owned by the world's registry.
#pragma once

#include <string>
#include <type_traits>
#include <utility>

#include <mtf/core/path.hpp>
#include <mtf/tensor/form.hpp>
#include <mtf/tensor/tensor.hpp>

namespace mtf {
inline namespace v0 {

/// Element types of a variable: `Master` of its checkpoints and of drawing the initial value, `Slice` of what each rank
/// keeps and optimizers update, `Activation` of what the model reads. Updates never go through the activation type: a
/// bfloat16 activation would lose every update below 1/256 of the value.
template <element Master, element Slice = Master, element Activation = Master>
struct ElementTypes {
  using master = Master;
  using slice = Slice;
  using activation = Activation;
};

namespace detail {

template <class T>
struct TypesOf : ElementTypes<T> {};
template <class M, class S, class A>
struct TypesOf<ElementTypes<M, S, A>> : ElementTypes<M, S, A> {};

template <class T>
inline constexpr bool are_element_types = false;
template <class M, class S, class A>
inline constexpr bool are_element_types<ElementTypes<M, S, A>> = true;

}  // namespace detail

/// What a variable is made of: an element type or three.
template <class T>
concept variable_element = element<T> || detail::are_element_types<T>;

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

/// A handle to a variable of shape [Dims...]. Used as an operand it is read at its present version, in its activation
/// type; the tensor read is a snapshot that later assignments do not change.
template <class World, variable_element T, dim_like... Dims>
class Variable : public OperandBase {
 public:
  using world_type = World;
  using types = detail::TypesOf<T>;
  using element_type = typename types::activation;
  using engine_type = typename World::engine_type;
  using dims = DimList<Dims...>;

  constexpr explicit Variable(VariableState& state) : state_(&state) {}

  [[nodiscard]] constexpr Tensor<World, element_type, Dims...> read() const {
    return Tensor<World, element_type, Dims...>(state_.object->leaf);
  }
  [[nodiscard]] constexpr VariableState& state() const { return *state_.object; }
  [[nodiscard]] constexpr std::string_view path() const { return state_->path.view(); }
  [[nodiscard]] constexpr ShapeValue shape() const { return state_->placement().shape(); }

  /// Makes `value` the present version, adds it to it, or subtracts it from it: a tensor of the variable's dims and of
  /// any floating-point type, which is converted to the slice type. Completes the value if it is pending. Throws if the
  /// extents or the worlds differ.
  template <operand X>
  constexpr void assign(const X& value) const;
  template <operand X>
  constexpr void assign_add(const X& value) const;
  template <operand X>
  constexpr void assign_sub(const X& value) const;

 private:
  Ref<VariableState> state_;
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

template <class X>
constexpr auto& engine_of(const X& x) {
  return static_cast<typename X::engine_type&>(array_of(x).value->backend());
}

/// The tensor that an operand is when it is read, as a type.
template <class World, class T, class... Dims>
Tensor<World, T, Dims...> plain(const Tensor<World, T, Dims...>&);
template <class World, class T, class... Dims>
Tensor<World, typename TypesOf<T>::activation, Dims...> plain(const Variable<World, T, Dims...>&);

template <class Arrays>
constexpr void require_same_backend(const Backend& backend, const char* operation, const Arrays& arrays) {
  for (const Array *array = arrays.data(), *end = array + arrays.size(); array != end; ++array) {
    if (array->value.object->block.object->backend != &backend) raise(operation, MTF_RULE_DIFFERENT_WORLDS);
  }
}

/// The value as a slice of the variable; checks that it fits.
template <class V, class X>
constexpr Ref<Value> value_for(const V& variable, const char* operation, const X& value) {
  using E = typename V::engine_type;
  constexpr bool fits = std::same_as<world_of<X>, world_of<V>> && same_names<dims_of<X>, dims_of<V>>;
  static_assert(
      fits, "mtf: assign: the value must be a tensor of the variable's world with the variable's dims in their order");
  static_assert(floating<element_of<X>>, "mtf: assign: the value must be floating point; convert with cast<T>(x)");
  Backend& backend = variable.state().leaf.value->backend();
  require_open(backend, operation);
  const Array& array = array_of(value);
  if (&array.value->backend() != &backend) raise(operation, "the variable and the value belong to different worlds");
  if (!(array.value->placement == variable.state().placement())) {
    raise(operation, quoted(variable.path()) + " has dims " + describe(variable.shape()) + ", the value " +
                         describe(array.value->placement.shape()));
  }
  return untyped::convert<E, typename V::types::slice, element_of<X>>(static_cast<E&>(array.value->backend()),
                                                                      array.value);
}

/// slice = f(slice, term), in place if nobody holds the present version.
template <class F, class V>
constexpr void update(VariableState& state, const F& f, const Ref<Value>& term, const V&) {
  using E = typename V::engine_type;
  using S = typename V::types::slice;
  Ref<Value> result = state.writable();
  E& engine = static_cast<E&>(result->backend());
  engine.run(plan_map(engine, result->placement, result->placement, term->placement), f, out<S>(result), in<S>(result),
             in<S>(term));
  state.assign(result);
}

}  // namespace detail

template <class World, variable_element T, dim_like... Dims>
template <operand X>
constexpr void Variable<World, T, Dims...>::assign(const X& value) const {
  if constexpr (!any_poisoned<X>) state_->assign(detail::value_for(*this, "assign", value));
}
template <class World, variable_element T, dim_like... Dims>
template <operand X>
constexpr void Variable<World, T, Dims...>::assign_add(const X& value) const {
  if constexpr (!any_poisoned<X>) {
    detail::update(*state_, functions::Add{}, detail::value_for(*this, "assign_add", value), *this);
  }
}
template <class World, variable_element T, dim_like... Dims>
template <operand X>
constexpr void Variable<World, T, Dims...>::assign_sub(const X& value) const {
  if constexpr (!any_poisoned<X>) {
    detail::update(*state_, functions::Subtract{}, detail::value_for(*this, "assign_sub", value), *this);
  }
}

}  // namespace v0
}  // namespace mtf
