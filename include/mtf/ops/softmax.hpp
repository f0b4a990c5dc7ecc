// softmax, log_softmax, logsumexp along one dim, which may be split.
#pragma once

#include <limits>

#include <mtf/ops/along.hpp>
#include <mtf/ops/arithmetic.hpp>
#include <mtf/ops/cast.hpp>
#include <mtf/ops/reduce.hpp>

namespace mtf {
inline namespace v0 {

namespace untyped {

namespace detail {

/// exp(x - m) of an element and the largest of its row. The difference of equal infinities is 0: several +inf share the
/// row, as equal elements of any size do. But a row of -inf only, m = -inf, is off: its elements count as 0.
struct ExpShifted {
  template <class X>
  MTF_FUNCTION X operator()(const X& x, const X& m) const {
    return x == m ? X(m >= std::numeric_limits<X>::lowest()) : exp(x - m);
  }
};
/// The element's share of its row; a row that is masked as a whole has sum 0 and gives zeros.
struct Share {
  template <class X>
  MTF_FUNCTION constexpr X operator()(const X& e, const X& sum) const {
    return sum == X(0) ? X(0) : e / sum;
  }
};
struct AddLog {
  template <class X>
  MTF_FUNCTION X operator()(const X& m, const X& sum) const {
    return sum == X(0) ? m : m + log(sum);
  }
};
/// The logarithm of the sum of a row; of one that is off +inf, so that its elements have the logarithm -inf.
struct LogOfSum {
  template <class X>
  MTF_FUNCTION X operator()(const X& sum) const {
    return sum == X(0) ? std::numeric_limits<X>::infinity() : log(sum);
  }
};
struct LogShare {
  template <class X>
  MTF_FUNCTION constexpr X operator()(const X& x, const X& m, const X& log_sum) const {
    return (x == m ? X(0) : x - m) - log_sum;
  }
};
/// The sum with one more exponential.
struct AddExtra {
  template <class X>
  MTF_FUNCTION X operator()(const X& sum, const X& extra, const X& m) const {
    return sum + ExpShifted{}(extra, m);
  }
};
struct SoftmaxSlope {
  template <class X>
  MTF_FUNCTION constexpr X operator()(const X& y, const X& dy, const X& dot) const {
    return y * (dy - dot);
  }
};
/// An element without a share keeps none, however it moves.
struct LogSoftmaxSlope {
  template <class X>
  MTF_FUNCTION X operator()(const X& y, const X& dy, const X& sum) const {
    return y < std::numeric_limits<X>::lowest() ? X(0) : dy - exp(y) * sum;
  }
};
/// dy of a row times the share of an element in it, from dy as a share of the sum.
struct LogSumExpSlope {
  template <class X>
  MTF_FUNCTION X operator()(const X& x, const X& m, const X& dy_share) const {
    return dy_share == X(0) ? X(0) : dy_share * ExpShifted{}(x, m);
  }
};

/// f element by element on the dims of `like`, without a graph; operands broadcast.
template <class E, class T, class F, class... Values>
[[nodiscard]] constexpr Ref<Value> apply(E& engine, const F& f, const KeptPlacement& like, const Values&... xs) {
  Ref<Value> result = make_value(engine, like, element_type_of<T>::value);
  engine.run(plan_map(engine, like, xs->placement...), f, out<T>(result), in<T>(xs)...);
  return result;
}
/// The complete sum of x over the dims that `to` lacks.
template <class E, class T>
[[nodiscard]] constexpr Ref<Value> full_sum(E& engine, const Ref<Value>& x, const KeptPlacement& to, const char* name) {
  Ref<Value> sum = sum_to<E, T>(engine, x, to);
  complete(*sum, name);
  return sum;
}

/// Largest element, exponentials of the distance to it, and their sum: two allreduces of a row each if the dim is
/// split. An extra logit takes part in the largest and in the sum, once for all slices.
struct Exponentials {
  Ref<Value> largest, elements, sum;
};
template <class E, class T>
[[nodiscard]] constexpr Exponentials exponentials(E& engine, const Ref<Value>& x, const KeptPlacement& rows,
                                                  const char* name, const Ref<Value>& extra = {}) {
  Exponentials result;
  result.largest = extreme<E, T>(engine, x, rows, Combine::max, name);
  if (extra) result.largest = apply<E, T>(engine, functions::Maximum{}, rows, result.largest, extra);
  result.elements = apply<E, T>(engine, ExpShifted{}, x->placement, x, result.largest);
  result.sum = full_sum<E, T>(engine, result.elements, rows, name);
  if (extra) result.sum = apply<E, T>(engine, AddExtra{}, rows, result.sum, extra, result.largest);
  return result;
}

}  // namespace detail

enum class SoftmaxKind : std::uint8_t { softmax, log_softmax, logsumexp };

template <class E, class T>
class SoftmaxGradient final : public Operation {
 public:
  SoftmaxKind kind{};
  Ref<Value> x, row_largest, row_sum;  ///< logsumexp only
  Ref<Value> y;                        ///< the others
  const KeptPlacement* rows = nullptr;
  constexpr ~SoftmaxGradient() override {}
  constexpr void backward(const Ref<Value>& gradient, GradientSink& sink) override {
    if (!sink.wants(0)) return;
    complete(*gradient, this->name);
    E& engine = static_cast<E&>(gradient->backend());
    if (kind == SoftmaxKind::logsumexp) {
      const Ref<Value> shares = detail::apply<E, T>(engine, detail::Share{}, row_sum->placement, gradient, row_sum);
      sink.add(0, detail::apply<E, T>(engine, detail::LogSumExpSlope{}, x->placement, x, row_largest, shares));
    } else if (kind == SoftmaxKind::softmax) {
      const Ref<Value> product = detail::apply<E, T>(engine, functions::Multiply{}, y->placement, y, gradient);
      const Ref<Value> dot = detail::full_sum<E, T>(engine, product, *rows, this->name);
      sink.add(0, detail::apply<E, T>(engine, detail::SoftmaxSlope{}, y->placement, y, gradient, dot));
    } else {
      const Ref<Value> sum = detail::full_sum<E, T>(engine, gradient, *rows, this->name);
      sink.add(0, detail::apply<E, T>(engine, detail::LogSoftmaxSlope{}, y->placement, y, gradient, sum));
    }
  }
};

template <class E, class T>
[[nodiscard]] constexpr Array softmax(E& engine, const Array& x, const Name& dim, SoftmaxKind kind, const char* name,
                                      const Ref<Value>& extra = {}) {
  const KeptPlacement& whole = x.value->placement;
  if (!extra) {
    mtf::detail::require_open(engine, name);
  } else {
    UnionValue all;
    add_dims(all, whole.shape());
    add_dims(all, extra->placement.shape());
    require_legal(engine, name, all, false);
    complete(*extra, name);
  }
  const KeptPlacement& rows = place_without(engine, whole, dim);
  const detail::Exponentials parts = detail::exponentials<E, T>(engine, x.value, rows, name, extra);
  Array result;
  if (kind == SoftmaxKind::softmax) {
    result.value = detail::apply<E, T>(engine, detail::Share{}, whole, parts.elements, parts.sum);
  } else if (kind == SoftmaxKind::logsumexp) {
    result.value = detail::apply<E, T>(engine, detail::AddLog{}, rows, parts.largest, parts.sum);
  } else {
    const Ref<Value> log_sum = detail::apply<E, T>(engine, detail::LogOfSum{}, rows, parts.sum);
    result.value = detail::apply<E, T>(engine, detail::LogShare{}, whole, x.value, parts.largest, log_sum);
  }
  if (records(engine, x)) {
    auto* operation = make<SoftmaxGradient<E, T>>();
    operation->kind = kind;
    if (kind == SoftmaxKind::logsumexp) {
      operation->x = x.value;
      operation->row_largest = parts.largest;
      operation->row_sum = parts.sum;
    } else {
      operation->y = result.value;
    }
    operation->rows = &rows;
    record<E, T>(result, name, operation, x);
  }
  return result;
}

}  // namespace untyped

namespace detail {

/// Whether a tensor or number goes with x along D as an extra logit.
template <class D, class X, class Extra>
constexpr bool is_extra_logit() {
  if constexpr (scalar<Extra>) {
    return true;
  } else {
    return compatible<X, Extra> && includes(dims_without<X, D>::shape(), dims_of<Extra>::shape());
  }
}

template <class X, class Extra>
constexpr Ref<Value> extra_logit(const X& x, const Extra& extra) {
  if constexpr (scalar<Extra>) {
    using E = typename world_of<X>::engine_type;
    E& engine = engine_of(x);
    require_open(engine, "softmax");
    return Elements<E, element_of<X>>::filled(engine, engine.place({}), static_cast<element_of<X>>(extra));
  } else {
    require_same_backend(engine_of(x), "softmax", std::array<Array, 1>{array_of(extra)});
    return array_of(extra).value;
  }
}

template <class Extra>
constexpr auto in_float(const Extra& extra) {
  if constexpr (scalar<Extra>) {
    return extra;
  } else {
    return cast<float>(extra);
  }
}

template <class D, class X, class... Extra>
constexpr auto softmax_named(const X& x, untyped::SoftmaxKind kind, const char* name, auto reduces,
                             const Extra&... extra) {
  if constexpr (any_poisoned<X, Extra...>) {
    return poisoned{};
  } else {
    constexpr bool known = has_dim<D, X>;
    static_assert(known, "mtf: softmax: " MTF_RULE_MISSING_DIM);
    constexpr bool floats = floating<element_of<X>>;
    static_assert(floats, "mtf: softmax takes float or double; convert with cast<T>(x)");
    constexpr bool fits = (is_extra_logit<D, X, Extra>() && ...);
    static_assert(fits,
                  "mtf: softmax: an extra logit is a number, or a tensor of x's world and element type with dims of x "
                  "only, without the one "
                  "that is summed over");
    if constexpr (known && floats && fits && std::same_as<element_of<X>, bfloat16>) {
      return cast<bfloat16>(softmax_named<D>(cast<float>(x), kind, name, reduces, in_float(extra)...));
    } else if constexpr (!known || !floats || !fits) {
      return poisoned{};
    } else {
      using E = typename world_of<X>::engine_type;
      Ref<Value> logit;
      if constexpr (sizeof...(Extra) > 0) logit = extra_logit(x, extra...);
      return tensor_of<world_of<X>, element_of<X>, std::conditional_t<reduces.value, dims_without<X, D>, dims_of<X>>>(
          untyped::softmax<E, element_of<X>>(engine_of(x), array_of(x), D::name, kind, name, logit));
    }
  }
}

template <class X>
concept extra_logit_like = scalar<X> || operand<X>;

}  // namespace detail

// An extra logit e (a number, or a tensor with some of x's other dims) adds exp(e) to the sum of every row, so that the
// shares add up to less than 1: attention that may look at nothing. It receives no gradient, as in the original, and
// takes no communication.

// Infinite elements: one of -inf is off, it has share 0 and no gradient. A row that is -inf throughout has shares 0 (not
// 0 / 0), logarithms and logsumexp -inf, and gradient 0. Elements of +inf have the row to themselves, in equal parts, as
// equal numbers of any size have: share 1 / k of k, the logarithm -log(k), and logsumexp +inf. NaN makes a row NaN.

/// y = exp(x) / sum of exp(x) over D, shifted by the maximum so that it does not overflow. Communication if D is split: two allreduces (max, sum) of a row each; one in the gradient.
template <dim_like D, operand X>
constexpr auto softmax(const X& x) {
  return detail::softmax_named<D>(x, untyped::SoftmaxKind::softmax, "softmax", std::false_type{});
}
template <dim_like D, operand X, detail::extra_logit_like Extra>
constexpr auto softmax(const X& x, const Extra& extra_logit) {
  return detail::softmax_named<D>(x, untyped::SoftmaxKind::softmax, "softmax", std::false_type{}, extra_logit);
}
/// x - logsumexp(x) along D, the logarithm of softmax. Communication as for softmax.
template <dim_like D, operand X>
constexpr auto log_softmax(const X& x) {
  return detail::softmax_named<D>(x, untyped::SoftmaxKind::log_softmax, "log_softmax", std::false_type{});
}
template <dim_like D, operand X, detail::extra_logit_like Extra>
constexpr auto log_softmax(const X& x, const Extra& extra_logit) {
  return detail::softmax_named<D>(x, untyped::SoftmaxKind::log_softmax, "log_softmax", std::false_type{}, extra_logit);
}
/// y[rest] = log of the sum of exp(x) over D. Communication if D is split: two allreduces; none in the gradient, which
/// is g softmax(x).
template <dim_like D, operand X>
constexpr auto logsumexp(const X& x) {
  return detail::softmax_named<D>(x, untyped::SoftmaxKind::logsumexp, "logsumexp", std::true_type{});
}
template <dim_like D, operand X, detail::extra_logit_like Extra>
constexpr auto logsumexp(const X& x, const Extra& extra_logit) {
  return detail::softmax_named<D>(x, untyped::SoftmaxKind::logsumexp, "logsumexp", std::true_type{}, extra_logit);
}

}  // namespace v0
}  // namespace mtf
