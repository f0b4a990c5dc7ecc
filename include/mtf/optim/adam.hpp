// Adam with decoupled weight decay.
#pragma once

#include <mtf/optim/optimizer.hpp>
#include <mtf/plan/optimizer.hpp>

namespace mtf {
inline namespace v0 {

/// The constants of Adam's formula, all without unit; none changes with the step.
struct AdamOptions {
  double beta1 = 0.9;       ///< what the mean of the gradients keeps of itself in a step, in [0, 1)
  double beta2 = 0.999;     ///< the same for the mean of their squares, in [0, 1)
  double epsilon = 1e-6;    ///< added to the root of that mean, which may be 0; at least 0
  double weight_decay = 0;  ///< share of a weight that a step with rate 1 takes away; at least 0
};

namespace untyped {

template <class E, class T>
MTF_NOINLINE constexpr void adam(E& engine, Registry& registry, const VariableGradients& gradients,
                                 const AdamOptions& options, double rate) {
  engine.begin_update();
  for (std::size_t i = 0; i < gradients.variables.size(); ++i) {
    engine.announce("adam");
    VariableState& state = *gradients.variables[i];
    mtf::detail::require_type<T>(state);
    mtf::detail::require_open(engine, "adam");
    const Ref<Value> gradient = mtf::detail::gradient_for_update(gradients, i);
    VariableState& first = mtf::detail::slot(registry, state, "adam_m");
    VariableState& second = mtf::detail::slot(registry, state, "adam_v");
    Ref<Value> w = state.writable();
    Ref<Value> m = first.writable();
    Ref<Value> v = second.writable();
    const AdamPlan plan{.count = gradient->block->count(),
                        .rate = rate,
                        .beta1 = options.beta1,
                        .beta2 = options.beta2,
                        .epsilon = options.epsilon,
                        .decay = options.weight_decay};
    engine.run(plan, out<T>(w), out<T>(m), out<T>(v), in<T>(gradient));
    state.assign(w);
    first.assign(m);
    second.assign(v);
  }
}

}  // namespace untyped

/// m = beta1 m + (1 - beta1) g; v = beta2 v + (1 - beta2) g^2; w -= rate (m / (sqrt(v) + epsilon) + weight_decay w):
/// Adam as Mesh-TensorFlow's AdamWeightDecayOptimizer has it, without bias correction. Slots: "<path>/adam_m" and
/// "<path>/adam_v".
///
/// Communication of a step: what completes the gradients, see Sgd.
template <class World, floating T>
class Adam {
  static_assert(std::is_floating_point_v<T>,
                "mtf: an optimizer updates float or double; keep the slices so: ElementTypes<float, float, bfloat16>");

 public:
  /// Throws unless the options are in the ranges that AdamOptions names.
  constexpr explicit Adam(World& world, const AdamOptions& options = {}) : world_(world), options_(options) {
    const auto share = [](const char* name, double value) {
      detail::require_parameter("adam", name, value, value >= 0 && value < 1, "in [0, 1)");
    };
    const auto amount = [](const char* name, double value) {
      detail::require_parameter("adam", name, value, detail::is_finite_and_not_negative(value), detail::not_negative);
    };
    share("beta1", options.beta1);
    share("beta2", options.beta2);
    amount("epsilon", options.epsilon);
    amount("weight_decay", options.weight_decay);
  }

  /// One step. Throws, with nothing changed, unless the rate is finite and at least 0.
  constexpr void apply(const VariableGradients& gradients, double rate) {
    detail::require_rate("adam", rate);
    World& world = world_.open(gradients, "adam");
    untyped::adam<typename World::engine_type, T>(world.engine(), world.registry(), gradients, options_, rate);
  }

 private:
  detail::WorldOfOptimizer<World> world_;
  AdamOptions options_;
};

}  // namespace v0
}  // namespace mtf
