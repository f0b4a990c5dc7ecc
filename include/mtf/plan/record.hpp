// Record: one thing that a rank does - a plan that it runs or a collective - and the operation it belongs to.
#pragma once

#include <cstdint>
#include <string_view>

#include <mtf/core/recycled.hpp>
#include <mtf/plan/collective.hpp>

namespace mtf {
inline namespace v0 {

inline constexpr const char* contraction_name = "contract";  ///< the plan that matrix products run

/// The operation that runs now. Every operation announces itself when it begins (Backend::announce); the gradient pass
/// does it for the gradients.
struct Activity {
  const char* operation = "";   ///< einsum, softmax, adam, ...
  std::int64_t occurrence = 0;  ///< counts announcements: two einsums after each other differ
  bool is_gradient = false;     ///< part of a gradient pass, also where that runs a function again
};

/// What a plan does on a rank.
struct LocalWork {
  Name plan;
  ElementType type{};  ///< of the result
  bool is_contraction = false;
  AxisSet split_axes{};    ///< of a contraction: those that split some dim of its operands
  std::int64_t work = 0;   ///< multiply-adds of a contraction, element operations of others
  std::int64_t bytes = 0;  ///< of the slices read and written
};

/// What one plan or one collective does on a rank. A dry run and a running world keep the same records in the same
/// order while their `tracing` is on; only the running one knows times.
struct Record {
  std::string_view operation;   ///< the public operation it belongs to; where one is made of others, the innermost
  std::int64_t occurrence = 0;  ///< which one of that operation's runs: equal for neighbours of one run only
  bool is_gradient = false;
  bool is_collective = false;
  std::string_view plan;  ///< of local work its plan: contract, map, ...; of a collective its kind: allreduce, ...
  ElementType type{};     ///< of the result
  AxisSet axes;  ///< of a contraction those that split some dim of its operands; of a collective those it runs along
  std::int64_t work = 0;   ///< multiply-adds of a contraction, element operations of other local work
  std::int64_t bytes = 0;  ///< local: of the slices read and written; collective: the payload, see CollectivePlan
  // Of collectives only.
  Collective collective{};
  std::int64_t count = 0;  ///< payload in elements
  double wire_bytes = 0;   ///< bytes that the rank sends at least, see wire_elements
  std::string_view
      subject;  ///< what needs it: an operation, or the variable whose gradient it completes; as long as that lives
  std::string_view summed_by;  ///< of a sum of partial sums: the operation that made them
  // In a running world: seconds since its records began.
  double begin = 0, end = 0;

  [[nodiscard]] constexpr bool is_contraction() const { return !is_collective && plan == contraction_name; }
  /// Whether both say the same, times aside.
  [[nodiscard]] friend constexpr bool same_work(const Record& a, const Record& b) {
    return a.operation == b.operation && a.occurrence == b.occurrence && a.is_gradient == b.is_gradient &&
           a.is_collective == b.is_collective && a.plan == b.plan && a.type == b.type && a.axes == b.axes &&
           a.work == b.work && a.bytes == b.bytes && a.collective == b.collective && a.count == b.count &&
           a.wire_bytes == b.wire_bytes && a.subject == b.subject && a.summed_by == b.summed_by;
  }
};

using Records = RecycledVector<Record>;

/// Of a plan that runs locally.
MTF_NOINLINE [[nodiscard]] constexpr Record record_of(const Activity& activity, const LocalWork& done) {
  Record record;
  record.operation = activity.operation;
  record.occurrence = activity.occurrence;
  record.is_gradient = activity.is_gradient;
  record.plan = done.plan.text;
  record.type = done.type;
  record.axes = done.split_axes;
  record.work = done.work;
  record.bytes = done.bytes;
  return record;
}
/// Of a collective in a group of `members`.
MTF_NOINLINE [[nodiscard]] constexpr Record record_of(const Activity& activity, const CollectivePlan& plan,
                                                      std::int64_t members) {
  const std::int64_t width = bytes_of(plan.type);
  Record record =
      record_of(activity, {.plan = name_of(plan.collective), .type = plan.type, .bytes = plan.count * width});
  record.axes = plan.axes;
  record.is_collective = true;
  record.collective = plan.collective;
  record.count = plan.count;
  record.wire_bytes = wire_elements(plan, members) * static_cast<double>(width);
  record.subject = plan.operation;
  return record;
}

}  // namespace v0
}  // namespace mtf
