// sort along one dim, which may be split.
#pragma once

#include <mtf/ops/top_k.hpp>

namespace mtf {
inline namespace v0 {

enum class order : bool { ascending, descending };

namespace untyped {

template <class E, class T>
class SortGradient final : public Operation {
 public:
  Placement from;
  Name dim;
  Buffer indices;  ///< of the rows that this rank sorted, whole
  constexpr ~SortGradient() override {}
  constexpr void backward(const Ref<Value>& gradient, GradientSink& sink) override {
    if (!sink.wants(0)) return;
    complete(*gradient, this->name);
    E& engine = static_cast<E&>(gradient->backend());
    const WholeRows rows(engine, from, dim, this->name);
    const std::int64_t extent = from.dims[from.find(dim)].extent;
    const Buffer sorted = rows.collect(gradient->block);
    const Buffer placed(engine.allocate(element_type_of<T>::value, rows.count() * extent));
    PlaceBackPlan plan;
    plan.rows.operands = 2;
    plan.rows.dims.push_back({rows.count(), {extent, extent}});
    plan.length = plan.count = extent;
    plan.table_size = rows.count() * extent;
    engine.run(plan, Out<T>{*placed}, In<T>{*sorted}, In<std::int32_t>{*indices});
    sink.add(0, Ref<Value>(make<Value>(engine.keep(from), rows.distribute(placed))));
  }
};

template <class E, class T>
[[nodiscard]] constexpr SelectionArrays sort(E& engine, const Array& x, const Name& dim, order direction) {
  constexpr const char* name = "sort";
  mtf::detail::require_open(engine, name);
  const KeptPlacement& placement = x.value->placement;
  const PlacedDim& along = placement.dims[placement.find(dim)];
  require_indices(name, along);
  complete(*x.value, name);
  const WholeRows rows(engine, placement, dim, name);
  const Buffer whole = rows.collect(x.value->block);
  const Buffer values(engine.allocate(element_type_of<T>::value, rows.count() * along.extent));
  const Buffer indices(engine.allocate(ElementType::int32, rows.count() * along.extent));
  SelectPlan plan;
  plan.rows.operands = 2;
  plan.rows.dims.push_back({rows.count(), {along.extent, along.extent}});
  plan.length = plan.count = along.extent;
  plan.largest = direction == order::descending;
  engine.run(plan, Out<T>{*values}, Out<std::int32_t>{*indices}, In<T>{*whole});
  SelectionArrays result;
  result.values.value = Ref<Value>(make<Value>(placement, rows.distribute(values)));
  result.indices.value = Ref<Value>(make<Value>(placement, rows.distribute(indices)));
  if constexpr (floating<T>) {
    if (records(engine, {x})) {
      auto* operation = make<SortGradient<E, T>>();
      operation->from = placement;
      operation->dim = dim;
      operation->indices = indices;
      record<E, T>(result.values, name, operation, {x});
    }
  }
  return result;
}

}  // namespace untyped

/// values[dims of x], indices[dims of x]: x in order along D, and where in D each element was, int32. Equal elements
/// keep their order in either direction; NaN counts as larger than any number. Time extent * log(extent) for each row.
/// Throws if D has more elements than int32 counts.
///
/// Communication if D is split over p > 1 ranks. If the other dims of the slice have a multiple of p elements, the
/// ranks share the rows out: three all-to-alls of the slice (x there, values and indices back), two in the gradient,
/// and no more memory than the slices. Else every rank gathers and sorts all rows of its group: one allgather of p
/// slices, one in the gradient; a long single vector is better served by top_k. Gradient: to the places the values came
/// from.
template <dim_like D, operand X>
constexpr auto sort(const X& x, order direction = order::ascending) {
  using Nothing = Selected<poisoned, poisoned>;
  if constexpr (any_poisoned<X>) {
    return Nothing{};
  } else {
    constexpr bool known = detail::has_dim<D, X>;
    static_assert(known, "mtf: sort: " MTF_RULE_MISSING_DIM);
    if constexpr (!known) {
      return Nothing{};
    } else if constexpr (std::same_as<element_of<X>, bool>) {
      return Nothing{poisoned(not_ordered<element_of<X>>{}), {}};
    } else {
      using World = world_of<X>;
      using Values = tensor_of<World, element_of<X>, dims_of<X>>;
      using Indices = tensor_of<World, std::int32_t, dims_of<X>>;
      untyped::SelectionArrays arrays = untyped::sort<typename World::engine_type, element_of<X>>(
          detail::engine_of(x), detail::array_of(x), D::name, direction);
      return Selected<Values, Indices>{Values(std::move(arrays.values)), Indices(std::move(arrays.indices))};
    }
  }
}

}  // namespace v0
}  // namespace mtf
