#include "options.hpp"

#include <CLI/CLI.hpp>

namespace {

/// Mesh of a compiled-in layout for a number of ranks, if none is given.
std::string default_mesh(const std::string& layout, int ranks) {
  int rows = 1;
  if (layout == "data") rows = ranks;
  if (layout == "grid") {
    for (int r = 1; r * r <= ranks; ++r) {
      if (ranks % r == 0) rows = ranks / r;
    }
  }
  return "rows:" + std::to_string(rows) + ";cols:" + std::to_string(ranks / rows);
}

}  // namespace

std::optional<int> read_options(int argc, char** argv, MPI_Comm comm, Options& options) {
  CLI::App app("Trains a byte-level Transformer language model on a text file.");
  app.option_defaults()->always_capture_default();
  app.add_option("--text", options.text, "text file")->required();
  app.add_option(
      "--layout", options.layout,
      "single, data, model, grid, auto (the cheapest by estimate), or rules such as \"batch:rows;d_ff:cols\"");
  app.add_option("--mesh", options.mesh,
                 "axes and sizes, \"rows:2;cols:2\"; by default from the layout and the number of ranks");
  app.add_option("--machine", options.machine, "for --layout auto: the file that bench/calibrate wrote");
  app.add_option("--steps", options.steps, "training steps")->check(CLI::PositiveNumber);
  app.add_option("--minutes", options.minutes, "train no longer than this; 0 is no limit")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--learning-rate", options.learning_rate, "peak learning rate of Adam")->check(CLI::PositiveNumber);
  app.add_option("--warmup", options.warmup, "steps of linear warm-up")->check(CLI::NonNegativeNumber);
  app.add_option("--batch", options.batch, "sequences per step, on all ranks together")->check(CLI::PositiveNumber);
  app.add_option("--length", options.length, "bytes per sequence")->check(CLI::PositiveNumber);
  app.add_option("--d-model", options.d_model, "width of the model")->check(CLI::PositiveNumber);
  app.add_option("--layers", options.layers, "blocks of attention and feed-forward")->check(CLI::PositiveNumber);
  app.add_option("--heads", options.heads, "attention heads")->check(CLI::PositiveNumber);
  app.add_option("--d-kv", options.d_kv, "width of keys and values")->check(CLI::PositiveNumber);
  app.add_option("--d-ff", options.d_ff, "width of the feed-forward layer")->check(CLI::PositiveNumber);
  app.add_option("--embedding-stddev", options.embedding_stddev, "standard deviation of the initial embeddings")
      ->check(CLI::PositiveNumber);
  app.add_option("--dropout", options.dropout, "dropout rate")->check(CLI::Range(0.0, 0.99));
  app.add_option("--seed", options.seed, "seed of weights, batches, dropout and generation");
  app.add_option("--generate", options.generate, "bytes to generate at the end")->check(CLI::NonNegativeNumber);
  app.add_option("--temperature", options.temperature, "of the generation")->check(CLI::NonNegativeNumber);
  app.add_option("--trace", options.trace,
                 "file for a trace of some steps, which chrome://tracing and ui.perfetto.dev show");
  app.add_option("--trace-after", options.trace_after, "steps before those in the trace")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--trace-steps", options.trace_steps, "steps in the trace")->check(CLI::PositiveNumber);
  int rank = 0;
  int ranks = 1;
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &ranks);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return rank == 0 ? app.exit(error) : (error.get_exit_code() == 0 ? 0 : 1);
  }
  const bool compiled_in =
      options.layout == "single" || options.layout == "data" || options.layout == "model" || options.layout == "grid";
  if (options.mesh.empty() && options.layout != "auto")
    options.mesh = default_mesh(compiled_in ? options.layout : "grid", ranks);
  return std::nullopt;
}
