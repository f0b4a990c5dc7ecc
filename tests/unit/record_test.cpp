// Records: to which operation each belongs, what split a product, nothing kept unless asked.
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <mtf/model.hpp>

namespace {

struct Rows : mtf::Dim<"r", 8> {};
struct Cols : mtf::Dim<"c", 16> {};
struct Out : mtf::Dim<"o", 4> {};
struct Free : mtf::Dim<"f", 8> {};
struct Mesh : mtf::Mesh<mtf::Axis<"x", 2>, mtf::Axis<"y", 4>> {};
struct Layout : mtf::Layout<mtf::Split<"r", "x">, mtf::Split<"c", "y">> {};
using World = mtf::DryRun<Mesh, Layout>;
constexpr mtf::AxisSet x_axis = mtf::AxisSet::of(0);
constexpr mtf::AxisSet y_axis = mtf::AxisSet::of(1);

/// "operation: plan" of each, gradients with a ' after the name.
std::vector<std::string> lines(const World& world) {
  std::vector<std::string> result;
  for (const mtf::Record& record : world.records()) {
    result.push_back(std::string(record.operation) + (record.is_gradient ? "'" : "") + ": " + std::string(record.plan));
  }
  return result;
}
/// Whether records of one occurrence follow each other, and only they.
void check_occurrences(const World& world) {
  const mtf::Records& records = world.records();
  for (std::size_t i = 1; i < records.size(); ++i) {
    CHECK(records[i - 1].occurrence <= records[i].occurrence);
    if (records[i - 1].occurrence == records[i].occurrence) CHECK(records[i - 1].operation == records[i].operation);
  }
}

constexpr int kept_in_a_constant_expression(bool tracing) {
  World world;
  if (tracing) world.start_tracing();
  const auto a = mtf::ones<float>(world, Rows{}, Cols{});
  const auto b = mtf::ones<float>(world, Cols{}, Out{});
  (void)mtf::einsum<Rows, Out>(a, b);
  return static_cast<int>(world.records().size());
}
static_assert(kept_in_a_constant_expression(true) == 3);
static_assert(kept_in_a_constant_expression(false) == 0);

}  // namespace

TEST_CASE("records name the operation, forward and in the gradient") {
  World world;
  const auto w = mtf::variable<float, Cols, Out>(world, "w", mtf::init::zeros);
  const auto x = mtf::placeholder<float>(world, Rows{}, Cols{});
  CHECK(world.records().empty());
  world.start_tracing();
  const auto loss = mtf::reduce_mean(mtf::softmax<Out>(mtf::einsum<Rows, Out>(x, w)));
  CHECK(lines(world) == std::vector<std::string>{"einsum: contract", "softmax: allreduce", "softmax: reduce",
                                                 "softmax: map", "softmax: reduce", "softmax: map",
                                                 "reduce_mean: reduce", "reduce_mean: map"});
  check_occurrences(world);
  world.start_tracing();
  mtf::Adam<World, float> adam(world);
  adam.apply(mtf::gradients_of_variables(world, loss), 0.1);
  CHECK(lines(world) == std::vector<std::string>{"gradients': fill", "reduce_mean': map", "reduce_mean': copy",
                                                 "softmax': map", "softmax': reduce", "softmax': map",
                                                 "einsum': contract", "adam: allreduce", "adam: fill", "adam: fill",
                                                 "adam: adam"});
  check_occurrences(world);
  CHECK(world.records()[7].subject == "w");
  CHECK(world.records()[7].axes == x_axis);
  CHECK(world.records()[7].count == 16 / 4 * 4);
  world.stop_tracing();
  const auto more = mtf::relu(x);
  CHECK(world.records().size() == 11);
}

TEST_CASE("a pass that an exception ends leaves no mark on what follows") {
  World world;
  const auto w = mtf::variable<float, Cols>(world, "w", mtf::init::zeros);
  const auto unrelated = mtf::variable<float, Cols>(world, "unrelated", mtf::init::zeros);
  const auto loss = mtf::reduce_sum(mtf::square(w));
  CHECK_THROWS_AS(mtf::gradients(loss, unrelated), mtf::plan_error);
  world.start_tracing();
  (void)mtf::relu(w);
  CHECK(lines(world) == std::vector<std::string>{"relu: map"});
}

TEST_CASE("functions that a gradient runs again have their own names") {
  World world;
  const auto x = mtf::watch(mtf::placeholder<float>(world, Rows{}, Cols{}));
  const auto y = mtf::recompute([](const auto& a) { return mtf::relu(mtf::softmax<Rows>(a)); }, x);
  const auto loss = mtf::reduce_sum(y);
  world.start_tracing();
  (void)mtf::gradients(loss, x);
  const std::vector<std::string> found = lines(world);
  CHECK(std::vector<std::string>(found.begin(), found.begin() + 4) ==
        std::vector<std::string>{"gradients': fill", "reduce_sum': copy", "softmax': reduce", "softmax': allreduce"});
  CHECK(found.back() == "softmax': map");
  check_occurrences(world);
}

TEST_CASE("a product knows the axes that split it, and so how often it is repeated") {
  struct Case {
    mtf::AxisSet axes;
    std::int64_t work, distinct;
  };
  const auto check = [](const auto& product, const Case& expected) {
    World world;
    world.start_tracing();
    product(world);
    std::vector<mtf::Record> contractions;
    for (const mtf::Record& record : world.records()) {
      if (record.is_contraction()) contractions.push_back(record);
    }
    REQUIRE(contractions.size() == 1);
    CHECK(contractions[0].axes == expected.axes);
    CHECK(contractions[0].work == expected.work);
    CHECK(contractions[0].type == mtf::ElementType::float64);
    const mtf::Cost cost = world.cost();
    CHECK(cost.distinct_multiply_adds() == expected.distinct);
    CHECK(cost.multiply_adds() * cost.processors() == expected.work * 8);
  };
  const auto placed = [](World& world, const auto&... dims) { return mtf::placeholder<double>(world, dims...); };
  check([&](World& w) { (void)mtf::einsum<Rows, Out>(placed(w, Rows{}, Cols{}), placed(w, Cols{}, Out{})); },
        {.axes = x_axis | y_axis, .work = 4 * 4 * 4, .distinct = 8 * 16 * 4});
  check([&](World& w) { (void)mtf::einsum<Rows, Out>(placed(w, Rows{}, Free{}), placed(w, Free{}, Out{})); },
        {.axes = x_axis, .work = 4 * 8 * 4, .distinct = 8 * 8 * 4});
  check([&](World& w) { (void)mtf::einsum<Free, Out>(placed(w, Free{}), placed(w, Out{})); },
        {.axes = {}, .work = 8 * 4, .distinct = 8 * 4});
}

TEST_CASE("rounding a partial sum of bfloat16 is work, and frees the float memory") {
  World world;
  const auto x = mtf::placeholder<mtf::bfloat16>(world, Rows{}, Cols{});
  world.start_tracing();
  {
    const auto y = mtf::reduce_sum<Cols>(x);
    (void)mtf::relu(y);
  }
  CHECK(lines(world) == std::vector<std::string>{"reduce_sum: reduce", "relu: narrow", "relu: allreduce", "relu: map"});
  CHECK(world.records()[1].work == 4);
  CHECK(world.records()[1].bytes == 4 * (4 + 2));
  CHECK(world.engine().live() == mtf::pooled_bytes(4 * 4 * 2));  // x alone
}
