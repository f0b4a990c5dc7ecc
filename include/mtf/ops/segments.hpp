// What shift, slice, pad, concat and their relatives share: indices of a dim move to other places, to another dim or
// another array.
#pragma once

#include <mtf/ops/routes.hpp>
#include <mtf/tensor/joint_operation.hpp>

namespace mtf {
inline namespace v0 {

/// What goes round at the ends of a dim: with `wrap` the other end follows, else zeros do.
struct WrapOptions {
  bool wrap = false;
};

namespace untyped {

namespace detail {

/// Hands an operation's inputs what comes back along its routes from the gradients of its outputs, null where there is
/// none, in one exchange. Indices that went to several places (`overlaps`) sum what comes back.
template <class E, class T>
constexpr void move_back(const Operation& operation, std::span<const Route> routes, bool overlaps,
                         std::span<const Ref<Value>> gradients, GradientSink& sink) {
  RecycledVector<const Value*> arrived;
  for (const Ref<Value>& gradient : gradients) {
    if (gradient) arrived.push_back(gradient.get());
  }
  E& engine = static_cast<E&>(arrived[0]->backend());
  const auto leads_back = [&](const Route& route) {
    return gradients[static_cast<std::size_t>(route.output)] && sink.wants(route.input);
  };
  AxisSet axes;
  for (const Route& route : routes) {
    if (!leads_back(route)) continue;
    axes |= axes_of(operation.inputs[static_cast<std::size_t>(route.input)]->placement,
                    gradients[static_cast<std::size_t>(route.output)]->placement, route);
  }
  const AxisSet pending = complete_alike({arrived.begin(), arrived.size()}, axes, operation.name);
  InlineVector<Ref<Value>, Operation::max_inputs> results;
  RecycledVector<Ref<Value>> wanted;
  for (int i = 0; i < static_cast<int>(operation.inputs.size()); ++i) {
    results.push_back({});
    if (!sink.wants(i)) continue;
    const KeptPlacement& placement = operation.inputs[static_cast<std::size_t>(i)]->placement;
    if (overlaps && std::same_as<T, bfloat16>) {
      results[i] = make_wide(engine, placement);
    } else {
      results[i] = make_value(engine, placement, element_type_of<T>::value);
    }
    results[i]->block->pending = pending;
    wanted.push_back(results[i]);
  }
  RecycledVector<Transfer> transfers;
  for (const Route& route : routes) {
    if (!leads_back(route)) continue;
    const Value& from = *gradients[static_cast<std::size_t>(route.output)];
    const Value& to = *results[route.input];
    transfers.push_back(
        {plan_route(engine, axes, from.placement, to.placement, route.transposed()), to.block.get(), from.block.get()});
  }
  run_routes<E, T>(engine, wanted, transfers, overlaps, operation.name);
  wanted.clear();
  for (int i = 0; i < static_cast<int>(operation.inputs.size()); ++i) {
    if (results[i]) sink.add(i, std::move(results[i]));
  }
}

}  // namespace detail

template <class E, class T>
class SegmentsGradient final : public Operation {
 public:
  RecycledVector<Route> routes;
  bool overlaps = false;
  constexpr ~SegmentsGradient() override {}
  constexpr void backward(const Ref<Value>& gradient, GradientSink& sink) override {
    detail::move_back<E, T>(*this, {routes.begin(), routes.size()}, overlaps, {&gradient, 1}, sink);
  }
};

/// Of several outputs: their gradients go back together.
template <class E, class T>
class JointSegmentsGradient final : public JointOperation {
 public:
  RecycledVector<Route> routes;
  bool overlaps = false;
  constexpr ~JointSegmentsGradient() override {}
  constexpr void pull(std::span<const Ref<Value>> arrived, GradientSink& sink) override {
    detail::move_back<E, T>(*this, {routes.begin(), routes.size()}, overlaps, arrived, sink);
  }
};

/// Arrays of these shapes, made from the inputs along the routes; zero where none leads. Routes do not overlap in the
/// outputs; where they do in the inputs, say so. One exchange if a rank needs what it does not have, else no
/// communication; a sum that all inputs are pending over stays so unless it is over one of the axes that split the
/// moving dims.
template <class E, class T>
[[nodiscard]] constexpr RecycledVector<Array> move_segments(E& engine, const char* name, std::span<const Array> inputs,
                                                            std::span<const ShapeValue> shapes,
                                                            std::span<const Route> routes, bool overlaps = false) {
  for (const ShapeValue& shape : shapes) require_legal(engine, name, shape);
  RecycledVector<Placement> placements;
  for (const ShapeValue& shape : shapes) placements.push_back(place(engine.rules, shape));
  AxisSet axes;
  for (const Route& route : routes) {
    axes |= detail::axes_of(inputs[static_cast<std::size_t>(route.input)].value->placement,
                            placements[static_cast<std::size_t>(route.output)], route);
  }
  RecycledVector<const Value*> values;
  for (const Array& input : inputs) values.push_back(input.value.get());
  const AxisSet pending = detail::complete_alike({values.begin(), values.size()}, axes, name);
  RecycledVector<Ref<Value>> targets;
  for (const Placement& placement : placements) {
    targets.push_back(make_value(engine, placement, element_type_of<T>::value));
    targets.back()->block->pending = pending;
  }
  RecycledVector<Transfer> transfers;
  for (const Route& route : routes) {
    const Value& from = *inputs[static_cast<std::size_t>(route.input)].value;
    const Value& to = *targets[static_cast<std::size_t>(route.output)];
    transfers.push_back(
        {detail::plan_route(engine, axes, from.placement, to.placement, route), to.block.get(), from.block.get()});
  }
  detail::run_routes<E, T>(engine, targets, transfers, false, name);
  RecycledVector<Array> results;
  for (const Ref<Value>& target : targets) {
    const Array result{target, {}};
    results.push_back(result);
  }
  if constexpr (floating<T>) {
    if (!records(engine, inputs)) return results;
    const auto with_routes = [&](auto* operation) {
      operation->overlaps = overlaps;
      for (const Route& route : routes) operation->routes.push_back(route);
      return operation;
    };
    if (results.size() == 1) {
      record<E, T>(results[0], name, with_routes(make<SegmentsGradient<E, T>>()), inputs);
      return results;
    }
    auto* operation = with_routes(make<JointSegmentsGradient<E, T>>());
    operation->name = name;
    for (const Array& input : inputs) operation->inputs.push_back(input.node);
    for (Array& result : results) {
      result.node = make_node(engine, result.value->placement, &element_operations<E, T>);
    }
    join(engine, operation, {results.begin(), results.size()});
  }
  return results;
}

/// The case of one input and one output.
template <class E, class T>
[[nodiscard]] constexpr Array move_segments(E& engine, const char* name, const Array& x, const ShapeValue& shape,
                                            const Route& route) {
  return move_segments<E, T>(engine, name, std::span<const Array>(&x, 1), std::span<const ShapeValue>(&shape, 1),
                             std::span<const Route>(&route, 1))[0];
}

}  // namespace untyped

namespace detail {

/// `shape` with another dim in the place of `old`.
[[nodiscard]] constexpr ShapeValue replaced(const ShapeValue& shape, const Name& old, const DimValue& dim) {
  ShapeValue result = shape;
  result[find(shape, old)] = dim;
  return result;
}

/// A dim of the same name whose extent is known at run time only.
template <dim_like D>
using dynamic_dim = Dim<fixed<D::name.text.size() + 1>(D::name)>;

/// The extent of a dim as the types of x know it.
template <class D, class X>
inline constexpr std::int64_t known_extent =
    contains(dims_of<X>::shape(), D::name) ? dims_of<X>::shape()[find(dims_of<X>::shape(), D::name)].extent : dynamic;

/// The tensor of the dims of `List` that `form(engine, array of x, shape of x)` makes.
template <class List, class X, class Form>
constexpr auto move_named(const X& x, const Form& form) {
  const Array& array = array_of(x);
  using E = typename world_of<X>::engine_type;
  E& engine = static_cast<E&>(array.value->backend());
  return tensor_of<world_of<X>, element_of<X>, List>(form(engine, array, array.value->placement.shape()));
}

}  // namespace detail

}  // namespace v0
}  // namespace mtf
