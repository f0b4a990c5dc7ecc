// cumsum: cumulative sums along one dim, which may be split.
#pragma once

#include <mtf/ops/along.hpp>
#include <mtf/ops/cast.hpp>
#include <mtf/plan/selection.hpp>

namespace mtf {
inline namespace v0 {

struct CumsumOptions {
  bool exclusive = false;  ///< element i does not count itself: the first sum is 0
  bool reverse = false;    ///< from the last element to the first
};

namespace untyped {

/// The sums, without a graph. Linear, so partial sums of what x is pending over stay partial.
template <class E, class T>
[[nodiscard]] constexpr Ref<Value> cumulative_sum(E& engine, const Ref<Value>& x, const Name& dim,
                                                  const CumsumOptions& options, const char* name) {
  if (!x->block->scattered.empty()) complete(*x, name);
  const Along along(x->placement, dim);
  Ref<Value> result = make_value(engine, x->placement, element_type_of<T>::value);
  result->block->pending = x->pending();
  CumulativeSumPlan plan;
  plan.rows = along.loop(along.length(), along.length(), std::int64_t{1});
  plan.length = along.length();
  plan.stride = along.inner;
  plan.exclusive = options.exclusive;
  plan.reverse = options.reverse;
  if (along.dim.parts == 1) {
    engine.run(plan, out<T>(result), in<T>(x));
    return result;
  }
  const Ref<Value> totals = make_value(engine, without(x->placement, dim), element_type_of<T>::value);
  engine.run(plan_reduce(row_major(totals->placement), row_major(x->placement), Combine::sum), out<T>(totals),
             in<T>(x));
  const Buffer all = gather_parts(engine, totals->block, along.dim, 1, name);
  const std::int64_t own = slice_number(along.dim, engine.mesh(), engine.coordinates);
  plan.first_part = options.reverse ? own + 1 : 0;
  plan.end_part = options.reverse ? along.dim.parts : own;
  plan.part_stride = along.rows();
  engine.run(plan, out<T>(result), in<T>(x), In<T>{*all});
  return result;
}

template <class E, class T>
class CumsumGradient final : public Operation {
 public:
  Name dim;
  CumsumOptions options;
  constexpr ~CumsumGradient() override {}
  constexpr void backward(const Ref<Value>& gradient, GradientSink& sink) override {
    if (!sink.wants(0)) return;
    const CumsumOptions back{.exclusive = options.exclusive, .reverse = !options.reverse};
    sink.add(0, cumulative_sum<E, T>(static_cast<E&>(gradient->backend()), gradient, dim, back, this->name));
  }
};

template <class E, class T>
[[nodiscard]] constexpr Array cumsum(E& engine, const Array& x, const Name& dim, const CumsumOptions& options) {
  constexpr const char* name = "cumsum";
  mtf::detail::require_open(engine, name);
  Array result{cumulative_sum<E, T>(engine, x.value, dim, options, name), {}};
  if constexpr (floating<T>) {
    if (records(engine, {x})) {
      auto* operation = make<CumsumGradient<E, T>>();
      operation->dim = dim;
      operation->options = options;
      record<E, T>(result, name, operation, {x});
    }
  }
  return result;
}
/// In float, rounded once.
template <class E, class T>
  requires std::same_as<T, bfloat16>
[[nodiscard]] constexpr Array cumsum(E& engine, const Array& x, const Name& dim, const CumsumOptions& options) {
  return cast<E, bfloat16, float>(engine, cumsum<E, float>(engine, cast<E, float, bfloat16>(engine, x), dim, options));
}

}  // namespace untyped

/// y[dims of x], y[..., i, ...] = sum of x[..., j, ...] over j <= i along D; over j < i if `exclusive`; from the other
/// end if `reverse`. Linear work.
///
/// Communication if D is split over p > 1 ranks: one allgather of p times a row-less slice, the totals of the ranks, of
/// which each adds those before it in order. A pending sum stays pending (that of bfloat16 is completed). Gradient: the
/// cumsum in the other direction, with the same communication.
template <dim_like D, operand X>
constexpr auto cumsum(const X& x, const CumsumOptions& options = {}) {
  if constexpr (any_poisoned<X>) {
    return poisoned{};
  } else {
    constexpr bool known = detail::has_dim<D, X>;
    static_assert(known, "mtf: cumsum: " MTF_RULE_MISSING_DIM);
    if constexpr (!known) {
      return poisoned{};
    } else if constexpr (std::same_as<element_of<X>, bool>) {
      return poisoned(not_ordered<element_of<X>>{});
    } else {
      using E = typename world_of<X>::engine_type;
      return tensor_of<world_of<X>, element_of<X>, dims_of<X>>(
          untyped::cumsum<E, element_of<X>>(detail::engine_of(x), detail::array_of(x), D::name, options));
    }
  }
}

}  // namespace v0
}  // namespace mtf
