// top_k: the largest elements along one dim, which may be split.
#pragma once

#include <mtf/ops/along.hpp>
#include <mtf/plan/selection.hpp>

namespace mtf {
inline namespace v0 {

namespace untyped {

/// The gradient of choosing elements along a dim: back to where they came from, 0 elsewhere.
template <class E, class T>
class SelectionGradient final : public Operation {
 public:
  Placement from;
  Name dim;
  Ref<Value> indices;
  std::int64_t count = 1;  ///< chosen elements of a row in this slice
  constexpr ~SelectionGradient() override {}
  constexpr void backward(const Ref<Value>& gradient, GradientSink& sink) override {
    if (!sink.wants(0)) return;
    complete(*gradient, this->name);
    E& engine = static_cast<E&>(gradient->backend());
    const Along along(from, dim);
    Ref<Value> result = make_value(engine, from, element_type_of<T>::value);
    PlaceBackPlan plan;
    plan.rows.operands = 2;
    plan.rows.dims.push_back({along.outer, {along.length() * along.inner, along.inner * count}});
    plan.rows.dims.push_back({along.inner, {1, count}});
    plan.rows = collapse(plan.rows);
    plan.begin = slice_begin(along.dim, engine.mesh(), engine.coordinates);
    plan.length = along.length();
    plan.stride = along.inner;
    plan.count = count;
    plan.table_size = from.local_size();
    engine.run(plan, out<T>(result), in<T>(gradient), in<std::int32_t>(indices));
    result->block->pending =
        axes_lost(gradient->placement, from);  // of a k dim that is split: each rank placed its part
    sink.add(0, std::move(result));
  }
};

/// Values and indices [rows, count] of the first `count` elements along a dim, on every rank that holds the row.
struct Chosen {
  Buffer values, indices;
};
template <class E, class T>
[[nodiscard]] constexpr Chosen select(E& engine, const Ref<Value>& x, const Along& along, std::int64_t count,
                                      bool largest, const char* name) {
  complete(*x, name);
  constexpr ElementType type = element_type_of<T>::value;
  const std::int64_t own = count < along.length() ? count : along.length();
  Chosen result{Buffer(engine.allocate(type, along.rows() * own)),
                Buffer(engine.allocate(ElementType::int32, along.rows() * own))};
  SelectPlan plan;
  plan.rows.operands = 2;
  plan.rows.dims.push_back({along.outer, {along.inner * own, along.inner * along.length()}});
  plan.rows.dims.push_back({along.inner, {own, 1}});
  plan.rows = collapse(plan.rows);
  plan.begin = slice_begin(along.dim, engine.mesh(), engine.coordinates);
  plan.length = along.length();
  plan.stride = along.inner;
  plan.count = own;
  plan.largest = largest;
  engine.run(plan, Out<T>{*result.values}, Out<std::int32_t>{*result.indices}, in<T>(x));
  if (along.dim.parts == 1) return result;

  const Buffer values = gather_parts(engine, result.values, along.dim, along.rows(), name);
  const Buffer indices = gather_parts(engine, result.indices, along.dim, along.rows(), name);
  result = {Buffer(engine.allocate(type, along.rows() * count)),
            Buffer(engine.allocate(ElementType::int32, along.rows() * count))};
  plan = {};
  plan.length = own * along.dim.parts;
  plan.count = count;
  plan.largest = largest;
  plan.rows.operands = 2;
  plan.rows.dims.push_back({along.rows(), {count, plan.length}});
  engine.run(plan, Out<T>{*result.values}, Out<std::int32_t>{*result.indices}, In<T>{*values},
             In<std::int32_t>{*indices});
  return result;
}

/// Elements [begin, begin + count) of the `chosen` ones of each row, as values of this placement.
[[nodiscard]] constexpr Ref<Value> part_of_selection(Backend& backend, const Buffer& whole,
                                                     const KeptPlacement& placement, std::int64_t rows,
                                                     std::int64_t chosen, std::int64_t begin, std::int64_t count) {
  if (count == chosen) return Ref<Value>(make<Value>(placement, whole));
  Ref<Value> result = make_value(backend, placement, whole->type);
  CopyPlan plan;
  plan.loop.operands = 2;
  plan.loop.dims.push_back({rows, {count, chosen}});
  plan.loop.dims.push_back({count, {1, 1}});
  plan.loop = collapse(plan.loop);
  plan.in_offset = begin;
  backend.copy(plan, *result->block, *whole);
  return result;
}

struct SelectionArrays {
  Array values, indices;
};
/// Elements [begin, begin + count) in order of size, as arrays of shape `shape`: those of a k dim, or one.
template <class E, class T>
[[nodiscard]] constexpr SelectionArrays select_range(E& engine, const Array& x, const Name& dim,
                                                     const ShapeValue& shape, std::int64_t chosen, std::int64_t begin,
                                                     std::int64_t count, bool largest, const char* name) {
  const Along along(x.value->placement, dim);
  const Chosen selection = select<E, T>(engine, x.value, along, chosen, largest, name);
  const KeptPlacement& placement = engine.place(shape);
  SelectionArrays result;
  result.values.value = part_of_selection(engine, selection.values, placement, along.rows(), chosen, begin, count);
  result.indices.value = part_of_selection(engine, selection.indices, placement, along.rows(), chosen, begin, count);
  if constexpr (floating<T>) {
    if (records(engine, {x})) {
      auto* operation = make<SelectionGradient<E, T>>();
      operation->from = x.value->placement;
      operation->dim = dim;
      operation->indices = result.indices.value;
      operation->count = count;
      record<E, T>(result.values, name, operation, {x});
    }
  }
  return result;
}

template <class E, class T>
[[nodiscard]] constexpr SelectionArrays top_k(E& engine, const Array& x, const Name& dim, const DimValue& k) {
  constexpr const char* name = "top_k";
  const KeptPlacement& from = x.value->placement;
  ShapeValue all = from.shape();
  all.push_back(k);
  require_legal(engine, name, all, false);
  const PlacedDim& along = from.dims[from.find(dim)];
  require_indices(name, along);
  if (k.extent > along.extent) {
    raise(name, "dim \"" + std::string(k.name.text) + "\" asks for " + std::to_string(k.extent) +
                    " elements of dim \"" + std::string(dim.text) + "\", which has " + std::to_string(along.extent));
  }
  ShapeValue shape = without(from, dim).shape();
  shape.push_back(k);
  const PlacedDim placed = place(engine.rules, k);
  return select_range<E, T>(engine, x, dim, shape, k.extent, slice_begin(placed, engine.mesh(), engine.coordinates),
                            placed.local(), true, name);
}

template <class E, class T>
[[nodiscard]] constexpr SelectionArrays top_1(E& engine, const Array& x, const Name& dim) {
  mtf::detail::require_open(engine, "top_1");
  const KeptPlacement& from = x.value->placement;
  require_indices("top_1", from.dims[from.find(dim)]);
  return select_range<E, T>(engine, x, dim, without(from, dim).shape(), 1, 0, 1, true, "top_1");
}

}  // namespace untyped

/// Elements chosen along a dim and their int32 indices in it: `auto [values, indices] = top_k<D, K>(x)`.
template <class Values, class Indices>
struct Selected {
  Values values;
  Indices indices;
};

template <class D, class Dims>
struct top_k_missing_dim {
  static_assert(always_false<D>, "mtf: top_k: " MTF_RULE_MISSING_DIM);
};
template <class K, class Dims>
struct k_dim_is_present {
  static_assert(always_false<K>,
                "mtf: top_k: x has the k dim already; give k another name, and rename the result if need be");
};
template <class D, class K, std::int64_t Extent, std::int64_t Count>
struct k_exceeds_extent {
  static_assert(always_false<D>, "mtf: top_k: the k dim asks for more elements than the dim has; make k smaller");
};

namespace detail {

/// What is wrong with a top_k, if anything.
template <class D, class K, class X>
consteval auto check_top_k() {
  constexpr ShapeValue dims = dims_of<X>::shape();
  if constexpr (any_poisoned<X>) {
    return std::type_identity<poisoned>{};
  } else if constexpr (!has_dim<D, X>) {
    return std::type_identity<top_k_missing_dim<D, dims_of<X>>>{};
  } else if constexpr (contains(dims, K::name)) {
    return std::type_identity<k_dim_is_present<K, dims_of<X>>>{};
  } else if constexpr (std::same_as<element_of<X>, bool>) {
    return std::type_identity<not_ordered<element_of<X>>>{};
  } else {
    using All = Unpack<concatenate<dims_of<X>, DimList<K>>>;
    constexpr std::int64_t extent = dims[find(dims, D::name)].extent;
    if constexpr (!All::template uniteable<world_of<X>>) {
      return std::type_identity<typename All::template not_uniteable<world_of<X>>>{};
    } else if constexpr (extent != dynamic && K::static_extent > extent) {
      return std::type_identity<k_exceeds_extent<D, K, extent, K::static_extent>>{};
    } else {
      return std::type_identity<Checked>{};
    }
  }
}
template <class D, class K, class X>
using checked_top_k = typename decltype(check_top_k<D, K, X>())::type;

template <class D, class K, class X>
constexpr auto top_k_checked(Checked, const X& x, const K& k) {
  using World = world_of<X>;
  using List = concatenate<dims_without<X, D>, DimList<K>>;
  using Values = tensor_of<World, element_of<X>, List>;
  using Indices = tensor_of<World, std::int32_t, List>;
  untyped::SelectionArrays arrays = untyped::top_k<typename World::engine_type, element_of<X>>(
      engine_of(x), array_of(x), D::name, DimValue{K::name, k.extent()});
  return Selected<Values, Indices>{Values(std::move(arrays.values)), Indices(std::move(arrays.indices))};
}
template <class D, class K, class X, class Reason>
constexpr Selected<poisoned, poisoned> top_k_checked(Reason, const X&, const K&) {
  return {};
}

}  // namespace detail

/// values[rest..., K], indices[rest..., K]: the K largest elements of x[..., D, ...] along D, largest first, and their
/// int32 indices. Equal elements come by index; NaN counts as larger than any number. K is a dim that x does not have.
/// Throws if K is longer than D (does not compile if both are static), or if D has more elements than int32 counts.
///
/// Communication if D is split over more than one rank: two allgathers (values, indices) of min(k, slice of D) elements
/// for each row and rank. K may be split: each rank keeps its part. Gradient: to the places the values came from,
/// without communication; pending over the axes of K. The indices have none.
template <dim_like D, static_dim K, operand X>
constexpr auto top_k(const X& x) {
  return detail::top_k_checked<D, K>(detail::checked_top_k<D, K, X>{}, x, K{});
}
template <dim_like D, operand X, dim_like K>
constexpr auto top_k(const X& x, const K& k) {
  return detail::top_k_checked<D, K>(detail::checked_top_k<D, K, X>{}, x, k);
}

/// The largest element along D and its index: top_k of one, without a k dim. Unlike reduce_max the gradient goes to the
/// one chosen, where elements tie.
template <dim_like D, operand X>
constexpr auto top_1(const X& x) {
  if constexpr (any_poisoned<X>) {
    return Selected<poisoned, poisoned>{};
  } else {
    constexpr bool known = detail::has_dim<D, X>;
    static_assert(known, "mtf: top_1: " MTF_RULE_MISSING_DIM);
    if constexpr (!known) {
      return Selected<poisoned, poisoned>{};
    } else if constexpr (std::same_as<element_of<X>, bool>) {
      return Selected<poisoned, poisoned>{poisoned(not_ordered<element_of<X>>{}), {}};
    } else {
      using World = world_of<X>;
      using Values = tensor_of<World, element_of<X>, detail::dims_without<X, D>>;
      using Indices = tensor_of<World, std::int32_t, detail::dims_without<X, D>>;
      untyped::SelectionArrays arrays = untyped::top_1<typename World::engine_type, element_of<X>>(
          detail::engine_of(x), detail::array_of(x), D::name);
      return Selected<Values, Indices>{Values(std::move(arrays.values)), Indices(std::move(arrays.indices))};
    }
  }
}

}  // namespace v0
}  // namespace mtf
