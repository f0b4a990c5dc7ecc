// softmax, log_softmax, logsumexp along one dim, which may be split.
#pragma once

#include <mtf/ops/arithmetic.hpp>
#include <mtf/ops/cast.hpp>
#include <mtf/ops/reduce.hpp>

namespace mtf {
inline namespace v0 {

namespace untyped {

namespace detail {

/// exp(x - m). A row of -inf only has m = -inf: its elements count as 0, not as NaN.
struct ExpShifted {
  template <class X>
  MTF_FUNCTION X operator()(const X& x, const X& m) const {
    return x == m && m - m != X(0) && m < X(0) ? X(0) : exp(x - m);
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
struct LogShare {
  template <class X>
  MTF_FUNCTION constexpr X operator()(const X& x, const X& log_sum) const {
    return x == log_sum ? (x - x == X(0) ? X(0) : x) : x - log_sum;  // -inf less -inf is -inf here: the element has no share
  }
};
struct SoftmaxSlope {
  template <class X>
  MTF_FUNCTION constexpr X operator()(const X& y, const X& dy, const X& dot) const {
    return y * (dy - dot);
  }
};
struct LogSoftmaxSlope {
  template <class X>
  MTF_FUNCTION X operator()(const X& y, const X& dy, const X& sum) const {
    return dy - exp(y) * sum;
  }
};
struct LogSumExpSlope {
  template <class X>
  MTF_FUNCTION X operator()(const X& x, const X& y, const X& dy) const {
    return dy * ExpShifted{}(x, y);
  }
};

/// f element by element on the dims of `like`, without a graph; operands broadcast.
template <class E, class T, class F, class... Values>
[[nodiscard]] constexpr Ref<Value> apply(E& engine, const F& f, const Placement& like, const Values&... xs) {
  Ref<Value> result = make_value(engine, like, element_type_of<T>::value);
  const StridedShape shape = row_major(like);
  engine.run(MapPlan{collapse(loop_over(shape, shape, row_major(xs->placement)...))}, f, out<T>(result), in<T>(xs)...);
  return result;
}
/// The complete sum of x over the dims that `to` lacks.
template <class E, class T>
[[nodiscard]] constexpr Ref<Value> full_sum(E& engine, const Ref<Value>& x, const Placement& to, const char* name) {
  Ref<Value> sum = sum_to<E, T>(engine, x, to);
  complete(*sum, name);
  return sum;
}

[[nodiscard]] constexpr Placement without(const Placement& placement, const Name& dim) {
  Placement result;
  for (const PlacedDim& other : placement.dims) {
    if (!(other.name == dim)) result.dims.push_back(other);
  }
  return result;
}

/// Largest element, exponentials of the distance to it, and their sum: two allreduces of a row each if the dim is split.
template <class T>
struct Exponentials {
  Ref<Value> largest, elements, sum;
};
template <class E, class T>
[[nodiscard]] constexpr Exponentials<T> exponentials(E& engine, const Ref<Value>& x, const Placement& rows, const char* name) {
  Exponentials<T> result;
  result.largest = extreme<E, T>(engine, x, rows, Combine::max, name);
  result.elements = apply<E, T>(engine, ExpShifted{}, x->placement, x, result.largest);
  result.sum = full_sum<E, T>(engine, result.elements, rows, name);
  return result;
}

}  // namespace detail

enum class SoftmaxKind : std::uint8_t { softmax, log_softmax, logsumexp };

template <class E, class T>
class SoftmaxGradient final : public Operation {
 public:
  SoftmaxKind kind{};
  Ref<Value> x;  ///< logsumexp only
  Ref<Value> y;
  Placement rows;
  constexpr ~SoftmaxGradient() override {}
  constexpr void backward(const Ref<Value>& gradient, GradientSink& sink) override {
    if (!sink.wants(0)) return;
    complete(*gradient, this->name);
    E& engine = static_cast<E&>(gradient->backend());
    if (kind == SoftmaxKind::logsumexp) {
      sink.add(0, detail::apply<E, T>(engine, detail::LogSumExpSlope{}, x->placement, x, y, gradient));
    } else if (kind == SoftmaxKind::softmax) {
      const Ref<Value> product = detail::apply<E, T>(engine, functions::Multiply{}, y->placement, y, gradient);
      const Ref<Value> dot = detail::full_sum<E, T>(engine, product, rows, this->name);
      sink.add(0, detail::apply<E, T>(engine, detail::SoftmaxSlope{}, y->placement, y, gradient, dot));
    } else {
      const Ref<Value> sum = detail::full_sum<E, T>(engine, gradient, rows, this->name);
      sink.add(0, detail::apply<E, T>(engine, detail::LogSoftmaxSlope{}, y->placement, y, gradient, sum));
    }
  }
};

template <class E, class T>
[[nodiscard]] constexpr Array softmax(E& engine, const Array& x, const Name& dim, SoftmaxKind kind, const char* name) {
  mtf::detail::require_open(engine, name);
  const Placement& whole = x.value->placement;
  const Placement rows = detail::without(whole, dim);
  const detail::Exponentials<T> parts = detail::exponentials<E, T>(engine, x.value, rows, name);
  Array result;
  if (kind == SoftmaxKind::softmax) {
    result.value = detail::apply<E, T>(engine, detail::Share{}, whole, parts.elements, parts.sum);
  } else {
    result.value = detail::apply<E, T>(engine, detail::AddLog{}, rows, parts.largest, parts.sum);
    if (kind == SoftmaxKind::log_softmax) result.value = detail::apply<E, T>(engine, detail::LogShare{}, whole, x.value, result.value);
  }
  if (records(engine, {x})) {
    auto* operation = make<SoftmaxGradient<E, T>>();
    operation->kind = kind;
    if (kind == SoftmaxKind::logsumexp) operation->x = x.value;
    operation->y = result.value;
    operation->rows = rows;
    record<E, T>(result, name, operation, {x});
  }
  return result;
}

}  // namespace untyped

namespace detail {

template <class D, class X>
constexpr auto softmax_named(const X& x, untyped::SoftmaxKind kind, const char* name, auto reduces) {
  if constexpr (any_poisoned<X>) {
    return poisoned{};
  } else {
    constexpr bool known = contains(dims_of<X>::shape(), D::name);
    static_assert(known, "mtf: softmax: " MTF_RULE_MISSING_DIM);
    constexpr bool real = floating<element_of<X>>;
    static_assert(real, "mtf: softmax takes float or double; convert with cast<T>(x)");
    if constexpr (known && real && std::same_as<element_of<X>, bfloat16>) {
      return cast<bfloat16>(softmax_named<D>(cast<float>(x), kind, name, reduces));
    } else if constexpr (known && real) {
      using E = typename world_of<X>::engine_type;
      using Rows = select_dims<remaining(dims_of<X>::shape(), static_shape<D>()), dims_of<X>>;
      const Array& array = array_of(x);
      return tensor_of<world_of<X>, element_of<X>, std::conditional_t<reduces.value, Rows, dims_of<X>>>(
          untyped::softmax<E, element_of<X>>(static_cast<E&>(array.value->backend()), array, D::name, kind, name));
    } else {
      return poisoned{};
    }
  }
}

}  // namespace detail

/// y = exp(x) / sum of exp(x) over D, shifted by the maximum so that it does not overflow. A row that is -inf throughout
/// gives zeros. Communication if D is split: two allreduces (max, sum) of a row each; one in the gradient.
template <dim_like D, operand X>
constexpr auto softmax(const X& x) {
  return detail::softmax_named<D>(x, untyped::SoftmaxKind::softmax, "softmax", std::false_type{});
}
/// x - logsumexp(x) along D. Communication as for softmax.
template <dim_like D, operand X>
constexpr auto log_softmax(const X& x) {
  return detail::softmax_named<D>(x, untyped::SoftmaxKind::log_softmax, "log_softmax", std::false_type{});
}
/// y[rest] = log of the sum of exp(x) over D. Communication if D is split: two allreduces; none in the gradient.
template <dim_like D, operand X>
constexpr auto logsumexp(const X& x) {
  return detail::softmax_named<D>(x, untyped::SoftmaxKind::logsumexp, "logsumexp", std::true_type{});
}

}  // namespace v0
}  // namespace mtf
