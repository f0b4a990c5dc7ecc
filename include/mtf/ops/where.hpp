// where: elements of one tensor or of another by a condition.
#pragma once

#include <mtf/ops/number.hpp>

namespace mtf {
inline namespace v0 {

namespace untyped {

namespace detail {

struct Choose {
  template <class X>
  MTF_FUNCTION constexpr X operator()(bool condition, const X& x, const X& y) const {
    return condition ? x : y;
  }
};
/// dy where the condition is `branch`, else 0: chosen, not multiplied.
struct PassBranch {
  bool branch;
  template <class X>
  MTF_FUNCTION constexpr X operator()(bool condition, const X& dy) const {
    return condition == branch ? dy : X(0);
  }
};

}  // namespace detail

template <class E, class T>
class WhereGradient final : public Operation {
 public:
  Ref<Value> condition;
  const KeptPlacement* branches[2]{};
  constexpr ~WhereGradient() override {}
  constexpr void backward(const Ref<Value>& gradient, GradientSink& sink) override {
    if (!gradient->block->scattered.empty()) complete(*gradient, this->name);
    E& engine = static_cast<E&>(gradient->backend());
    for (int i = 0; i < 2; ++i) {
      if (!sink.wants(i)) continue;
      // Linear in dy, with a mask that is the same on all replicas: a sum stays pending.
      Ref<Value> passed = make_value(engine, gradient->placement, element_type_of<T>::value);
      passed->block->pending = gradient->pending();
      engine.run(plan_map(engine, gradient->placement, condition->placement, gradient->placement),
                 detail::PassBranch{i == 0}, out<T>(passed), in<bool>(condition), in<T>(gradient));
      sink.add(i, sum_to<E, T>(engine, passed, *branches[i]));
    }
  }
};

template <class E, class T>
[[nodiscard]] constexpr Array where(E& engine, const Array& condition, const Array& x, const Array& y) {
  constexpr const char* name = "where";
  ShapeValue shape;
  UnionValue all;
  for (const Array* array : {&x, &condition, &y}) {
    add_dims(all, array->value->placement.shape());
    shape = broadcast_shape(shape, array->value->placement.shape());
  }
  require_legal(engine, name, all, false);
  Array result{new_value(engine, name, shape, element_type_of<T>::value), {}};
  complete(*condition.value, name);
  const Block& first = *x.value->block;
  const Block& second = *y.value->block;
  const bool stays_pending = first.pending == second.pending && first.scattered.empty() && second.scattered.empty() &&
                             (first.pending & result.value->placement.split_axes()).empty();
  if (stays_pending) {
    result.value->block->pending = first.pending;
  } else {
    complete(*x.value, name);
    complete(*y.value, name);
  }
  engine.run(
      plan_map(engine, result.value->placement, condition.value->placement, x.value->placement, y.value->placement),
      detail::Choose{}, out<T>(result.value), in<bool>(condition.value), in<T>(x.value), in<T>(y.value));
  if constexpr (floating<T>) {
    if (records(engine, {x, y})) {
      auto* operation = make<WhereGradient<E, T>>();
      operation->condition = condition.value;
      operation->branches[0] = &x.value->placement;
      operation->branches[1] = &y.value->placement;
      record<E, T>(result, name, operation, {x, y});
    }
  }
  return result;
}

}  // namespace untyped

template <class Element>
struct condition_not_boolean {
  static_assert(always_false<Element>,
                "mtf: where: the condition must be bool; compare first, as in where(not_equal(c, 0), x, y)");
};

namespace detail {

/// A host number as a tensor without dims.
template <class Like, class C>
constexpr auto number_tensor(const Like& like, C c) {
  using T = element_of<Like>;
  using E = typename world_of<Like>::engine_type;
  E& engine = static_cast<E&>(array_of(like).value->backend());
  require_open(engine, "where");
  return Tensor<world_of<Like>, T>(
      Array{Elements<E, T>::filled(engine, engine.place({}), number_as<T>("where", c)), {}});
}

/// What is wrong with the branches of a `where`, if anything.
template <class C, class X, class Y>
consteval auto check_where() {
  if constexpr (any_poisoned<C, X, Y>) {
    return std::type_identity<poisoned>{};
  } else if constexpr (!std::same_as<element_of<C>, bool>) {
    return std::type_identity<condition_not_boolean<element_of<C>>>{};
  } else if constexpr (!std::same_as<world_of<C>, world_of<X>> || !std::same_as<world_of<C>, world_of<Y>>) {
    return std::type_identity<different_worlds<world_of<C>, world_of<X>, world_of<Y>>>{};
  } else if constexpr (!std::same_as<element_of<X>, element_of<Y>>) {
    return std::type_identity<different_element_types<element_of<X>, element_of<Y>>>{};
  } else {
    using All = Unpack<concatenate<dims_of<X>, dims_of<C>, dims_of<Y>>>;
    if constexpr (!All::template uniteable<world_of<C>>) {
      return std::type_identity<typename All::template not_uniteable<world_of<C>>>{};
    } else {
      return std::type_identity<Checked>{};
    }
  }
}
template <class C, class X, class Y>
using checked_where = typename decltype(check_where<C, X, Y>())::type;
/// The same for a tensor and a number.
template <class C, class X, class Number>
using checked_where_number =
    std::conditional_t<std::same_as<fitting<X, Number>, Checked>, checked_where<C, X, X>, fitting<X, Number>>;

template <class C, class X, class Y>
constexpr auto where_checked(Checked checked, const C& condition, const X& x, const Y& y) {
  if constexpr (scalar<X>) {
    return where_checked(checked, condition, number_tensor(y, x), y);
  } else if constexpr (scalar<Y>) {
    return where_checked(checked, condition, x, number_tensor(x, y));
  } else {
    using World = world_of<C>;
    using T = element_of<X>;
    using E = typename World::engine_type;
    const std::array<Array, 3> arrays{array_of(condition), array_of(x), array_of(y)};
    E& engine = static_cast<E&>(arrays[0].value->backend());
    require_same_backend(engine, "where", arrays);
    return tensor_of<World, T, broadcast_dims<dims_of<X>, dims_of<C>, dims_of<Y>>>(
        untyped::where<E, T>(engine, arrays[0], arrays[1], arrays[2]));
  }
}
template <class Reason, class... Ignored>
constexpr poisoned where_checked(Reason, const Ignored&...) {
  return {};
}

}  // namespace detail

/// y[...] = x where the bool condition holds, else y; the three broadcast by name, and the dims come in the order x,
/// condition, y (`broadcast_shape`). One of x and y may be a host number. Elements that are not taken have no influence
/// on value or gradient, be they NaN or infinite: also where they are element-wise functions of others, whose gradients
/// (see `map`) are 0 where nothing depends on them, as in where(greater(x, 0), log(x), 0).
///
/// Communication: none; the condition is completed, and x and y unless they are pending over the same axes. Gradient:
/// dy to the branch that was taken, summed to its dims; none to the condition.
template <operand C, operand X, operand Y>
constexpr auto where(const C& condition, const X& x, const Y& y) {
  return detail::where_checked(detail::checked_where<C, X, Y>{}, condition, x, y);
}
template <operand C, operand X, scalar Y>
constexpr auto where(const C& condition, const X& x, Y y) {
  return detail::where_checked(detail::checked_where_number<C, X, Y>{}, condition, x, y);
}
template <operand C, scalar X, operand Y>
constexpr auto where(const C& condition, X x, const Y& y) {
  return detail::where_checked(detail::checked_where_number<C, Y, X>{}, condition, x, y);
}

}  // namespace v0
}  // namespace mtf
