// contract: local products of slices, by pairs, for einsum and what is made of it.
#pragma once

#include <mtf/plan/contraction.hpp>
#include <mtf/plan/contraction_order.hpp>
#include <mtf/tensor/form.hpp>

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

MTF_NOINLINE [[nodiscard]] constexpr PairPlan plan_pair(Backend& backend, const KeptPlacement& first,
                                                        const KeptPlacement& second, const KeptPlacement& to,
                                                        bool may_pack) {
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
  pair.plan.split_axes = pair.a->split_axes() | pair.b->split_axes();
  pair.is_direct = pair.a == &first && pair.b == &second && pair.c == &to;
  return pair;
}

/// The product of slices that are in the order of the plan. A survey hears of it unless `is_surveyed`: it did already.
template <class E, class T>
[[nodiscard]] constexpr Ref<Value> multiply(E& engine, const PairPlan& pair, const Ref<Value>& a, const Ref<Value>& b,
                                            bool is_surveyed) {
  Ref<Value> c = make_value(engine, *pair.c, element_type_of<T>::value);
  engine.run(pair.plan, out<T>(c), in<T>(a), in<T>(b));
  if (engine.is_observed()) {
    if (engine.survey != nullptr && !is_surveyed)
      engine.survey->contract(pair.plan.work(), element_type_of<T>::value, *pair.c, a->placement, b->placement);
    if (engine.tracing) engine.trace(*pair.c, a->placement, b->placement);
  }
  return c;
}

/// Local contraction of two slices to the dims of `to`; dims of one operand alone are summed first.
template <class E, class T>
[[nodiscard]] constexpr Ref<Value> contract_pair(E& engine, const Ref<Value>& first, const Ref<Value>& second,
                                                 const KeptPlacement& to, bool is_surveyed = false) {
  const PairPlan& pair = engine.plans.template get<PairPlan>(
      PlanKey(first.object->placement.number, second.object->placement.number, to.number, floating<T> ? 1 : 0),
      [&] { return plan_pair(engine, first->placement, second->placement, to, floating<T>); });
  if (pair.is_direct) return multiply<E, T>(engine, pair, first, second, is_surveyed);
  const Ref<Value> a = reorder(engine, sum_to<E, T>(engine, first, *pair.a_summed), *pair.a);
  const Ref<Value> b = reorder(engine, sum_to<E, T>(engine, second, *pair.b_summed), *pair.b);
  return reorder(engine, multiply<E, T>(engine, pair, a, b, is_surveyed), to);
}

/// The operands of an einsum.
using Factors = InlineVector<const Ref<Value>*, Operation::max_inputs>;
static_assert(max_factors == Operation::max_inputs);

/// The key of a plan for values and one more placement: seven values at most.
[[nodiscard]] constexpr PlanKey key_of(const KeptPlacement& first, const Factors& xs) {
  unsigned numbers[7]{};
  for (int i = 0; i < xs.count; ++i) numbers[i] = xs.items[i]->object->placement.number;
  return PlanKey(first.number, numbers[0], numbers[1], numbers[2], numbers[3], numbers[4], numbers[5], numbers[6]);
}

[[nodiscard]] constexpr ContractionOrder plan_order(const Factors& xs, const KeptPlacement& to, einsum_order order) {
  InlineVector<const Placement*, max_factors> operands;
  for (const Ref<Value>* x : xs) operands.push_back(&x->object->placement);
  return plan_contraction_order({operands.items, static_cast<std::size_t>(operands.count)}, to, order);
}

/// The products of an einsum of three or more operands, and where each lives.
struct ProductsPlan {
  ContractionOrder order;
  InlineVector<const KeptPlacement*, max_factors - 1> made;
};
template <einsum_order>
struct OrderedProducts : ProductsPlan {};

MTF_NOINLINE [[nodiscard]] constexpr ProductsPlan plan_products(Backend& backend, const Factors& xs,
                                                                const KeptPlacement& to, einsum_order order) {
  ProductsPlan plan{plan_order(xs, to, order), {}};
  InlineVector<const KeptPlacement*, 2 * max_factors> factors;  // null once they are used up
  for (const Ref<Value>* x : xs) factors.push_back(&x->object->placement);
  for (const ContractionOrder::Product& product : plan.order.products) {
    const KeptPlacement& first = *factors[product.first];
    const KeptPlacement& second = *factors[product.second];
    factors[product.first] = factors[product.second] = nullptr;
    const KeptPlacement* made = &to;
    if (plan.made.count + 1 < plan.order.products.count) {
      ShapeValue wanted = to.shape();
      for (const KeptPlacement* other : factors) {
        if (other != nullptr) wanted = unite(wanted, other->shape());
      }
      made = &backend.keep(mtf::detail::kept_dims(first, second, wanted));
    }
    factors.push_back(made);
    plan.made.push_back(made);
  }
  return plan;
}

/// What a layout search may take for granted of an einsum whose order depends on the layout: each operand is read once
/// and the result written once; one product has all dims of the result, and one all those of the largest operand that
/// are not summed at once. Which of the two is larger depends on the layout too, so one is chosen.
MTF_COLD constexpr void survey_products(Survey& survey, const Factors& xs, const KeptPlacement& to, ElementType type) {
  const Placement* largest = &to;
  InlineVector<Placement, max_factors> operands;
  for (int i = 0; i < xs.count; ++i) {
    ShapeValue wanted = to.shape();
    for (int j = 0; j < xs.count; ++j) {
      if (j != i) wanted = unite(wanted, (*xs[j])->placement.shape());
    }
    operands.push_back(mtf::detail::kept_dims((*xs[i])->placement, {}, wanted));
  }
  for (const Placement& operand : operands) {
    if (operand.size() > largest->size()) largest = &operand;
  }
  survey.contract_somehow({operands.items, static_cast<std::size_t>(operands.count)}, to, *largest, type);
}

template <class E, class T>
[[nodiscard]] constexpr Ref<Value> contract_products(E& engine, const Factors& xs, const ProductsPlan& plan,
                                                     bool is_surveyed) {
  InlineVector<Ref<Value>, max_factors - 1> made;
  const auto factor = [&](int i) -> const Ref<Value>& {
    return i < xs.count ? *xs.items[i] : made.items[i - xs.count];
  };
  for (int i = 0; i < plan.made.count; ++i) {
    const ContractionOrder::Product& product = plan.order.products.items[i];
    made.items[i] =
        contract_pair<E, T>(engine, factor(product.first), factor(product.second), *plan.made.items[i], is_surveyed);
    for (const int used : {product.first, product.second}) {
      if (used >= xs.count) made.items[used - xs.count] = Ref<Value>();
    }
  }
  return made.items[plan.made.count - 1];
}

/// The products of three or more.
template <class E, class T, einsum_order Order>
[[nodiscard]] constexpr Ref<Value> contract_many(E& engine, const Factors& xs, const KeptPlacement& to) {
  constexpr bool depends_on_layout = Order != einsum_order::as_written;
  if (depends_on_layout && engine.survey != nullptr) survey_products(*engine.survey, xs, to, element_type_of<T>::value);
  if (xs.count > 7) return contract_products<E, T>(engine, xs, plan_products(engine, xs, to, Order), depends_on_layout);
  const ProductsPlan& plan = engine.plans.template get<OrderedProducts<Order>>(
      key_of(to, xs), [&] { return OrderedProducts<Order>{plan_products(engine, xs, to, Order)}; });
  return contract_products<E, T>(engine, xs, plan, depends_on_layout);
}

template <class E, class T>
[[nodiscard]] constexpr Ref<Value> contract_all(E& engine, const Factors& xs, const KeptPlacement& to,
                                                einsum_order order) {
  AxisSet split;
  for (int i = 0; i < xs.count; ++i) split.bits |= xs.items[i]->object->placement.split_axes().bits;
  Ref<Value> result;
  if (xs.count == 1) {
    if ((*xs[0])->placement == to) return *xs[0];
    result = sum_to<E, T>(engine, *xs[0], to);
  } else if (xs.count == 2) {
    result = contract_pair<E, T>(engine, *xs.items[0], *xs.items[1], to);
  } else if (order == einsum_order::as_written) {
    result = contract_many<E, T, einsum_order::as_written>(engine, xs, to);
  } else {
    result = contract_many<E, T, einsum_order::fastest>(engine, xs, to);
  }
  result.object->block.object->pending.bits = split.bits & ~to.split_axes().bits;
  return result;
}

struct LegalUnion {};

MTF_NOINLINE constexpr LegalUnion require_union(const Backend& backend, const char* name, const Factors& xs,
                                                const ShapeValue& shape) {
  UnionValue all;
  add_dims(all, shape);
  for (const Ref<Value>* x : xs) add_dims(all, (*x)->placement.shape());
  require_placeable(backend, name, all, false);
  return {};
}

/// Where the result of an einsum lives, if its operands go together.
[[nodiscard]] constexpr const KeptPlacement& place_einsum(Backend& backend, const char* name, const Factors& xs,
                                                          const ShapeValue& shape) {
  mtf::detail::require_open(backend, name);
  const KeptPlacement* to = backend.placements.find(shape);
  if (to == nullptr || xs.count > 7) {
    (void)require_union(backend, name, xs, shape);
    return place(backend, name, shape);
  }
  (void)backend.plans.get<LegalUnion>(key_of(*to, xs), [&] { return require_union(backend, name, xs, shape); });
  return *to;
}

/// The dims of `whole` that some factor has.
[[nodiscard]] constexpr const KeptPlacement& dims_reached(Backend& backend, const KeptPlacement& whole,
                                                          const Factors& factors) {
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

/// Contraction of complete values to the dims of `to`, all of which some operand has. Local; pending over the axes of
/// the split dims summed out. More than two operands go pairwise in the order of the plan, keeping the dims that are
/// still needed.
template <class E, class T>
[[nodiscard]] constexpr Ref<Value> contract(E& engine, const detail::Factors& xs, const KeptPlacement& to,
                                            einsum_order order) {
  if constexpr (std::same_as<T, bfloat16>) {
    // BLAS knows float and double: products are made, summed and kept between operands in float, and rounded once.
    InlineVector<Ref<Value>, Operation::max_inputs> floats;
    detail::Factors pointers;
    for (const Ref<Value>* x : xs) {
      floats.push_back(convert<E, float, bfloat16>(engine, *x));
      pointers.push_back(&floats.back());
    }
    return settle(engine, detail::contract_all<E, float>(engine, pointers, to, order));
  } else {
    return detail::contract_all<E, T>(engine, xs, to, order);
  }
}

}  // namespace untyped

}  // namespace v0
}  // namespace mtf
