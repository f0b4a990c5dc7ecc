// Variables: snapshots, the registry, replicas, and what a warmed-up training step allocates.
#include <cmath>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <mpi.h>

#include <mtf/mtf.hpp>

#include "world_news.hpp"

namespace {

using World = mtf::World<mtf::dynamic_mesh, mtf::dynamic_layout>;
struct Batch : mtf::Dim<"batch", 16> {};
struct Io : mtf::Dim<"io", 8> {};
struct Hidden : mtf::Dim<"hidden", 24> {};

int ranks() {
  int size = 1;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  return size;
}
std::string mesh_text(int rows, int cols) { return "rows:" + std::to_string(rows) + ";cols:" + std::to_string(cols); }

template <class Body>
void for_each_world(const Body& body) {
  for (int rows = 1; rows <= ranks(); ++rows) {
    if (ranks() % rows != 0) continue;
    for (const std::string layout :
         {"", "batch:rows", "hidden:cols", "batch:rows;hidden:cols", "io:cols", "batch:rows;io:cols"}) {
      World world(MPI_COMM_WORLD, {.mesh = mesh_text(rows, ranks() / rows), .layout = layout});
      CAPTURE(rows);
      CAPTURE(layout);
      body(world);
    }
  }
}

template <class WorldType, class V, class W>
auto loss_of(WorldType& world, const V& v, const W& w, std::uint64_t step) {
  const auto x = mtf::random_normal<float, Batch, Io>(world, mtf::seed{1} / step);
  const auto h = mtf::relu(mtf::einsum<Batch, Hidden>(x, v));
  const auto y = mtf::einsum<Batch, Io>(h, w);
  return mtf::reduce_mean(mtf::square(y - x));
}

}  // namespace

TEST_CASE("a tensor that was read keeps its value when the variable gets another") {
  for_each_world([](World& world) {
    const auto w = mtf::variable<double, Io, Hidden>(world, "w", mtf::init::normal(1));
    const auto before = mtf::to_host(w);
    const auto snapshot = w.read();
    w.assign(mtf::zeros<double>(world, Io{}, Hidden{}));
    CHECK(mtf::to_host(snapshot) == before);
    CHECK(mtf::item(mtf::reduce_max(w)) == 0);
    w.assign(snapshot + snapshot);
    CHECK(mtf::to_host(snapshot) == before);
    CHECK(mtf::to_host(w)[3] == 2 * before[3]);
    // The variable and the tensor share memory now; the next version must not write to it.
    w.assign(snapshot);
    w.assign(w.read() * 3.0);
    CHECK(mtf::to_host(snapshot) == before);
    CHECK(world.verify_replicas());
  });
}

TEST_CASE("a variable keeps what it was given in lent memory") {
  World world(MPI_COMM_SELF, {.mesh = "rows:1;cols:1"});
  const auto w = mtf::variable<double, Io>(world, "w", mtf::init::zeros);
  Kokkos::View<double*, Kokkos::LayoutRight, Kokkos::HostSpace> view("view", 8);
  Kokkos::deep_copy(view, 3.0);
  {
    const auto lent = mtf::from_local(world, view, Io{});
    w.assign(lent.tensor());
  }
  Kokkos::deep_copy(view, -1.0);  // the guard has ended: the memory is the user's again
  CHECK(mtf::to_host(w) == std::vector<double>(8, 3.0));
}

TEST_CASE("an optimizer writes in place only if nobody holds the version") {
  for_each_world([](World& world) {
    const auto v = mtf::variable<float, Io, Hidden>(world, "v", mtf::init::glorot);
    const auto w = mtf::variable<float, Hidden, Io>(world, "w", mtf::init::glorot);
    mtf::Sgd<World, float> sgd(world, 0.9);
    const auto snapshot = v.read();
    const auto before = mtf::to_host(snapshot);
    const void* memory = w.state().leaf.value->block->data;
    for (std::uint64_t step = 0; step < 3; ++step)
      sgd.apply(mtf::gradients_of_variables(world, loss_of(world, v, w, step)), 0.1);
    CHECK(mtf::to_host(snapshot) == before);
    CHECK(mtf::to_host(v) != before);
    CHECK(w.state().leaf.value->block->data == memory);
    CHECK(world.verify_replicas());
  });
}

TEST_CASE("initial values and training do not depend on the mesh") {
  World alone(MPI_COMM_SELF, {.mesh = "rows:1;cols:1", .seed = 5});
  const auto train = [](World& world) {
    const auto v = mtf::variable<double, Io, Hidden>(world, "v", mtf::init::glorot);
    const auto w = mtf::variable<double, Hidden, Io>(world, "w", mtf::init::glorot);
    std::vector<double> losses;
    mtf::Sgd<World, double> sgd(world);
    for (std::uint64_t step = 0; step < 4; ++step) {
      const auto x = mtf::random_normal<double, Batch, Io>(world, mtf::seed{1} / step);
      const auto y = mtf::einsum<Batch, Io>(mtf::relu(mtf::einsum<Batch, Hidden>(x, v)), w);
      const auto loss = mtf::reduce_mean(mtf::square(y - x));
      losses.push_back(mtf::item(loss));
      sgd.apply(mtf::gradients_of_variables(world, loss), 0.1);
    }
    return losses;
  };
  const auto expected = train(alone);
  CHECK(expected[3] < expected[0]);
  for (int rows = 1; rows <= ranks(); ++rows) {
    if (ranks() % rows != 0) continue;
    for (const char* layout : {"", "batch:rows", "hidden:cols", "batch:rows;hidden:cols", "io:cols"}) {
      World world(MPI_COMM_WORLD, {.mesh = mesh_text(rows, ranks() / rows), .layout = layout, .seed = 5});
      const auto losses = train(world);
      for (std::size_t i = 0; i < losses.size(); ++i) CHECK(losses[i] == doctest::Approx(expected[i]).epsilon(1e-12));
    }
  }
}

TEST_CASE("a path names one variable") {
  World world(MPI_COMM_WORLD, {.mesh = mesh_text(1, ranks())});
  const mtf::Scope scope("model");
  const auto w = mtf::variable<float, Io>(world, scope / "w", mtf::init::ones);
  CHECK(w.path() == "model/w");
  CHECK_THROWS_WITH_AS((void)(mtf::variable<float, Io>(world, scope / "w", mtf::init::ones)),
                       doctest::Contains("\"model/w\""), mtf::plan_error);
  CHECK(world.registry().all().size() == 1);
  CHECK(world.registry().find("model/w") == &w.state());
  CHECK(world.registry().find("model/v") == nullptr);
  const auto v = mtf::variable<float, Io>(world, scope / "v", mtf::init::ones);
  CHECK(world.registry().all()[1] == &v.state());
  CHECK(mtf::item(mtf::reduce_sum(w + v)) == 16);
}

TEST_CASE("replicas that differ are found") {
  for_each_world([](World& world) {
    const auto w = mtf::variable<double, Io, Hidden>(world, "w", mtf::init::normal(1));
    CHECK(world.verify_replicas());
    const mtf::AxisSet replicated = world.mesh().all() - w.state().placement().split_axes();
    if (world.mesh().size(replicated) == 1) return;
    auto* elements = static_cast<double*>(w.state().leaf.value->block->data);
    const double kept = elements[2];
    if (world.rank() == 0) elements[2] = std::nextafter(kept, 100.0);  // one bit
    CHECK_FALSE(
        world.verify_replicas());  // on every rank, also on those whose own replicas are equal: programs branch on it
    elements[2] = kept;
    CHECK(world.verify_replicas());
  });
}

TEST_CASE("hangs: a rank that ran other collectives is found") {
  World world(MPI_COMM_WORLD, {.mesh = mesh_text(ranks(), 1)});
  if (ranks() == 1) return;
  if (world.rank() == ranks() - 1) {
    world.counters().record({.collective = mtf::Collective::all_gather, .axes = mtf::AxisSet::of(0), .count = 3}, 1,
                            ranks());
  }
  CHECK_FALSE(world.verify_replicas());
}

TEST_CASE("a warmed-up training step takes no memory from Kokkos and calls no operator new") {
  for_each_world([](World& world) {
    const auto v = mtf::variable<float, Io, Hidden>(world, "v", mtf::init::glorot);
    const auto w = mtf::variable<float, Hidden, Io>(world, "w", mtf::init::glorot);
    for (const double momentum : {0.0, 0.9}) {
      mtf::Sgd<World, float> sgd(world, momentum);
      const auto step = [&](std::uint64_t number) {
        sgd.apply(mtf::gradients_of_variables(world, loss_of(world, v, w, number)), 0.1);
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
    }
  });
}

TEST_CASE("an optimizer does not take a variable of the program for its slot") {
  World world(MPI_COMM_WORLD, {.mesh = mesh_text(1, ranks())});
  const auto x = mtf::variable<double, Io>(world, "x", mtf::init::ones);
  const auto other = mtf::variable<double, Hidden>(world, "x/adam_m", mtf::init::ones);
  mtf::Adam<World, double> adam(world);
  const auto gradients = mtf::gradients_of_variables(world, mtf::reduce_sum(x * x) + mtf::reduce_sum(other));
  CHECK_THROWS_WITH_AS(adam.apply(gradients, 0.1), doctest::Contains("\"x/adam_m\""), mtf::plan_error);
  CHECK(mtf::item(mtf::reduce_sum(other)) == static_cast<double>(other.shape()[0].extent));
}

TEST_CASE("gradients of parts add up whatever is missing in one of them") {
  World world(MPI_COMM_WORLD, {.mesh = mesh_text(1, ranks())});
  const auto x = mtf::variable<double, Io>(world, "x", mtf::init::ones);
  const auto square = [&] { return mtf::gradients_of_variables(world, mtf::reduce_sum(x * x)); };
  mtf::VariableGradients sum;
  sum += mtf::VariableGradients();
  sum += square();
  sum += mtf::VariableGradients();
  const auto y = mtf::variable<double, Io>(world, "y", mtf::init::ones);
  sum += mtf::gradients_of_variables(world, mtf::reduce_sum(x * y));
  REQUIRE(sum.variables.size() == 2);
  CHECK(sum.variables[1].get() == &y.state());
  const auto total = [&](std::size_t i) {
    double result = 0;
    for (const double e : mtf::detail::gather_to_host<double>(world.engine(), *sum.value(i))) result += e;
    return result;
  };
  CHECK(total(0) == 3 * static_cast<double>(x.shape()[0].extent));
  CHECK(total(1) == static_cast<double>(x.shape()[0].extent));
}

TEST_CASE("a loss of another world is an error") {
  World one(MPI_COMM_WORLD, {.mesh = mesh_text(1, ranks())});
  World two(MPI_COMM_WORLD, {.mesh = mesh_text(1, ranks())});
  const auto x = mtf::variable<double, Io>(one, "x", mtf::init::ones);
  (void)mtf::variable<double, Io>(two, "x", mtf::init::ones);
  CHECK_THROWS_WITH_AS((void)mtf::gradients_of_variables(two, mtf::reduce_sum(x * x)),
                       doctest::Contains("different worlds"), mtf::plan_error);
}
