// A planned collective, performed.
#pragma once

#include <mtf/plan/collective.hpp>
#include <mtf/runtime/collectives.hpp>

namespace mtf {
inline namespace v0 {

namespace collectives {

/// Performs a plan on contiguous buffers; returns how many MPI calls it took.
inline int perform(const CollectivePlan& plan, const Group& group, void* out, const void* in) {
  switch (plan.collective) {
    case Collective::all_reduce: return all_reduce(group, out, plan.count, plan.type, plan.combine);
    case Collective::reduce_scatter:
      return reduce_scatter(group, in, out, plan.count / group.size, plan.type, plan.combine);
    case Collective::all_gather: return all_gather(group, in, out, plan.count / group.size, plan.type);
    case Collective::all_to_all: return all_to_all(group, in, out, plan.count, plan.type);
    case Collective::broadcast: return broadcast(group, out, plan.count, plan.type);
    case Collective::exchange: return exchange(group, in, out, plan.sent, plan.received, plan.type);
    case Collective::shift: return shift(group, in, out, plan.count, plan.type, plan.shift, plan.wraps);
  }
  return 0;
}

}  // namespace collectives

}  // namespace v0
}  // namespace mtf
