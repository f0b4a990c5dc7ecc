// What a rank has communicated: logical collectives, their payload, and the MPI calls they took.
#pragma once

#include <cstdint>
#include <string_view>

#include <mtf/core/name.hpp>
#include <mtf/core/recycled.hpp>
#include <mtf/plan/collective.hpp>

namespace mtf {
inline namespace v0 {

/// Totals of one kind of collective along one set of axes.
struct CollectiveTotals {
  Collective collective{};
  AxisSet axes;
  std::int64_t count = 0;     ///< logical collectives
  std::int64_t elements = 0;  ///< payload of this rank, see CollectivePlan
  std::int64_t bytes = 0;     ///< the same in bytes
  std::int64_t mpi_calls = 0;
  double wire_bytes = 0;  ///< bytes a rank sends at least, see wire_elements
};

/// What a rank has communicated since the world began, or since `reset`. No communication: each rank counts its own.
class Counters {
 public:
  /// One more collective, performed by so many calls of MPI in a group of so many ranks.
  void record(const CollectivePlan& plan, int mpi_calls, std::int64_t group_size) {
    CollectiveTotals& totals = find(plan.collective, plan.axes);
    ++totals.count;
    totals.elements += plan.count;
    const std::int64_t bytes = plan.count * bytes_of(plan.type);
    totals.bytes += bytes;
    totals.mpi_calls += mpi_calls;
    totals.wire_bytes += wire_elements(plan, group_size) * static_cast<double>(bytes_of(plan.type));
    for (const std::int64_t part :
         {static_cast<std::int64_t>(plan.collective), static_cast<std::int64_t>(plan.axes.bits), plan.count}) {
      sequence_ = hash_text({reinterpret_cast<const char*>(&part), sizeof part}, sequence_);
    }
  }

  /// Totals over all axis sets that `matches` accepts.
  template <class Matches>
  [[nodiscard]] CollectiveTotals sum(const Matches& matches) const {
    CollectiveTotals result;
    for (const CollectiveTotals& totals : totals_) {
      if (!matches(totals)) continue;
      result.collective = totals.collective;
      result.axes = totals.axes;
      result.count += totals.count;
      result.elements += totals.elements;
      result.bytes += totals.bytes;
      result.mpi_calls += totals.mpi_calls;
      result.wire_bytes += totals.wire_bytes;
    }
    return result;
  }
  /// One entry for each kind of collective and set of axes, in the order of their first use.
  [[nodiscard]] const RecycledVector<CollectiveTotals>& all() const { return totals_; }
  /// Hash of the sequence of collectives; equal on all ranks of a correct program.
  [[nodiscard]] std::uint64_t sequence() const { return sequence_; }
  void reset() {
    totals_.clear();
    sequence_ = hash_text({});
  }

 private:
  CollectiveTotals& find(Collective collective, AxisSet axes) {
    for (CollectiveTotals& totals : totals_) {
      if (totals.collective == collective && totals.axes == axes) return totals;
    }
    totals_.push_back({.collective = collective, .axes = axes});
    return totals_.back();
  }

  RecycledVector<CollectiveTotals> totals_;
  std::uint64_t sequence_ = hash_text({});
};

}  // namespace v0
}  // namespace mtf
