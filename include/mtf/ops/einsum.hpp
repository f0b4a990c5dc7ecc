// einsum: contraction of two or more tensors by dim names.
#pragma once

#include <array>

#include <mtf/ops/reduce.hpp>
#include <mtf/tensor/contract.hpp>

namespace mtf {
inline namespace v0 {

namespace untyped {

namespace detail {

/// Throws if an einsum of three or more operands leaves something in between that is no tensor.
MTF_NOINLINE constexpr void require_products(const Factors& factors, const KeptPlacement& to, einsum_order order,
                                             const char* where) {
  if (plan_order(factors, to, order).fits) return;
  InlineVector<ShapeValue, Operation::max_inputs> shapes;
  for (const Ref<Value>* factor : factors) shapes.push_back((*factor)->placement.shape());
  const ShapeValue kept =
      mtf::detail::oversized_intermediate({shapes.items, static_cast<std::size_t>(shapes.count)}, to.shape());
  const std::string many = std::to_string(kept.size()) + " dims " + describe(kept) + "; a tensor has at most " +
                           std::to_string(max_rank) + ": ";
  if (order == einsum_order::as_written) {
    raise("einsum", std::string(where) +
                        "operands are multiplied pairwise from the left, as written, and a product in between keeps "
                        "the " +
                        many +
                        "leave the order to einsum (einsum_order::fastest), or put operands that share their dims next "
                        "to each other");
  }
  raise("einsum", std::string(where) +
                      "operands are multiplied pairwise, and in whatever order a product in between keeps too many "
                      "dims, from the left the " +
                      many + "join dims that go together into one by reshape, or sum some in an einsum before");
}

/// The same for an einsum and, if it will be differentiated, its gradients.
MTF_NOINLINE constexpr void require_intermediates(Backend& backend, std::span<const Array> xs, const Factors& factors,
                                                  const KeptPlacement& to, bool differentiated, einsum_order order) {
  ShapeValue all = to.shape();
  for (const Ref<Value>* factor : factors) all = unite(all, (*factor)->placement.shape());
  if (all.size() <= max_rank) return;
  require_products(factors, to, order, "");
  const Ref<Value> result(share(**factors[0], to));  // stands for its gradient, of which only the placement counts
  for (int i = 0; differentiated && i < factors.count; ++i) {
    if (!xs[static_cast<std::size_t>(i)].node) continue;
    Factors others;
    others.push_back(&result);
    for (int j = 0; j < factors.count; ++j) {
      if (j != i) others.push_back(factors[j]);
    }
    require_products(others, dims_reached(backend, (*factors[i])->placement, others), order,
                     "in the gradient, whose first operand is that of the result, ");
  }
}

}  // namespace detail

template <class E, class T>
class EinsumGradient final : public Operation {
 public:
  FewRefs<Value> operands;
  einsum_order order;
  constexpr explicit EinsumGradient(einsum_order chosen) : order(chosen) {}
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
      Ref<Value> result = contract<E, T>(engine, factors, reached, order);
      // A dim that this operand alone had was summed: its gradient is the same along it.
      if (&reached != &whole) result = broadcast_to(engine, result, whole);
      sink.add(i, std::move(result));
    }
  }
};

template <class E, class T>
[[nodiscard]] constexpr Array einsum(E& engine, std::span<const Array> xs, const ShapeValue& shape,
                                     einsum_order order = einsum_order::fastest) {
  constexpr const char* name = "einsum";
  detail::Factors factors;
  for (const Array *x = xs.data(), *end = x + xs.size(); x != end; ++x) factors.items[factors.count++] = &x->value;
  const KeptPlacement& to = detail::place_einsum(engine, name, factors, shape);
  const bool differentiated = floating<T> && records(engine, xs);
  if (factors.count > 2) detail::require_intermediates(engine, xs, factors, to, differentiated, order);
  for (int i = 0; i < factors.count; ++i) complete(*factors.items[i]->object->block.object, name);
  Array result{contract<E, T>(engine, factors, to, order), {}};
  if constexpr (floating<T>) {
    if (differentiated) {
      auto* operation = make<EinsumGradient<E, T>>(order);
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
    includes(concatenate<dims_of<X>, dims_of<Xs>...>::shape(), Out::shape()) &&
    Unpack<Out>::template placeable<world_of<X>> &&
    Unpack<concatenate<Out, dims_of<X>, dims_of<Xs>...>>::template uniteable<world_of<X>>;
}  // namespace detail

/// Whether an einsum with these output dims (a DimList) and operands is legal: every output dim occurs in an operand,
/// and the union of all dims can be placed.
template <class Out, class... Xs>
concept contractible = detail::contracts_legally<Out, Xs...>;

template <class OutputDim, class... OperandDims>
struct output_dim_in_no_operand {
  static_assert(
      always_false<OutputDim>,
      "mtf: einsum: an output dim occurs in no operand; check its spelling, or use broadcast(x, dim) on the result, "
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
constexpr auto einsum_to(einsum_order order, const X& x, const Xs&... xs) {
  static_assert(counts<X>, "mtf: einsum: " MTF_RULE_SUM_OF_BOOL);
  static_assert(sizeof...(Xs) < Operation::max_inputs,
                "mtf: einsum takes at most 8 operands; multiply some of them first");
  using T = element_of<X>;
  using E = typename world_of<X>::engine_type;
  const std::array<Array, 1 + sizeof...(Xs)> arrays{array_of(x), array_of(xs)...};
  E& engine = static_cast<E&>(*arrays.data()->value.object->block.object->backend);
  require_same_backend(engine, "einsum", arrays);
  return tensor_of<world_of<X>, T, Out>(untyped::einsum<E, T>(engine, arrays, output_shape(arrays, Out{}), order));
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

/// y[Out...] = sum over all other dims of the product of the operands, each of which has some of the dims. A dim that
/// one operand alone has and the output lacks is summed as well. `einsum<Shape<>>(x, y)` spells a scalar output.
///
/// Three or more operands are multiplied in pairs. The order takes the least time under the layout and, where several
/// do, the least memory in between; so do those of the gradients (docs/cost.md, "Einsums of three or more"). It is a
/// function of the placements alone: the same in a run and a dry run. `einsum<Out...>(einsum_order::as_written, x, y,
/// z)` multiplies from the left, and in the gradients the output's gradient first.
///
/// Errors: operands of different worlds or element types; an intermediate product of three or more operands, here or in
/// the gradient, with more than 12 dims whatever the order; a union of dims that cannot be placed (two dims over one
/// axis, one name with two extents); an output dim that no operand has. At compile time where the types know it.
/// Communication: none now. The result is pending over the axes of the split dims summed out: one allreduce of the
/// output slice at its first use that is not linear. Work: product of the local extents of all dims of each pair, by
/// BLAS. Gradient: einsum of the output's gradient with the other operands.
template <class... Out, operand... Xs>
  requires(sizeof...(Out) > 0 && sizeof...(Xs) > 0)
constexpr auto einsum(einsum_order order, const Xs&... xs) {
  using List = typename detail::OutputDims<Out...>::type;
  if constexpr (any_poisoned<Xs...>) {
    return poisoned{};
  } else if constexpr (!contractible<List, Xs...>) {
    return poisoned(not_contractible<List, Xs...>{});
  } else {
    return detail::einsum_to<List>(order, xs...);
  }
}
template <class... Out, operand... Xs>
  requires(sizeof...(Out) > 0 && sizeof...(Xs) > 0)
constexpr auto einsum(const Xs&... xs) {
  using List = typename detail::OutputDims<Out...>::type;
  if constexpr (any_poisoned<Xs...>) {
    return poisoned{};
  } else if constexpr (!contractible<List, Xs...>) {
    return poisoned(not_contractible<List, Xs...>{});
  } else {
    return detail::einsum_to<List>(einsum_order::fastest, xs...);
  }
}

/// The same with the default output: the dims that occur exactly once, in order of first appearance.
template <operand X, operand... Xs>
constexpr auto einsum(einsum_order order, const X& x, const Xs&... xs) {
  if constexpr (any_poisoned<X, Xs...>) {
    return poisoned{};
  } else if constexpr (!operable<X, Xs...>) {
    return poisoned(not_operable<X, Xs...>{});
  } else {
    using All = concatenate<dims_of<X>, dims_of<Xs>...>;
    return detail::einsum_to<select_dims<single_occurrences(All::shape()), All>>(order, x, xs...);
  }
}
template <operand X, operand... Xs>
constexpr auto einsum(const X& x, const Xs&... xs) {
  return einsum(einsum_order::fastest, x, xs...);
}

}  // namespace v0
}  // namespace mtf
