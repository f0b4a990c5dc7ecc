// Cost: what a program does on one rank, as a value of fixed size.
#pragma once

#include <string_view>

#include <mtf/core/placement.hpp>
#include <mtf/plan/record.hpp>

namespace mtf {
inline namespace v0 {

/// Bytes: `static_assert(c.bytes("cols") <= 64_MiB)` after `using namespace mtf::literals`.
inline namespace literals {
[[nodiscard]] consteval std::int64_t operator""_KiB(unsigned long long n) { return static_cast<std::int64_t>(n << 10); }
[[nodiscard]] consteval std::int64_t operator""_MiB(unsigned long long n) { return static_cast<std::int64_t>(n << 20); }
[[nodiscard]] consteval std::int64_t operator""_GiB(unsigned long long n) { return static_cast<std::int64_t>(n << 30); }
}  // namespace literals

/// Collectives of one kind along one set of axes.
struct CollectiveCost {
  Collective collective{};
  AxisSet axes;
  std::int64_t count = 0;
  std::int64_t elements = 0;  ///< payload, see CollectivePlan
  std::int64_t bytes = 0;     ///< the same in bytes
  double wire_bytes = 0;      ///< bytes that a rank sends at least, see wire_elements

  friend constexpr bool operator==(const CollectiveCost&, const CollectiveCost&) = default;
};

/// Local work of one kind of plan.
struct WorkCost {
  std::string_view name;   ///< of the plan: contract, map, reduce, ...
  std::uint64_t hash = 0;  ///< of the name
  std::int64_t count = 0;
  std::int64_t work = 0;   ///< multiply-adds of contractions, element operations of others
  std::int64_t bytes = 0;  ///< of the slices it reads and writes
};

/// Matrix products of one element type (bfloat16 is multiplied as float).
struct ContractionCost {
  ElementType type{};
  std::int64_t count = 0;
  std::int64_t work = 0;  ///< multiply-adds of a rank
  std::int64_t distinct =
      0;  ///< of all ranks together, those counted once that several ranks repeat: work x the axes that split it
};

/// An axis by its own copy of the name: a cost outlives the world it was counted in.
struct CostAxis {
  InlineVector<char, 48> name;
  std::int64_t size = 1;

  [[nodiscard]] constexpr std::string_view text() const { return {name.items, static_cast<std::size_t>(name.size())}; }
};

/// What one rank does. Sizes are those of rank 0; they differ between ranks only in exchanges.
struct Cost {
  InlineVector<CostAxis, max_axes> mesh;
  InlineVector<CollectiveCost, 32> collective_costs;
  InlineVector<WorkCost, 24> work_costs;
  InlineVector<ContractionCost, 4> contraction_costs;
  std::int64_t parameters = 0;           ///< elements of all trainable variables, global
  std::int64_t parameters_per_rank = 0;  ///< elements of their slices
  std::int64_t parameter_bytes = 0;      ///< of a rank, trainable variables
  std::int64_t state_bytes = 0;          ///< of a rank, other variables: the optimizer's slots
  std::int64_t peak_bytes = 0;           ///< largest sum of live arrays of a rank, variables included
  int unused = 0;                        ///< rules whose dim occurred in no tensor

  [[nodiscard]] constexpr AxisSet axes(std::string_view name) const {
    for (int i = 0; i < mesh.size(); ++i) {
      if (mesh[i].text() == name) return AxisSet::of(i);
    }
    return {};
  }
  /// Payload in bytes of the collectives along exactly these axes.
  template <class... Axes>
  [[nodiscard]] constexpr std::int64_t bytes(const Axes&... names) const {
    return sum((axes(names) | ...), &CollectiveCost::bytes);
  }
  /// Payload in elements.
  template <class... Axes>
  [[nodiscard]] constexpr std::int64_t elements(const Axes&... names) const {
    return sum((axes(names) | ...), &CollectiveCost::elements);
  }
  /// Number of collectives along exactly these axes.
  template <class... Axes>
  [[nodiscard]] constexpr std::int64_t collectives(const Axes&... names) const {
    return sum((axes(names) | ...), &CollectiveCost::count);
  }
  /// Bytes that a rank sends at least, along these axes.
  template <class... Axes>
  [[nodiscard]] constexpr double wire_bytes(const Axes&... names) const {
    return sum((axes(names) | ...), &CollectiveCost::wire_bytes);
  }
  [[nodiscard]] constexpr std::int64_t peak_memory() const { return peak_bytes; }
  [[nodiscard]] constexpr std::int64_t persistent_memory() const { return parameter_bytes + state_bytes; }
  [[nodiscard]] constexpr int unused_rules() const { return unused; }
  /// Multiply-adds of all einsums on one rank.
  [[nodiscard]] constexpr std::int64_t multiply_adds() const {
    for (const WorkCost& cost : work_costs) {
      if (cost.name == contraction_name) return cost.work;
    }
    return 0;
  }

  /// Multiply-adds of all einsums on all ranks, repeated ones once: what one processor alone would do.
  [[nodiscard]] constexpr std::int64_t distinct_multiply_adds() const {
    std::int64_t result = 0;
    for (const ContractionCost& cost : contraction_costs) result += cost.distinct;
    return result;
  }
  /// Number of processors.
  [[nodiscard]] constexpr std::int64_t processors() const { return members(AxisSet{~std::uint32_t{0}}); }
  /// Processors in a group along these axes.
  [[nodiscard]] constexpr std::int64_t members(AxisSet set) const {
    std::int64_t product = 1;
    for (int i = 0; i < mesh.size(); ++i) {
      if (set.has(i)) product *= mesh[i].size;
    }
    return product;
  }

  constexpr Cost() = default;
  constexpr explicit Cost(const MeshValue& value) {
    for (const AxisValue& axis : value.axes) {
      CostAxis& named = mesh.items[mesh.count++];
      named.size = axis.size;
      for (const char c : axis.name.text) {
        if (!named.name.full()) named.name.push_back(c);
      }
    }
  }

  constexpr void add(const CollectivePlan& plan) {
    const std::int64_t width = bytes_of(plan.type);
    add_collective(plan.collective, plan.axes, plan.count, plan.count * width,
                   wire_elements(plan, members(plan.axes)) * static_cast<double>(width));
  }
  constexpr void add(const LocalWork& done) {
    std::uint8_t& at = places_[done.plan.hash % 32];
    if (at >= work_costs.count || work_costs.items[at].hash != done.plan.hash) {
      at = 0;
      while (at < work_costs.count && work_costs.items[at].hash != done.plan.hash) ++at;
      if (at == work_costs.count) work_costs.push_back({.name = done.plan.text, .hash = done.plan.hash});
    }
    WorkCost& cost = work_costs.items[at];
    ++cost.count;
    cost.work += done.work;
    cost.bytes += done.bytes;
    if (done.is_contraction) add_contraction(done);
  }

  /// What a record says that was done.
  constexpr void add(const Record& record) {
    if (record.is_collective) {
      add_collective(record.collective, record.axes, record.count, record.bytes, record.wire_bytes);
    } else {
      add({.plan = record.plan,
           .type = record.type,
           .is_contraction = record.is_contraction(),
           .split_axes = record.axes,
           .work = record.work,
           .bytes = record.bytes});
    }
  }

 private:
  constexpr void add_collective(Collective collective, AxisSet along, std::int64_t elements, std::int64_t bytes,
                                double wire_bytes) {
    int at = 0;
    while (at < collective_costs.count &&
           (collective_costs.items[at].collective != collective || collective_costs.items[at].axes.bits != along.bits))
      ++at;
    if (at == collective_costs.count) collective_costs.push_back({.collective = collective, .axes = along});
    CollectiveCost& cost = collective_costs.items[at];
    ++cost.count;
    cost.elements += elements;
    cost.bytes += bytes;
    cost.wire_bytes += wire_bytes;
  }
  constexpr void add_contraction(const LocalWork& done) {
    int at = 0;
    while (at < contraction_costs.count && contraction_costs.items[at].type != done.type) ++at;
    if (at == contraction_costs.count) contraction_costs.push_back({.type = done.type});
    ContractionCost& cost = contraction_costs.items[at];
    ++cost.count;
    cost.work += done.work;
    cost.distinct += done.work * members(done.split_axes);
  }
  std::uint8_t places_[32]{};  ///< in `work_costs`, by the hash of the name

  template <class Number>
  [[nodiscard]] constexpr Number sum(AxisSet axes, Number CollectiveCost::* member) const {
    Number result{};
    for (const CollectiveCost& cost : collective_costs) {
      if (cost.axes == axes) result += cost.*member;
    }
    return result;
  }
};

}  // namespace v0
}  // namespace mtf
