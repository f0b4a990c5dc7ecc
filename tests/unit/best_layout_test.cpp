// best_layout: the search while compiling, against the search at run time.
#include <string>
#include <type_traits>

#include <doctest/doctest.h>

#include <mtf/io/layout_report.hpp>
#include <mtf/model.hpp>
#include <mtf/tensor/best_layout.hpp>

using namespace mtf::literals;

namespace {

template <std::int64_t Rows, std::int64_t Cols>
struct Grid : mtf::Mesh<mtf::Axis<"rows", Rows>, mtf::Axis<"cols", Cols>> {};

struct Batch : mtf::Dim<"batch", 512> {};
struct Io : mtf::Dim<"io", 96> {};
struct Hidden : mtf::Dim<"hidden", 128> {};

constexpr auto two_layers = [](auto& world) {
  auto w = mtf::variable<float, Io, Hidden>(world, "w", mtf::init::glorot);
  auto v = mtf::variable<float, Hidden, Io>(world, "v", mtf::init::glorot);
  auto x = mtf::random_normal<float, Batch, Io>(world, mtf::seed{1});
  auto y = mtf::einsum<Batch, Io>(mtf::relu(mtf::einsum<Batch, Hidden>(x, w)), v);
  mtf::Sgd<std::remove_reference_t<decltype(world)>, float> sgd(world);
  sgd.apply(mtf::gradients_of_variables(world, mtf::reduce_mean(mtf::square(y - x))), 0.1);
};

// Two axes that differ in speed, so that it matters which dim takes which.
struct SlowRows : mtf::BestLayoutOptions {
  static constexpr mtf::Machine machine = [] {
    mtf::Machine result;
    result.axes.push_back(mtf::AxisSpeed("rows", 1e-4, 1e8));
    return result;
  }();
};
struct Capped : mtf::BestLayoutOptions {
  static constexpr std::int64_t memory_cap = 800_KiB;
  static constexpr double objective(const mtf::Cost& cost) {
    return mtf::value_of(cost, mtf::Objective::wire_bytes, {});
  }
};
struct OverBoth : mtf::BestLayoutOptions {
  static constexpr auto dims = mtf::names("batch", "hidden");
  static constexpr bool several_axes = true;
};

using Default = mtf::best_layout<Grid<2, 4>, two_layers>;
using OfSlowRows = mtf::best_layout<Grid<2, 2>, two_layers, SlowRows>;
using OfCapped = mtf::best_layout<Grid<2, 2>, two_layers, Capped>;
using OfBoth = mtf::best_layout<Grid<2, 2>, two_layers, OverBoth>;
using Indivisible = mtf::best_layout<Grid<3, 5>, two_layers>;

static_assert(mtf::layout_like<Default> && Default::is_static);
static_assert(std::is_same_v<Default, mtf::best_layout<Grid<2, 4>, two_layers>>);
// 5 divides no extent, 3 that of io alone.
static_assert(std::is_same_v<Indivisible, mtf::Layout<mtf::Split<"io", "rows">>>);
static_assert(mtf::cost<Grid<2, 2>, OfCapped>(two_layers).peak_memory() <= Capped::memory_cap);
static_assert(mtf::applicable<Grid<2, 2>, OfBoth>);

// A training step of a Transformer. Time to compile grows with the layers.
constexpr std::int64_t layers = 2;

struct Sequences : mtf::Dim<"batch", 64> {};
struct Length : mtf::Dim<"length", 128> {};
struct Memory : mtf::Dim<"memory_length", 128> {};
struct Model : mtf::Dim<"d_model", 512> {};
struct Heads : mtf::Dim<"heads", 8> {};
struct Kv : mtf::Dim<"d_kv", 64> {};
struct Ff : mtf::Dim<"d_ff", 2048> {};
struct Vocab : mtf::Dim<"vocab", 8192> {};
struct Dims {
  Sequences batch;
  Length length;
  Memory memory;
  Model d_model;
  Heads heads;
  Kv d_kv;
  Ff d_ff;
  Vocab vocab;
};

constexpr auto transformer = [](auto& world) {
  using World = std::remove_reference_t<decltype(world)>;
  const Dims dims;
  const mtf::LanguageModel<World, float, Dims> model(world, dims, {.layers = layers});
  const auto inputs = mtf::placeholder<std::int32_t>(world, dims.batch, dims.length);
  const auto targets = mtf::placeholder<std::int32_t>(world, dims.batch, dims.length);
  mtf::Adam<World, float> adam(world);
  adam.apply(mtf::gradients_of_variables(world, model.loss(inputs, targets, true, mtf::seed{1})), 0.1);
};
struct TransformerOptions : mtf::BestLayoutOptions {
  static constexpr auto dims = mtf::names("batch", "heads", "d_ff", "vocab");
};
using OfTransformer = mtf::best_layout<Grid<2, 2>, transformer, TransformerOptions>;

template <class Layout>
std::string text() {
  return mtf::type_text(Layout::value());
}

}  // namespace

TEST_CASE("the layout found while compiling is the one found at run time") {
  const auto best = [](const mtf::MeshValue& mesh, const mtf::SearchOptions& options) {
    return mtf::type_text(mtf::search_layout(two_layers, mesh, options).best().layout);
  };
  CHECK(text<Default>() == best(Grid<2, 4>::value(), {}));
  CHECK(text<OfSlowRows>() == best(Grid<2, 2>::value(), {.machine = SlowRows::machine}));
  CHECK(text<OfCapped>() ==
        best(Grid<2, 2>::value(), {.objective = mtf::Objective::wire_bytes, .memory_cap = Capped::memory_cap}));
  CHECK(text<OfBoth>() == best(Grid<2, 2>::value(), {.dims = {"batch", "hidden"}, .several_axes = true}));
  CHECK(text<Indivisible>() == best(Grid<3, 5>::value(), {}));
  // The options make a difference.
  CHECK(text<OfSlowRows>() != text<OfCapped>());
  CHECK(text<OfBoth>() != text<OfCapped>());
}

TEST_CASE("the layout of a Transformer found while compiling is the one found at run time") {
  const mtf::LayoutSearch found =
      mtf::search_layout(transformer, Grid<2, 2>::value(), {.dims = {"batch", "heads", "d_ff", "vocab"}});
  CHECK(found.counts.candidates == 81);
  CHECK(text<OfTransformer>() == mtf::type_text(found.best().layout));
  CHECK(text<OfTransformer>() ==
        "mtf::Layout<mtf::Split<\"vocab\", \"cols\">, mtf::Split<\"heads\", \"cols\">, mtf::Split<\"d_ff\", \"cols\">, "
        "mtf::Split<\"batch\", \"rows\">>");
}
