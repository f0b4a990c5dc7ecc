// What a training run cost.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <mtf/mtf.hpp>

#include "options.hpp"

/// Traces some steps of a run and writes them when they are done, or with what there is when the run ends before.
class StepTrace {
 public:
  explicit StepTrace(const Options& options) : path_(options.trace), begin_(options.trace_after), end_(options.trace_after + options.trace_steps) {}

  /// Before a step of this number, and after the last. Collective.
  template <class World>
  void before(World& world, std::int64_t step) {
    if (path_.empty()) return;
    if (step == begin_) world.start_tracing();
    if (step == end_) finish(world);
  }
  template <class World>
  void finish(World& world) {
    if (path_.empty() || !world.engine().tracing) return;
    world.stop_tracing();
    write_trace(path_, world.records(), world.mesh(), world.comm());
    mtf::print(world, "{} records of a rank are in the trace {}\n", world.records().size(), path_);
  }

 private:
  static void write_trace(const std::string& path, const mtf::Records& records, const mtf::MeshValue& mesh, MPI_Comm comm);

  std::string path_;
  std::int64_t begin_, end_;
};

/// Wire bytes by axes and memory by rank, for rank 0 to print. Collective.
std::string costs_text(const mtf::Counters& counters, const mtf::MeshValue& mesh, std::int64_t peak_bytes, MPI_Comm comm);
