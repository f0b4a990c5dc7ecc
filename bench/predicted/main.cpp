// Training steps of the language model: the time that the time model predicts from a dry run, beside the time that they
// take.

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <mtf/io/machine.hpp>
#include <mtf/mtf.hpp>

#include "../support.hpp"

namespace {

using Dims = mtf::LanguageModelDims;

struct Options {
  std::string machine;
  std::string mesh;
  std::string layout;
  std::string json;
  std::int64_t batch = 16, length = 64, d_model = 256, heads = 8, d_kv = 32, d_ff = 1024, vocab = 1024, layers = 4;
  std::int64_t warmup = 3;
  std::int64_t steps = 20;
};
struct Case {
  std::string name, mesh, layout;
};

Dims dims_of(const Options& options) {
  return {{options.batch}, {options.length}, {options.length}, {options.d_model},
          {options.heads}, {options.d_kv},   {options.d_ff},   {options.vocab}};
}

/// A model and its optimizer; one call trains a step and reads the loss, on a World and on a DryRun alike.
template <class World>
class Training {
 public:
  Training(World& world, const Options& options)
      : world_(&world), model_(world, dims_of(options), {.layers = options.layers}), adam_(world) {}

  template <class Tokens>
  void step(const Tokens& inputs, const Tokens& targets) {
    const auto loss = model_.loss(inputs, targets, true, mtf::seed{1});
    adam_.apply(mtf::gradients_of_variables(*world_, loss), 1e-4);
    complete(*loss.array().value, "loss");
  }

 private:
  World* world_;
  mtf::LanguageModel<World, float, Dims> model_;
  mtf::Adam<World, float> adam_;
};

/// What a step costs once the optimizer has its slots.
mtf::Cost cost_of_step(const Options& options, const Case& which) {
  mtf::DryRun<mtf::dynamic_mesh, mtf::dynamic_layout> world({.mesh = which.mesh, .layout = which.layout});
  Training<decltype(world)> training(world, options);
  const Dims dims = dims_of(options);
  const auto inputs = mtf::placeholder<std::int32_t>(world, dims.batch, dims.length);
  training.step(inputs, inputs);
  world.engine().cost = mtf::Cost(world.mesh());
  training.step(inputs, inputs);
  return world.cost();
}

struct Measured {
  std::vector<double> steps;  ///< seconds of each, the slowest rank's; sorted
  mtf::Time parts;            ///< where the time went, from the records of this rank; the ranks' mean
  double recorded = 0;        ///< the traced steps' own mean time

  [[nodiscard]] double median() const { return steps[steps.size() / 2]; }
};

using World = mtf::World<mtf::dynamic_mesh, mtf::dynamic_layout>;

/// Times of records by what the time model calls them.
mtf::Time parts_of(const World& world, std::int64_t steps) {
  mtf::Time time;
  for (int axis = 0; axis < world.mesh().rank(); ++axis) time.axes.push_back(0);
  const double share = 1 / static_cast<double>(steps);
  for (const mtf::Record& record : world.records()) {
    const double seconds = (record.end - record.begin) * share;
    if (!record.is_collective) {
      (record.is_contraction() ? time.contractions : time.local) += seconds;
      continue;
    }
    int last = 0;  // a group along several axes is told once
    for (int axis = 0; axis < world.mesh().rank(); ++axis)
      last = record.axes.has(axis) && world.mesh().axes[axis].size > 1 ? axis : last;
    time.axes[last] += seconds;
  }
  return time;
}

Measured measure(const Options& options, const Case& which) {
  World world(MPI_COMM_WORLD, {.mesh = which.mesh, .layout = which.layout});
  Training<World> training(world, options);
  const Dims dims = dims_of(options);
  std::vector<std::int32_t> ids(static_cast<std::size_t>(options.batch * options.length));
  for (std::size_t i = 0; i < ids.size(); ++i)
    ids[i] = static_cast<std::int32_t>((i * 7919 + 13) % static_cast<std::size_t>(options.vocab));
  const auto tokens = mtf::from_global(world, ids, dims.batch, dims.length);
  const auto seconds = [&] {
    MPI_Barrier(world.comm());
    const auto begin = std::chrono::steady_clock::now();
    training.step(tokens, tokens);
    mtf::kernels::wait_for(world.engine().space());
    double mine = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    MPI_Allreduce(MPI_IN_PLACE, &mine, 1, MPI_DOUBLE, MPI_MAX, world.comm());
    return mine;
  };
  Measured result;
  for (std::int64_t i = -options.warmup; i < options.steps; ++i) {
    const double taken = seconds();
    if (i >= 0) result.steps.push_back(taken);
  }
  std::sort(result.steps.begin(), result.steps.end());

  world.start_tracing();
  for (std::int64_t i = 0; i < options.steps; ++i) result.recorded += seconds() / static_cast<double>(options.steps);
  world.stop_tracing();
  result.parts = parts_of(world, options.steps);
  double sums[2 + mtf::max_axes] = {result.parts.contractions, result.parts.local};
  for (int axis = 0; axis < result.parts.axes.size(); ++axis) sums[2 + axis] = result.parts.axes[axis];
  MPI_Allreduce(MPI_IN_PLACE, sums, 2 + result.parts.axes.size(), MPI_DOUBLE, MPI_SUM, world.comm());
  const double share = 1 / static_cast<double>(world.size());
  result.parts.contractions = sums[0] * share;
  result.parts.local = sums[1] * share;
  for (int axis = 0; axis < result.parts.axes.size(); ++axis) result.parts.axes[axis] = sums[2 + axis] * share;
  return result;
}

/// Prints the two beside each other on rank 0, and returns them as JSON.
nlohmann::json report(const Case& which, const mtf::Cost& cost, const mtf::Time& predicted, const Measured& measured,
                      bool speaks) {
  std::string text =
      fmt::format("\n{} ({} on {})\n  {:16} {:>12} {:>12}\n", which.name,
                  which.layout.empty() ? "no rules" : which.layout, which.mesh, "", "predicted ms", "measured ms");
  nlohmann::json json = {
      {"name", which.name}, {"mesh", which.mesh}, {"layout", which.layout}, {"step_seconds", measured.steps}};
  const auto part = [&](const std::string& name, double model, double real) {
    text += fmt::format("  {:16} {:12.3f} {:12.3f}\n", name, 1e3 * model, 1e3 * real);
    json["parts"][name] = {{"predicted", model}, {"measured", real}};
  };
  part("matrix products", predicted.contractions, measured.parts.contractions);
  part("other local work", predicted.local, measured.parts.local);
  for (int axis = 0; axis < predicted.axes.size(); ++axis) {
    if (cost.mesh[axis].size > 1)
      part("axis " + std::string(cost.mesh[axis].text()), predicted.axes[axis], measured.parts.axes[axis]);
  }
  const double step = measured.median();
  text += fmt::format(
      "  a step: {:.3f} to {:.3f} ms predicted, {:.3f} ms measured (median; least {:.3f}; {:.3f} with records)\n",
      1e3 * predicted.at_least(), 1e3 * predicted.at_most(), 1e3 * step, 1e3 * measured.steps.front(),
      1e3 * measured.recorded);
  text += fmt::format("  measured over predicted: {:.2f} of the largest part, {:.2f} of the sum\n",
                      step / predicted.at_least(), step / predicted.at_most());
  json["at_least"] = predicted.at_least();
  json["at_most"] = predicted.at_most();
  json["median_seconds"] = step;
  if (speaks) {
    fmt::print("{}", text);
    std::fflush(stdout);
  }
  return json;
}

std::vector<Case> cases_of(const Options& options, int ranks) {
  if (!options.layout.empty() || !options.mesh.empty()) return {{"as asked", options.mesh, options.layout}};
  const int rows = bench::rows_of_squarest_grid();
  std::vector<Case> cases{{"data-parallel", fmt::format("rows:{};cols:1", ranks), "batch:rows"},
                          {"model-parallel", fmt::format("rows:1;cols:{}", ranks), "heads:cols;d_ff:cols;vocab:cols"}};
  if (rows > 1)
    cases.push_back(
        {"both", fmt::format("rows:{};cols:{}", ranks / rows, rows), "batch:rows;heads:cols;d_ff:cols;vocab:cols"});
  return cases;
}

int start(int argc, char** argv) {
  Options options;
  CLI::App app("Predicted and measured time of a training step of the language model.");
  app.option_defaults()->always_capture_default();
  app.add_option("--machine", options.machine, "file that calibrate wrote for this machine")->required();
  app.add_option("--mesh", options.mesh, "axes and sizes; with --layout in place of the built-in layouts");
  app.add_option("--layout", options.layout, "rules such as \"batch:rows;d_ff:cols\"");
  app.add_option("--batch", options.batch, "sequences of a step")->check(CLI::PositiveNumber);
  app.add_option("--length", options.length, "tokens of a sequence")->check(CLI::PositiveNumber);
  app.add_option("--d-model", options.d_model, "width of the model")->check(CLI::PositiveNumber);
  app.add_option("--heads", options.heads, "attention heads")->check(CLI::PositiveNumber);
  app.add_option("--d-kv", options.d_kv, "width of keys and values")->check(CLI::PositiveNumber);
  app.add_option("--d-ff", options.d_ff, "width of the feed-forward layer")->check(CLI::PositiveNumber);
  app.add_option("--vocab", options.vocab, "vocabulary")->check(CLI::PositiveNumber);
  app.add_option("--layers", options.layers, "blocks of attention and feed-forward")->check(CLI::PositiveNumber);
  app.add_option("--warmup", options.warmup, "steps before those that are timed")->check(CLI::Range(1, 1000000));
  app.add_option("--steps", options.steps, "steps to time, and again with records")->check(CLI::PositiveNumber);
  app.add_option("--json", options.json, "file for the results");
  if (const std::optional<int> status = bench::parse_flags(app, argc, argv)) return *status;
  const int rank = bench::rank();
  const int ranks = bench::ranks();
  const mtf::Machine machine = mtf::read_machine(options.machine);
  nlohmann::json results = nlohmann::json::array();
  for (const Case& which : cases_of(options, ranks)) {
    const mtf::Cost cost = cost_of_step(options, which);
    results.push_back(report(which, cost, mtf::estimate(cost, machine), measure(options, which), rank == 0));
  }
  bench::write_results(options.json, results);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return mtf::run(argc, argv, [&] { return start(argc, argv); });
}
