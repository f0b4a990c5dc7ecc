// While a trace is kept: which operation made the partial sums that a collective adds.
#pragma once

#include <mtf/tensor/form.hpp>

namespace mtf {
inline namespace v0 {

namespace detail {

/// A collective with the operation that made what it sums.
[[nodiscard]] constexpr Record record_of_collective(const Backend& backend, const CollectivePlan& plan,
                                                    const Block& in) {
  Record record = record_of(backend.activity, plan, backend.mesh().size(plan.axes));
  const bool sums = (plan.collective == Collective::all_reduce || plan.collective == Collective::reduce_scatter) &&
                    plan.combine == Combine::sum;
  if (sums) record.summed_by = in.summed_by;
  return record;
}

// While tracing, a result remembers which operation makes partial sums of it: the one that runs or, if an operand holds
// partial sums already, the one that made those.
template <class T>
constexpr void find_sum(const In<T>& operand, const char*& summed_by) {
  if (!operand.block.pending.empty()) summed_by = operand.block.summed_by;
}
template <class X>
constexpr void find_sum(const X&, const char*&) {}
template <class T>
constexpr void mark_sum(const Out<T>& operand, const char* summed_by) {
  operand.block.summed_by = summed_by;
}
template <class X>
constexpr void mark_sum(const X&, const char*) {}
template <class... Operands>
constexpr void follow_sums(const Backend& backend, const Operands&... operands) {
  const char* summed_by = backend.activity.operation;
  (find_sum(operands, summed_by), ...);
  (mark_sum(operands, summed_by), ...);
}
constexpr void follow_sum(const Backend& backend, Block& out, const Block& in) {
  out.summed_by = in.pending.empty() ? backend.activity.operation : in.summed_by;
}

}  // namespace detail

}  // namespace v0
}  // namespace mtf
