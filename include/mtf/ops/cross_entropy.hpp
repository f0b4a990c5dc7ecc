// Cross-entropy of logits and integer targets over a vocabulary that may be split.
#pragma once

#include <limits>

#include <mtf/ops/softmax.hpp>
#include <mtf/plan/cross_entropy.hpp>

namespace mtf {
inline namespace v0 {

/// Options of cross_entropy, with the original's names.
struct CrossEntropyOptions {
  double z_loss = 0;           ///< adds z_loss * log(Z)^2, which keeps the partition function Z near 1; at least 0
  double label_smoothing = 0;  ///< s in [0, 1]: the target has 1 - s + s/V at its class, s/V at the other of V classes
};

namespace untyped {

namespace detail {

/// Loss from what is known of a row: its largest logit, the sum of exponentials below it, how far the target is below
/// it, with label smoothing how far all classes are that are not off, and how many. Differences to the largest are as
/// exact for large logits as for small ones.
struct LossOfRow {
  double extent, smoothing, z_loss;
  template <class X, class Id>
  MTF_FUNCTION X operator()(const X& m, const X& sum, const X& target_below, const X& below, const X& classes,
                            Id target) const {
    if (sum == X(0)) return X(0);
    const bool has_class = target >= 0 && static_cast<double>(target) < extent;
    const X log_sum = log(sum);
    X loss = static_cast<X>(smoothing + (has_class ? 1 - smoothing : 0.0)) * log_sum;
    if (smoothing < 1) loss -= static_cast<X>(1 - smoothing) * target_below;
    if (smoothing > 0) loss -= static_cast<X>(smoothing) / classes * below;
    if (z_loss != 0) loss += static_cast<X>(z_loss) * (m + log_sum) * (m + log_sum);
    return loss;
  }
  template <class X, class Id>
  MTF_FUNCTION X operator()(const X& m, const X& sum, const X& target_below, Id target) const {
    return (*this)(m, sum, target_below, X(0), X(1), target);
  }
};

template <class Plan>
constexpr void set_vocabulary(Plan& plan, const Backend& backend, const Placement& logits, const PlacedDim& vocabulary,
                              const CrossEntropyOptions& options) {
  plan.begin = slice_begin(vocabulary, backend.mesh(), backend.coordinates);
  plan.length = vocabulary.local();
  plan.stride = stride_of(row_major(logits), vocabulary.name);
  plan.extent = vocabulary.extent;
  plan.smoothing = options.label_smoothing;
}
constexpr void require_options(const char* name, const CrossEntropyOptions& options) {
  mtf::detail::require_parameter(name, "label_smoothing", options.label_smoothing,
                                 options.label_smoothing >= 0 && options.label_smoothing <= 1, "in [0, 1]");
  mtf::detail::require_parameter(name, "z_loss", options.z_loss,
                                 mtf::detail::is_finite_and_not_negative(options.z_loss),
                                 "a finite number, at least 0");
}

/// How far the target is below the largest logit of its row; with label smoothing the same of all classes, and how many
/// there are. One allreduce, if the vocabulary is split, of one or three numbers for each row.
struct TargetFacts {
  Ref<Value> below, all_below, classes;
};
template <class E, class T, class Id>
[[nodiscard]] constexpr TargetFacts target_facts(E& engine, const Ref<Value>& logits, const Ref<Value>& largest,
                                                 const Ref<Value>& targets, int vocabulary,
                                                 const CrossEntropyOptions& options, const char* name) {
  const KeptPlacement& rows = largest->placement;
  const KeptPlacement& whole = logits->placement;
  const StridedShape shape = row_major(rows);
  TargetLogitPlan plan;
  plan.loop = collapse(loop_over(shape, shape, row_major(whole), shape, row_major(targets->placement)));
  set_vocabulary(plan, engine, whole, whole.dims[vocabulary], options);
  const AxisSet axes = set_of(whole.dims[vocabulary].axes);
  constexpr ElementType type = element_type_of<T>::value;
  TargetFacts facts{make_value(engine, rows, type), {}, {}};
  if (options.label_smoothing == 0) {
    engine.run(plan, out<T>(facts.below), in<T>(logits), in<T>(largest), in<Id>(targets));
    facts.below->block->pending = axes;
    complete(*facts.below, name);
    return facts;
  }
  plan.rows = rows.local_size();
  const Buffer all(engine.allocate(type, 3 * plan.rows));
  engine.run(plan, Out<T>{*all}, in<T>(logits), in<T>(largest), in<Id>(targets));
  if (!axes.empty()) {
    engine.communicate({.collective = Collective::all_reduce,
                        .axes = axes,
                        .count = 3 * plan.rows,
                        .type = type,
                        .combine = Combine::sum,
                        .operation = name},
                       *all, *all);
  }
  facts.all_below = make_value(engine, rows, type);
  facts.classes = make_value(engine, rows, type);
  CopyPlan part;
  part.loop.operands = 2;
  part.loop.dims.push_back({plan.rows, {1, 1}});
  for (const Ref<Value>* fact : {&facts.below, &facts.all_below, &facts.classes}) {
    engine.copy(part, *(*fact)->block, *all);
    part.in_offset += plan.rows;
  }
  return facts;
}

}  // namespace detail

template <class E, class T, class Id>
class CrossEntropyGradient final : public Operation {
 public:
  Ref<Value> logits, largest, sum, targets;
  Ref<Value> classes;  ///< with label smoothing
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
                                   row_major(sum->placement), row_major(sum->placement), row_major(sum->placement),
                                   row_major(targets->placement)));
    plan.z_loss = options.z_loss;
    detail::set_vocabulary(plan, engine, logits->placement, logits->placement.dims[vocabulary], options);
    engine.run(plan, out<T>(result), in<T>(gradient), in<T>(logits), in<T>(largest), in<T>(sum),
               in<T>(classes ? classes : sum), in<Id>(targets));
    sink.add(0, std::move(result));
  }
};

template <class E, class T, class Id>
[[nodiscard]] constexpr Array cross_entropy(E& engine, const Array& logits, const Array& targets, const Name& dim,
                                            const CrossEntropyOptions& options) {
  constexpr const char* name = "cross_entropy";
  detail::require_options(name, options);
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
  const detail::TargetFacts facts =
      detail::target_facts<E, T, Id>(engine, logits.value, parts.largest, targets.value, vocabulary, options, name);
  Array result{make_value(engine, rows, element_type_of<T>::value), {}};
  const StridedShape shape = row_major(rows);
  const StridedShape by_target = row_major(targets.value->placement);
  const detail::LossOfRow loss{static_cast<double>(whole.dims[vocabulary].extent), options.label_smoothing,
                               options.z_loss};
  if (!facts.classes) {
    engine.run(MapPlan{collapse(loop_over(shape, shape, shape, shape, shape, by_target))}, loss, out<T>(result.value),
               in<T>(parts.largest), in<T>(parts.sum), in<T>(facts.below), in<Id>(targets.value));
  } else {
    engine.run(MapPlan{collapse(loop_over(shape, shape, shape, shape, shape, shape, shape, by_target))}, loss,
               out<T>(result.value), in<T>(parts.largest), in<T>(parts.sum), in<T>(facts.below), in<T>(facts.all_below),
               in<T>(facts.classes), in<Id>(targets.value));
  }
  if (records(engine, {logits})) {
    auto* operation = make<CrossEntropyGradient<E, T, Id>>();
    operation->logits = logits.value;
    operation->largest = parts.largest;
    operation->sum = parts.sum;
    operation->classes = facts.classes;
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
/// Logits of bfloat16 are taken as floats and give a loss of floats. A logit of -inf switches a class off: loss and
/// gradient are those of the vocabulary without it, its gradient is 0, and label smoothing goes to the other classes. A
/// target that is off costs inf, with a finite gradient, that of its logit -(1 - label_smoothing) g. A row whose classes
/// are all off, as of padding, has loss and gradient 0, where the original has NaN. Classes of +inf have the row to
/// themselves, see softmax: the loss of a target among k of them is log(k), that of others inf. NaN makes the loss of
/// its row NaN. Throws unless 0 <= label_smoothing <= 1, and z_loss is finite and at least 0.
///
/// Communication if Vocabulary is split: three allreduces of `rows` elements (max, sum, target logit), the last of three
/// times as many with label smoothing; none in the gradient.
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
