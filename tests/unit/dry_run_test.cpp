// What a program costs, counted without running it: in constant expressions, and for the published model sizes at run
// time.
#include <string>

#include <doctest/doctest.h>

#include <mtf/model.hpp>

using namespace mtf::literals;

namespace {

struct Batch : mtf::Dim<"batch", 64> {};
struct Io : mtf::Dim<"io", 1024> {};
struct Hidden : mtf::Dim<"hidden", 4096> {};
struct Mesh : mtf::Mesh<mtf::Axis<"rows", 2>, mtf::Axis<"cols", 4>> {};
struct Layout : mtf::Layout<mtf::Split<"batch", "rows">, mtf::Split<"hidden", "cols">, mtf::Split<"hiden", "cols">> {};

constexpr auto two_layers = [](auto& world) {
  auto w = mtf::variable<float, Io, Hidden>(world, "w", mtf::init::glorot);
  auto v = mtf::variable<float, Hidden, Io>(world, "v", mtf::init::glorot);
  auto x = mtf::random_normal<float, Batch, Io>(world, mtf::seed{1});
  auto y = mtf::einsum<Batch, Io>(mtf::relu(mtf::einsum<Batch, Hidden>(x, w)), v);
  auto loss = mtf::reduce_mean(mtf::square(y - x));
  mtf::Sgd<std::remove_reference_t<decltype(world)>, float> sgd(world);
  sgd.apply(mtf::gradients_of_variables(world, loss), 0.1);
};

// The 2-D row of the table of two fully-connected layers: cols b dio / r forward (x needs no gradient), rows 2 dio dh /
// c.
constexpr mtf::Cost two_layers_cost = mtf::cost<Mesh, Layout>(two_layers);
static_assert(two_layers_cost.elements("cols") == 64 * 1024 / 2);
static_assert(two_layers_cost.collectives("cols") == 1);
static_assert(two_layers_cost.elements("rows") == 2 * 1024 * 4096 / 4);
static_assert(two_layers_cost.collectives("rows") == 2);
static_assert(two_layers_cost.bytes("rows") == 8_MiB);
static_assert(two_layers_cost.collectives("rows", "cols") == 0);
static_assert(two_layers_cost.parameters == 2 * 1024 * 4096);
static_assert(two_layers_cost.parameter_bytes == 2 * 1024 * 4096 / 4 * 4);
static_assert(two_layers_cost.state_bytes == 0);
// 2 products forward, 3 backward: dv, dh, dw.
static_assert(two_layers_cost.multiply_adds() == 5LL * 32 * 1024 * 1024);
static_assert(two_layers_cost.peak_memory() > two_layers_cost.persistent_memory() &&
              two_layers_cost.peak_memory() <= 64_MiB);
static_assert(two_layers_cost.unused_rules() == 1, "the misspelt dim");

using Dims = mtf::LanguageModelDims;

/// A training step of the language models of the paper: d_ff 8192 2^size, heads 8 2^size.
mtf::Cost paper_model(int size, std::string_view mesh, std::string_view layout) {
  const std::int64_t scale = std::int64_t{1} << (size + 1);
  const Dims dims{{256}, {256}, {256}, {1024}, {4 * scale}, {256}, {4096 * scale}, {32768}};
  mtf::DryRun<mtf::dynamic_mesh, mtf::dynamic_layout> world({.mesh = mesh, .layout = layout});
  using World = decltype(world);
  const mtf::LanguageModel<World, float, Dims> model(world, dims, {.layers = 6});
  const auto inputs = mtf::placeholder<std::int32_t>(world, dims.batch, dims.length);
  const auto targets = mtf::placeholder<std::int32_t>(world, dims.batch, dims.length);
  mtf::Adam<World, float> adam(world);
  adam.apply(mtf::gradients_of_variables(world, model.loss(inputs, targets, true, mtf::seed{1})), 0.1);
  return world.cost();
}

// The largest of them with 24 layers instead of 6, as types: a whole training step within the compilers' own limits of
// a constant expression.
struct FixedDims {
  struct Batch : mtf::Dim<"batch", 256> {
  } batch;
  struct Length : mtf::Dim<"length", 256> {
  } length;
  struct Memory : mtf::Dim<"memory_length", 256> {
  } memory;
  struct Model : mtf::Dim<"d_model", 1024> {
  } d_model;
  struct Heads : mtf::Dim<"heads", 256> {
  } heads;
  struct Kv : mtf::Dim<"d_kv", 256> {
  } d_kv;
  struct Ff : mtf::Dim<"d_ff", 262144> {
  } d_ff;
  struct Vocab : mtf::Dim<"vocab", 32768> {
  } vocab;
};
struct LargeMesh : mtf::Mesh<mtf::Axis<"rows", 16>, mtf::Axis<"cols", 32>> {};
struct LargeLayout : mtf::Layout<mtf::Split<"batch", "rows">, mtf::Split<"heads", "cols">, mtf::Split<"d_ff", "cols">,
                                 mtf::Split<"vocab", "cols">> {};

constexpr auto large_step = [](auto& world) {
  using World = std::remove_reference_t<decltype(world)>;
  const FixedDims dims{};
  const mtf::LanguageModel<World, float, FixedDims> model(world, dims, {.layers = 24});
  const auto inputs = mtf::placeholder<std::int32_t>(world, dims.batch, dims.length);
  const auto targets = mtf::placeholder<std::int32_t>(world, dims.batch, dims.length);
  mtf::Adam<World, float> adam(world);
  adam.apply(mtf::gradients_of_variables(world, model.loss(inputs, targets, true, mtf::seed{1})), 0.1);
};

constexpr mtf::Cost large_cost = mtf::cost<LargeMesh, LargeLayout>(large_step);
// A layer: q, k, v and the output, two matrices of the feed-forward sublayer, two norms. Embedding and logits,
// positions, the last norm.
constexpr std::int64_t split_of_layer = 4LL * 1024 * 256 * 256 + 2LL * 1024 * 262144;
static_assert(large_cost.parameters == 24 * (split_of_layer + 2 * 1024) + 2LL * 32768 * 1024 + 256 * 1024 + 1024);
static_assert(large_cost.parameters_per_rank ==
              24 * (split_of_layer / 32 + 2 * 1024) + 2LL * 32768 / 32 * 1024 + 256 * 1024 + 1024);
static_assert(large_cost.state_bytes == 2 * 4 * large_cost.parameters_per_rank);
static_assert(large_cost.elements("rows") == large_cost.parameters_per_rank);  // every gradient once
// 4 layers + 2 of an activation, and three small ones of the split softmax.
constexpr std::int64_t tokens_of_rank = 256 / 16 * 256;
static_assert(large_cost.collectives("cols") == 4 * 24 + 2 + 3);
static_assert(large_cost.elements("cols") == (4 * 24 + 2) * tokens_of_rank * 1024 + 3 * tokens_of_rank);
static_assert(large_cost.unused_rules() == 0);

}  // namespace

TEST_CASE("the cost in a constant expression is that at run time") {
  const mtf::Cost c = mtf::cost<Mesh, Layout>(two_layers);
  CHECK(c.collective_costs == two_layers_cost.collective_costs);
  CHECK(c.peak_bytes == two_layers_cost.peak_bytes);
  CHECK(c.multiply_adds() == two_layers_cost.multiply_adds());
}

TEST_CASE("24 layers of a Transformer cost the same in a constant expression and at run time") {
  const mtf::Cost c = mtf::cost<LargeMesh, LargeLayout>(large_step);
  CHECK(c.collective_costs == large_cost.collective_costs);
  CHECK(c.peak_bytes == large_cost.peak_bytes);
  REQUIRE(c.work_costs.size() == large_cost.work_costs.size());
  for (int i = 0; i < c.work_costs.size(); ++i) {
    CHECK(c.work_costs[i].name == large_cost.work_costs[i].name);
    CHECK(c.work_costs[i].count == large_cost.work_costs[i].count);
    CHECK(c.work_costs[i].work == large_cost.work_costs[i].work);
    CHECK(c.work_costs[i].bytes == large_cost.work_costs[i].bytes);
  }
}

TEST_CASE("the 4.9B language model on 16x32") {
  const mtf::Cost c = paper_model(5, "rows:16;cols:32", "batch:rows;heads:cols;d_ff:cols;vocab:cols");
  CHECK(c.parameters == 4'899'222'528);
  CHECK(c.parameters_per_rank == 153'367'552);
  CHECK(c.state_bytes == 2 * 4 * 153'367'552LL);  // Adam's two slots in float
  CHECK(c.elements("rows") == 153'367'552);       // every gradient once; the loss is not read here
  constexpr std::int64_t activation = 256 / 16 * 256 * 1024;
  constexpr std::int64_t statistic = 256 / 16 * 256;
  // 4 layers + 2 of an activation, and three small ones of the split softmax.
  CHECK(c.collectives("cols") == 26 + 3);
  CHECK(c.elements("cols") == 26 * activation + 3 * statistic);
  CHECK(26 * activation == 109'051'904);
  CHECK(c.unused_rules() == 0);
}

TEST_CASE("parameters of the paper's other sizes") {
  CHECK(paper_model(-1, "all:32", "batch:all").parameters == 142'881'792);
  CHECK(paper_model(2, "batch:8;model:4", "batch:batch;heads:model;d_ff:model;vocab:model").parameters == 671'364'096);
}

TEST_CASE("a dry run refuses what a world refuses, by name") {
  using World = mtf::DryRun<mtf::dynamic_mesh, mtf::dynamic_layout>;
  CHECK_THROWS_WITH_AS(World({.mesh = "rows:2", .layout = "batch:cols"}), doctest::Contains("\"cols\""),
                       mtf::plan_error);
  CHECK_THROWS_WITH_AS(paper_model(0, "rows:512", "batch:rows"), doctest::Contains("\"batch\" has extent 256"),
                       mtf::plan_error);
  CHECK_THROWS_WITH_AS(paper_model(0, "rows:2", "batch:rows;d_ff:rows"),
                       doctest::Contains("both split over axis \"rows\""), mtf::plan_error);
}
