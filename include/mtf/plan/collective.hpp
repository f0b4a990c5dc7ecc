// Collectives as values: what the plan says, what the executor does, what the counters record.
#pragma once

#include <span>

#include <mtf/core/element.hpp>
#include <mtf/core/mesh.hpp>

namespace mtf {
inline namespace v0 {

enum class Collective : std::uint8_t { all_reduce, reduce_scatter, all_gather, all_to_all, broadcast, shift, exchange };

[[nodiscard]] constexpr std::string_view name_of(Collective collective) {
  switch (collective) {
    case Collective::all_reduce: return "allreduce";
    case Collective::reduce_scatter: return "reduce-scatter";
    case Collective::all_gather: return "allgather";
    case Collective::all_to_all: return "all-to-all";
    case Collective::broadcast: return "broadcast";
    case Collective::shift: return "shift";
    case Collective::exchange: return "exchange";
  }
  return {};
}

/// A collective along the axes of a set.
/// `count` is the payload in elements: what a rank holds before (allreduce, reduce-scatter, all-to-all, broadcast,
/// shift) or after (allgather, exchange).
struct CollectivePlan {
  Collective collective{};
  AxisSet axes;
  std::int64_t count = 0;
  ElementType type{};
  Combine combine = Combine::sum;
  const char* operation = "";  ///< the operation it belongs to, for errors and traces
  std::int64_t shift = 0;      ///< distance along the axis (Collective::shift only)
  bool wraps = false;          ///< whether a shift goes round; else the ends receive zeros
  /// Elements that go to and come from each member, in the order of the members, who need not agree on a size
  /// (Collective::exchange only).
  std::span<const std::int64_t> sent{}, received{};
};

/// Elements that a rank of a group of `members` sends at least: 2(p-1)/p n in an allreduce, n in a broadcast and a
/// shift, what it sends in an exchange, (p-1)/p n in all others (reference: Chan et al., Collective communication:
/// theory, practice, and experience, 2007).
[[nodiscard]] constexpr double wire_elements(const CollectivePlan& plan, std::int64_t members) {
  const double share = static_cast<double>(members - 1) / static_cast<double>(members);
  const auto count = static_cast<double>(plan.count);
  switch (plan.collective) {
    case Collective::all_reduce: return 2 * share * count;
    case Collective::broadcast:
    case Collective::shift: return count;
    case Collective::exchange: {
      std::int64_t sent = 0;
      for (const std::int64_t to_member : plan.sent) sent += to_member;
      return static_cast<double>(sent);
    }
    default: return share * count;
  }
}

}  // namespace v0
}  // namespace mtf
