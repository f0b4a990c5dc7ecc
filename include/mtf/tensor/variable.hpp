// Variable: a named, mutable, persistent array, owned by the world's registry.
#pragma once

#include <string>
#include <type_traits>
#include <utility>

#include <mtf/tensor/registry.hpp>
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
