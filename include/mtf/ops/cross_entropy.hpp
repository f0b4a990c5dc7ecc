// Cross-entropy of logits and integer targets over a vocabulary that may be split.
#pragma once

#include <limits>

#include <mtf/ops/softmax.hpp>
#include <mtf/plan/cross_entropy.hpp>

namespace mtf {
inline namespace v0 {

/// Options of cross_entropy, with the original's names.
struct CrossEntropyOptions {
  double z_loss = 0;           ///< adds z_loss * log(Z)^2, which keeps the partition function Z near 1
  double label_smoothing = 0;  ///< s: the target has 1 - s + s/V at its class and s/V elsewhere
};

namespace untyped {

namespace detail {

/// Loss from log Z, the weighted target logit and the sum of the target's weights.
struct LossOfRow {
  double extent, on, off, z_loss;
  template <class X, class Id>
  MTF_FUNCTION constexpr X operator()(const X& log_z, const X& logit, Id target) const {
    if (log_z == -std::numeric_limits<X>::infinity()) return X(0);
    const bool inside = target >= 0 && static_cast<double>(target) < extent;
    const double weight = off * extent + (inside ? on - off : 0.0);
    return static_cast<X>(weight) * log_z - logit + static_cast<X>(z_loss) * log_z * log_z;
  }
};

template <class Plan>
constexpr void set_vocabulary(Plan& plan, const Backend& backend, const Placement& logits, const PlacedDim& vocabulary,
                              const CrossEntropyOptions& options) {
  plan.begin = slice_begin(vocabulary, backend.mesh(), backend.coordinates);
  plan.length = vocabulary.local();
  plan.stride = stride_of(row_major(logits), vocabulary.name);
  plan.extent = vocabulary.extent;
  plan.off = options.label_smoothing / static_cast<double>(vocabulary.extent);
  plan.on = 1 - options.label_smoothing + plan.off;
}

}  // namespace detail

template <class E, class T, class Id>
class CrossEntropyGradient final : public Operation {
 public:
  Ref<Value> logits, log_z, targets;
  CrossEntropyOptions options;
  int vocabulary = 0;
  constexpr ~CrossEntropyGradient() override {}
  constexpr void backward(const Ref<Value>& gradient, GradientSink& sink) override {
    if (!sink.wants(0)) return;
    complete(*gradient, this->name);
    E& engine = static_cast<E&>(gradient->backend());
    Ref<Value> result = make_value(engine, logits->placement, element_type_of<T>::value);
    CrossEntropyGradientPlan plan;
    const StridedShape whole = row_major(logits->placement);
    plan.loop = collapse(loop_over(row_major(gradient->placement), whole, row_major(gradient->placement), whole,
                                   row_major(log_z->placement), row_major(targets->placement)));
    plan.z_loss = options.z_loss;
    detail::set_vocabulary(plan, engine, logits->placement, logits->placement.dims[vocabulary], options);
    engine.run(plan, out<T>(result), in<T>(gradient), in<T>(logits), in<T>(log_z), in<Id>(targets));
    sink.add(0, std::move(result));
  }
};

template <class E, class T, class Id>
[[nodiscard]] constexpr Array cross_entropy(E& engine, const Array& logits, const Array& targets, const Name& dim,
                                            const CrossEntropyOptions& options) {
  constexpr const char* name = "cross_entropy";
  const KeptPlacement& whole = logits.value->placement;
  const int vocabulary = whole.find(dim);
  const KeptPlacement& rows = place_without(engine, whole, dim);
  UnionValue all;
  add_dims(all, whole.shape());
  add_dims(all, targets.value->placement.shape());
  require_legal(engine, name, all, false);
  if (!includes(rows.shape(), targets.value->placement.shape()) || targets.value->placement.rank() != rows.rank()) {
    raise(name, "targets have dims " + describe(targets.value->placement.shape()) + ", logits " +
                    describe(whole.shape()) + "; the targets need the logits' dims without the vocabulary");
  }
  complete(*logits.value, name);
  complete(*targets.value, name);
  const detail::Exponentials parts = detail::exponentials<E, T>(engine, logits.value, rows, name);
  const Ref<Value> log_z = detail::apply<E, T>(engine, detail::AddLog{}, rows, parts.largest, parts.sum);
  const Ref<Value> logit = make_value(engine, rows, element_type_of<T>::value);
  TargetLogitPlan plan;
  const StridedShape shape = row_major(rows);
  plan.loop = collapse(loop_over(shape, shape, row_major(whole), row_major(targets.value->placement)));
  detail::set_vocabulary(plan, engine, whole, whole.dims[vocabulary], options);
  engine.run(plan, out<T>(logit), in<T>(logits.value), in<Id>(targets.value));
  logit->block->pending = set_of(whole.dims[vocabulary].axes);
  complete(*logit, name);
  Array result{make_value(engine, rows, element_type_of<T>::value), {}};
  const MapPlan loss{collapse(loop_over(shape, shape, shape, shape, row_major(targets.value->placement)))};
  engine.run(loss, detail::LossOfRow{static_cast<double>(plan.extent), plan.on, plan.off, options.z_loss},
             out<T>(result.value), in<T>(log_z), in<T>(logit), in<Id>(targets.value));
  if (records(engine, {logits})) {
    auto* operation = make<CrossEntropyGradient<E, T, Id>>();
    operation->logits = logits.value;
    operation->log_z = log_z;
    operation->targets = targets.value;
    operation->options = options;
    operation->vocabulary = vocabulary;
    record<E, T>(result, name, operation, {logits});
  }
  return result;
}

}  // namespace untyped

/// loss[rows] of logits[rows..., Vocabulary] and integer targets[rows]: -sum of target weight * log softmax, plus the
/// z-loss. A target outside [0, extent) has no class and contributes the z-loss (and the smoothing) only.
///
/// Logits of bfloat16 are taken as floats and give a loss of floats. A logit of -inf switches a class off; a row whose
/// classes are all off, as of padding, has loss and gradient 0, where the original has NaN. A target that is off in a
/// row with other classes costs inf. Communication if Vocabulary is split: three allreduces of `rows` elements (max,
/// sum, target logit); none in the gradient.
/// Source: softmax_cross_entropy_with_logits of Mesh-TensorFlow's layers.
template <dim_like Vocabulary, operand Logits, operand Targets>
constexpr auto cross_entropy(const Logits& logits, const Targets& targets, const CrossEntropyOptions& options = {}) {
  if constexpr (any_poisoned<Logits, Targets>) {
    return poisoned{};
  } else {
    constexpr bool known = contains(dims_of<Logits>::shape(), Vocabulary::name);
    static_assert(known, "mtf: cross_entropy: " MTF_RULE_MISSING_DIM);
    constexpr bool one_world = std::same_as<world_of<Logits>, world_of<Targets>>;
    static_assert(one_world, "mtf: " MTF_RULE_DIFFERENT_WORLDS);
    constexpr bool real = floating<element_of<Logits>>;
    static_assert(real, "mtf: cross_entropy: logits must be float or double; convert with cast<T>(logits)");
    constexpr bool integral = std::integral<element_of<Targets>> && !std::same_as<element_of<Targets>, bool>;
    static_assert(integral,
                  "mtf: cross_entropy: targets must be int32 or int64; convert with cast<std::int32_t>(targets)");
    if constexpr (known && one_world && real && integral) {
      using Rows = detail::dims_without<Logits, Vocabulary>;
      constexpr bool same_rows =
          includes(Rows::shape(), dims_of<Targets>::shape()) && Rows::size == dims_of<Targets>::size;
      static_assert(same_rows, "mtf: cross_entropy: the targets need the logits' dims without the vocabulary");
      using All = detail::Unpack<concatenate<dims_of<Logits>, dims_of<Targets>>>;
      if constexpr (!All::template uniteable<world_of<Logits>>) {
        return poisoned(typename All::template not_uniteable<world_of<Logits>>{});
      } else if constexpr (same_rows && std::same_as<element_of<Logits>, bfloat16>) {
        return cross_entropy<Vocabulary>(cast<float>(logits), targets, options);
      } else if constexpr (same_rows) {
        using T = element_of<Logits>;
        using E = typename world_of<Logits>::engine_type;
        const std::array<Array, 2> arrays{detail::array_of(logits), detail::array_of(targets)};
        E& engine = static_cast<E&>(arrays[0].value->backend());
        detail::require_same_backend(engine, "cross_entropy", arrays);
        return tensor_of<world_of<Logits>, T, Rows>(
            untyped::cross_entropy<E, T, element_of<Targets>>(engine, arrays[0], arrays[1], Vocabulary::name, options));
      } else {
        return poisoned{};
      }
    } else {
      return poisoned{};
    }
  }
}

}  // namespace v0
}  // namespace mtf
