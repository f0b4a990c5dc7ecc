// One layout: the step as an mtf program, the step by hand, checked against each other and timed in turn.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <mtf/mtf.hpp>

#include "by_hand.hpp"

struct Batch : mtf::Dim<"batch"> {};
struct Io : mtf::Dim<"io"> {};
struct Hidden : mtf::Dim<"hidden"> {};

struct Options {
  Sizes sizes;
  std::int64_t rounds = 4;
  std::int64_t repetitions = 10;
  std::int64_t warmup = 2;
  std::uint64_t seed = 1;
  std::string json;
};

/// Which layout to measure: the mesh, the axes that split the two dims (empty: none), and their sizes.
struct Case {
  std::string name;
  std::string layout;  // as text, to print
  std::string mesh;
  std::string_view batch_axis;
  std::string_view hidden_axis;
  int rows = 1;  // processors along the batch axis
  int cols = 1;  // processors along the hidden axis
};

/// Bytes that a rank contributed to allreduces along an axis in one step.
struct Traffic {
  std::string axis;
  std::int64_t counted = 0;
  std::int64_t expected = 0;
};

struct Result {
  Case of;
  std::vector<double> mtf_seconds;    // with the layout as a type
  std::vector<double> value_seconds;  // with the layout as a value
  std::vector<double> hand_seconds;
  std::vector<Traffic> traffic;
  double difference = 0;  // relative, the largest of loss and gradients
  float loss = 0;
};

inline constexpr double allowed_difference = 1e-4;

/// |a - b| / |b| in the Euclidean norm, the largest over all ranks. Collective.
inline double relative_difference(const float* a, const float* b, std::int64_t count) {
  double difference = 0;
  double norm = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    difference += (static_cast<double>(a[i]) - b[i]) * (static_cast<double>(a[i]) - b[i]);
    norm += static_cast<double>(b[i]) * b[i];
  }
  double result = std::sqrt(difference / norm);
  if (!(result < HUGE_VAL)) result = HUGE_VAL;  // NaN is a difference too
  MPI_Allreduce(MPI_IN_PLACE, &result, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  return result;
}

/// How long `step` takes on the slowest rank. Collective.
template <class Step>
double seconds(const Step& step) {
  MPI_Barrier(MPI_COMM_WORLD);
  double time = MPI_Wtime();
  step();
  time = MPI_Wtime() - time;
  MPI_Allreduce(MPI_IN_PLACE, &time, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  return time;
}

/// The step as an mtf program.
template <class World>
class TwoLayers {
 public:
  TwoLayers(const Options& options, const mtf::WorldOptions& of_world)
      : world(MPI_COMM_WORLD, of_world),
        w(mtf::variable<float>(world, "w", mtf::init::glorot, Io{options.sizes.io}, Hidden{options.sizes.hidden})),
        v(mtf::variable<float>(world, "v", mtf::init::glorot, Hidden{options.sizes.hidden}, Io{options.sizes.io})),
        x(mtf::watch(random(options, "x"))),
        t(random(options, "t")) {}

  /// Calls use(loss, dw, dv, dx): the loss and the slices of the gradients.
  template <class Use>
  void step(const Use& use) const {
    const auto h = mtf::relu(mtf::einsum<Batch, Hidden>(x, w));
    const auto y = mtf::einsum<Batch, Io>(h, v);
    const auto loss = mtf::reduce_mean(mtf::square(y - t));
    const auto [dw, dv, dx] = mtf::gradients(loss, w, v, x);
    // Looking at a gradient completes it.
    const auto local_dw = mtf::local_view(dw);
    const auto local_dv = mtf::local_view(dv);
    const auto local_dx = mtf::local_view(dx);
    use(mtf::item(loss), local_dw.view.data(), local_dv.view.data(), local_dx.view.data());
  }
  void step() const {
    step([](float, const float*, const float*, const float*) {});
  }

  World world;
  mtf::Variable<World, float, Io, Hidden> w;
  mtf::Variable<World, float, Hidden, Io> v;
  mtf::Tensor<World, float, Batch, Io> x, t;

 private:
  [[nodiscard]] mtf::Tensor<World, float, Batch, Io> random(const Options& options, const char* name) {
    return mtf::random_normal_of<float>(world, mtf::seed(options.seed) / name, 0, 1, Batch{options.sizes.batch},
                                        Io{options.sizes.io});
  }
};

/// One round of steps with memory of its own, added to `result`: by hand, and with the layout as a type and as a value.
/// Which physical pages a matrix gets changes the time of a product by several percent either way, for all alike: hence
/// several rounds, in which the code by hand takes its memory first every other time.
template <class Mesh, class Layout>
void measure(const Options& options, std::int64_t round, Result& result) {
  // By-hand code runs on the host, so all do.
  using Space = Kokkos::DefaultHostExecutionSpace;
  const Case& which = result.of;
  std::optional<TwoLayersByHand> by_hand_memory;
  const auto take_memory = [&] { by_hand_memory.emplace(MPI_COMM_WORLD, options.sizes, which.rows, which.cols); };
  if (round % 2 != 0) take_memory();
  TwoLayers<mtf::World<Mesh, Layout, Space>> typed(options, {.mesh = which.mesh, .seed = options.seed});
  if (!by_hand_memory) take_memory();
  const TwoLayers<mtf::World<mtf::dynamic_mesh, mtf::dynamic_layout, Space>> as_value(
      options, {.mesh = which.mesh, .layout = which.layout, .seed = options.seed});
  TwoLayersByHand& by_hand = *by_hand_memory;
  const auto copy = [](const auto& from, Matrix& to) {
    std::copy_n(mtf::local_view(from).view.data(), to.size(), to.data());
  };
  copy(typed.x, by_hand.x);
  copy(typed.t, by_hand.t);
  copy(typed.w, by_hand.w);
  copy(typed.v, by_hand.v);

  typed.world.counters().reset();
  const auto compare = [&](float loss, const float* dw, const float* dv, const float* dx) {
    const float loss_by_hand = by_hand.step();
    result.loss = loss;
    result.difference = std::max({result.difference, relative_difference(&loss, &loss_by_hand, 1),
                                  relative_difference(dw, by_hand.dw.data(), by_hand.dw.size()),
                                  relative_difference(dv, by_hand.dv.data(), by_hand.dv.size()),
                                  relative_difference(dx, by_hand.dx.data(), by_hand.dx.size())});
  };
  typed.step(compare);
  // Along an axis of one processor nothing is sent.
  result.traffic.clear();
  const auto expect = [&](std::string_view axis, int processors, std::int64_t elements) {
    if (processors == 1) return;
    result.traffic.push_back(
        {std::string(axis), typed.world.totals(axis).bytes, elements * static_cast<std::int64_t>(sizeof(float))});
  };
  expect(which.batch_axis, which.rows,
         2 * options.sizes.io * options.sizes.hidden / which.cols + 1);                            // dw, dv; the loss
  expect(which.hidden_axis, which.cols, 2 * options.sizes.batch * options.sizes.io / which.rows);  // y, dx
  as_value.step(compare);

  for (std::int64_t i = -options.warmup; i < options.repetitions; ++i) {
    // Each of the three goes first every third time.
    double times[3];
    for (std::int64_t turn = 0; turn < 3; ++turn) {
      const std::int64_t now = (i + options.warmup + turn) % 3;
      times[now] = seconds([&] {
        if (now == 0) typed.step();
        if (now == 1) as_value.step();
        if (now == 2) by_hand.step();
      });
    }
    if (i < 0) continue;
    result.mtf_seconds.push_back(times[0]);
    result.value_seconds.push_back(times[1]);
    result.hand_seconds.push_back(times[2]);
  }
}

template <class Mesh, class Layout>
Result measure(const Options& options, const Case& which) {
  Result result;
  result.of = which;
  for (std::int64_t round = 0; round < options.rounds; ++round) measure<Mesh, Layout>(options, round, result);
  return result;
}
