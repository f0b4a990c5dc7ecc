// Time: what a cost takes on a machine, as bounds from below and above.
#pragma once

#include <mtf/plan/cost.hpp>

namespace mtf {
inline namespace v0 {

/// Communication between neighbours along an axis, as one rank sees it.
struct AxisSpeed {
  InlineVector<char, 48> name;     ///< of the axis; without one, any
  double latency = 2e-6;           ///< seconds that a message takes beside its bytes
  double bytes_per_second = 1e10;  ///< that a rank sends

  constexpr AxisSpeed() = default;
  constexpr AxisSpeed(std::string_view text, double seconds, double bandwidth)
      : latency(seconds), bytes_per_second(bandwidth) {
    for (const char c : text) {
      if (!name.full()) name.push_back(c);
    }
  }
  [[nodiscard]] constexpr std::string_view text() const { return {name.items, static_cast<std::size_t>(name.size())}; }
};

/// The speed of one rank, and of the network between ranks. `bench/calibrate` measures one and io/machine.hpp reads it;
/// what is here without that is a first guess, a core of a server in a fast network.
struct Machine {
  double float_multiply_adds_per_second =
      3e10;  ///< of matrix products; also those of bfloat16, which are made in float
  double double_multiply_adds_per_second = 1.5e10;
  double bytes_per_second = 1e10;       ///< of local memory: read and written by element-wise work
  double seconds_per_operation = 1e-6;  ///< to start one plan: planning, memory, launch
  AxisSpeed any_axis{};                 ///< of axes that `axes` does not name
  InlineVector<AxisSpeed, max_axes> axes{};

  [[nodiscard]] constexpr const AxisSpeed& axis(std::string_view name) const {
    for (const AxisSpeed& speed : axes) {
      if (speed.text() == name) return speed;
    }
    return any_axis;
  }
  /// Of matrix products of elements of a type. Integers, which BLAS does not know, are taken for double.
  [[nodiscard]] constexpr double multiply_adds_per_second(ElementType type) const {
    return type == ElementType::float32 || type == ElementType::bfloat16 ? float_multiply_adds_per_second
                                                                         : double_multiply_adds_per_second;
  }
};

/// Seconds by what they are spent on. Parts may overlap or not, which the model does not know: the time lies between
/// the largest part and the sum.
struct Time {
  double contractions = 0;              ///< matrix products, their launches included
  double local = 0;                     ///< other local work, bound by memory, launches included
  InlineVector<double, max_axes> axes;  ///< communication, by axis of the cost's mesh

  [[nodiscard]] constexpr double communication() const {
    double sum = 0;
    for (const double axis : axes) sum += axis;
    return sum;
  }
  /// The largest part: everything else hides behind it.
  [[nodiscard]] constexpr double at_least() const {
    double largest = contractions > local ? contractions : local;
    for (const double axis : axes) largest = axis > largest ? axis : largest;
    return largest;
  }
  /// The sum of all parts: one after the other.
  [[nodiscard]] constexpr double at_most() const { return contractions + local + communication(); }
};

namespace detail {

/// Messages after each other that a collective among p takes at least: ceil(log2 p); a shift is one.
[[nodiscard]] constexpr int message_steps(Collective collective, std::int64_t members) {
  if (members == 1) return 0;
  if (collective == Collective::shift) return 1;
  int steps = 0;
  for (std::int64_t reached = 1; reached < members; reached *= 2) ++steps;
  return steps;
}

}  // namespace detail

/// Seconds that a program of this cost takes on a rank of the machine. O(entries of the cost).
///
/// Products take their multiply-adds over the machine's rate for their element type, other work the bytes of its slices
/// over the rate of memory, each plan a launch. A collective among p takes alpha ceil(log2 p) + bytes / beta, with the
/// least bytes that a rank sends, as wire_elements has them (lower bounds of the alpha-beta model: Chan et al.,
/// Collective communication: theory, practice, and experience, 2007).
///
/// A group along several axes is taken as one flat group of all its members, which is how MPI sees it: every message
/// has the largest latency and the smallest bandwidth of those axes. The seconds count for the axis of the smallest
/// bandwidth. (A hierarchy of collectives, each along one axis, would move less over the slow one, but this library
/// does not build one.) Axes of size 1 take no part.
MTF_NOINLINE [[nodiscard]] constexpr Time estimate(const Cost& cost, const Machine& machine) {
  Time time;
  std::int64_t products = 0;
  for (const ContractionCost& contraction : cost.contraction_costs) {
    time.contractions += static_cast<double>(contraction.work) / machine.multiply_adds_per_second(contraction.type);
    products += contraction.count;
  }
  time.contractions += static_cast<double>(products) * machine.seconds_per_operation;
  for (const WorkCost& work : cost.work_costs) {
    if (work.name == contraction_name) continue;
    time.local += static_cast<double>(work.bytes) / machine.bytes_per_second +
                  static_cast<double>(work.count) * machine.seconds_per_operation;
  }
  for (int axis = 0; axis < cost.mesh.size(); ++axis) time.axes.push_back(0);
  for (const CollectiveCost& collective : cost.collective_costs) {
    int slowest = -1;
    double latency = 0;
    double bytes_per_second = 0;
    for (int axis = 0; axis < cost.mesh.size(); ++axis) {
      if (!collective.axes.has(axis) || cost.mesh[axis].size == 1) continue;
      const AxisSpeed& speed = machine.axis(cost.mesh[axis].text());
      if (speed.latency > latency) latency = speed.latency;
      if (slowest >= 0 && speed.bytes_per_second >= bytes_per_second) continue;
      slowest = axis;
      bytes_per_second = speed.bytes_per_second;
    }
    if (slowest < 0) continue;
    const auto messages = static_cast<double>(
        collective.count * detail::message_steps(collective.collective, cost.members(collective.axes)));
    time.axes[slowest] += messages * latency + collective.wire_bytes / bytes_per_second;
  }
  return time;
}

}  // namespace v0
}  // namespace mtf
