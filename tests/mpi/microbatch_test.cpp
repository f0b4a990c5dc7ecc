// Training steps in parts: the same step, less memory, no more allreduces of gradients.
#include <optional>

#include "support.hpp"
#include "world_news.hpp"

using namespace support;

namespace {

const A batch{48};  // of the whole; parts are smaller
const std::initializer_list<std::string_view> layouts{
    "", "a:rows", "k:cols", "a:rows;k:cols", "b:rows,cols", "a:cols;b:rows"};

struct Model {
  mtf::Variable<World, double, K, B> w;
  mtf::Variable<World, double, B> bias;
  explicit Model(World& world)
      : w(mtf::variable<double>(world, "w", mtf::init::normal(0.3), k, b)),
        bias(mtf::variable<double>(world, "bias", mtf::init::normal(0.3), b)) {}
  template <class X>
  auto operator()(const X& x) const {
    const auto h = mtf::tanh(mtf::einsum<A, B>(x, w) + bias);
    return mtf::dropout<A, B>(h, 0.25, mtf::seed{5} / "dropout");
  }
};

struct Step {
  std::vector<Host> gradients;
  Host loss, predictions, columns;
};

void keep_gradients(World& world, const mtf::VariableGradients& gradients, Step& result) {
  for (std::size_t i = 0; i < gradients.variables.size(); ++i) {
    result.gradients.push_back(mtf::detail::gather_to_host<double>(world.engine(), *gradients.value(i)));
  }
}

Step whole_step(World& world) {
  const Model model(world);
  const auto y = model(normal(world, 1, batch, k));
  const auto errors = mtf::square(y - normal(world, 2, batch, b));
  const auto loss = mtf::reduce_mean(errors);
  Step result{.gradients = {}, .loss = host(loss), .predictions = host(y), .columns = host(mtf::reduce_sum<A>(errors))};
  keep_gradients(world, mtf::gradients_of_variables(world, loss), result);
  return result;
}

Step step_in_parts(World& world, std::int64_t rows) {
  const Model model(world);
  const auto [gradients, loss, predictions, columns] = mtf::serialize_training_step(
      world, A{rows},
      [&](mtf::Microbatch part, const auto& x, const auto& target) {
        const auto y = model(x);
        const auto errors = mtf::square(y - target);
        return std::tuple(mtf::reduce_mean(errors) / part.count, y, mtf::reduce_sum<A>(errors));
      },
      normal(world, 1, batch, k), normal(world, 2, batch, b));
  Step result{.gradients = {}, .loss = host(loss), .predictions = host(predictions), .columns = host(columns)};
  keep_gradients(world, gradients, result);
  return result;
}

}  // namespace

TEST_CASE("a step in parts is the step of the whole batch, dropout included, under every layout") {
  std::optional<Step> expected;
  for_each_layout(layouts, [&](const Pair& pair) {
    if (!legal(pair.world, mtf::Shape(batch, k, b).value())) return;
    if (!expected) {
      World alone(MPI_COMM_SELF, {.mesh = "rows:1;cols:1"});
      expected = whole_step(alone);
    }
    for (const std::int64_t rows : {48, 24, 16, 8}) {
      World world(MPI_COMM_WORLD, {.mesh = fmt::format("rows:{};cols:{}", pair.world.mesh().axes[0].size,
                                                       pair.world.mesh().axes[1].size),
                                   .layout = pair.place.substr(pair.place.find("layout ") + 7)});
      if (!legal(world, mtf::Shape(A{rows}).value())) {
        CHECK_THROWS_AS(step_in_parts(world, rows), mtf::plan_error);
        continue;
      }
      const Step got = step_in_parts(world, rows);
      check_close(got.loss, expected->loss, 1e-13, pair.place + ", loss");
      check_close(got.predictions, expected->predictions, 1e-13, pair.place + ", predictions");
      check_close(got.columns, expected->columns, 1e-12, pair.place + ", sums");
      REQUIRE(got.gradients.size() == expected->gradients.size());
      for (std::size_t i = 0; i < got.gradients.size(); ++i) {
        check_close(got.gradients[i], expected->gradients[i], 1e-12, pair.place + ", gradient " + std::to_string(i));
      }
      CHECK(world.verify_replicas());
    }
  });
}

TEST_CASE("part m takes rows m, m + count, ...; integers and dims before the batch move too") {
  World world(MPI_COMM_WORLD, {.mesh = mesh_text(ranks(), 1), .layout = "a:rows"});
  const auto w = mtf::variable<double>(world, "w", mtf::init::ones);
  const auto ids = mtf::cast<std::int32_t>(mtf::broadcast(mtf::range<double>(world, A{32}), C{3}));  // [c, a]
  const auto scale = mtf::range<double>(world, C{3});
  Host seen;
  const auto [gradients, loss, same] = mtf::serialize_training_step(
      world, A{8},
      [&](mtf::Microbatch part, const auto& n, const auto& s) {
        CHECK(part.count == 4);
        for (const double id : host(n)) seen.push_back(id);
        CHECK(host(s) == Host{0, 1, 2});
        return std::tuple(mtf::reduce_sum(mtf::cast<double>(n)) * w, n + n);
      },
      ids, scale);
  CHECK(host(same) == host(ids * 2));
  REQUIRE(seen.size() == 4 * 3 * 8);
  for (std::size_t i = 0; i < seen.size(); ++i) CHECK(seen[i] == static_cast<double>(i % 8 * 4 + i / 24));
  CHECK(mtf::item(loss) == 3 * 31 * 16);
  CHECK(mtf::detail::gather_to_host<double>(world.engine(), *gradients.value(0)) == Host{3 * 31 * 16});
}

TEST_CASE("one allreduce for each variable and one of the loss, however many parts") {
  if (ranks() == 1) return;
  for (const std::int64_t rows : {48, 24, 8}) {
    World world(MPI_COMM_WORLD, {.mesh = mesh_text(ranks(), 1), .layout = "a:rows"});
    const Model model(world);
    const auto x = normal(world, 1, batch, k);
    watch_collectives(world);
    const auto [gradients, loss] = mtf::serialize_training_step(
        world, A{rows},
        [&](mtf::Microbatch part, const auto& u) { return mtf::reduce_mean(mtf::square(model(u))) / part.count; }, x);
    CHECK(collectives(world).empty());
    mtf::Sgd<World, double>(world).apply(gradients, 0.1);
    (void)mtf::item(loss);
    CHECK(joined(collectives(world)) ==
          "allreduce over rows of 384; allreduce over rows of 16; allreduce over rows of 1");
  }
}

TEST_CASE("parts need less memory") {
  const auto peak = [](std::int64_t rows) {
    World world(MPI_COMM_SELF, {.mesh = "rows:1;cols:1"});
    const Model model(world);
    const auto x = normal(world, 1, A{1024}, k);
    world.engine().pool().reset_peak();
    const std::int64_t before = world.engine().pool().live_bytes();
    (void)mtf::serialize_training_step(
        world, A{rows},
        [&](mtf::Microbatch part, const auto& u) { return mtf::reduce_mean(mtf::square(model(u))) / part.count; }, x);
    return world.engine().pool().peak_bytes() - before;
  };
  CHECK(peak(64) * 6 < peak(1024));
}

TEST_CASE("what cannot be split, and variables without a gradient, are errors by name; the world stays usable") {
  World world(MPI_COMM_WORLD, {.mesh = mesh_text(ranks(), 1), .layout = "a:rows"});
  const Model model(world);
  const auto x = normal(world, 1, batch, k);
  const auto loss = [&](mtf::Microbatch, const auto& u) { return mtf::reduce_mean(model(u)); };
  CHECK_THROWS_WITH_AS(mtf::serialize_training_step(world, A{32}, loss, x), doctest::Contains("48"), mtf::plan_error);
  if (ranks() > 1)
    CHECK_THROWS_WITH_AS(mtf::serialize_training_step(world, A{1}, loss, x), doctest::Contains("\"a\""),
                         mtf::plan_error);
  CHECK_THROWS_WITH_AS(mtf::serialize_training_step(world, A{8}, loss, mtf::watch(x)),
                       doctest::Contains("inside the function"), mtf::plan_error);
  const auto two = [&](mtf::Microbatch, const auto& u, const auto&) { return mtf::reduce_mean(model(u)); };
  CHECK_THROWS_WITH_AS(mtf::serialize_training_step(world, A{8}, two, x, normal(world, 2, A{32})),
                       doctest::Contains("extents 48 and 32"), mtf::plan_error);
  const auto nested = [&](mtf::Microbatch, const auto& u) {
    return std::get<1>(mtf::serialize_training_step(world, A{8}, loss, u)) + mtf::reduce_mean(model(u));
  };
  CHECK_THROWS_WITH_AS(mtf::serialize_training_step(world, A{8}, nested, x), doctest::Contains("nest"),
                       mtf::plan_error);
  [[maybe_unused]] const auto spare = mtf::variable<double>(world, "module/spare", mtf::init::ones, b);
  CHECK_THROWS_WITH_AS(mtf::serialize_training_step(world, A{8}, loss, x), doctest::Contains("\"module/spare\""),
                       mtf::plan_error);
  const auto [gradients, value] = mtf::serialize_training_step(world, A{8}, loss, mtf::unused::zeros, x);
  CHECK(!gradients.values[2]);
  CHECK(std::isfinite(mtf::item(value)));
  CHECK(host(normal(world, 9, batch)) == [] {
    World alone(MPI_COMM_SELF, {.mesh = "rows:1;cols:1"});
    return host(normal(alone, 9, batch));
  }());
}

TEST_CASE(
    "a warmed-up step in parts, run again and in bfloat16, takes no memory from Kokkos and calls no operator new") {
  for (const std::string_view layout : {"", "a:rows", "a:rows;b:cols", "k:cols"}) {
    World world(MPI_COMM_WORLD,
                {.mesh = ranks() % 2 == 0 ? mesh_text(ranks() / 2, 2) : mesh_text(1, 1), .layout = layout});
    const auto w =
        mtf::variable<mtf::ElementTypes<float, float, mtf::bfloat16>>(world, "w", mtf::init::normal(0.1), k, b);
    mtf::Adam<World, float> adam(world);
    const auto step = [&](std::uint64_t number) {
      const auto x = mtf::random_normal_of<mtf::bfloat16>(world, mtf::seed{number}, 0, 1, batch, k);
      const auto [gradients, loss] = mtf::serialize_training_step(
          world, A{24},
          [&](mtf::Microbatch part, const auto& u) {
            const auto y =
                mtf::recompute([w](const auto& input) { return mtf::softmax<B>(mtf::einsum<A, B>(input, w)); }, u);
            return mtf::reduce_mean(mtf::square(mtf::clip_activation_gradient(mtf::cast<float>(y), 0.1))) / part.count;
          },
          x);
      adam.apply(gradients, 0.01);
    };
    for (std::uint64_t number = 0; number < 5; ++number) step(number);
    const std::int64_t allocations = world.engine().pool().allocations();
    const std::int64_t live = world.engine().pool().live_bytes();
    const std::int64_t before = news();
    for (std::uint64_t number = 5; number < 15; ++number) step(number);
    const std::int64_t during = news() - before;
    CHECK(world.engine().pool().allocations() == allocations);
    CHECK(world.engine().pool().live_bytes() == live);
    CHECK(during == 0);
    CHECK(world.verify_replicas());
  }
}
