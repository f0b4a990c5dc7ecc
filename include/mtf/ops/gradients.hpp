// gradients, watch, stop_gradient, inference: the user's side of differentiation.
#pragma once

#include <array>
#include <span>
#include <tuple>

#include <mtf/tensor/gradients.hpp>
#include <mtf/tensor/variable.hpp>

namespace mtf {
inline namespace v0 {

struct GradientOptions {
  keep_graph keep = keep_graph::no;    ///< yes: the graph can be walked again
  unused when_unused = unused::error;  ///< what to do for an x that the loss does not depend on
};

namespace detail {

template <class LossDims>
struct loss_not_scalar {
  static_assert(always_false<LossDims>,
                "mtf: gradients: the loss must be a scalar; reduce_mean or reduce_sum it over its dims");
};
template <class LossElement, class... Elements>
struct not_differentiable {
  static_assert(always_false<LossElement>, "mtf: gradients: " MTF_RULE_NOT_FLOATING);
};

/// Whether a loss has gradients with respect to the xs, and what is wrong if not.
template <class Loss, class... Xs>
concept has_gradients = dims_of<Loss>::size == 0 && (floating<element_of<Loss>> && ... && floating<element_of<Xs>>);
template <class Loss, class... Xs>
using no_gradients = std::conditional_t<dims_of<Loss>::size != 0, loss_not_scalar<dims_of<Loss>>,
                                        not_differentiable<element_of<Loss>, element_of<Xs>...>>;

template <std::size_t N, class Reason>
constexpr std::array<poisoned, N> all_poisoned(Reason) {
  return {};
}

constexpr Ref<Value> or_zeros(const Ref<Value>& gradient, const Array& x, const ElementOperations* elements) {
  if (gradient) return gradient;
  return elements->fill(x.value->backend(), x.value->placement, 0.0);
}

}  // namespace detail

namespace untyped {

struct Differentiable {
  const Array* array;
  const ElementOperations* elements;
};

MTF_NOINLINE [[nodiscard]] constexpr RecycledVector<Array> gradients(const GradientOptions& options, const Array& loss,
                                                                     std::span<const Differentiable> xs) {
  if (!loss.node) raise("gradients", "the loss depends on no variable and no watched tensor; watch(x) makes x one");
  RecycledVector<Ref<Node>> nodes;
  for (const Differentiable& x : xs) {
    // An x outside the graph gets a node of its own, which nothing reaches.
    nodes.push_back(x.array->node);
    if (!nodes.back()) nodes.back() = make_node(*loss.node->backend, x.array->value->placement, x.elements);
  }
  const RecycledVector<Ref<Value>> found = GradientPass::run(loss.node, nodes, options.keep, options.when_unused);
  RecycledVector<Array> result;
  for (std::size_t i = 0; i < xs.size(); ++i)
    result.push_back(Array(mtf::detail::or_zeros(found[i], *xs[i].array, xs[i].elements), {}));
  return result;
}

/// The same for engines that specialise what their operations do (see compiled.hpp).
template <class E>
[[nodiscard]] constexpr RecycledVector<Array> gradients(E&, const GradientOptions& options, const Array& loss,
                                                        std::span<const Differentiable> xs) {
  return gradients(options, loss, xs);
}

}  // namespace untyped

/// The gradients of a scalar loss with respect to each x, as a std::tuple of tensors of the xs' shapes. The xs are
/// variables, watched tensors, or any results the loss was computed from. Data saved for the gradient is freed on the
/// way; with `keep_graph::yes` it stays for another pass.
///
/// Errors: a loss that is not a scalar and an x that is not floating point do not compile; an x that the loss does not
/// depend on, and a graph already freed, throw.
/// Communication: that of the gradients of the operations. The results may be pending: nothing is sent for them before
/// their first use.
template <operand Loss, operand... Xs>
constexpr auto gradients(const GradientOptions& options, const Loss& loss, const Xs&... xs) {
  if constexpr (any_poisoned<Loss, Xs...>) {
    return std::array<poisoned, sizeof...(Xs)>{};
  } else if constexpr (!detail::has_gradients<Loss, Xs...>) {
    return detail::all_poisoned<sizeof...(Xs)>(detail::no_gradients<Loss, Xs...>{});
  } else {
    const untyped::Differentiable arrays[]{
        {&detail::array_of(xs), &element_operations<typename world_of<Xs>::engine_type, element_of<Xs>>}...};
    RecycledVector<Array> found = untyped::gradients(detail::engine_of(loss), options, detail::array_of(loss), arrays);
    return [&]<std::size_t... I>(std::index_sequence<I...>) {
      return std::tuple<decltype(detail::plain(xs))...>(decltype(detail::plain(xs))(std::move(found[I]))...);
    }(std::index_sequence_for<Xs...>{});
  }
}
template <operand Loss, operand... Xs>
constexpr auto gradients(const Loss& loss, const Xs&... xs) {
  if constexpr (!detail::has_gradients<Loss, Xs...>) {
    return detail::all_poisoned<sizeof...(Xs)>(detail::no_gradients<Loss, Xs...>{});
  } else {
    return gradients(GradientOptions{}, loss, xs...);
  }
}

/// x as a tensor whose gradient can be asked for: operations on the result are recorded.
template <operand X>
constexpr auto watch(const X& x) {
  if constexpr (any_poisoned<X>) {
    return poisoned{};
  } else {
    constexpr bool real = floating<element_of<X>>;
    static_assert(real, "mtf: watch: " MTF_RULE_NOT_FLOATING);
    using T = element_of<X>;
    using E = typename world_of<X>::engine_type;
    const Array& array = detail::array_of(x);
    return tensor_of<world_of<X>, T, dims_of<X>>(
        Array{array.value, make_node(array.value->backend(), array.value->placement, &element_operations<E, T>)});
  }
}

/// x, of which gradients see a constant.
template <operand X>
constexpr auto stop_gradient(const X& x) {
  if constexpr (any_poisoned<X>) {
    return poisoned{};
  } else {
    return tensor_of<world_of<X>, element_of<X>, dims_of<X>>(Array{detail::array_of(x).value, {}});
  }
}

/// While it lives, operations of the world are not recorded and nothing is kept for gradients.
class inference {
 public:
  template <class World>
  constexpr explicit inference(World& world)
      : backend_(static_cast<Backend*>(&world.engine())), before_(std::exchange(backend_->recording, false)) {}
  inference(const inference&) = delete;
  inference& operator=(const inference&) = delete;
  constexpr ~inference() { backend_->recording = before_; }

 private:
  Ref<Backend> backend_;
  bool before_;
};

/// Gradients with respect to all trainable variables of a world, in order of creation: what optimizers take. Sums of
/// several (microbatches) stay pending, so that a step costs one allreduce per variable however many are added. Sums of
/// bfloat16 are held in float, and optimizers take them so unless they had to be sent or someone read them before.
class VariableGradients {
 public:
  RecycledVector<Ref<VariableState>> variables;
  RecycledVector<Ref<Value>> values;  ///< null where the loss does not depend on the variable

  /// The i-th gradient; zeros where there is none.
  [[nodiscard]] constexpr Ref<Value> value(std::size_t i) const {
    return detail::or_zeros(values[i], variables[i]->leaf, variables[i]->leaf.node->elements);
  }

  /// The world's, of which all variables are; there must be one.
  [[nodiscard]] constexpr const Backend* backend() const {
    return variables[0].object->leaf.value.object->block.object->backend;
  }

  /// Adds the gradients of another part of a batch, variable by variable; of variables that were made in between, too.
  MTF_NOINLINE constexpr VariableGradients& operator+=(const VariableGradients& other) {
    if (!variables.empty() && !other.variables.empty() && backend() != other.backend())
      raise("gradients", MTF_RULE_DIFFERENT_WORLDS);
    for (std::size_t i = 0; i < other.values.size(); ++i) {
      const std::size_t mine = position_of(other.variables[i], i);
      if (mine == values.size()) {
        variables.push_back(other.variables[i]);
        values.push_back(other.values[i]);
      } else if (other.values[i]) {
        add(mine, other.values[i]);
      }
    }
    return *this;
  }

 private:
  /// Where the variable is, most likely at `guess`; the end if it is not there.
  [[nodiscard]] constexpr std::size_t position_of(const Ref<VariableState>& variable, std::size_t guess) const {
    if (guess < variables.size() && variables[guess] == variable) return guess;
    std::size_t position = 0;
    while (position < variables.size() && variables[position] != variable) ++position;
    return position;
  }
  constexpr void add(std::size_t i, const Ref<Value>& term) {
    if (!values[i]) {
      values[i] = term;
      return;
    }
    Value& mine = *values[i];
    detail::require_open(mine.backend(), "gradients");
    if (mine.pending() != term->pending() || !mine.block->scattered.empty() || !term->block->scattered.empty()) {
      complete_unrounded(mine, "gradients");
      complete_unrounded(*term, "gradients");
    }
    values[i] = variables[i]->leaf.node->elements->add(std::move(values[i]), *term);
  }
};

namespace untyped {

MTF_NOINLINE [[nodiscard]] constexpr VariableGradients gradients_of_variables(const Backend& backend,
                                                                              const Registry& registry,
                                                                              const Array& loss) {
  if (&loss.value->backend() != &backend) raise("gradients", MTF_RULE_DIFFERENT_WORLDS);
  if (!loss.node) raise("gradients", "the loss depends on no variable and no watched tensor");
  VariableGradients result;
  RecycledVector<Ref<Node>> nodes;
  nodes.reserve(registry.all().size());
  result.variables.reserve(registry.all().size());
  for (VariableState* state : registry.all()) {
    if (!state->trainable) continue;
    result.variables.push_back(Ref<VariableState>(state));
    nodes.push_back(state->leaf.node);
  }
  result.values = GradientPass::run(loss.node, nodes, keep_graph::no, unused::zeros);
  return result;
}
template <class E>
[[nodiscard]] constexpr VariableGradients gradients_of_variables(E& engine, const Registry& registry,
                                                                 const Array& loss) {
  return gradients_of_variables(static_cast<const Backend&>(engine), registry, loss);
}

}  // namespace untyped

/// The gradients of a scalar loss with respect to all trainable variables; null for those it does not depend on.
template <class World, operand Loss>
constexpr VariableGradients gradients_of_variables(World& world, const Loss& loss) {
  if constexpr (any_poisoned<Loss>) {
    return {};
  } else if constexpr (!detail::has_gradients<Loss>) {
    (void)detail::no_gradients<Loss>{};
    return {};
  } else {
    return untyped::gradients_of_variables(world.engine(), world.registry(), detail::array_of(loss));
  }
}

}  // namespace v0
}  // namespace mtf
