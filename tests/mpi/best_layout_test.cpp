// A model trains under the layout that best_layout found for it.
#include <type_traits>

#include <mtf/tensor/best_layout.hpp>
#include <mtf/tensor/layout_search.hpp>

#include "support.hpp"

namespace {

struct Examples : mtf::Dim<"batch", 32> {};
struct Io : mtf::Dim<"io", 12> {};
struct Units : mtf::Dim<"hidden", 24> {};

struct Mesh : mtf::Mesh<mtf::Axis<"rows", 2>, mtf::Axis<"cols", 2>> {};
struct OneRank : mtf::Mesh<mtf::Axis<"rows", 1>, mtf::Axis<"cols", 1>> {};

/// One step of learning the identity; the loss before it.
constexpr auto step = [](auto& world, const auto& w, const auto& v, std::uint64_t number) {
  auto x = mtf::random_normal<double, Examples, Io>(world, mtf::seed{number});
  auto y = mtf::einsum<Examples, Io>(mtf::relu(mtf::einsum<Examples, Units>(x, w)), v);
  auto loss = mtf::reduce_mean(mtf::square(y - x));
  mtf::Sgd<std::remove_reference_t<decltype(world)>, double> sgd(world);
  sgd.apply(mtf::gradients_of_variables(world, loss), 2.0);
  return loss;
};
constexpr auto program = [](auto& world) {
  auto w = mtf::variable<double, Io, Units>(world, "w", mtf::init::glorot);
  auto v = mtf::variable<double, Units, Io>(world, "v", mtf::init::glorot);
  (void)step(world, w, v, 0);
};

template <class World>
std::vector<double> train(World& world) {
  auto w = mtf::variable<double, Io, Units>(world, "w", mtf::init::glorot);
  auto v = mtf::variable<double, Units, Io>(world, "v", mtf::init::glorot);
  std::vector<double> losses;
  for (std::uint64_t i = 0; i < 40; ++i) losses.push_back(mtf::item(step(world, w, v, i)));
  return losses;
}

// Slow wires make it cheapest to split little, fast ones to split all that can be.
struct FastWires : mtf::BestLayoutOptions {
  static constexpr mtf::Machine machine = [] {
    mtf::Machine result;
    result.seconds_per_operation = 0;
    result.any_axis = mtf::AxisSpeed("", 0, 1e15);
    return result;
  }();
};
struct SlowWires : mtf::BestLayoutOptions {
  static constexpr mtf::Machine machine = [] {
    mtf::Machine result;
    result.any_axis = mtf::AxisSpeed("", 1, 1e3);
    return result;
  }();
};

template <class Options>
void check_training() {
  using Layout = mtf::best_layout<Mesh, program, Options>;
  CHECK(mtf::detail::text_of(Layout::value()) ==
        mtf::detail::text_of(mtf::search_layout<Mesh>(program, {.machine = Options::machine}).best().layout));
  mtf::World<Mesh, Layout> world{MPI_COMM_WORLD};
  mtf::World<OneRank, mtf::Layout<>> alone{MPI_COMM_SELF};
  const std::vector<double> losses = train(world);
  const std::vector<double> expected = train(alone);
  for (std::size_t i = 0; i < losses.size(); ++i) CHECK(losses[i] == doctest::Approx(expected[i]).epsilon(1e-9));
  CHECK(losses.back() < losses.front() / 2);
}

}  // namespace

TEST_CASE("a world starts with the mesh and the layout that a search found") {
  // Every rank searches for itself and finds the same.
  mtf::SearchOptions options{.machine = FastWires::machine, .mesh_axes = 3};
  const mtf::FoundLayout best = mtf::search(program, support::ranks(), options).best();
  const std::string mesh = best.mesh_text();
  const std::string layout = best.layout_text();
  mtf::World<mtf::dynamic_mesh, mtf::dynamic_layout> world{MPI_COMM_WORLD, {.mesh = mesh, .layout = layout}};
  mtf::World<OneRank, mtf::Layout<>> alone{MPI_COMM_SELF};
  const std::vector<double> losses = train(world);
  const std::vector<double> expected = train(alone);
  for (std::size_t i = 0; i < losses.size(); ++i) CHECK(losses[i] == doctest::Approx(expected[i]).epsilon(1e-9));
  CHECK(best.mesh.size() == support::ranks());
  if (support::ranks() > 1) CHECK(!layout.empty());
}

TEST_CASE("a model trains under its best layout") {
  if (support::ranks() != 4) return;
  check_training<FastWires>();
  check_training<SlowWires>();
  CHECK(!std::is_same_v<mtf::best_layout<Mesh, program, FastWires>, mtf::Layout<>>);
  CHECK(std::is_same_v<mtf::best_layout<Mesh, program, SlowWires>, mtf::Layout<>>);
}
