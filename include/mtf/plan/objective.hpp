// Objective: what a layout search minimises.
#pragma once

#include <mtf/plan/layout_space.hpp>
#include <mtf/plan/time.hpp>

namespace mtf {
inline namespace v0 {

enum class Objective : std::uint8_t {
  time,           ///< seconds of a step, the upper end of the estimate for a machine
  wire_bytes,     ///< bytes that a rank sends
  peak_memory,    ///< bytes of a rank, as the memory pool counts them
  tensor_memory,  ///< the same without what moving data takes: Mesh-TensorFlow's automatic layout (see MemoryTrace)
};

/// The value of a cost. Grows with every count and size of the cost. `tensor_memory` is that of a trace, not of a cost;
/// the peak stands for it.
[[nodiscard]] constexpr double value_of(const Cost& cost, Objective objective, const Machine& machine) {
  if (objective == Objective::time) return estimate(cost, machine).at_most();
  if (objective == Objective::wire_bytes) {
    double bytes = 0;
    for (const CollectiveCost& collective : cost.collective_costs) bytes += collective.wire_bytes;
    return bytes;
  }
  return static_cast<double>(cost.peak_bytes);
}

/// A cost that no layout of a part of a space undercuts in any count or size.
[[nodiscard]] constexpr Cost cost_at_least(const MeshValue& mesh, const LowerBound& least) {
  Cost cost(mesh);
  for (const LowerBound::Products& products : least.products) {
    cost.add(LocalWork{.plan = contraction_name,
                       .type = products.type,
                       .is_contraction = true,
                       .work = products.multiply_adds,
                       .bytes = products.bytes});
    cost.work_costs.back().count += products.count - 1;
    cost.contraction_costs.back().count += products.count - 1;
  }
  cost.peak_bytes = least.persistent;
  return cost;
}

}  // namespace v0
}  // namespace mtf
