#include "options.hpp"

#include <charconv>
#include <cmath>
#include <limits>
#include <type_traits>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <mtf/tensor/error.hpp>

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

/// The number that all of `text` is, in decimal notation; nothing if it is none, or none that T holds.
template <class T>
std::optional<T> number_of(const std::string& text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  if constexpr (std::is_floating_point_v<T>) {
    if (!std::isfinite(value)) return std::nullopt;
  }
  return value;
}

/// Numbers that an option takes.
template <class T>
struct Range {
  T least{};
  T most{};
  bool open = false;  ///< `least` itself is none

  [[nodiscard]] bool has(T value) const { return (open ? value > least : value >= least) && value <= most; }
  [[nodiscard]] std::string text() const {
    const char* kind = std::is_floating_point_v<T> ? "a number" : "a whole number";
    if (open) return fmt::format("{} greater than {}, at most {}", kind, least, most);
    return fmt::format("{} from {} to {}", kind, least, most);
  }
};
constexpr std::int64_t many = 2'147'483'647;  // bytes, steps and widths: products of two of them still fit 64 bits

template <class T>
CLI::Option* add_number(CLI::App& app, const std::string& name, T& target, const std::string& words, Range<T> range) {
  // CLI11's own conversion takes hexadecimal and octal numbers, infinity and NaN, and cuts off what is too large.
  const auto take = [&target, name, range](const std::string& text) {
    const std::optional<T> value = number_of<T>(text);
    if (!value || !range.has(*value)) throw CLI::ValidationError(name, mtf::quoted(text) + " is not " + range.text());
    target = *value;
  };
  CLI::Option* option = app.add_option_function<std::string>(name, take, words);
  return option->default_str(fmt::format("{}", target))->type_name(std::is_floating_point_v<T> ? "FLOAT" : "INT");
}
CLI::Option* add_text(CLI::App& app, const std::string& name, std::string& target, const std::string& words) {
  const auto not_empty = [](const std::string& text) {
    return text.empty() ? std::string("it is empty") : std::string();
  };
  return app.add_option(name, target, words)->check(CLI::Validator(not_empty, "", "not empty"));
}

void add_options(CLI::App& app, Options& options) {
  const Range<std::int64_t> counts{1, many};
  const Range<std::int64_t> counts_and_none{0, many};
  add_text(app, "--text", options.text, "text file")->required();
  CLI::Option* layout =
      add_text(app, "--layout", options.layout,
               "single, data, model, grid, auto (the cheapest by estimate), or rules such as \"batch:rows;d_ff:cols\"");
  add_text(app, "--mesh", options.mesh,
           "axes and sizes, \"rows:2;cols:2\"; by default from the layout and the number of ranks");
  add_text(app, "--machine", options.machine, "for --layout auto: the file that bench/calibrate wrote")->needs(layout);
  add_number(app, "--steps", options.steps, "training steps", counts);
  add_number(app, "--minutes", options.minutes, "train no longer than this; 0 is no limit", {0.0, 1e6});
  add_number(app, "--learning-rate", options.learning_rate, "peak learning rate of Adam", {0.0, 1000.0, true});
  add_number(app, "--warmup", options.warmup, "steps of linear warm-up", counts_and_none);
  add_number(app, "--batch", options.batch, "sequences per step, on all ranks together", counts);
  add_number(app, "--length", options.length, "bytes per sequence", counts);
  add_number(app, "--d-model", options.d_model, "width of the model", counts);
  add_number(app, "--layers", options.layers, "blocks of attention and feed-forward", {1, 100'000});
  add_number(app, "--heads", options.heads, "attention heads", counts);
  add_number(app, "--d-kv", options.d_kv, "width of keys and values", counts);
  add_number(app, "--d-ff", options.d_ff, "width of the feed-forward layer", counts);
  add_number(app, "--embedding-stddev", options.embedding_stddev, "standard deviation of the initial embeddings",
             {0.0, 1000.0, true});
  add_number(app, "--dropout", options.dropout, "dropout rate", {0.0, 0.99});
  add_number(app, "--seed", options.seed, "seed of weights, batches, dropout and generation",
             {0, std::numeric_limits<std::uint64_t>::max()});
  add_number(app, "--generate", options.generate, "bytes to generate at the end", counts_and_none);
  add_number(app, "--temperature", options.temperature, "of the generation", {0.0, 1e6});
  CLI::Option* trace = add_text(app, "--trace", options.trace,
                                "file for a trace of some steps, which chrome://tracing and ui.perfetto.dev show");
  add_number(app, "--trace-after", options.trace_after, "steps before those in the trace", counts_and_none)
      ->needs(trace);
  add_number(app, "--trace-steps", options.trace_steps, "steps in the trace", counts)->needs(trace);
}

/// What single options cannot tell.
void check_together(const CLI::App& app, const Options& options) {
  if (!options.machine.empty() && options.layout != "auto")
    throw CLI::ValidationError("--machine", "only --layout auto asks for the speeds of a machine");
  if (options.trace.empty()) return;
  if (options.trace_after >= options.steps) {
    throw CLI::ValidationError(
        "--trace", fmt::format("the trace is to begin after step {}, but there are {} steps; give a smaller "
                               "--trace-after or more --steps",
                               options.trace_after, options.steps));
  }
  if (app.count("--trace-steps") > 0 && options.trace_after + options.trace_steps > options.steps) {
    throw CLI::ValidationError("--trace",
                               fmt::format("{} steps are to be traced after the first {}, but there are {} steps",
                                           options.trace_steps, options.trace_after, options.steps));
  }
}

}  // namespace

std::optional<int> read_options(int argc, char** argv, MPI_Comm comm, Options& options) {
  CLI::App app("Trains a byte-level Transformer language model on a text file.");
  app.option_defaults()->always_capture_default();
  app.failure_message([](const CLI::App*, const CLI::Error& error) {
    return fmt::format("mtf: {} (--help lists all options)\n", mtf::on_one_line(error.what()));
  });
  add_options(app, options);
  int rank = 0;
  int ranks = 1;
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &ranks);
  try {
    app.parse(argc, argv);
    check_together(app, options);
  } catch (const CLI::ParseError& error) {
    return rank == 0 ? app.exit(error) : (error.get_exit_code() == 0 ? 0 : 1);
  }
  const bool compiled_in =
      options.layout == "single" || options.layout == "data" || options.layout == "model" || options.layout == "grid";
  if (options.mesh.empty() && options.layout != "auto")
    options.mesh = default_mesh(compiled_in ? options.layout : "grid", ranks);
  return std::nullopt;
}
