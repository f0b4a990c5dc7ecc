// Stochastic gradient descent, with or without momentum.
#pragma once

#include <mtf/optim/optimizer.hpp>
#include <mtf/plan/optimizer.hpp>

namespace mtf {
inline namespace v0 {

namespace untyped {

template <class E, class T>
MTF_NOINLINE constexpr void sgd(E& engine, Registry& registry, const VariableGradients& gradients, double momentum,
                                double rate) {
  engine.begin_update();
  for (std::size_t i = 0; i < gradients.variables.size(); ++i) {
    engine.announce("sgd");
    VariableState& state = *gradients.variables[i];
    mtf::detail::require_type<T>(state);
    mtf::detail::require_open(engine, "sgd");
    const Ref<Value> gradient = mtf::detail::gradient_for_update(gradients, i);
    const MomentumPlan plan{.count = gradient->block->count(), .rate = rate, .momentum = momentum};
    Ref<Value> w = state.writable();
    if (momentum == 0) {
      engine.run(plan, out<T>(w), in<T>(gradient));
    } else {
      VariableState& velocity = mtf::detail::slot(registry, state, "momentum_v");
      Ref<Value> v = velocity.writable();
      engine.run(plan, out<T>(w), out<T>(v), in<T>(gradient));
      velocity.assign(v);
    }
    state.assign(w);
  }
}

}  // namespace untyped

/// w -= v with v = momentum v + rate g. (Mesh-TensorFlow's momentum optimizer applies the velocity of the step before;
/// that is a fault and not copied.)
///
/// `T` is the slice type of the variables. Communication of a step: what completes the gradients, one allreduce for
/// each variable that is replicated over an axis of the batch.
template <class World, floating T>
class Sgd {
  static_assert(std::is_floating_point_v<T>,
                "mtf: an optimizer updates float or double; keep the slices so: ElementTypes<float, float, bfloat16>");

 public:
  /// Throws unless 0 <= momentum <= 1.
  constexpr explicit Sgd(World& world, double momentum = 0) : world_(world), momentum_(momentum) {
    detail::require_parameter("sgd", "momentum", momentum, momentum >= 0 && momentum <= 1, "in [0, 1]");
  }

  /// One step. Throws, with nothing changed, unless the rate is finite and at least 0.
  constexpr void apply(const VariableGradients& gradients, double rate) {
    detail::require_rate("sgd", rate);
    World& world = world_.open(gradients, "sgd");
    untyped::sgd<typename World::engine_type, T>(world.engine(), world.registry(), gradients, momentum_, rate);
  }

 private:
  detail::WorldOfOptimizer<World> world_;
  double momentum_;
};

}  // namespace v0
}  // namespace mtf
