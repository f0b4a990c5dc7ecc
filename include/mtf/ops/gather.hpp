// gather: rows of a table by index - embeddings.
#pragma once

#include <mtf/ops/reduce.hpp>
#include <mtf/plan/gather.hpp>

namespace mtf {
inline namespace v0 {

namespace untyped {

namespace detail {

[[nodiscard]] constexpr GatherPlan plan_gather(const Backend& backend, const Placement& out, const Placement& table,
                                               const Placement& ids, const PlacedDim& gathered) {
  const StridedShape shape = row_major(out);
  GatherPlan plan;
  plan.loop = collapse(loop_over(shape, shape, row_major(table), row_major(ids)));
  plan.begin = slice_begin(gathered, backend.mesh(), backend.coordinates);
  plan.length = gathered.local();
  plan.stride = stride_of(row_major(table), gathered.name);
  return plan;
}

/// Keeps a lookup as the product of a one-hot matrix with the table. That of the gradient has the same dims.
MTF_COLD constexpr void trace_lookup(Backend& backend, const Placement& out, const Placement& table,
                                     const Placement& ids, const PlacedDim& gathered) {
  Placement one_hot = ids;
  if (one_hot.dims.full()) return;
  one_hot.dims.push_back(gathered);
  backend.trace(out, one_hot, table, true);
}

}  // namespace detail

template <class E, class T, class Id>
class GatherGradient final : public Operation {
 public:
  Ref<Value> ids;
  Placement table;
  int gathered = 0;
  constexpr ~GatherGradient() override {}
  constexpr void backward(const Ref<Value>& gradient, GradientSink& sink) override {
    if (!sink.wants(0)) return;
    complete(*gradient, this->name);
    E& engine = static_cast<E&>(gradient->backend());
    using C = computed<T>;  // rows that meet are summed in it
    Ref<Value> result = make_value(engine, table, element_type_of<C>::value);
    ScatterAddPlan plan{detail::plan_gather(engine, gradient->placement, table, ids->placement, table.dims[gathered])};
    plan.table_size = table.local_size();
    engine.run(plan, out<C>(result), in<C>(convert<E, C, T>(engine, gradient)), in<Id>(ids));
    if (engine.tracing) detail::trace_lookup(engine, gradient->placement, table, ids->placement, table.dims[gathered]);
    result->block->pending = axes_lost(gradient->placement, table);
    if constexpr (std::same_as<T, bfloat16>) result = settle(engine, result);
    sink.add(0, std::move(result));
  }
};

/// table[..., ids[...], ...]: dims of ids, then the table's other dims.
template <class E, class T, class Id>
[[nodiscard]] constexpr Array gather(E& engine, const Array& table, const Array& ids, const Name& dim) {
  constexpr const char* name = "gather";
  const KeptPlacement& from = table.value->placement;
  const int gathered = from.find(dim);
  const ShapeValue rest = minus(from.shape(), [&] {
    ShapeValue one;
    one.push_back({dim, 1});
    return one;
  }());
  // Legality is that of the union, as for the einsum with a one-hot tensor that gather stands for.
  UnionValue all;
  add_dims(all, ids.value->placement.shape());
  add_dims(all, from.shape());
  require_legal(engine, name, all, false);
  complete(*table.value, name);
  complete(*ids.value, name);
  Array result{new_value(engine, name, unite(ids.value->placement.shape(), rest), element_type_of<T>::value), {}};
  engine.run(detail::plan_gather(engine, result.value->placement, from, ids.value->placement, from.dims[gathered]),
             out<T>(result.value), in<T>(table.value), in<Id>(ids.value));
  if (engine.tracing)
    detail::trace_lookup(engine, result.value->placement, from, ids.value->placement, from.dims[gathered]);
  result.value->block->pending = set_of(from.dims[gathered].axes);
  if constexpr (floating<T>) {
    if (records(engine, {table})) {
      auto* operation = make<GatherGradient<E, T, Id>>();
      operation->ids = ids.value;
      operation->table = from;
      operation->gathered = gathered;
      record<E, T>(result, name, operation, {table});
    }
  }
  return result;
}

}  // namespace untyped

/// y[ids' dims..., rest...] = table[rest..., Gathered = ids[...]]: by index, at no multiply-adds. `ids` are int32 or
/// int64; an id outside [0, extent) gives zeros. Dims that both have are matched (a batched gather).
///
/// Communication: none if Gathered is not split; else each rank looks up the ids in its part and the result is pending
/// over the axes of Gathered: one allreduce of the output. Gradient: scatter-add into the own part of the table.
template <dim_like Gathered, operand Table, operand Ids>
constexpr auto gather(const Table& table, const Ids& ids) {
  if constexpr (any_poisoned<Table, Ids>) {
    return poisoned{};
  } else {
    constexpr bool known = contains(dims_of<Table>::shape(), Gathered::name);
    static_assert(known, "mtf: gather: " MTF_RULE_MISSING_DIM);
    constexpr bool one_world = std::same_as<world_of<Table>, world_of<Ids>>;
    static_assert(one_world, "mtf: " MTF_RULE_DIFFERENT_WORLDS);
    constexpr bool integral = std::integral<element_of<Ids>> && !std::same_as<element_of<Ids>, bool>;
    static_assert(integral, "mtf: gather: ids must be int32 or int64; convert with cast<std::int32_t>(ids)");
    constexpr bool free_ids = !known || !contains(dims_of<Ids>::shape(), Gathered::name);
    static_assert(free_ids, "mtf: gather: the ids have the gathered dim themselves; rename it in one of the two");
    if constexpr (known && one_world && integral && free_ids) {
      using All = concatenate<dims_of<Ids>, dims_of<Table>>;
      if constexpr (detail::Unpack<All>::template uniteable<world_of<Table>>) {
        using Rest = detail::dims_without<Table, Gathered>;
        using T = element_of<Table>;
        using E = typename world_of<Table>::engine_type;
        const std::array<Array, 2> arrays{detail::array_of(table), detail::array_of(ids)};
        E& engine = static_cast<E&>(arrays[0].value->backend());
        detail::require_same_backend(engine, "gather", arrays);
        return tensor_of<world_of<Table>, T, unite_dims<dims_of<Ids>, Rest>>(
            untyped::gather<E, T, element_of<Ids>>(engine, arrays[0], arrays[1], Gathered::name));
      } else {
        return poisoned(typename detail::Unpack<All>::template not_uniteable<world_of<Table>>{});
      }
    } else {
      return poisoned{};
    }
  }
}

}  // namespace v0
}  // namespace mtf
