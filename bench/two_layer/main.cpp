// Two fully-connected layers, forward and backward: what the library costs over the same work written by hand.
//
// y = relu(x w) v with x[batch, io], w[io, hidden], v[hidden, io]; loss = mean((y - t)^2); gradients of w, v and x. The
// example and its three layouts are those of Shazeer et al., Mesh-TensorFlow: Deep Learning for Supercomputers (2018).

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "../support.hpp"
#include "measure.hpp"

struct Line : mtf::Mesh<mtf::Axis<"all">> {};
struct Grid : mtf::Mesh<mtf::Axis<"rows">, mtf::Axis<"cols">> {};

struct Data : mtf::Layout<mtf::Split<"batch", "all">> {};
struct ModelParallel : mtf::Layout<mtf::Split<"hidden", "all">> {};
struct Both : mtf::Layout<mtf::Split<"batch", "rows">, mtf::Split<"hidden", "cols">> {};

namespace {

constexpr double target_ratio = 1.03;

/// The value below which a share of the (sorted) values lies, interpolated.
double quantile(const std::vector<double>& sorted, double share) {
  const double position = share * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(position);
  const std::size_t above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (position - static_cast<double>(below)) * (sorted[above] - sorted[below]);
}
double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return quantile(values, 0.5);
}

/// Ratios of times measured in turn, sorted.
std::vector<double> ratios_of(const std::vector<double>& times, const std::vector<double>& others) {
  std::vector<double> ratios;
  for (std::size_t i = 0; i < times.size(); ++i) ratios.push_back(times[i] / others[i]);
  std::sort(ratios.begin(), ratios.end());
  return ratios;
}
void print_ratios(const char* what, const std::vector<double>& ratios, const char* remark) {
  std::printf("  %-22s %.4f  quartiles %.4f %.4f  extremes %.4f %.4f%s\n", what, quantile(ratios, 0.5),
              quantile(ratios, 0.25), quantile(ratios, 0.75), ratios.front(), ratios.back(), remark);
}
nlohmann::json json_of(const std::vector<double>& ratios) {
  return {{"median", quantile(ratios, 0.5)},
          {"quartiles", {quantile(ratios, 0.25), quantile(ratios, 0.75)}},
          {"extremes", {ratios.front(), ratios.back()}}};
}

/// Prints a result, and returns it as JSON.
nlohmann::json report(const Options& options, const Result& result) {
  const std::vector<double> ratios = ratios_of(result.mtf_seconds, result.hand_seconds);
  const std::vector<double> of_value = ratios_of(result.value_seconds, result.mtf_seconds);
  // Six products of 2 batch io hidden operations, on all ranks together.
  const double operations = 12.0 * static_cast<double>(options.sizes.batch) * static_cast<double>(options.sizes.io) *
                            static_cast<double>(options.sizes.hidden);
  const double library = median(result.mtf_seconds);
  const double hand = median(result.hand_seconds);
  std::printf("\n%s (%s on %s)\n", result.of.name.c_str(), result.of.layout.c_str(), result.of.mesh.c_str());
  std::printf("  mtf      %8.2f ms  %7.1f GFLOP/s  (medians, all ranks together)\n", library * 1e3,
              operations / library * 1e-9);
  std::printf("  by hand  %8.2f ms  %7.1f GFLOP/s\n", hand * 1e3, operations / hand * 1e-9);
  print_ratios("mtf to by hand", ratios, fmt::format("  (target: at most {:.2f})", target_ratio).c_str());
  print_ratios("layout: value to type", of_value, "");
  nlohmann::json json = {{"layout", result.of.layout},
                         {"mesh", result.of.mesh},
                         {"mtf_seconds", result.mtf_seconds},
                         {"value_seconds", result.value_seconds},
                         {"hand_seconds", result.hand_seconds},
                         {"mtf_median_seconds", library},
                         {"hand_median_seconds", hand},
                         {"ratio", json_of(ratios)},
                         {"ratio_of_value_to_type", json_of(of_value)},
                         {"mtf_gflops", operations / library * 1e-9},
                         {"hand_gflops", operations / hand * 1e-9},
                         {"loss", result.loss},
                         {"relative_difference", result.difference}};
  for (const Traffic& traffic : result.traffic) {
    std::printf("  %-8s %lld bytes per step and rank, by the formula %lld%s\n", traffic.axis.c_str(),
                static_cast<long long>(traffic.counted), static_cast<long long>(traffic.expected),
                traffic.counted == traffic.expected ? "" : "  <-- DIFFERENT");
    json["bytes"][traffic.axis] = {{"counted", traffic.counted}, {"formula", traffic.expected}};
  }
  std::printf("  loss %.6f; loss and gradients of the two differ by %.1e relative%s\n",
              static_cast<double>(result.loss), result.difference,
              result.difference <= allowed_difference ? "" : "  <-- TOO MUCH");
  std::fflush(stdout);
  return json;
}

std::string variable_of_environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

bool good(const Result& result) {
  return result.difference <= allowed_difference &&
         std::all_of(result.traffic.begin(), result.traffic.end(),
                     [](const Traffic& t) { return t.counted == t.expected; });
}

int start(int argc, char** argv) {
  Options options;
  CLI::App app(
      "Two fully-connected layers, forward and backward, under three layouts, beside the same work written by hand.");
  app.option_defaults()->always_capture_default();
  app.add_option("--batch", options.sizes.batch, "rows of x")->check(CLI::PositiveNumber);
  app.add_option("--io", options.sizes.io, "width of x and y")->check(CLI::PositiveNumber);
  app.add_option("--hidden", options.sizes.hidden, "width between the layers")->check(CLI::PositiveNumber);
  app.add_option("--rounds", options.rounds, "rounds, each in memory of its own")->check(CLI::PositiveNumber);
  app.add_option("--repetitions", options.repetitions, "times that each step is timed in a round")
      ->check(CLI::PositiveNumber);
  app.add_option("--warmup", options.warmup, "of each step before them")->check(CLI::NonNegativeNumber);
  app.add_option("--seed", options.seed, "seed of the data and the weights");
  app.add_option("--json", options.json, "file for the results and all times");
  if (const std::optional<int> status = bench::parse_flags(app, argc, argv)) return *status;
  const int rank = bench::rank();
  const int ranks = bench::ranks();

  const std::string threads = variable_of_environment("OMP_NUM_THREADS");
  const int kokkos_threads = static_cast<int>(Kokkos::DefaultHostExecutionSpace().concurrency());
  if (rank == 0) {
    std::printf("two layers, forward and backward: batch %lld, io %lld, hidden %lld, float\n",
                static_cast<long long>(options.sizes.batch), static_cast<long long>(options.sizes.io),
                static_cast<long long>(options.sizes.hidden));
    std::printf("%d ranks; threads of each: %d for loops (Kokkos %s), %s for BLAS", ranks, kokkos_threads,
                Kokkos::DefaultHostExecutionSpace::name(), threads.empty() ? "its own choice" : threads.c_str());
    std::printf("\n%lld rounds of %lld of each step", static_cast<long long>(options.rounds),
                static_cast<long long>(options.repetitions));
    for (const char* name : {"OPENBLAS_CORETYPE", "GLIBC_TUNABLES"}) {
      const std::string value = variable_of_environment(name);
      if (!value.empty()) std::printf("; %s=%s", name, value.c_str());
    }
    std::printf("\n");
    std::fflush(stdout);
  }

  const int rows = bench::rows_of_squarest_grid();
  const std::string line = "all:" + std::to_string(ranks);
  const std::string grid = "rows:" + std::to_string(rows) + ";cols:" + std::to_string(ranks / rows);
  nlohmann::json json = {{"batch", options.sizes.batch},
                         {"io", options.sizes.io},
                         {"hidden", options.sizes.hidden},
                         {"ranks", ranks},
                         {"kokkos_threads", kokkos_threads},
                         {"omp_num_threads", threads},
                         {"openblas_coretype", variable_of_environment("OPENBLAS_CORETYPE")},
                         {"glibc_tunables", variable_of_environment("GLIBC_TUNABLES")},
                         {"rounds", options.rounds},
                         {"repetitions", options.repetitions},
                         {"target_ratio", target_ratio}};
  bool all_good = true;
  const auto take = [&](const Result& result) {
    all_good = all_good && good(result);
    if (rank == 0) json["layouts"][result.of.name] = report(options, result);
  };
  take(measure<Line, Data>(options, {"data", "batch:all", line, "all", "", ranks, 1}));
  take(measure<Line, ModelParallel>(options, {"model", "hidden:all", line, "", "all", 1, ranks}));
  take(measure<Grid, Both>(options, {"2-D", "batch:rows;hidden:cols", grid, "rows", "cols", rows, ranks / rows}));

  bench::write_results(options.json, json);
  return all_good ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  return mtf::run(argc, argv, [&] { return start(argc, argv); });
}
