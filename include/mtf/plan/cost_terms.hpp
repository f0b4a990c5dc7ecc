// CostTerm: one part of a cost, and how much of an objective it makes - for saying why one layout loses against
// another.
#pragma once

#include <mtf/plan/cost.hpp>

namespace mtf {
inline namespace v0 {

/// Local work of one kind, collectives of one kind along one set of axes, or memory.
struct CostTerm {
  enum class Kind : std::uint8_t { none, work, collective, memory } kind{};
  std::string_view work{};  ///< name of the plan, of Kind::work
  Collective collective{};  ///< of Kind::collective
  AxisSet axes{};           ///< of Kind::collective, in the mesh of the cost that has the term
  double amount =
      0;  ///< multiply-adds of contractions, bytes that other work reads and writes, bytes on the wire, bytes of memory
  double other_amount = 0;  ///< the same of the cost compared with
  double difference = 0;    ///< what the term adds to the objective, less what it adds in the cost compared with
};

namespace detail {

[[nodiscard]] constexpr bool same_axes(const Cost& a, AxisSet in_a, const Cost& b, AxisSet in_b) {
  for (int i = 0; i < a.mesh.size(); ++i) {
    if (in_a.has(i) && !(b.axes(a.mesh[i].text()) & in_b).empty())
      in_b = in_b - b.axes(a.mesh[i].text());
    else if (in_a.has(i))
      return false;
  }
  return in_b.empty();
}

/// An objective's value less what it is without one kind of local work, or one row of collectives; 0 for row -1.
template <class Objective>
[[nodiscard]] constexpr double share_of_work(const Cost& cost, int row, const Objective& objective) {
  if (row < 0) return 0;
  Cost without = cost;
  if (cost.work_costs[row].name == contraction_name) without.contraction_costs.clear();
  without.work_costs.erase(row);
  return objective(cost) - objective(without);
}
template <class Objective>
[[nodiscard]] constexpr double share_of_collective(const Cost& cost, int row, const Objective& objective) {
  if (row < 0) return 0;
  Cost without = cost;
  without.collective_costs.erase(row);
  return objective(cost) - objective(without);
}

[[nodiscard]] constexpr int find_collective(const Cost& cost, const Cost& of, const CollectiveCost& wanted) {
  for (int i = 0; i < cost.collective_costs.size(); ++i) {
    const CollectiveCost& row = cost.collective_costs[i];
    if (row.collective == wanted.collective && same_axes(of, wanted.axes, cost, row.axes)) return i;
  }
  return -1;
}
[[nodiscard]] constexpr int find_work(const Cost& cost, std::string_view name) {
  for (int i = 0; i < cost.work_costs.size(); ++i) {
    if (cost.work_costs[i].name == name) return i;
  }
  return -1;
}

}  // namespace detail

/// The term of `loser` that adds most to `objective` beyond what it adds in `winner`. A term's share is the objective's
/// value less that without the term, so the shares of an objective that is a sum of terms add up to it. The meshes may
/// differ; axes are compared by name.
template <class Objective>
[[nodiscard]] constexpr CostTerm dominant_term(const Cost& winner, const Cost& loser, const Objective& objective) {
  CostTerm found;
  const auto offer = [&](const CostTerm& term) {
    if (found.kind == CostTerm::Kind::none || term.difference > found.difference) found = term;
  };
  for (int i = 0; i < loser.work_costs.size(); ++i) {
    const WorkCost& row = loser.work_costs[i];
    const int other = detail::find_work(winner, row.name);
    std::int64_t WorkCost::* const amount = row.name == contraction_name ? &WorkCost::work : &WorkCost::bytes;
    CostTerm term{.kind = CostTerm::Kind::work, .work = row.name, .amount = static_cast<double>(row.*amount)};
    if (other >= 0) term.other_amount = static_cast<double>(winner.work_costs[other].*amount);
    term.difference = detail::share_of_work(loser, i, objective) - detail::share_of_work(winner, other, objective);
    offer(term);
  }
  for (int i = 0; i < loser.collective_costs.size(); ++i) {
    const CollectiveCost& row = loser.collective_costs[i];
    const int other = detail::find_collective(winner, loser, row);
    CostTerm term{
        .kind = CostTerm::Kind::collective, .collective = row.collective, .axes = row.axes, .amount = row.wire_bytes};
    if (other >= 0) term.other_amount = winner.collective_costs[other].wire_bytes;
    term.difference =
        detail::share_of_collective(loser, i, objective) - detail::share_of_collective(winner, other, objective);
    offer(term);
  }
  const auto share_of_memory = [&](const Cost& cost) {
    Cost without = cost;
    without.peak_bytes = 0;
    return objective(cost) - objective(without);
  };
  offer({.kind = CostTerm::Kind::memory,
         .amount = static_cast<double>(loser.peak_bytes),
         .other_amount = static_cast<double>(winner.peak_bytes),
         .difference = share_of_memory(loser) - share_of_memory(winner)});
  return found;
}

}  // namespace v0
}  // namespace mtf
