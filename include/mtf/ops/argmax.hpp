// argmax and argmin along one dim, which may be split.
#pragma once

#include <mtf/ops/along.hpp>
#include <mtf/plan/selection.hpp>

namespace mtf {
inline namespace v0 {

namespace untyped {

namespace detail {

/// The index of an element that is the extreme one of all slices; beyond all others if it is not.
struct IndexIfExtreme {
  template <class X>
  MTF_FUNCTION constexpr std::int32_t operator()(const X& own, const X& extreme, std::int32_t index) const {
    return own == extreme || (own != own && extreme != extreme) ? index : std::numeric_limits<std::int32_t>::max();
  }
};

}  // namespace detail

template <class E, class T>
[[nodiscard]] constexpr Array arg_extreme(E& engine, const Array& x, const Name& dim, Combine combine,
                                          const char* name) {
  mtf::detail::require_open(engine, name);
  const Along along(x.value->placement, dim);
  require_indices(name, along.dim);
  complete(*x.value, name);
  const Placement rows = without(x.value->placement, dim);
  const Ref<Value> values = make_value(engine, rows, element_type_of<T>::value);
  Ref<Value> indices = make_value(engine, rows, ElementType::int32);
  ArgExtremePlan plan;
  plan.rows = along.loop(std::int64_t{1}, along.length());
  plan.begin = slice_begin(along.dim, engine.mesh(), engine.coordinates);
  plan.length = along.length();
  plan.stride = along.inner;
  plan.largest = combine == Combine::max;
  engine.run(plan, out<T>(values), out<std::int32_t>(indices), in<T>(x.value));
  if (along.dim.parts == 1) return {indices, {}};

  const StridedShape shape = row_major(rows);
  const Ref<Value> extreme = make_value(engine, rows, element_type_of<T>::value);
  engine.copy(plan_copy(shape, shape), *extreme->block, *values->block);
  CollectivePlan reduction{.collective = Collective::all_reduce,
                           .axes = set_of(along.dim.axes),
                           .count = rows.local_size(),
                           .type = element_type_of<T>::value,
                           .combine = combine,
                           .operation = name};
  engine.communicate(reduction, *extreme->block, *extreme->block);
  engine.run(MapPlan{collapse(loop_over(shape, shape, shape, shape, shape))}, detail::IndexIfExtreme{},
             out<std::int32_t>(indices), in<T>(values), in<T>(extreme), in<std::int32_t>(indices));
  reduction.type = ElementType::int32;
  reduction.combine = Combine::min;
  engine.communicate(reduction, *indices->block, *indices->block);
  return {indices, {}};
}

}  // namespace untyped

namespace detail {

template <class D, class X>
constexpr auto arg_extreme_named(const X& x, Combine combine, const char* name) {
  if constexpr (any_poisoned<X>) {
    return poisoned{};
  } else {
    constexpr bool known = has_dim<D, X>;
    static_assert(known, "mtf: argmax, argmin: " MTF_RULE_MISSING_DIM);
    if constexpr (!known) {
      return poisoned{};
    } else if constexpr (std::same_as<element_of<X>, bool>) {
      return poisoned(not_ordered<element_of<X>>{});
    } else {
      using E = typename world_of<X>::engine_type;
      return tensor_of<world_of<X>, std::int32_t, dims_without<X, D>>(
          untyped::arg_extreme<E, element_of<X>>(engine_of(x), array_of(x), D::name, combine, name));
    }
  }
}

}  // namespace detail

/// y[rest] = index along D of the largest element of x, int32; of equal ones the lowest index. A row with NaN gives the
/// index of its first NaN, as reduce_max gives NaN there. Throws if D has more elements than int32 counts. No gradient.
///
/// Communication if D is split over more than one rank: two allreduces of the output slice, of the largest elements
/// (max) and of the indices that have them (min).
template <dim_like D, operand X>
constexpr auto argmax(const X& x) {
  return detail::arg_extreme_named<D>(x, Combine::max, "argmax");
}
/// The index of the smallest element; see argmax.
template <dim_like D, operand X>
constexpr auto argmin(const X& x) {
  return detail::arg_extreme_named<D>(x, Combine::min, "argmin");
}

}  // namespace v0
}  // namespace mtf
