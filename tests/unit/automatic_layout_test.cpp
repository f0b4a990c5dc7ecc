// Published and derived answers: Mesh-TensorFlow's automatic layout, which minimises memory, and the Transformer
// layouts of its paper.
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <mtf/model.hpp>
#include <mtf/tensor/layout_search.hpp>

namespace {

using mtf::Name;

struct A : mtf::Dim<"a", 10> {};
struct B : mtf::Dim<"b", 5> {};
struct C : mtf::Dim<"c", 20> {};

/// X[a, b] Y[b, c] -> Z[a, c], all three alive: 50 + 100 + 200 floats.
constexpr auto product = [](auto& world) {
  auto x = mtf::placeholder<float>(world, A{}, B{});
  auto y = mtf::placeholder<float>(world, B{}, C{});
  auto z = mtf::einsum<A, C>(x, y);
};

mtf::MeshValue mesh_of(const std::vector<std::pair<const char*, std::int64_t>>& axes) {
  mtf::MeshValue mesh;
  for (const auto& [name, size] : axes) mesh.axes.push_back({Name(name), size});
  return mesh;
}
std::string text(const mtf::FoundLayout& found) { return mtf::detail::text_of(found.layout); }

/// The memory of the product under one layout. What its rules leave may be split over an axis of size 1 only, which
/// changes nothing.
double memory_of(const char* layout) {
  const mtf::SearchOptions options{.objective = mtf::Objective::tensor_memory, .axes = {"one"}, .fixed = layout};
  return mtf::search_layout(product, mesh_of({{"m1", 4}, {"m2", 2}, {"one", 1}}), options).best().value.objective;
}

std::vector<std::vector<std::int64_t>> shapes(std::int64_t processors, int axes) {
  std::vector<std::vector<std::int64_t>> result;
  for (const mtf::MeshShape& shape : mtf::mesh_shapes(processors, axes, false))
    result.emplace_back(shape.begin(), shape.end());
  return result;
}

using Dims = mtf::LanguageModelDims;
using Model = Dims::Model;

/// A training step of a language model.
struct Transformer {
  Dims dims;
  std::int64_t layers;

  void operator()(auto& world) const {
    using World = std::remove_reference_t<decltype(world)>;
    const mtf::LanguageModel<World, float, Dims> model(world, dims, {.layers = layers});
    const auto inputs = mtf::placeholder<std::int32_t>(world, dims.batch, dims.length);
    const auto targets = mtf::placeholder<std::int32_t>(world, dims.batch, dims.length);
    mtf::Sgd<World, float> sgd(world);
    sgd.apply(mtf::gradients_of_variables(world, model.loss(inputs, targets, true, mtf::seed{1})), 0.1);
  }
};

}  // namespace

TEST_CASE("the automatic layout of a product is the published one") {
  const mtf::SearchOptions by_memory{.objective = mtf::Objective::tensor_memory};
  const mtf::LayoutSearch found = mtf::search_layout(product, mesh_of({{"m1", 4}, {"m2", 2}}), by_memory);
  CHECK(text(found.best()) == "\"a:m2;c:m1\"");
  CHECK(found.best().value.objective == 300);
  CHECK(memory_of("a:m2;c:m1") == 300);
  CHECK(memory_of("c:m1") == 500);
  CHECK(memory_of("c:m2") == 800);
  CHECK(memory_of("a:m2") == 900);
  CHECK(memory_of("") == 1400);
}

TEST_CASE("the automatic mesh shapes of eight processors are the published ones") {
  mtf::SearchOptions by_memory{.objective = mtf::Objective::tensor_memory};
  const mtf::LayoutSearch two = mtf::search(product, 8, by_memory);
  CHECK(mtf::describe(two.best().mesh) == "\"mesh_0:4;mesh_1:2\"");
  CHECK(text(two.best()) == "\"a:mesh_1;c:mesh_0\"");
  by_memory.mesh_axes = 1;
  const mtf::LayoutSearch one = mtf::search(product, 8, by_memory);
  CHECK(mtf::describe(one.best().mesh) == "\"mesh_0:8\"");
  CHECK(one.best().layout.rules.empty());
  CHECK(one.best().value.objective == 1400);
}

TEST_CASE("of layouts of the same memory the automatic layout splits most") {
  const mtf::LayoutSearch found = mtf::search_layout(product, mesh_of({{"m1", 4}, {"m2", 2}, {"m3", 1}}),
                                                     {.objective = mtf::Objective::tensor_memory});
  CHECK(text(found.best()) == "\"a:m2;b:m3;c:m1\"");
  CHECK(found.best().value.objective == 300);
}

TEST_CASE("dims that may not be split leave the empty layout") {
  // In the original the operation that unstacks a and c takes them out; here the options do.
  const mtf::LayoutSearch found = mtf::search_layout(product, mesh_of({{"m1", 4}, {"m2", 2}}),
                                                     {.objective = mtf::Objective::tensor_memory, .dims = {"b"}});
  CHECK(found.best().layout.rules.empty());
}

TEST_CASE("every size of a dim must be divisible, and a tensor dies with its last use") {
  // x dies before z is made: the peak is x and y, then y and z.
  const auto chain = [](auto& world) {
    auto y = mtf::reduce_sum<B>(mtf::placeholder<float>(world, A{}, B{}));
    auto z = mtf::broadcast(y, C{});
  };
  const mtf::LayoutSearch whole =
      mtf::search_layout(chain, mesh_of({{"m", 2}}), {.objective = mtf::Objective::tensor_memory, .dims = {"b"}});
  CHECK(whole.best().value.objective == 4 * std::max(50 + 10, 10 + 200));
  // The name takes the sizes 10 and 5: an axis of size 2 divides one of them.
  const auto two_sizes = [](auto& world) {
    auto x = mtf::placeholder<float>(world, A{});
    auto y = mtf::placeholder<float>(world, mtf::Dim<"a">(5));
  };
  const mtf::LayoutSearch five =
      mtf::search_layout(two_sizes, mesh_of({{"m", 2}}), {.objective = mtf::Objective::tensor_memory});
  CHECK(five.best().layout.rules.empty());
  REQUIRE(five.reasons.size() == 1);
  CHECK(five.reasons[0] == "dim \"a\" has extents 10, 5: axis \"m\" of size 2 does not divide all of them");
}

TEST_CASE("mesh shapes") {
  using List = std::vector<std::vector<std::int64_t>>;
  CHECK(shapes(1, 9) == List{{1}});
  CHECK(shapes(2, 9) == List{{2}});
  CHECK(shapes(4, 9) == List{{4}, {2, 2}});
  CHECK(shapes(8, 9) == List{{8}, {4, 2}, {2, 2, 2}});
  CHECK(shapes(512, 9).size() == 30);
  CHECK(shapes(512, 2) == List{{512}, {256, 2}, {128, 4}, {64, 8}, {32, 16}});
  CHECK(shapes(12, 2) == List{{12}, {6, 2}, {4, 3}});
  // In every order: as many as there are ordered factorisations (12: 12, 6x2, 4x3, 3x4, 3x2x2, 2x6, 2x3x2, 2x2x3).
  CHECK(mtf::mesh_shapes(12, 9).size() == 8);
  CHECK(mtf::mesh_shapes(12, 2).size() == 5);
}

TEST_CASE("Transformer layouts: what may be split together, and what divides") {
  const Transformer step{{{64}, {16}, {16}, {32}, {4}, {8}, {128}, {256}}, 2};
  const std::vector<std::string_view> dims{"batch", "heads", "d_ff", "vocab"};
  // Model-parallel: heads, d_ff and vocab share the axis, which batch may not.
  const mtf::LayoutSearch four = mtf::search_layout(step, mesh_of({{"all", 4}}), {.dims = dims});
  CHECK(four.counts.candidates == 16);
  CHECK(four.counts.legal == 1 + 8);  // batch alone, or any of the three
  CHECK(four.reasons.size() == 3);    // batch with each of them
  // Eight processors are more than heads.
  const mtf::LayoutSearch eight = mtf::search_layout(step, mesh_of({{"all", 8}}), {.dims = dims});
  CHECK(eight.counts.legal == 1 + 4);
  CHECK(std::find(eight.reasons.begin(), eight.reasons.end(),
                  "dim \"heads\" has extent 4: axis \"all\" of size 8 does not divide it") != eight.reasons.end());
  // In two dims the paper's layout is the one in which no product is made twice.
  const mtf::LayoutSearch plane = mtf::search_layout(step, mesh_of({{"rows", 2}, {"cols", 2}}), {.dims = dims});
  const mtf::PlacementRules rules = plane.best().rules();
  for (const char* dim : {"heads", "d_ff", "vocab"}) CHECK(rules.axes_of(Name(dim)) == rules.axes_of(Name("vocab")));
  CHECK(!rules.axes_of(Name("batch")).empty());
  CHECK(!rules.axes_of(Name("vocab")).empty());
}

TEST_CASE("a Transformer's legal layouts are those that a dry run takes") {
  const Transformer step{{{6}, {4}, {4}, {12}, {6}, {2}, {8}, {10}}, 1};
  const mtf::MeshValue mesh = mesh_of({{"rows", 2}, {"cols", 3}});
  const mtf::LayoutSearch found = mtf::search_layout(step, mesh, {.exhaustive = true});
  CHECK(found.counts.refused == 0);
  constexpr const char* names[]{"batch", "length", "memory_length", "d_model", "heads", "d_kv", "d_ff", "vocab"};
  int legal = 0;
  double least = 1e300;
  for (int number = 0; number < 6561; ++number) {
    mtf::LayoutValue layout;
    int rest = number;
    for (const char* name : names) {
      mtf::Rule rule;
      rule.dim = Name(name);
      if (rest % 3 > 0) rule.axes.push_back(mesh.axes[rest % 3 - 1].name);
      if (rest % 3 > 0) layout.rules.push_back(rule);
      rest /= 3;
    }
    mtf::Violations none;
    const mtf::PlacementRules rules = mtf::resolve(layout, mesh, none);
    try {
      least = std::min(least, mtf::estimate(mtf::cost(rules, step), {}).at_most());
      ++legal;
    } catch (const mtf::plan_error&) {
    }
  }
  CHECK(found.counts.candidates == 6561);
  CHECK(found.counts.legal == legal);
  CHECK(found.best().value.objective == least);
  const mtf::LayoutSearch pruned = mtf::search_layout(step, mesh);
  CHECK(pruned.counts.legal == legal);
  CHECK(pruned.best().value.objective == least);
  CHECK(mtf::detail::text_of(pruned.best().layout) == mtf::detail::text_of(found.best().layout));
}

TEST_CASE("the mesh for the 4.9B language model follows from the closed form of its communication") {
  // Per rank over cols 26 allreduces of an activation and three of a number per token, over rows each parameter once;
  // products in 1/512.
  // Wires: 496 Gbit/s in each direction, cores of 22.5 TFLOP/s. Local memory is left out here.
  const Transformer step{{{256}, {256}, {256}, {1024}, {256}, {256}, {262144}, {32768}}, 6};
  mtf::SearchOptions options;
  options.machine.float_multiply_adds_per_second = 22.5e12 / 2;
  options.machine.bytes_per_second = 1e300;
  options.machine.seconds_per_operation = 0;
  options.machine.any_axis = mtf::AxisSpeed("", 0, 496e9 / 8);
  options.dims = {"batch", "heads", "d_ff", "vocab"};
  const auto wire_seconds = [&](double rows, double cols) {
    const double tokens = 65536 / rows;
    const double activation = 1024 * tokens;
    const double parameters = (50'331'648.0 + 100'663'296.0 + 2'097'152.0) * 32 / cols + 275'456.0;
    const double elements = (26 * activation + 3 * tokens) * 2 * (cols - 1) / cols + parameters * 2 * (rows - 1) / rows;
    return elements * 4 / (496e9 / 8);
  };
  const double products =
      65536.0 * (6 * (4 * 1024.0 * 256 * 256 + 2 * 1024.0 * 262144 + 2 * 256.0 * 256 * 256) + 1024.0 * 32768) * 3 /
      512 / (22.5e12 / 2);
  double least = 1e300;
  std::int64_t best_rows = 0;
  for (std::int64_t rows = 2; rows <= 256; rows *= 2) {
    const double seconds = products + wire_seconds(static_cast<double>(rows), 512.0 / static_cast<double>(rows));
    if (seconds < least) best_rows = rows;
    least = std::min(least, seconds);
  }
  const mtf::LayoutSearch found = mtf::search(step, 512, options);
  CHECK(found.best().value.objective == doctest::Approx(least).epsilon(1e-6));
  const mtf::PlacementRules rules = found.best().rules();
  CHECK(rules.mesh.size(mtf::set_of(rules.axes_of(Name("batch")))) == best_rows);
  for (const char* dim : {"heads", "d_ff", "vocab"})
    CHECK(rules.mesh.size(mtf::set_of(rules.axes_of(Name(dim)))) == 512 / best_rows);
  // That is the mesh which the paper chose, 16 x 32.
  CHECK(best_rows == 16);
  mtf::SearchOptions paper = options;
  paper.fixed = "batch:rows;heads:cols;d_ff:cols;vocab:cols";
  const mtf::LayoutSearch published = mtf::search_layout(step, mesh_of({{"rows", 16}, {"cols", 32}}), paper);
  CHECK(published.best().value.objective == doctest::Approx(products + wire_seconds(16, 32)).epsilon(1e-6));
}
