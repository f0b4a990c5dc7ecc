// The counters that Mesh-TensorFlow prints, under its names, from the trace of a dry run or of a world.
#pragma once

#include <map>
#include <string>

#include <fmt/core.h>

#include <mtf/tensor/variable.hpp>

namespace mtf {
inline namespace v0 {

struct OriginalCounterOptions {
  /// Count a lookup (`gather`, and its gradient) as the original makes it: as an einsum with a one-hot matrix, the
  /// gradient of which it makes too although nobody uses it.
  bool one_hot_lookups = false;
};

/// By name, in alphabetical order; sums over all processors.
using OriginalCounters = std::map<std::string, double>;

namespace detail {

/// The original's name for a set of axes: their positions, as Python prints a list.
[[nodiscard]] inline std::string position_list(const MeshValue& mesh, AxisSet axes) {
  std::string list;
  for (int axis = 0; axis < mesh.rank(); ++axis) {
    if (!axes.has(axis)) continue;
    if (!list.empty()) list += ", ";
    list += std::to_string(axis);
  }
  return list;
}
/// The original tells what its einsums leave to be summed from all else.
[[nodiscard]] inline const char* kind_of_sum(std::string_view operation) {
  return operation == "einsum" || operation == "gather" ? "einsum_op" : "reduce_op";
}

}  // namespace detail

/// The counters of everything that `world`, a World or a DryRun, has traced:
///
/// * "einsum": multiply-adds of all einsums on all processors, those that several repeat each time; "einsum_unique":
///   these once;
/// * "allreduce/[axes]/einsum_op" and "/reduce_op": elements of the slices summed, over all processors (not the bytes
///   on the wire);
/// * "alltoall/axis/reshape_op", "allconcat/axis/reshape_op": elements of the slices exchanged, or of those that come
///   out;
/// * "output", "output_unique": elements of the tensors made, of all slices, or each tensor once;
/// * "variables/trainable", "variables/untrainable": elements, each variable once.
///
/// Where this library works otherwise, so do the counters: an einsum of more than two operands goes pairwise, dims of
/// one operand alone are summed before, element-wise products are not counted (the original makes them by einsum), sums
/// of the original's that are reduce-scatters here count as the allreduce that they replace, and an exchange, which the
/// original cannot do, has a name of its own, "exchange/[axes]".
template <class World>
[[nodiscard]] OriginalCounters original_counters(const World& world, const OriginalCounterOptions& options = {}) {
  const Backend& backend = world.engine();
  const MeshValue& mesh = backend.mesh();
  const auto processors = static_cast<double>(mesh.size());
  OriginalCounters counters;
  for (const TracedProduct& product : backend.products) {
    double times = 1;
    if (product.is_lookup) {
      if (!options.one_hot_lookups) continue;
      if (backend.records[static_cast<std::size_t>(product.record)].is_gradient) times = 2;
    }
    const auto work = times * static_cast<double>(product.work());
    counters["einsum"] += work * processors;
    counters["einsum_unique"] += work * static_cast<double>(mesh.size(product.axes()));
  }
  for (const Record& record : backend.records) {
    if (!record.is_collective) continue;
    const std::string axes = detail::position_list(mesh, record.axes);
    std::string name;
    switch (record.collective) {
      case Collective::all_reduce:
      case Collective::reduce_scatter:
        name = fmt::format("allreduce/[{}]/{}", axes, detail::kind_of_sum(record.summed_by));
        break;
      case Collective::all_to_all: name = fmt::format("alltoall/{}/reshape_op", axes); break;
      case Collective::all_gather: name = fmt::format("allconcat/{}/reshape_op", axes); break;
      case Collective::shift: name = "shift"; break;
      case Collective::broadcast:
      case Collective::exchange: name = fmt::format("{}/[{}]", name_of(record.collective), axes); break;
    }
    counters[name] += static_cast<double>(record.count) * processors;
  }
  for (const TracedTensor& kind : backend.tensors) {
    counters["output"] += static_cast<double>(kind.count * kind.placement.local_size()) * processors;
    counters["output_unique"] += static_cast<double>(kind.count * kind.placement.size());
  }
  for (const VariableState* state : world.registry().all()) {
    counters[state->trainable ? "variables/trainable" : "variables/untrainable"] +=
        static_cast<double>(state->placement().size());
  }
  return counters;
}

/// One counter a line, with a subtotal for each prefix that ends before a slash, as the original prints them.
[[nodiscard]] inline std::string to_text(const OriginalCounters& counters) {
  std::map<std::string, double> totals;
  for (const auto& [name, value] : counters) {
    for (std::size_t end = name.find('/');; end = name.find('/', end + 1)) {
      totals[name.substr(0, end)] += value;
      if (end == std::string::npos) break;
    }
  }
  std::string text;
  for (const auto& [name, value] : totals) text += fmt::format("{:<40} {:>12.3e}\n", name, value);
  return text;
}

}  // namespace v0
}  // namespace mtf
