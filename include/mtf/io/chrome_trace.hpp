// Chrome trace: the records of a run as a file that chrome://tracing and ui.perfetto.dev show on a time axis.
#pragma once

#include <cerrno>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>

#include <nlohmann/json.hpp>

#include <mtf/core/mesh.hpp>
#include <mtf/plan/record.hpp>
#include <mtf/runtime/collectives.hpp>
#include <mtf/tensor/error.hpp>

namespace mtf {
inline namespace v0 {

namespace detail {

/// Microseconds, as the format has them, in whole nanoseconds.
[[nodiscard]] inline double microseconds(double seconds) { return std::round(1e9 * seconds) / 1e3; }

[[nodiscard]] inline std::string names_of(AxisSet axes, const MeshValue& mesh) {
  std::string names;
  for (int i = 0; i < mesh.rank(); ++i) {
    if (!axes.has(i)) continue;
    if (!names.empty()) names += ',';
    names += mesh.axes[i].name.text;
  }
  return names;
}

/// A span of time: a "complete event" of the format.
[[nodiscard]] inline nlohmann::json trace_event(std::string name, const char* category, double begin, double end,
                                                int rank) {
  const double at = microseconds(begin);
  return {{"name", std::move(name)},       {"cat", category}, {"ph", "X"}, {"ts", at},
          {"dur", microseconds(end) - at}, {"pid", rank},     {"tid", 0}};
}
[[nodiscard]] inline nlohmann::json trace_event(const Record& record, const MeshValue& mesh, int rank) {
  nlohmann::json event = trace_event(std::string(record.plan), record.is_collective ? "collective" : "local",
                                     record.begin, record.end, rank);
  nlohmann::json& args = event["args"];
  args = {{"operation", record.operation},
          {"gradient", record.is_gradient},
          {"plan", record.plan},
          {"type", name_of(record.type)},
          {"bytes", record.bytes}};
  if (record.is_collective) {
    args["axes"] = names_of(record.axes, mesh);
    args["count"] = record.count;
    args["wire_bytes"] = record.wire_bytes;
    args["for"] = record.subject;
  } else {
    args["work"] = record.work;
    if (record.is_contraction()) args["split_axes"] = names_of(record.axes, mesh);
  }
  return event;
}
/// What the viewer calls a rank: "rank 3 (rows=1, cols=1)".
[[nodiscard]] inline nlohmann::json trace_name(const MeshValue& mesh, int rank) {
  std::string text("rank ");
  text += std::to_string(rank);
  const Coordinates at = mesh.coordinates(rank);
  for (int i = 0; i < mesh.rank(); ++i) {
    text += i > 0 ? ", " : " (";
    text += mesh.axes[i].name.text;
    text += '=';
    text += std::to_string(at[i]);
    if (i + 1 == mesh.rank()) text += ')';
  }
  return {{"name", "process_name"}, {"ph", "M"}, {"pid", rank}, {"args", {{"name", text}}}};
}

/// What is said of one rank: events separated by commas. A span for every operation, over those of its records.
[[nodiscard]] inline std::string trace_text(std::span<const Record> records, const MeshValue& mesh, int rank) {
  std::string text;
  const auto add = [&](const nlohmann::json& event) {
    if (!text.empty()) text += ",\n";
    text += event.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  };
  add(trace_name(mesh, rank));
  for (std::size_t i = 0; i < records.size();) {
    std::size_t end = i + 1;
    while (end < records.size() && records[end].occurrence == records[i].occurrence) ++end;
    const Record& first = records[i];
    std::string name(first.operation);
    if (first.is_gradient) name += " gradient";
    add(trace_event(std::move(name), "operation", first.begin, records[end - 1].end, rank));
    for (; i < end; ++i) add(trace_event(records[i], mesh, rank));
  }
  return text;
}

inline void check_trace(int code) { check_mpi(code, "write_chrome_trace"); }

}  // namespace detail

/// Writes what the ranks of `comm` have recorded, `records` being this rank's, to one file on rank 0, in the JSON of
/// the Trace Event Format: a process for each rank, a span for each operation, and inside it those of its plans and
/// collectives with their work, bytes and axes. The rank's number in `comm` is that of its processor in the mesh, as
/// World has it.
///
/// Collective. Throws std::runtime_error on all ranks if the file cannot be written. Communication: every rank sends
/// its part of the file to rank 0, which holds one part at a time.
inline void write_chrome_trace(const std::string& path, std::span<const Record> records, const MeshValue& mesh,
                               MPI_Comm comm) {
  int rank = 0;
  int ranks = 1;
  detail::check_trace(MPI_Comm_rank(comm, &rank));
  detail::check_trace(MPI_Comm_size(comm, &ranks));
  std::ofstream file;
  const auto require_good = [&] {
    int error = rank != 0 || file ? 0 : errno != 0 ? errno : EIO;
    detail::check_trace(MPI_Bcast(&error, 1, MPI_INT, 0, comm));
    if (error == 0) return;
    throw std::runtime_error("mtf: write_chrome_trace: the file " + mtf::quoted(path) +
                             " cannot be written: " + std::strerror(error));
  };
  errno = 0;
  if (rank == 0) file.open(path);
  require_good();
  std::string text = detail::trace_text(records, mesh, rank);
  const auto transfer = [](std::int64_t bytes, const auto& call) {
    const detail::LargeType type(bytes, MPI_CHAR);
    detail::check_trace(call(type.count(), type.type()));
  };
  if (rank == 0) {
    file << "{\"displayTimeUnit\": \"ms\", \"traceEvents\": [\n" << text;
    for (int other = 1; other < ranks; ++other) {
      std::int64_t bytes = 0;
      detail::check_trace(MPI_Recv(&bytes, 1, MPI_INT64_T, other, 0, comm, MPI_STATUS_IGNORE));
      text.resize(static_cast<std::size_t>(bytes));
      transfer(bytes, [&](int count, MPI_Datatype type) {
        return MPI_Recv(text.data(), count, type, other, 0, comm, MPI_STATUS_IGNORE);
      });
      file << ",\n" << text;
    }
    file << "\n]}\n";
    file.close();
  } else {
    const auto bytes = static_cast<std::int64_t>(text.size());
    detail::check_trace(MPI_Send(&bytes, 1, MPI_INT64_T, 0, 0, comm));
    transfer(bytes, [&](int count, MPI_Datatype type) { return MPI_Send(text.data(), count, type, 0, 0, comm); });
  }
  require_good();
}
/// The same for what a world has recorded since `start_tracing`.
template <class World>
  requires requires(World& world) { world.records(), world.comm(); }
void write_chrome_trace(const std::string& path, World& world) {
  write_chrome_trace(path, world.records(), world.mesh(), world.comm());
}

}  // namespace v0
}  // namespace mtf
