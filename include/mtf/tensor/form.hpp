// What every untyped operation needs: legality at run time, results, recording.
#pragma once

#include <concepts>
#include <initializer_list>
#include <span>
#include <utility>

#include <mtf/core/arithmetic.hpp>
#include <mtf/tensor/gradients.hpp>
#include <mtf/tensor/operands.hpp>
#include <mtf/tensor/plans.hpp>

namespace mtf {
inline namespace v0 {

/// The same dims on every rank of any mesh: throws with all violated rules. Tensors of static dims passed this when
/// they were compiled.
MTF_NOINLINE constexpr void require_placeable(const Backend& backend, const char* operation, DimsView dims,
                                              bool names_are_unique = true) {
  if (backend.survey != nullptr) backend.survey->meet(operation, dims);
  require_none(operation, backend.mesh(), check(backend.rules, dims, names_are_unique));
}
/// How most operations begin: the same, in a world that is alive, and what follows is recorded as the operation's.
MTF_NOINLINE constexpr void require_legal(Backend& backend, const char* operation, DimsView dims,
                                          bool names_are_unique = true) {
  detail::require_open(backend, operation);
  require_placeable(backend, operation, dims, names_are_unique);
}

/// Where a tensor of this shape lives, for an operation that has begun; throws if it cannot be placed.
MTF_NOINLINE [[nodiscard]] constexpr const KeptPlacement& place(Backend& backend, const char* operation,
                                                                const ShapeValue& shape) {
  const KeptPlacement* known = backend.placements.find(shape);
  if (known != nullptr && backend.survey == nullptr) return *known;  // a survey hears of every shape
  require_placeable(backend, operation, shape);
  return backend.place(shape);
}
/// How an operation with a result of this shape begins.
[[nodiscard]] constexpr const KeptPlacement& place_legally(Backend& backend, const char* operation,
                                                           const ShapeValue& shape) {
  detail::require_open(backend, operation);
  return place(backend, operation, shape);
}

/// A new uninitialised value of this shape, for an operation that has begun; throws if the shape cannot be placed.
MTF_NOINLINE [[nodiscard]] constexpr Ref<Value> new_value(Backend& backend, const char* operation,
                                                          const ShapeValue& shape, ElementType type) {
  return make_value(backend, place(backend, operation, shape), type);
}

/// Whether an operation on these inputs joins the graph.
[[nodiscard]] constexpr bool records(const Backend& backend, const Array& input) {
  if (!backend.recording || input.node.object == nullptr) return false;
  if (input.node.object->scope != 0) detail::require_visible(*input.node);
  return true;
}
[[nodiscard]] constexpr bool records(const Backend& backend, const Array* inputs, std::size_t count) {
  bool found = false;
  for (std::size_t i = 0; i < count; ++i) found = records(backend, inputs[i]) || found;
  return found;
}
[[nodiscard]] constexpr bool records(const Backend& backend, std::span<const Array> inputs) {
  return records(backend, inputs.data(), inputs.size());
}
[[nodiscard]] constexpr bool records(const Backend& backend, std::initializer_list<Array> inputs) {
  return records(backend, std::span<const Array>(inputs.begin(), inputs.size()));
}

MTF_NOINLINE [[nodiscard]] constexpr Ref<Node> make_node(Backend& backend, const KeptPlacement& placement,
                                                         const ElementOperations* elements) {
  return Ref<Node>(make<Node>(backend, placement, elements));
}

// Function objects for `map`, as in ops/arithmetic.hpp; gradients and assignments need these two.
namespace functions {

struct Add {
  static constexpr bool linear = true;
  [[nodiscard]] constexpr double coefficient(int) const { return 1; }
  template <class X>
  MTF_FUNCTION constexpr X operator()(const X& a, const X& b) const {
    return detail::sum_of(a, b);
  }
};
struct Subtract {
  static constexpr bool linear = true;
  [[nodiscard]] constexpr double coefficient(int argument) const { return argument == 0 ? 1 : -1; }
  template <class X>
  MTF_FUNCTION constexpr X operator()(const X& a, const X& b) const {
    return detail::difference_of(a, b);
  }
};

}  // namespace functions

namespace detail {

template <class To>
struct Convert {
  template <class X>
  MTF_FUNCTION constexpr To operator()(const X& x) const {
    return converted<To>(x);
  }
};

/// Takes a sum in float for one of bfloat16.
[[nodiscard]] constexpr Ref<Value> as_wide(const Ref<Value>& sum) {
  sum->block->type = ElementType::bfloat16;
  sum->block->wide = true;
  return sum;
}
/// A sum of bfloat16, held in float.
template <class E>
[[nodiscard]] constexpr Ref<Value> widened(E& engine, const Ref<Value>& x) {
  if (x->block->wide) return x;
  Ref<Value> result = make_wide(engine, x->placement);
  result->block->pending = x->pending();
  engine.run(plan_map(engine, x->placement, x->placement), Convert<float>{}, out<float>(result), in<bfloat16>(x));
  return result;
}

template <class E, class T>
struct Elements {
  static constexpr ElementType type = element_type_of<T>::value;

  static constexpr Ref<Value> add(Ref<Value>&& a, const Value& b) {
    E& engine = static_cast<E&>(a->backend());
    if constexpr (std::same_as<T, bfloat16>) return add_in_float(engine, std::move(a), b);
    const bool in_place = is_sole_owner(a);
    Ref<Value> sum = a;
    if (!in_place) {
      sum = make_value(engine, a->placement, type);
      sum->block->pending = a->pending();
    }
    engine.run(plan_map(engine, a->placement, a->placement, b.placement), functions::Add{}, out<T>(sum), in<T>(a),
               In<T>{*b.block});
    return sum;
  }
  /// Of bfloat16 the sum is held in float, and rounded once when it is read: an accumulator that is rounded after every
  /// term stands still when it is 256 times as large as they are.
  static constexpr Ref<Value> add_in_float(E& engine, Ref<Value>&& a, const Value& b) {
    if (!a->block->wide && b.block->wide)
      return add_in_float(engine, Ref<Value>(share(b, b.placement)), *Ref<Value>(std::move(a)));
    const bool in_place = a->block->wide && is_sole_owner(a);
    Ref<Value> sum = a;
    if (!in_place) {
      sum = make_wide(engine, a->placement);
      sum->block->pending = a->pending();
    }
    const MapPlan& plan = plan_map(engine, a->placement, a->placement, b.placement);
    if (b.block->wide) {
      engine.run(plan, functions::Add{}, out<float>(sum), in<float>(a), In<float>{*b.block});
    } else if (a->block->wide) {
      engine.run(plan, functions::Add{}, out<float>(sum), in<float>(a), In<bfloat16>{*b.block});
    } else {
      engine.run(plan, functions::Add{}, out<float>(sum), in<bfloat16>(a), In<bfloat16>{*b.block});
    }
    return sum;
  }
  static constexpr Ref<Value> fill(Backend& backend, const KeptPlacement& placement, double with) {
    return filled(static_cast<E&>(backend), placement, static_cast<T>(with));
  }
  static constexpr Ref<Value> filled(E& engine, const KeptPlacement& placement, T with) {
    Ref<Value> value = make_value(engine, placement, type);
    engine.run(FillPlan{placement.local_size()}, out<T>(value), with);
    return value;
  }
};

}  // namespace detail

template <class E, class T>
inline constexpr ElementOperations element_operations{&detail::Elements<E, T>::add, &detail::Elements<E, T>::fill};

/// Puts a result into the graph. `operation` was made by `make` and is owned by the node from here on.
template <class E, class T>
constexpr void record(Array& result, const char* name, Operation* operation, const Array* inputs, std::size_t count) {
  operation->name = name;
  for (std::size_t i = 0; i < count; ++i) operation->inputs.push_back(inputs[i].node);
  const Value& value = *result.value.object;
  result.node = make_node(*value.block.object->backend, value.placement, &element_operations<E, T>);
  result.node.object->operation = operation;
}
template <class E, class T>
constexpr void record(Array& result, const char* name, Operation* operation, std::span<const Array> inputs) {
  record<E, T>(result, name, operation, inputs.data(), inputs.size());
}
template <class E, class T>
constexpr void record(Array& result, const char* name, Operation* operation, const Array& input) {
  record<E, T>(result, name, operation, &input, 1);
}
template <class E, class T>
constexpr void record(Array& result, const char* name, Operation* operation, std::initializer_list<Array> inputs) {
  record<E, T>(result, name, operation, std::span<const Array>(inputs.begin(), inputs.size()));
}

/// Axes over which a local sum over the dims that `from` has and `to` lacks is still outstanding.
template <class From, class To>
[[nodiscard]] constexpr AxisSet axes_lost(const From& from, const To& to) {
  return from.split_axes() - to.split_axes();
}

namespace untyped {

/// x with elements of another type (see `converted`); completes a pending sum, so that it is rounded once.
template <class E, class To, class From>
[[nodiscard]] constexpr Ref<Value> convert(E& engine, const Ref<Value>& x) {
  complete(*x, "cast");
  if constexpr (std::same_as<To, From>) {
    return x;
  } else {
    Ref<Value> result = make_value(engine, x->placement, element_type_of<To>::value);
    engine.run(plan_map(engine, x->placement, x->placement), mtf::detail::Convert<To>{}, out<To>(result), in<From>(x));
    return result;
  }
}

/// A sum made in float as bfloat16. A partial one stays in float, and a gradient, to which others may be added and which
/// may be a variable's; any other is rounded.
template <class E>
[[nodiscard]] constexpr Ref<Value> settle(E& engine, const Ref<Value>& sum) {
  if (sum->pending().empty() && !engine.activity.is_gradient) return convert<E, bfloat16, float>(engine, sum);
  return mtf::detail::as_wide(sum);
}
/// A value of a variable's activation type, such as a gradient, in its slice type. A sum that is held in float was not
/// rounded to bfloat16 and is not here.
template <class E, class Slice, class Activation>
[[nodiscard]] constexpr Ref<Value> as_slice(E& engine, const Ref<Value>& x) {
  if constexpr (std::same_as<Activation, bfloat16>) {
    complete_unrounded(*x, "cast");
    if (x->block->wide) {
      Ref<Value> result = make_value(engine, x->placement, element_type_of<Slice>::value);
      engine.run(plan_map(engine, x->placement, x->placement), mtf::detail::Convert<Slice>{}, out<Slice>(result),
                 in<float>(x));
      return result;
    }
  }
  return convert<E, Slice, Activation>(engine, x);
}
/// sum_to of bfloat16, in float.
template <class E>
[[nodiscard]] constexpr Ref<Value> sum_in_float(E& engine, const Ref<Value>& x, const KeptPlacement& to) {
  Ref<Value> result = make_value(engine, to, ElementType::float32);
  result->block->pending = x->pending() | axes_lost(x->placement, to);
  const ReducePlan& plan = plan_reduce(engine, to, x->placement, Combine::sum);
  if (x->block->wide) {
    engine.run(plan, out<float>(result), in<float>(x));
  } else {
    engine.run(plan, out<float>(result), in<bfloat16>(x));
  }
  return result;
}

/// Sums `x` to the dims of `to`, each of which it has (in any order): the gradient of broadcasting. Local; the result
/// is pending over the axes of the dims summed out, and over those x was pending over.
template <class E, class T>
[[nodiscard]] constexpr Ref<Value> sum_to(E& engine, const Ref<Value>& x, const KeptPlacement& to) {
  if (&x.object->placement == &to) return x;
  if (x.object->block.object->scattered.bits != 0) complete(*x, "reduce_sum");
  if constexpr (std::same_as<T, bfloat16>) return settle(engine, sum_in_float(engine, x, to));
  Ref<Value> result = make_value(engine, to, element_type_of<T>::value);
  result->block->pending = x->pending() | axes_lost(x->placement, to);
  engine.run(plan_reduce(engine, to, x->placement, Combine::sum), out<T>(result), in<T>(x));
  return result;
}

}  // namespace untyped

}  // namespace v0
}  // namespace mtf
