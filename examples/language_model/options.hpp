// What the command line sets.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <mpi.h>

struct Options {
  std::string text;
  std::string layout = "data";
  std::string machine;  // file of a Machine, for --layout auto
  std::string mesh;
  std::int64_t steps = 6000;
  double minutes = 0;  // 0: no limit
  double learning_rate = 5e-3;
  std::int64_t warmup = 100;
  std::int64_t batch = 16;
  std::int64_t length = 64;
  std::int64_t d_model = 128;
  std::int64_t layers = 2;
  std::int64_t heads = 4;
  std::int64_t d_kv = 32;
  std::int64_t d_ff = 512;
  double embedding_stddev = 0.1;
  double dropout = 0;
  std::uint64_t seed = 1;
  std::int64_t generate = 300;
  double temperature = 0.8;
  double held_out = 0.05;
  std::string trace;  // file for a trace of some steps, if not empty
  std::int64_t trace_after = 5;
  std::int64_t trace_steps = 3;
};

/// Reads the command line; an exit code if the program is to end here (--help, a mistake), which rank 0 has explained.
std::optional<int> read_options(int argc, char** argv, MPI_Comm comm, Options& options);
