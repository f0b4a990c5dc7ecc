// Measures the constants of the time model (mtf/plan/time.hpp) on the present machine and writes them as a Machine in
// JSON.
//
// All ranks measure at the same time, as they work at the same time in a program: they share memory and caches. Of
// every quantity the least of several samples counts, each the slowest rank's: what disturbs a measurement can only
// lengthen it.

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
#include "fit.hpp"

namespace {

struct Rows : mtf::Dim<"m"> {};
struct Cols : mtf::Dim<"n"> {};
struct Summed : mtf::Dim<"k"> {};
struct Elements : mtf::Dim<"elements"> {};

using World = mtf::World<mtf::dynamic_mesh, mtf::dynamic_layout>;

struct Options {
  std::string mesh;
  std::string json;
  std::int64_t samples = 9;
  double sample_seconds = 0.01;
  std::int64_t largest_product = 1024;     // rows and columns
  std::int64_t largest_map = 1 << 22;      // elements
  std::int64_t largest_message = 1 << 22;  // elements
};

/// Seconds of one call of `work`, see above. Collective.
template <class F>
double seconds_of(World& world, const Options& options, const F& work) {
  const auto sample = [&](std::int64_t repetitions) {
    MPI_Barrier(world.comm());
    const auto begin = std::chrono::steady_clock::now();
    for (std::int64_t i = 0; i < repetitions; ++i) work();
    mtf::kernels::wait_for(world.engine().space());
    double mine = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    MPI_Allreduce(MPI_IN_PLACE, &mine, 1, MPI_DOUBLE, MPI_MAX, world.comm());
    return mine;
  };
  std::int64_t repetitions = 1;
  for (double taken = sample(1); taken < options.sample_seconds; taken = sample(repetitions)) repetitions *= 2;
  double least = sample(repetitions);
  for (std::int64_t i = 1; i < options.samples; ++i) least = std::min(least, sample(repetitions));
  return least / static_cast<double>(repetitions);
}

/// A table on rank 0, and the same as JSON.
class Report {
 public:
  explicit Report(World& world) : speaks_(world.rank() == 0) {}

  nlohmann::json json = nlohmann::json::object();

  void line(const std::string& text) const {
    if (!speaks_) return;
    fmt::print("{}\n", text);
    std::fflush(stdout);
  }
  /// Points with a text for each, and how well the fit meets them.
  void add(const std::string& name, const std::vector<Point>& points, const std::vector<std::string>& texts,
           const Fit& fit) {
    const Errors apart = errors(points, fit);
    line(fmt::format("{}: relative errors {:.0f} % in the mean (root of squares), {:.0f} % at most", name,
                     100 * apart.mean, 100 * apart.largest));
    nlohmann::json entries = nlohmann::json::array();
    for (std::size_t i = 0; i < points.size(); ++i) {
      line(fmt::format("  {:46} {:12.2f} us measured {:12.2f} us fitted  {:+5.0f} %", texts[i], 1e6 * points[i].seconds,
                       1e6 * fit.seconds(points[i]), 100 * (fit.ratio(points[i]) - 1)));
      entries.push_back({{"what", texts[i]}, {"seconds", points[i].seconds}, {"fitted", fit.seconds(points[i])}});
    }
    json[name] = {{"points", entries}, {"mean_relative_error", apart.mean}, {"largest_relative_error", apart.largest}};
  }

 private:
  bool speaks_;
};

/// Local work of several kinds on arrays of growing sizes: launch and memory. How many plans a kind runs and how many
/// bytes their slices have, its records say. An exponential takes thirty times as long as a sum of as many bytes: the
/// rate is that of as many elements of each kind.
void measure_local_work(World& world, const Options& options, mtf::Machine& machine, Report& report) {
  std::vector<Point> points, short_times, long_times;
  std::vector<std::string> texts;
  constexpr std::int64_t smallest = 16;
  const auto measure = [&](const char* kind, std::int64_t n, const auto& work) {
    work();  // takes memory, and makes what the optimizer keeps
    world.start_tracing();
    work();
    world.stop_tracing();
    Point point;
    for (const mtf::Record& record : world.records()) {
      ++point.first;
      point.second += static_cast<double>(record.bytes);
    }
    point.seconds = seconds_of(world, options, work);
    points.push_back(point);
    if (n == smallest) short_times.push_back(point);
    if (n >= 1 << 16) long_times.push_back(point);
    texts.push_back(fmt::format("{} of {} floats, {:.2f} GB/s", kind, n, point.second / point.seconds * 1e-9));
  };
  for (std::int64_t n = smallest; n <= options.largest_map; n *= 16) {
    const auto x = mtf::watch(mtf::random_normal_of<float>(world, mtf::seed{1}, 0, 1, Elements{n}));
    const auto y = mtf::random_normal_of<float>(world, mtf::seed{2}, 0, 1, Elements{n});
    const auto w = mtf::variable<float>(world, mtf::Scope("w") / n, mtf::init::zeros, Elements{n});
    mtf::Adam<World, float> adam(world);
    measure("sum", n, [&] { (void)(y + y); });
    measure("exponential", n, [&] { (void)mtf::exp(y); });
    measure("reduction", n, [&] { (void)mtf::reduce_max(y); });
    measure("gradient of a product", n, [&] { (void)mtf::gradients(mtf::reduce_sum(x * y), x); });
    measure("Adam", n, [&] {
      mtf::VariableGradients gradients;
      gradients.variables.push_back(mtf::Ref<mtf::VariableState>(&w.state()));
      gradients.values.push_back(y.array().value);
      adam.apply(gradients, 0);
    });
  }
  const Fit found = fit_sums(short_times, long_times);
  report.add("local work", points, texts, found);
  machine.seconds_per_operation = found.a;
  if (found.b > 0) machine.bytes_per_second = 1 / found.b;
}

/// Square products of growing sizes, after launches are known: multiply-adds per second.
template <class T>
double measure_products(World& world, const Options& options, double launch, const char* name, Report& report) {
  std::vector<Point> points;
  std::vector<std::string> texts;
  for (std::int64_t n = 32; n <= options.largest_product; n *= 2) {
    const auto a = mtf::ones<T>(world, Rows{n}, Summed{n});
    const auto b = mtf::ones<T>(world, Summed{n}, Cols{n});
    const double seconds = seconds_of(world, options, [&] { (void)mtf::einsum<Rows, Cols>(a, b); });
    const auto size = static_cast<double>(n);
    points.push_back({1, size * size * size, seconds});
    texts.push_back(fmt::format("{0} x {0} x {0}, {1:.1f} GFLOP/s", n, 2 * points.back().second / seconds * 1e-9));
  }
  const Fit found = fit_second(points, std::min(launch, points[0].seconds / 2));
  report.add(std::string("products of ") + name, points, texts, found);
  return 1 / found.b;
}

/// Allreduces in groups of every size that divides the axis, of neighbours along it: latency and bandwidth.
void measure_axis(const mtf::MeshValue& mesh, int axis, const Options& options, std::vector<Point>& points,
                  std::vector<std::string>& texts) {
  const std::int64_t size = mesh.axes[axis].size;
  const std::string name(mesh.axes[axis].name.text);
  for (std::int64_t members = 2; members <= size; ++members) {
    if (size % members != 0) continue;
    std::string text;
    for (int i = 0; i < mesh.rank(); ++i) {
      const std::string other(mesh.axes[i].name.text);
      if (i == axis) {
        text += fmt::format("{}'s groups:{};{}:{};", other, size / members, other, members);
      } else {
        text += fmt::format("{}:{};", other, mesh.axes[i].size);
      }
    }
    World world(MPI_COMM_WORLD, {.mesh = text});
    auto& engine = world.engine();
    const mtf::AxisSet along = mtf::AxisSet::of(world.mesh().find(mtf::Name(name)));
    for (std::int64_t n = 1; n <= options.largest_message; n *= 8) {
      const mtf::CollectivePlan plan{.collective = mtf::Collective::all_reduce,
                                     .axes = along,
                                     .count = n,
                                     .type = mtf::ElementType::float32,
                                     .operation = "calibrate"};
      const auto zeros = mtf::zeros<float>(world, Elements{n});
      mtf::Block& block = *zeros.array().value->block;
      const double seconds = seconds_of(world, options, [&] { engine.communicate(plan, block, block); });
      const double wire = mtf::wire_elements(plan, members) * sizeof(float);
      points.push_back({static_cast<double>(mtf::detail::message_steps(plan.collective, members)), wire, seconds});
      texts.push_back(fmt::format("{} ranks, {} floats, {:.2f} GB/s", members, n, wire / seconds * 1e-9));
    }
  }
}

[[nodiscard]] mtf::AxisSpeed speed_of(const Fit& found, std::string_view axis) {
  return {axis, found.a, found.b > 0 ? 1 / found.b : mtf::AxisSpeed().bytes_per_second};
}

int start(int argc, char** argv) {
  Options options;
  CLI::App app("Measures the constants of the time model on this machine, by the ranks it is started on.");
  app.option_defaults()->always_capture_default();
  app.add_option(
      "--mesh", options.mesh,
      "axes and sizes, \"rows:2;cols:2\", whose product is the number of ranks; by default one axis \"all\"");
  app.add_option("--json", options.json, "file for the machine and what was measured");
  app.add_option("--samples", options.samples, "of each time, the least of which counts")->check(CLI::PositiveNumber);
  app.add_option("--sample-seconds", options.sample_seconds, "that a sample takes at least, by repetition")
      ->check(CLI::PositiveNumber);
  app.add_option("--largest-product", options.largest_product, "rows and columns of the largest matrices")
      ->check(CLI::Range(32, 1 << 15));
  app.add_option("--largest-map", options.largest_map, "elements of the largest arrays of local work")
      ->check(CLI::Range(1 << 16, 1 << 28));
  app.add_option("--largest-message", options.largest_message, "elements of the largest allreduce")
      ->check(CLI::Range(8, 1 << 28));
  if (const std::optional<int> status = bench::parse_flags(app, argc, argv)) return *status;
  const int rank = bench::rank();
  const int ranks = bench::ranks();
  if (options.mesh.empty()) options.mesh = fmt::format("all:{}", ranks);

  World world(MPI_COMM_WORLD, {.mesh = options.mesh});
  Report report(world);
  report.line(fmt::format("{} ranks, mesh {}, {} threads each ({})", ranks, mtf::describe(world.mesh()),
                          Kokkos::DefaultExecutionSpace().concurrency(), Kokkos::DefaultExecutionSpace::name()));
  mtf::Machine machine;
  measure_local_work(world, options, machine, report);
  machine.float_multiply_adds_per_second =
      measure_products<float>(world, options, machine.seconds_per_operation, "float", report);
  machine.double_multiply_adds_per_second =
      measure_products<double>(world, options, machine.seconds_per_operation, "double", report);

  std::vector<Point> all;
  const mtf::MeshValue mesh = world.mesh();
  for (int axis = 0; axis < mesh.rank(); ++axis) {
    const std::string name(mesh.axes[axis].name.text);
    std::vector<Point> points;
    std::vector<std::string> texts;
    measure_axis(mesh, axis, options, points, texts);
    if (points.empty()) {
      report.line(fmt::format("axis \"{}\" has one rank: nothing to measure", name));
      continue;
    }
    const Fit found = fit(points);
    report.add(fmt::format("allreduces along \"{}\"", name), points, texts, found);
    machine.axes.push_back(speed_of(found, name));
    all.insert(all.end(), points.begin(), points.end());
  }
  if (!all.empty()) machine.any_axis = speed_of(fit(all), "");

  report.line(
      fmt::format("\nmultiply-adds per second {:.3g} in float, {:.3g} in double; memory {:.3g} bytes per second; "
                  "{:.2f} us for each plan",
                  machine.float_multiply_adds_per_second, machine.double_multiply_adds_per_second,
                  machine.bytes_per_second, 1e6 * machine.seconds_per_operation));
  for (const mtf::AxisSpeed& speed : machine.axes) {
    report.line(fmt::format("axis \"{}\": latency {:.2f} us, {:.3g} bytes per second", speed.text(),
                            1e6 * speed.latency, speed.bytes_per_second));
  }
  if (all.empty()) report.line("no axis has more than one rank: what the file says of communication is a guess");
  if (!options.json.empty() && rank == 0) {
    report.json["ranks"] = ranks;
    report.json["threads"] = Kokkos::DefaultExecutionSpace().concurrency();
    report.json["mesh"] = options.mesh;
    mtf::write_machine(options.json, machine, report.json);
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return mtf::run(argc, argv, [&] { return start(argc, argv); });
}
