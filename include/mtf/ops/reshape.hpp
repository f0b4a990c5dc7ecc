// rename and reshape: the same global array under other dims, and so under another placement.
#pragma once

#include <mtf/plan/moves.hpp>
#include <mtf/plan/redistribution.hpp>
#include <mtf/tensor/exchange.hpp>
#include <mtf/tensor/variable.hpp>

namespace mtf {
inline namespace v0 {

namespace untyped {

namespace detail {

inline constexpr const char* reshape_name = "reshape";

/// One step of a redistribution. `x` is complete.
[[nodiscard]] constexpr Buffer run_step(Backend& backend, const RedistributionStep& step, const Buffer& x) {
  using Kind = RedistributionStep::Kind;
  const AxisSet axes = AxisSet::of(step.axis);
  const std::int64_t size = backend.mesh().axes[step.axis].size;
  if (step.kind == Kind::slice) {
    Buffer result(backend.allocate(x->type, x->count() / size));
    CopyPlan plan;
    plan.loop.operands = 2;
    plan.loop.dims.push_back({step.outer, {step.inner, size * step.inner}});
    plan.loop.dims.push_back({step.inner, {1, 1}});
    plan.loop = collapse(plan.loop);
    plan.in_offset = backend.coordinates[step.axis] * step.inner;
    backend.copy(plan, *result, *x);
    return result;
  }
  Buffer sent = x;
  std::int64_t count = x->count();
  if (step.kind == Kind::all_to_all) {
    sent = Buffer(backend.allocate(x->type, count));
    backend.copy(plan_pack(step.outer, size, step.inner), *sent, *x);
  } else {
    count *= size;
  }
  const Buffer received(backend.allocate(x->type, count));
  backend.communicate({.collective = step.kind == Kind::gather ? Collective::all_gather : Collective::all_to_all,
                       .axes = axes,
                       .count = count,
                       .type = x->type,
                       .operation = reshape_name},
                      *received, *sent);
  Buffer result(backend.allocate(x->type, count));
  const bool gathers = step.kind == Kind::gather;
  backend.copy(plan_unpack(gathers ? step.outer : step.other_outer, size, gathers ? step.inner : step.other_inner),
               *result, *received);
  return result;
}

/// The own slice of a sum that is pending over the axis of `step`: a reduce-scatter. `x` keeps its own slice as well,
/// so that a later use of the whole is an allgather.
[[nodiscard]] constexpr Buffer reduce_scatter(Backend& backend, const RedistributionStep& step, Block& x) {
  const std::int64_t size = backend.mesh().axes[step.axis].size;
  const Buffer packed(backend.allocate(x.type, x.count()));
  backend.copy(plan_pack(step.outer, size, step.inner), *packed, x);
  Buffer result(backend.allocate(x.type, x.count() / size));
  backend.communicate({.collective = Collective::reduce_scatter,
                       .axes = x.pending,
                       .count = x.count(),
                       .type = x.type,
                       .operation = reshape_name},
                      *result, *packed);
  const Buffer kept(backend.allocate(x.type, result->count()));
  CopyPlan all;
  all.loop.operands = 2;
  all.loop.dims.push_back({result->count(), {1, 1}});
  backend.copy(all, *kept, *result);
  std::swap(x.data, kept->data);
  std::swap(x.bytes, kept->bytes);
  x.scattered = std::exchange(x.pending, {});
  x.outer = step.outer;
  x.inner = step.inner;
  return result;
}

}  // namespace detail

/// The value under another shape of equal size.
[[nodiscard]] constexpr Ref<Value> redistribute(const Ref<Value>& x, const KeptPlacement& to) {
  Backend& backend = x->backend();
  const Redistribution& plan = backend.plans.get<Redistribution>(
      PlanKey(x->placement.number, to.number), [&] { return plan_redistribution(x->placement, to, backend.mesh()); });
  if (plan.steps.empty()) return share(*x, to);
  const RedistributionStep& first = plan.steps[0];
  if (plan.steps.size() == 1 && first.kind == RedistributionStep::Kind::slice &&
      x->pending() == AxisSet::of(first.axis) && !x->block->lent) {
    return Ref<Value>(make<Value>(to, detail::reduce_scatter(backend, first, *x->block)));
  }
  complete(*x, detail::reshape_name);
  Buffer block = x->block;
  for (const RedistributionStep& step : plan.steps) {
    if (step.kind == RedistributionStep::Kind::exchange) {
      const Buffer moved(backend.allocate(block->type, to.local_size()));
      const ExchangePlan& moves = backend.plans.get<ExchangePlan>(PlanKey(x->placement.number, to.number), [&] {
        return plan_moves(plan.factors, backend.mesh(), backend.coordinates);
      });
      exchange(backend, moves, *moved, *block, detail::reshape_name);
      block = moved;
    } else {
      block = detail::run_step(backend, step, block);
    }
  }
  return Ref<Value>(make<Value>(to, block));
}

class ReshapeGradient final : public Operation {
 public:
  const KeptPlacement* from = nullptr;
  constexpr ~ReshapeGradient() override {}
  constexpr void backward(const Ref<Value>& gradient, GradientSink& sink) override {
    if (sink.wants(0)) sink.add(0, redistribute(gradient, *from));
  }
};

[[nodiscard]] constexpr Array reshape(const Array& x, const ShapeValue& shape, const char* name) {
  Backend& backend = x.value->backend();
  const KeptPlacement& to = place_legally(backend, name, shape);
  if (to.size() != x.value->placement.size()) {
    raise(name, "from " + describe(x.value->placement.shape()) + " to " + describe(shape) +
                    ": the sizes differ; a reshape keeps the number of elements");
  }
  Array result{redistribute(x.value, to), {}};
  if (records(backend, x)) {
    auto* operation = make<ReshapeGradient>();
    operation->from = &x.value->placement;
    operation->name = name;
    operation->inputs.push_back(x.node);
    result.node = make_node(backend, result.value->placement, x.node->elements);
    result.node->operation = operation;
  }
  return result;
}
/// The same for engines that specialise what their operations do (see compiled.hpp).
template <class E>
[[nodiscard]] constexpr Array reshape(E&, const Array& x, const ShapeValue& shape, const char* name) {
  return reshape(x, shape, name);
}

}  // namespace untyped

namespace detail {

template <class... New>
[[nodiscard]] constexpr ShapeValue renamed_shape(const ShapeValue& shape, DimList<New...>) {
  ShapeValue result;
  int i = 0;
  (result.push_back({New::name, shape[i++].extent}), ...);
  return result;
}

[[nodiscard]] constexpr bool is_static(const ShapeValue& shape) {
  for (const DimValue& dim : shape) {
    if (dim.extent == dynamic) return false;
  }
  return true;
}
template <class From, class To>
inline constexpr bool same_size =
    !is_static(From::shape()) || !is_static(To::shape()) || size_of(From::shape()) == size_of(To::shape());

template <class From, class To>
struct different_sizes {
  static_assert(always_false<From>, "mtf: reshape: the sizes differ; a reshape keeps the number of elements");
};

template <class World, class From, class To>
struct NotReshapable {
  static consteval auto select() {
    if constexpr (!Unpack<To>::template placeable<World>) {
      return std::type_identity<typename Unpack<To>::template not_placeable<World>>{};
    } else {
      return std::type_identity<different_sizes<From, To>>{};
    }
  }
  using type = typename decltype(select())::type;
};

}  // namespace detail

/// Whether a tensor of dims `From` can be reshaped to the dims `To` (DimLists).
template <class World, class From, class To>
concept reshapable = detail::Unpack<To>::template placeable<World> && detail::same_size<From, To>;

/// The first rule that is violated when `reshapable` does not hold.
template <class World, class From, class To>
using not_reshapable = typename detail::NotReshapable<World, From, To>::type;

/// x[..., Old, ...] as y[..., New, ...]: the same array; only the name of a dim, and with it its placement, changes.
/// New has Old's extent; if New is a static dim the extents must agree.
///
/// Communication: none if Old and New are split alike or only New is split (a local slice; a reduce-scatter if x is
/// pending over that axis); an allgather if only Old is split; an all-to-all if the axis moves from another dim; one
/// exchange if axes trade places. See the table in docs/redistribution.md.
template <dim_like Old, dim_like New, operand X>
constexpr auto rename(const X& x) {
  if constexpr (any_poisoned<X>) {
    return poisoned{};
  } else {
    constexpr bool has_old = contains(dims_of<X>::shape(), Old::name);
    static_assert(has_old, "mtf: rename: " MTF_RULE_MISSING_DIM);
    constexpr bool has_new = contains(dims_of<X>::shape(), New::name);
    static_assert(!has_new, "mtf: rename: the new name is already a dim of the tensor; choose another name");
    if constexpr (has_old && !has_new) {
      constexpr std::int64_t old_extent = dims_of<X>::shape()[find(dims_of<X>::shape(), Old::name)].extent;
      constexpr bool same_extent =
          old_extent == dynamic || New::static_extent == dynamic || old_extent == New::static_extent;
      static_assert(same_extent,
                    "mtf: rename: the new dim has another extent; rename keeps the extent, reshape changes it");
      using List = detail::replace_dim<Old, New, dims_of<X>>;
      if constexpr (!same_extent) {
        return poisoned{};
      } else if constexpr (!reshapable<world_of<X>, dims_of<X>, List>) {
        return poisoned(not_reshapable<world_of<X>, dims_of<X>, List>{});
      } else {
        const Array& array = detail::array_of(x);
        ShapeValue shape = detail::renamed_shape(array.value->placement.shape(), List{});
        if constexpr (New::static_extent != dynamic) shape[find(shape, New::name)].extent = New::static_extent;
        return tensor_of<world_of<X>, element_of<X>, List>(
            untyped::reshape(detail::engine_of(x), array, shape, "rename"));
      }
    } else {
      return poisoned{};
    }
  }
}

/// x as an array of shape [dims...] of the same size: the row-major order of the global array stays. Communication as
/// for rename, dim by dim; one exchange of what the ranks lack if the new shape cuts a split dim elsewhere.
template <operand X, dim_like... Dims>
constexpr auto reshape(const X& x, const Dims&... dims) {
  if constexpr (any_poisoned<X>) {
    return poisoned{};
  } else {
    using World = world_of<X>;
    if constexpr (reshapable<World, dims_of<X>, DimList<Dims...>>) {
      const ShapeValue shape = Shape<Dims...>(dims...).value();
      return Tensor<World, element_of<X>, std::remove_cvref_t<Dims>...>(
          untyped::reshape(detail::engine_of(x), detail::array_of(x), shape, "reshape"));
    } else {
      return poisoned(not_reshapable<World, dims_of<X>, DimList<Dims...>>{});
    }
  }
}
/// The same for static dims, `reshape<Heads, Kv>(x)`.
template <static_dim... Dims, operand X>
  requires(sizeof...(Dims) > 0)
constexpr auto reshape(const X& x) {
  if constexpr (any_poisoned<X>) {
    return poisoned{};
  } else if constexpr (!reshapable<world_of<X>, dims_of<X>, DimList<Dims...>>) {
    return poisoned(not_reshapable<world_of<X>, dims_of<X>, DimList<Dims...>>{});
  } else {
    return reshape(x, Dims{}...);
  }
}

}  // namespace v0
}  // namespace mtf
