// Reductions over dims: sum, mean, max, min; and broadcast, their counterpart.
#pragma once

#include <mtf/ops/map.hpp>

namespace mtf {
inline namespace v0 {

namespace untyped {

/// x repeated along the dims that `to` has more; no communication, a sum stays pending.
[[nodiscard]] constexpr Ref<Value> broadcast_to(Backend& backend, const Ref<Value>& x, const KeptPlacement& to) {
  if (!x->block->scattered.empty()) complete(*x, "broadcast");
  // A sum that is pending over an axis that splits a new dim cannot stay pending: the slices differ along it.
  if (!(x->pending() & to.split_axes()).empty()) complete(*x, "broadcast");
  Ref<Value> result = make_like(backend, to, *x);
  result->block->pending = x->pending();
  backend.copy(plan_copy(backend, to, x->placement), *result->block, *x->block);
  return result;
}

template <class E, class T>
class SumGradient final : public Operation {
 public:
  const KeptPlacement* from = nullptr;
  double factor = 1;
  constexpr ~SumGradient() override {}
  constexpr void backward(const Ref<Value>& gradient, GradientSink& sink) override {
    E& engine = static_cast<E&>(gradient->backend());
    if (sink.wants(0)) sink.add(0, broadcast_to(engine, scale<E, T>(engine, gradient, factor), *from));
  }
};

/// factor * the sum of x over the dims that `shape` lacks. Pending over the axes that split them.
template <class E, class T>
[[nodiscard]] constexpr Array reduce_sum(E& engine, const Array& x, const ShapeValue& shape, double factor,
                                         const char* name) {
  const KeptPlacement& to = place_legally(engine, name, shape);
  Array result;
  if constexpr (std::same_as<T, bfloat16>) {
    if (!x.value->block->scattered.empty()) complete(*x.value, name);
    result.value = settle(engine, scale<E, float>(engine, sum_in_float(engine, x.value, to), factor));
  } else {
    result.value = scale<E, T>(engine, sum_to<E, T>(engine, x.value, to), factor);
  }
  if constexpr (floating<T>) {
    if (records(engine, x)) {
      auto* operation = make<SumGradient<E, T>>();
      operation->from = &x.value->placement;
      operation->factor = factor;
      record<E, T>(result, name, operation, x);
    }
  }
  return result;
}

namespace detail {

/// Passes dy on to every element that attains the extreme value, ties included.
struct PassTies {
  template <class X>
  MTF_FUNCTION constexpr X operator()(const X& x, const X& y, const X& dy) const {
    return x == y ? dy : X(0);
  }
};

}  // namespace detail

template <class E, class T>
class ExtremeGradient final : public Operation {
 public:
  Ref<Value> x, y;
  constexpr ~ExtremeGradient() override {}
  constexpr void backward(const Ref<Value>& gradient, GradientSink& sink) override {
    if (!sink.wants(0)) return;
    complete(*gradient, this->name);
    E& engine = static_cast<E&>(gradient->backend());
    Ref<Value> result = make_value(engine, x->placement, element_type_of<T>::value);
    engine.run(plan_map(engine, x->placement, x->placement, y->placement, y->placement), detail::PassTies{},
               out<T>(result), in<T>(x), in<T>(y), in<T>(gradient));
    sink.add(0, std::move(result));
  }
};

/// The largest or smallest element over the dims that `to` lacks, without a graph: one allreduce if one of them is
/// split.
template <class E, class T>
[[nodiscard]] constexpr Ref<Value> extreme(E& engine, const Ref<Value>& x, const KeptPlacement& to, Combine combine,
                                           const char* name) {
  complete(*x, name);
  Ref<Value> result = make_value(engine, to, element_type_of<T>::value);
  engine.run(plan_reduce(engine, to, x->placement, combine), out<T>(result), in<T>(x));
  const AxisSet axes = axes_lost(x->placement, to);
  if (!axes.empty()) {
    engine.communicate({.collective = Collective::all_reduce,
                        .axes = axes,
                        .count = result->block->count(),
                        .type = result->type(),
                        .combine = combine,
                        .operation = name},
                       *result->block, *result->block);
  }
  return result;
}

template <class E, class T>
[[nodiscard]] constexpr Array reduce_extreme(E& engine, const Array& x, const ShapeValue& shape, Combine combine,
                                             const char* name) {
  Array result{extreme<E, T>(engine, x.value, place_legally(engine, name, shape), combine, name), {}};
  if constexpr (floating<T>) {
    if (records(engine, x)) {
      auto* operation = make<ExtremeGradient<E, T>>();
      operation->x = x.value;
      operation->y = result.value;
      record<E, T>(result, name, operation, x);
    }
  }
  return result;
}

template <class E, class T>
class BroadcastGradient final : public Operation {
 public:
  const KeptPlacement* from = nullptr;
  constexpr ~BroadcastGradient() override {}
  constexpr void backward(const Ref<Value>& gradient, GradientSink& sink) override {
    E& engine = static_cast<E&>(gradient->backend());
    if (sink.wants(0)) sink.add(0, sum_to<E, T>(engine, gradient, *from));
  }
};

template <class E, class T>
[[nodiscard]] constexpr Array broadcast(E& engine, const Array& x, const ShapeValue& shape) {
  Array result{broadcast_to(engine, x.value, place_legally(engine, "broadcast", shape)), {}};
  if constexpr (floating<T>) {
    if (records(engine, x)) {
      auto* operation = make<BroadcastGradient<E, T>>();
      operation->from = &x.value->placement;
      record<E, T>(result, "broadcast", operation, {x});
    }
  }
  return result;
}

}  // namespace untyped

namespace detail {

/// Calls `form(engine, array, kept shape)` with the dims of x that are not in Reduced (all are reduced if it is empty).
template <class... Reduced, class X, class Form>
constexpr auto reduce_named(const X& x, const Form& form) {
  if constexpr (any_poisoned<X>) {
    return poisoned{};
  } else {
    constexpr bool known = includes(dims_of<X>::shape(), static_shape<Reduced...>());
    static_assert(known, "mtf: reduce: " MTF_RULE_MISSING_DIM);
    if constexpr (known) {
      using Kept = std::conditional_t<sizeof...(Reduced) == 0, DimList<>, dims_without<X, Reduced...>>;
      const Array& array = array_of(x);
      using E = typename world_of<X>::engine_type;
      E& engine = static_cast<E&>(array.value->backend());
      ShapeValue kept;
      const Placement& placement = array.value.object->placement;
      constexpr Selection positions = mtf::positions(dims_of<X>::shape(), Kept::shape());
      for (int i = 0; i < positions.count; ++i) {
        const PlacedDim& dim = placement.dims.items[positions.items[i]];
        kept.items[kept.count++] = {dim.name, dim.extent};
      }
      return tensor_of<world_of<X>, element_of<X>, Kept>(form(engine, array, kept));
    } else {
      return poisoned{};
    }
  }
}

}  // namespace detail

/// y[rest] = sum of x over the dims Reduced, or over all dims if none is named. Communication: none now; the result is
/// pending over the axes that split the reduced dims. Gradient: broadcast.
template <dim_like... Reduced, operand X>
constexpr auto reduce_sum(const X& x) {
  static_assert(detail::counts<X>, "mtf: reduce_sum: " MTF_RULE_SUM_OF_BOOL);
  return detail::reduce_named<Reduced...>(x, []<class E>(E& engine, const Array& array, const ShapeValue& kept) {
    return untyped::reduce_sum<E, element_of<X>>(engine, array, kept, 1.0, "reduce_sum");
  });
}
/// The mean over the dims Reduced of the global array, or over all dims; otherwise as reduce_sum. Floating point only.
template <dim_like... Reduced, operand X>
constexpr auto reduce_mean(const X& x) {
  constexpr bool real = floating<element_of<X>>;
  static_assert(real, "mtf: reduce_mean takes float or double; convert with cast<T>(x)");
  return detail::reduce_named<Reduced...>(x, []<class E>(E& engine, const Array& array, const ShapeValue& kept) {
    const double factor = static_cast<double>(size_of(kept)) / static_cast<double>(array.value->placement.size());
    return untyped::reduce_sum<E, element_of<X>>(engine, array, kept, factor, "reduce_mean");
  });
}
/// The largest element over the dims Reduced, or over all dims; NaN propagates. Communication: one allreduce of the
/// output slice if a reduced dim is split. Gradient: every element that ties for the maximum receives the full
/// gradient.
template <dim_like... Reduced, operand X>
constexpr auto reduce_max(const X& x) {
  return detail::reduce_named<Reduced...>(x, []<class E>(E& engine, const Array& array, const ShapeValue& kept) {
    return untyped::reduce_extreme<E, element_of<X>>(engine, array, kept, Combine::max, "reduce_max");
  });
}
/// The smallest element; see reduce_max.
template <dim_like... Reduced, operand X>
constexpr auto reduce_min(const X& x) {
  return detail::reduce_named<Reduced...>(x, []<class E>(E& engine, const Array& array, const ShapeValue& kept) {
    return untyped::reduce_extreme<E, element_of<X>>(engine, array, kept, Combine::min, "reduce_min");
  });
}

namespace detail {

template <class... Reduced, class X>
constexpr auto reduce_logical(const X& x, Combine combine, const char* name) {
  constexpr bool logical = any_poisoned<X> || std::same_as<element_of<X>, bool>;
  static_assert(logical,
                "mtf: reduce_all and reduce_any take bool; compare first, as in reduce_any<D>(not_equal(x, 0))");
  if constexpr (!logical) {
    return poisoned{};
  } else {
    return reduce_named<Reduced...>(x, [&]<class E>(E& engine, const Array& array, const ShapeValue& kept) {
      return Array{untyped::extreme<E, bool>(engine, array.value, place_legally(engine, name, kept), combine, name),
                   {}};
    });
  }
}

}  // namespace detail

/// y[rest] = whether all elements of a bool tensor over the dims Reduced (over all dims, if none is named) are true.
/// Communication: one allreduce of the output slice if a reduced dim is split. No gradient.
template <dim_like... Reduced, operand X>
constexpr auto reduce_all(const X& x) {
  return detail::reduce_logical<Reduced...>(x, Combine::logical_and, "reduce_all");
}
/// Whether any is true; see reduce_all.
template <dim_like... Reduced, operand X>
constexpr auto reduce_any(const X& x) {
  return detail::reduce_logical<Reduced...>(x, Combine::logical_or, "reduce_any");
}

/// y[new dims..., x's dims] : x repeated along dims it does not have. No communication. Gradient: reduce_sum.
template <operand X, dim_like... New>
constexpr auto broadcast(const X& x, const New&... dims) {
  if constexpr (any_poisoned<X>) {
    return poisoned{};
  } else {
    using List = concatenate<DimList<std::remove_cvref_t<New>...>, dims_of<X>>;
    if constexpr (detail::Unpack<List>::template placeable<world_of<X>>) {
      const Array& array = detail::array_of(x);
      using E = typename world_of<X>::engine_type;
      E& engine = static_cast<E&>(array.value->backend());
      ShapeValue shape;
      (shape.push_back({New::name, dims.extent()}), ...);
      for (const DimValue& dim : array.value->placement.shape()) shape.push_back(dim);
      return tensor_of<world_of<X>, element_of<X>, List>(untyped::broadcast<E, element_of<X>>(engine, array, shape));
    } else {
      return poisoned(typename detail::Unpack<List>::template not_placeable<world_of<X>>{});
    }
  }
}

}  // namespace v0
}  // namespace mtf
