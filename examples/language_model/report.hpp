// What a training run cost.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include <fmt/format.h>

#include <mtf/mtf.hpp>

#include "options.hpp"

/// Traces some steps of a run and writes them when they are done, or with what there is when the run ends before.
class StepTrace {
 public:
  explicit StepTrace(const Options& options)
      : path_(options.trace), begin_(options.trace_after), end_(options.trace_after + options.trace_steps) {}

  /// Before the step of this number. Collective.
  template <class World>
  void before(World& world, std::int64_t step) {
    if (path_.empty()) return;
    if (step == begin_) world.start_tracing();
    if (step == end_) write(world);
  }
  /// After the last step. Collective.
  template <class World>
  void finish(World& world, std::int64_t steps) {
    if (path_.empty()) return;
    if (steps <= begin_) {
      mtf::print(world,
                 "note: there is no trace: the run ended after {} steps, before step {}, where it was to begin\n",
                 steps, begin_ + 1);
      return;
    }
    if (world.engine().tracing) write(world);
    const std::int64_t traced = std::min(steps, end_) - begin_;
    mtf::print(world, "trace of {} {} in {}: {} records of a rank{}\n", traced, traced == 1 ? "step" : "steps", path_,
               world.records().size(),
               traced < end_ - begin_ ? fmt::format("; the run ended before the {} that were asked for", end_ - begin_)
                                      : std::string());
  }

 private:
  template <class World>
  void write(World& world) {
    world.stop_tracing();
    write_trace(path_, world.records(), world.mesh(), world.comm());
  }
  static void write_trace(const std::string& path, const mtf::Records& records, const mtf::MeshValue& mesh,
                          MPI_Comm comm);

  std::string path_;
  std::int64_t begin_, end_;
};

/// Wire bytes by axes and memory by rank, for rank 0 to print. Collective.
std::string costs_text(const mtf::Counters& counters, const mtf::MeshValue& mesh, std::int64_t peak_bytes,
                       MPI_Comm comm);
