// The time model: its parts against the formulas, written out, and the published numbers of the large language model.
#include <string>

#include <doctest/doctest.h>

#include <mtf/model.hpp>
#include <mtf/plan/time.hpp>

namespace {

struct Batch : mtf::Dim<"batch", 64> {};
struct Io : mtf::Dim<"io", 1024> {};
struct Hidden : mtf::Dim<"hidden", 4096> {};
struct Mesh : mtf::Mesh<mtf::Axis<"rows", 2>, mtf::Axis<"cols", 8>> {};
struct Layout : mtf::Layout<mtf::Split<"batch", "rows">, mtf::Split<"hidden", "cols">> {};

constexpr auto two_layers = [](auto& world) {
  auto w = mtf::variable<float, Io, Hidden>(world, "w", mtf::init::zeros);
  auto v = mtf::variable<float, Hidden, Io>(world, "v", mtf::init::zeros);
  auto x = mtf::placeholder<float>(world, Batch{}, Io{});
  auto y = mtf::einsum<Batch, Io>(mtf::relu(mtf::einsum<Batch, Hidden>(x, w)), v);
  mtf::Sgd<std::remove_reference_t<decltype(world)>, float> sgd(world);
  sgd.apply(mtf::gradients_of_variables(world, mtf::reduce_mean(mtf::square(y))), 0.1);
};

constexpr mtf::Machine machine_of_two() {
  mtf::Machine machine;
  machine.float_multiply_adds_per_second = 2e9;
  machine.bytes_per_second = 1e9;
  machine.seconds_per_operation = 0;
  machine.axes.push_back(mtf::AxisSpeed("rows", 1e-3, 4e6));
  machine.axes.push_back(mtf::AxisSpeed("cols", 5e-3, 1e6));
  return machine;
}
constexpr mtf::Time two_layers_time = mtf::estimate(mtf::cost<Mesh, Layout>(two_layers), machine_of_two());

constexpr bool close(double a, double b) { return (a > b ? a - b : b - a) <= 1e-12 * (a + b); }
// Five products of 32 x 1024 x 512 multiply-adds.
static_assert(close(two_layers_time.contractions, 5 * 32.0 * 1024 * 512 / 2e9));
// y over cols: one allreduce of 32 x 1024 floats among 8, three messages after each other, 2 (8-1)/8 of the bytes.
static_assert(close(two_layers_time.axes[1], 3 * 5e-3 + 2 * 7.0 / 8 * 4 * 32 * 1024 / 1e6));
// dw and dv over rows: two allreduces of 1024 x 512 floats between 2.
static_assert(close(two_layers_time.axes[0], 2 * (1e-3 + 2 * 1.0 / 2 * 4 * 1024 * 512 / 4e6)));
static_assert(close(two_layers_time.at_least(), two_layers_time.axes[0]));
static_assert(close(two_layers_time.at_most(), two_layers_time.contractions + two_layers_time.local +
                                                   two_layers_time.axes[0] + two_layers_time.axes[1]));

mtf::Cost cost_of(std::string_view mesh, std::initializer_list<mtf::CollectivePlan> plans) {
  mtf::Violations none;
  const mtf::MeshValue value = mtf::parse_mesh(mesh, none);
  mtf::Cost cost(value);
  for (const mtf::CollectivePlan& plan : plans) cost.add(plan);
  return cost;
}

}  // namespace

TEST_CASE("the time in a constant expression is that at run time") {
  const mtf::Time time = mtf::estimate(mtf::cost<Mesh, Layout>(two_layers), machine_of_two());
  CHECK(time.at_most() == doctest::Approx(two_layers_time.at_most()));
  CHECK(time.at_least() == doctest::Approx(two_layers_time.at_least()));
}

TEST_CASE("local work takes the bytes of its slices, and every plan a launch") {
  mtf::Cost cost;
  cost.add(mtf::LocalWork{.plan = "map", .type = mtf::ElementType::float32, .work = 100, .bytes = 3000});
  cost.add(mtf::LocalWork{.plan = "reduce", .type = mtf::ElementType::float32, .work = 100, .bytes = 500});
  cost.add(mtf::LocalWork{.plan = mtf::contraction_name,
                          .type = mtf::ElementType::float64,
                          .is_contraction = true,
                          .work = 7000,
                          .bytes = 100});
  cost.add(mtf::LocalWork{.plan = mtf::contraction_name,
                          .type = mtf::ElementType::float32,
                          .is_contraction = true,
                          .work = 600,
                          .bytes = 100});
  mtf::Machine machine;
  machine.bytes_per_second = 1000;
  machine.seconds_per_operation = 0.25;
  machine.double_multiply_adds_per_second = 1000;
  machine.float_multiply_adds_per_second = 2000;
  const mtf::Time time = mtf::estimate(cost, machine);
  CHECK(time.local == doctest::Approx(3.5 + 2 * 0.25));
  CHECK(time.contractions == doctest::Approx(7 + 0.3 + 2 * 0.25));
  CHECK(time.communication() == 0);
  CHECK(time.at_least() == doctest::Approx(7.8));
  CHECK(time.at_most() == doctest::Approx(11.8));
}

TEST_CASE("the steps of a collective are the logarithm of its group, rounded up") {
  using mtf::Collective;
  for (const auto& [members, steps] : {std::pair{1, 0}, {2, 1}, {3, 2}, {4, 2}, {5, 3}, {8, 3}, {9, 4}, {512, 9}}) {
    CAPTURE(members);
    CHECK(mtf::detail::message_steps(Collective::all_reduce, members) == steps);
    CHECK(mtf::detail::message_steps(Collective::shift, members) == (members > 1 ? 1 : 0));
  }
}

TEST_CASE("a group along several axes is one flat group at the speed of the slowest") {
  mtf::Machine machine;
  machine.any_axis = mtf::AxisSpeed("", 1, 1e3);
  machine.axes.push_back(mtf::AxisSpeed("fast", 0.5, 1e6));
  machine.axes.push_back(mtf::AxisSpeed("distant", 8, 1e5));
  const mtf::AxisSet fast = mtf::AxisSet::of(0);
  const mtf::AxisSet distant = mtf::AxisSet::of(1);
  const mtf::AxisSet unnamed = mtf::AxisSet::of(2);
  const auto time = [&](mtf::AxisSet axes) {
    return mtf::estimate(cost_of("fast:4;distant:2;unnamed:3;single:1", {{.collective = mtf::Collective::all_reduce,
                                                                          .axes = axes,
                                                                          .count = 1000,
                                                                          .type = mtf::ElementType::float64}}),
                         machine);
  };
  const auto wire = [](double p) { return 2 * (p - 1) / p * 8000; };
  CHECK(time(fast).axes[0] == doctest::Approx(2 * 0.5 + wire(4) / 1e6));
  CHECK(time(fast).at_most() == doctest::Approx(time(fast).axes[0]));
  CHECK(time(unnamed).axes[2] == doctest::Approx(2 * 1 + wire(3) / 1e3));
  CHECK(time(fast | distant).axes[1] == doctest::Approx(3 * 8 + wire(8) / 1e5));
  CHECK(time(fast | distant).axes[0] == 0);
  CHECK(time(fast | distant | unnamed).axes[2] == doctest::Approx(5 * 8 + wire(24) / 1e3));
  CHECK(time(mtf::AxisSet::of(3)).at_most() == 0);
  CHECK(time(fast | mtf::AxisSet::of(3)).at_most() == doctest::Approx(time(fast).at_most()));
}

TEST_CASE("the 4.9B language model on 16x32 takes the published seconds on its hardware") {
  mtf::DryRun<mtf::dynamic_mesh, mtf::dynamic_layout> world(
      {.mesh = "rows:16;cols:32", .layout = "batch:rows;heads:cols;d_ff:cols;vocab:cols"});
  using World = decltype(world);
  const mtf::LanguageModelDims dims{{256}, {256}, {256}, {1024}, {256}, {256}, {262144}, {32768}};
  const mtf::LanguageModel<World, float, mtf::LanguageModelDims> model(world, dims, {.layers = 6});
  const auto inputs = mtf::placeholder<std::int32_t>(world, dims.batch, dims.length);
  const auto targets = mtf::placeholder<std::int32_t>(world, dims.batch, dims.length);
  mtf::Adam<World, float> adam(world);
  adam.apply(mtf::gradients_of_variables(world, model.loss(inputs, targets, true, mtf::seed{1})), 0.1);
  const mtf::Cost cost = world.cost();
  // 3 T [L (4 d HK + 2 d F + 2 S HK) + d V] multiply-adds, forward and two gradients, all distinct, none repeated.
  constexpr std::int64_t tokens = 256 * 256;
  constexpr std::int64_t hk = 256 * 256;
  constexpr std::int64_t model_work =
      3 * tokens * (6 * (4 * 1024 * hk + 2 * 1024 * 262144LL + 2 * 256 * hk) + 1024 * 32768LL);
  CHECK(cost.distinct_multiply_adds() == model_work);
  CHECK(cost.multiply_adds() * cost.processors() == model_work);

  mtf::Machine tpu;  // 512 cores of 11.5 PFLOP/s together; 496 Gbit/s a direction, both directions of a ring
  tpu.float_multiply_adds_per_second = 11.5e15 / 512 / 2;
  tpu.seconds_per_operation = 0;
  tpu.any_axis = mtf::AxisSpeed("", 0, 2 * 496e9 / 8);
  const mtf::Time time = mtf::estimate(cost, tpu);
  CHECK(time.contractions == doctest::Approx(0.1732).epsilon(3e-4));
  CHECK(time.communication() == doctest::Approx(0.0161).epsilon(3e-3));
}
