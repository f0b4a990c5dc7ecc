// The common plans of a backend, each made once.
#pragma once

#include <mtf/plan/elementwise.hpp>
#include <mtf/tensor/backend.hpp>

namespace mtf {
inline namespace v0 {

/// Element-wise work on the dims of `over`, which are the output's, from operands that have some of them.
template <class... Operands>
[[nodiscard]] constexpr const MapPlan& plan_map(Backend& backend, const KeptPlacement& over,
                                                const Operands&... operands) {
  return backend.plans.get<MapPlan>(PlanKey(over.number, operands.number...), [&] {
    const StridedShape shape = row_major(over);
    return MapPlan{collapse(loop_over(shape, shape, row_major(operands)...))};
  });
}
/// The product of dy, on its dims, with the derivative with respect to argument `which`.
template <class... Arguments>
[[nodiscard]] constexpr const MapGradientPlan& plan_map_gradient(Backend& backend, int which, const KeptPlacement& dy,
                                                                 const Arguments&... arguments) {
  return backend.plans.get<MapGradientPlan>(PlanKey(static_cast<unsigned>(which), dy.number, arguments.number...), [&] {
    const StridedShape shape = row_major(dy);
    return MapGradientPlan{collapse(loop_over(shape, shape, shape, row_major(arguments)...)), which};
  });
}
/// The reduction over the dims that `to` lacks.
MTF_NOINLINE [[nodiscard]] constexpr const ReducePlan& plan_reduce(Backend& backend, const KeptPlacement& to,
                                                                   const KeptPlacement& from, Combine combine) {
  return backend.plans.get<ReducePlan>(PlanKey(to.number, from.number, static_cast<unsigned>(combine)),
                                       [&] { return plan_reduce(row_major(to), row_major(from), combine); });
}
/// The copy of one slice to another: transposition and broadcast.
MTF_NOINLINE [[nodiscard]] constexpr const CopyPlan& plan_copy(Backend& backend, const KeptPlacement& to,
                                                               const KeptPlacement& from) {
  return backend.plans.get<CopyPlan>(PlanKey(to.number, from.number),
                                     [&] { return plan_copy(row_major(to), row_major(from)); });
}

/// The placement without one of its dims.
MTF_NOINLINE [[nodiscard]] constexpr const KeptPlacement& place_without(Backend& backend,
                                                                        const KeptPlacement& placement,
                                                                        const Name& dim) {
  struct Rest {
    const KeptPlacement* placement;
  };
  const auto at = static_cast<unsigned>(placement.find(dim) + 1);
  return *backend.plans
              .get<Rest>(PlanKey(placement.number, at), [&] { return Rest{&backend.keep(without(placement, dim))}; })
              .placement;
}

}  // namespace v0
}  // namespace mtf
