// einsum: contraction of two or more tensors by dim names.
#pragma once

#include <array>

#include <mtf/ops/reduce.hpp>
#include <mtf/plan/contraction.hpp>

namespace mtf {
inline namespace v0 {

namespace untyped {

namespace detail {

template <class E>
[[nodiscard]] constexpr Ref<Value> reorder(E& engine, const Ref<Value>& x, const KeptPlacement& to) {
  if (&x.object->placement == &to) return x;
  Ref<Value> result = make_value(engine, to, x->type());
  engine.copy(plan_copy(engine, to, x->placement), *result->block, *x->block);
  return result;
}

/// How two slices are contracted.
struct PairPlan {
  const KeptPlacement *a_summed, *b_summed;  ///< without the dims that one operand alone has
  const KeptPlacement *a, *b, *c;            ///< in an order that BLAS takes
  bool is_direct;                            ///< all are as they come
  ContractionPlan plan;
};

MTF_NOINLINE [[nodiscard]] constexpr PairPlan plan_pair(Backend& backend, const KeptPlacement& first, const KeptPlacement& second,
                                                        const KeptPlacement& to, bool may_pack) {
  const auto presum = [&](const Placement& x, const Placement& partner) -> const KeptPlacement& {
    ShapeValue wanted = to.shape();
    for (const PlacedDim& dim : partner.dims) {
      if (!contains(wanted, dim.name)) wanted.push_back({dim.name, dim.extent});
    }
    return backend.keep(mtf::detail::kept_dims(x, {}, wanted));
  };
  PairPlan pair;
  pair.a = pair.a_summed = &presum(first, second);
  pair.b = pair.b_summed = &presum(second, *pair.a);
  pair.c = &to;
  pair.plan = plan_contraction(row_major(to), row_major(*pair.a), row_major(*pair.b));
  constexpr std::int64_t worth_packing = 4096;  // multiply-adds; below, the strided loop is as fast as the copies
  if (may_pack && !pair.plan.is_gemm && pair.plan.work() > worth_packing) {
    const Placement a = mtf::detail::ordered(*pair.a, *pair.b, to, true);
    const Placement b = mtf::detail::ordered(*pair.b, *pair.a, to, false);
    Placement c;
    for (const PlacedDim& dim : a.dims) {
      if (to.find(dim.name) >= 0) c.dims.push_back(dim);
    }
    for (const PlacedDim& dim : b.dims) {
      if (to.find(dim.name) >= 0 && c.find(dim.name) < 0) c.dims.push_back(dim);
    }
    pair.a = &backend.keep(a);
    pair.b = &backend.keep(b);
    pair.c = &backend.keep(c);
    pair.plan = plan_contraction(row_major(c), row_major(a), row_major(b));
  }
  pair.is_direct = pair.a == &first && pair.b == &second && pair.c == &to;
  pair.plan.split_axes = pair.a->split_axes() | pair.b->split_axes();
  return pair;
}

/// Local contraction of two slices to the dims of `to`; dims of one operand alone are summed first.
template <class E, class T>
[[nodiscard]] constexpr Ref<Value> contract_pair(E& engine, const Ref<Value>& first, const Ref<Value>& second, const KeptPlacement& to) {
  const PairPlan& pair = engine.plans.template get<PairPlan>(
      PlanKey(first.object->placement.number, second.object->placement.number, to.number, floating<T> ? 1 : 0),
      [&] { return plan_pair(engine, first->placement, second->placement, to, floating<T>); });
  if (pair.is_direct) {
    Ref<Value> c = make_value(engine, to, element_type_of<T>::value);
    if (engine.survey != nullptr) engine.survey->contract(pair.plan.work(), element_type_of<T>::value, *pair.c, *pair.a, *pair.b);
  engine.run(pair.plan, out<T>(c), in<T>(first), in<T>(second));
    return c;
  }
  const Ref<Value> a = reorder(engine, sum_to<E, T>(engine, first, *pair.a_summed), *pair.a);
  const Ref<Value> b = reorder(engine, sum_to<E, T>(engine, second, *pair.b_summed), *pair.b);
  const Ref<Value> c = make_value(engine, *pair.c, element_type_of<T>::value);
  if (engine.survey != nullptr) engine.survey->contract(pair.plan.work(), element_type_of<T>::value, *pair.c, *pair.a, *pair.b);
  engine.run(pair.plan, out<T>(c), in<T>(a), in<T>(b));
  return reorder(engine, c, to);
}

/// The operands of an einsum.
using Factors = InlineVector<const Ref<Value>*, Operation::max_inputs>;

template <class E, class T>
[[nodiscard]] constexpr Ref<Value> contract_all(E& engine, const Factors& xs, const KeptPlacement& to) {
  AxisSet split;
  for (int i = 0; i < xs.count; ++i) split.bits |= xs.items[i]->object->placement.split_axes().bits;
  Ref<Value> result;
  if (xs.count == 1) {
    if ((*xs[0])->placement == to) return *xs[0];
    result = sum_to<E, T>(engine, *xs[0], to);
  } else if (xs.count == 2) {
    result = contract_pair<E, T>(engine, *xs.items[0], *xs.items[1], to);
  } else {
    result = *xs[0];
    for (int i = 1; i < xs.size(); ++i) {
      ShapeValue wanted = to.shape();
      for (int j = i + 1; j < xs.size(); ++j) wanted = unite(wanted, (*xs[j])->placement.shape());
      const KeptPlacement* next = &to;
      if (i + 1 < xs.size()) next = &engine.keep(mtf::detail::kept_dims(result->placement, (*xs[i])->placement, wanted));
      result = contract_pair<E, T>(engine, result, *xs[i], *next);
    }
  }
  result.object->block.object->pending.bits = split.bits & ~to.split_axes().bits;
  return result;
}

/// The key of a plan for values and one more placement: seven values at most.
[[nodiscard]] constexpr PlanKey key_of(const KeptPlacement& first, const Factors& xs) {
  unsigned numbers[7]{};
  for (int i = 0; i < xs.count; ++i) numbers[i] = xs.items[i]->object->placement.number;
  return PlanKey(first.number, numbers[0], numbers[1], numbers[2], numbers[3], numbers[4], numbers[5], numbers[6]);
}

struct LegalUnion {};

MTF_NOINLINE constexpr LegalUnion require_union(const Backend& backend, const char* name, const Factors& xs, const ShapeValue& shape) {
  ShapeValue all = shape;
  for (const Ref<Value>* x : xs) {
    for (const PlacedDim& dim : (*x)->placement.dims) {
      const int known = find(all, dim.name);
      if ((known < 0 || all[known].extent != dim.extent) && !all.full()) all.push_back({dim.name, dim.extent});
    }
  }
  require_placeable(backend, name, all, false);
  return {};
}

/// Where the result of an einsum lives, if its operands go together.
[[nodiscard]] constexpr const KeptPlacement& place_einsum(Backend& backend, const char* name, const Factors& xs, const ShapeValue& shape) {
  mtf::detail::require_open(backend, name);
  const KeptPlacement* to = backend.placements.find(shape);
  if (to == nullptr || xs.count > 7) {
    (void)require_union(backend, name, xs, shape);
    return backend.place(shape);
  }
  (void)backend.plans.get<LegalUnion>(key_of(*to, xs), [&] { return require_union(backend, name, xs, shape); });
  return *to;
}

/// The dims of `whole` that some factor has.
[[nodiscard]] constexpr const KeptPlacement& dims_reached(Backend& backend, const KeptPlacement& whole, const Factors& factors) {
  struct Reached {
    const KeptPlacement* placement;
  };
  const auto reached = [&] {
    ShapeValue known;
    for (const Ref<Value>* factor : factors) known = unite(known, (*factor)->placement.shape());
    return Reached{&backend.keep(mtf::detail::kept_dims(whole, {}, known))};
  };
  if (factors.count > 7) return *reached().placement;
  return *backend.plans.get<Reached>(key_of(whole, factors), reached).placement;
}

}  // namespace detail

/// Contraction of complete values to the dims of `to`, all of which some operand has. Local; pending over the axes of the
/// split dims summed out. More than two operands go pairwise from the left, keeping the dims that are still needed.
template <class E, class T>
[[nodiscard]] constexpr Ref<Value> contract(E& engine, const detail::Factors& xs, const KeptPlacement& to) {
  if constexpr (std::same_as<T, bfloat16>) {
    // BLAS knows float and double: products are made, summed and kept between operands in float, and rounded once.
    InlineVector<Ref<Value>, Operation::max_inputs> floats;
    detail::Factors pointers;
    for (const Ref<Value>* x : xs) {
      floats.push_back(convert<E, float, bfloat16>(engine, *x));
      pointers.push_back(&floats.back());
    }
    return settle(engine, detail::contract_all<E, float>(engine, pointers, to));
  } else {
    return detail::contract_all<E, T>(engine, xs, to);
  }
}

template <class E, class T>
class EinsumGradient final : public Operation {
 public:
  FewRefs<Value> operands;
  constexpr ~EinsumGradient() override {}
  constexpr void backward(const Ref<Value>& gradient, GradientSink& sink) override {
    complete(*gradient.object->block.object, this->name);
    E& engine = static_cast<E&>(*gradient.object->block.object->backend);
    const Ref<Value>* const xs = operands.data();
    const int count = static_cast<int>(operands.size());
    for (int i = 0; i < count; ++i) {
      if (!sink.wants(i)) continue;
      detail::Factors factors;
      factors.items[factors.count++] = &gradient;
      for (int j = 0; j < count; ++j) {
        if (j != i) factors.items[factors.count++] = &xs[j];
      }
      const KeptPlacement& whole = xs[i].object->placement;
      const KeptPlacement& reached = detail::dims_reached(engine, whole, factors);
      Ref<Value> result = contract<E, T>(engine, factors, reached);
      // A dim that this operand alone had was summed: its gradient is the same along it.
      if (&reached != &whole) result = broadcast_to(engine, result, whole);
      sink.add(i, std::move(result));
    }
  }
};

template <class E, class T>
[[nodiscard]] constexpr Array einsum(E& engine, std::span<const Array> xs, const ShapeValue& shape) {
  constexpr const char* name = "einsum";
  detail::Factors factors;
  for (const Array *x = xs.data(), *end = x + xs.size(); x != end; ++x) factors.items[factors.count++] = &x->value;
  const KeptPlacement& to = detail::place_einsum(engine, name, factors, shape);
  for (int i = 0; i < factors.count; ++i) complete(*factors.items[i]->object->block.object, name);
  Array result{contract<E, T>(engine, factors, to), {}};
  if constexpr (floating<T>) {
    if (records(engine, xs)) {
      auto* operation = make<EinsumGradient<E, T>>();
      for (int i = 0; i < factors.count; ++i) operation->operands.push_back(*factors.items[i]);
      record<E, T>(result, name, operation, xs);
    }
  }
  return result;
}

}  // namespace untyped

namespace detail {
template <class Out, class... Xs>
inline constexpr bool contracts_legally = false;
template <class Out, class X, class... Xs>
  requires operable<X, Xs...>
inline constexpr bool contracts_legally<Out, X, Xs...> =
    includes(concatenate<dims_of<X>, dims_of<Xs>...>::shape(), Out::shape()) && Unpack<Out>::template placeable<world_of<X>> &&
    Unpack<concatenate<Out, dims_of<X>, dims_of<Xs>...>>::template uniteable<world_of<X>>;
}  // namespace detail

/// Whether an einsum with these output dims (a DimList) and operands is legal: every output dim occurs in an operand, and the
/// union of all dims can be placed.
template <class Out, class... Xs>
concept contractible = detail::contracts_legally<Out, Xs...>;

template <class OutputDim, class... OperandDims>
struct output_dim_in_no_operand {
  static_assert(always_false<OutputDim>, "mtf: einsum: an output dim occurs in no operand; check its spelling, or use broadcast(x, dim) on the result, "
                                         "because einsum does not broadcast");
};

namespace detail {

template <class Out, class... Xs>
struct NotContractible;
template <class Out, class X, class... Xs>
struct NotContractible<Out, X, Xs...> {
  using Operands = concatenate<dims_of<X>, dims_of<Xs>...>;
  template <class... Dims>
  static consteval auto missing(DimList<Dims...>) {
    constexpr auto position = static_cast<std::size_t>(remaining(static_shape<Dims...>(), Operands::shape())[0]);
    return std::type_identity<output_dim_in_no_operand<dim_at<position, Dims...>, dims_of<X>, dims_of<Xs>...>>{};
  }
  static consteval auto select() {
    using World = world_of<X>;
    if constexpr (!operable<X, Xs...>) {
      return std::type_identity<not_operable<X, Xs...>>{};
    } else if constexpr (!includes(Operands::shape(), Out::shape())) {
      return missing(Out{});
    } else if constexpr (!Unpack<Out>::template placeable<World>) {
      return std::type_identity<typename Unpack<Out>::template not_placeable<World>>{};
    } else {
      return std::type_identity<typename Unpack<concatenate<Out, Operands>>::template not_uniteable<World>>{};
    }
  }
  using type = typename decltype(select())::type;
};

}  // namespace detail

/// The first rule that is violated when `contractible` does not hold.
template <class Out, class... Xs>
using not_contractible = typename detail::NotContractible<Out, Xs...>::type;

namespace detail {

/// Extents of the output by name from the operands; a static extent of the output's own dim type is kept, so that a
/// difference is reported.
template <class... Out>
[[nodiscard]] constexpr ShapeValue output_shape(std::span<const Array> xs, DimList<Out...>) {
  ShapeValue shape = static_shape<Out...>();
  for (DimValue& dim : shape) {
    if (dim.extent != dynamic) continue;
    for (const Array& x : xs) {
      const int at = x.value->placement.find(dim.name);
      if (dim.extent == dynamic && at >= 0) dim.extent = x.value->placement.dims[at].extent;
    }
  }
  return shape;
}

template <class Out, class X, class... Xs>
constexpr auto einsum_to(const X& x, const Xs&... xs) {
  static_assert(counts<X>, "mtf: einsum: " MTF_RULE_SUM_OF_BOOL);
  static_assert(sizeof...(Xs) < Operation::max_inputs, "mtf: einsum takes at most 8 operands; multiply some of them first");
  using T = element_of<X>;
  using E = typename world_of<X>::engine_type;
  const std::array<Array, 1 + sizeof...(Xs)> arrays{array_of(x), array_of(xs)...};
  E& engine = static_cast<E&>(*arrays.data()->value.object->block.object->backend);
  require_same_backend(engine, "einsum", arrays);
  return tensor_of<world_of<X>, T, Out>(untyped::einsum<E, T>(engine, arrays, output_shape(arrays, Out{})));
}

template <class... Out>
struct OutputDims {
  using type = DimList<Out...>;
};
template <class... Dims>
struct OutputDims<Shape<Dims...>> {
  using type = DimList<Dims...>;
};

}  // namespace detail

/// y[Out...] = sum over all other dims of the product of the operands, each of which has some of the dims. A dim that one
/// operand alone has and the output lacks is summed as well. `einsum<Shape<>>(x, y)` spells a scalar output.
///
/// Errors: operands of different worlds or element types; a union of dims that cannot be placed (two dims over one
/// axis, one name with two extents); an output dim that no operand has. At compile time where the types know it.
/// Communication: none now. The result is pending over the axes of the split dims summed out: one allreduce of the
/// output slice at its first use that is not linear. Work: product of the local extents of all dims, by BLAS.
/// Gradient: einsum of the output's gradient with the other operands.
template <class... Out, operand... Xs>
  requires(sizeof...(Out) > 0 && sizeof...(Xs) > 0)
constexpr auto einsum(const Xs&... xs) {
  using List = typename detail::OutputDims<Out...>::type;
  if constexpr (any_poisoned<Xs...>) {
    return poisoned{};
  } else if constexpr (!contractible<List, Xs...>) {
    return poisoned(not_contractible<List, Xs...>{});
  } else {
    return detail::einsum_to<List>(xs...);
  }
}

/// The same with the default output: the dims that occur exactly once, in order of first appearance.
template <operand X, operand... Xs>
constexpr auto einsum(const X& x, const Xs&... xs) {
  if constexpr (any_poisoned<X, Xs...>) {
    return poisoned{};
  } else if constexpr (!operable<X, Xs...>) {
    return poisoned(not_operable<X, Xs...>{});
  } else {
    using All = concatenate<dims_of<X>, dims_of<Xs>...>;
    return detail::einsum_to<select_dims<single_occurrences(All::shape()), All>>(x, xs...);
  }
}

}  // namespace v0
}  // namespace mtf
