// Adam with decoupled weight decay.
#pragma once

#include <mtf/optim/optimizer.hpp>
#include <mtf/plan/optimizer.hpp>

namespace mtf {
inline namespace v0 {

struct AdamOptions {
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-6;
  double weight_decay = 0;
};

/// m = beta1 m + (1 - beta1) g; v = beta2 v + (1 - beta2) g^2; w -= rate (m / (sqrt(v) + epsilon) + weight_decay w): Adam as
/// Mesh-TensorFlow's AdamWeightDecayOptimizer has it, without bias correction. Slots: "<path>/adam_m" and "<path>/adam_v".
///
/// Communication of a step: what completes the gradients, see Sgd.
template <class World, floating T>
class Adam {
  static_assert(std::is_floating_point_v<T>, "mtf: an optimizer updates float or double; keep the slices so: ElementTypes<float, float, bfloat16>");

 public:
  explicit Adam(World& world, const AdamOptions& options = {}) : world_(&world), options_(options) {}

  void apply(const VariableGradients& gradients, double rate) {
    using E = typename World::engine_type;
    E& engine = world_->engine();
    for (std::size_t i = 0; i < gradients.variables.size(); ++i) {
      VariableState& state = *gradients.variables[i];
      detail::require_type<T>(state);
      const Ref<Value> gradient = detail::gradient_for_update(gradients, i);
      VariableState& first = detail::slot(world_->registry(), state, "adam_m");
      VariableState& second = detail::slot(world_->registry(), state, "adam_v");
      Ref<Value> w = state.writable();
      Ref<Value> m = first.writable();
      Ref<Value> v = second.writable();
      const AdamPlan plan{.count = gradient->block->count(), .rate = rate, .beta1 = options_.beta1, .beta2 = options_.beta2,
                          .epsilon = options_.epsilon, .decay = options_.weight_decay};
      engine.run(plan, out<T>(w), out<T>(m), out<T>(v), in<T>(gradient));
      state.assign(std::move(w));
      first.assign(std::move(m));
      second.assign(std::move(v));
    }
  }

 private:
  World* world_;
  AdamOptions options_;
};

}  // namespace v0
}  // namespace mtf
