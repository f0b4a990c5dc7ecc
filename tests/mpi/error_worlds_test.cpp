// Errors that all ranks have alike: they name what is wrong, and every world stays usable.
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <mpi.h>

#include <mtf/mtf.hpp>

namespace {

using World = mtf::World<mtf::dynamic_mesh, mtf::dynamic_layout>;
struct A : mtf::Dim<"a"> {};
struct B : mtf::Dim<"b"> {};
struct C : mtf::Dim<"c"> {};

int ranks() {
  int size = 1;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  return size;
}
std::string mesh_text(int rows, int cols) { return "rows:" + std::to_string(rows) + ";cols:" + std::to_string(cols); }

/// What f throws, or "".
template <class Error, class F>
std::string thrown(const F& f) {
  try {
    f();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}
bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

std::string start(const std::string& mesh, const std::string& layout) {
  return thrown<mtf::plan_error>([&] { World world(MPI_COMM_WORLD, {.mesh = mesh, .layout = layout}); });
}

double sum(World& world, std::int64_t a, std::int64_t b) {
  return mtf::item(mtf::reduce_sum(mtf::ones<double>(world, A{a}, B{b})));
}

}  // namespace

TEST_CASE("a mesh of another size than the communicator: both numbers are named") {
  const int wrong = ranks() + 1;
  const std::string text =
      thrown<std::invalid_argument>([&] { World world(MPI_COMM_WORLD, {.mesh = mesh_text(wrong, 3)}); });
  CHECK(contains(text, std::to_string(ranks()) + " rank"));
  CHECK(contains(text, std::to_string(3 * wrong) + " processors"));
  CHECK(contains(text, "\"rows\":" + std::to_string(wrong)));
  CHECK(contains(text, "\"cols\":3"));
  // Static meshes, too; and nothing is left behind.
  struct Mesh : mtf::Mesh<mtf::Axis<"rows", 1000>> {};
  CHECK(contains(thrown<std::invalid_argument>([] { mtf::World<Mesh, mtf::Layout<>> world(MPI_COMM_WORLD); }), "1000"));
  World world(MPI_COMM_WORLD, {.mesh = mesh_text(ranks(), 1), .layout = "a:rows"});
  CHECK(sum(world, ranks(), 2) == 2 * ranks());
}

TEST_CASE("a text that cannot be read is quoted") {
  CHECK(contains(start("rows", ""), "\"rows\""));
  CHECK(contains(start("rows:2x", ""), "\"rows:2x\""));
  CHECK(contains(start("rows:0", ""), "\"rows:0\""));
  CHECK(contains(start("rows:" + std::to_string(ranks()), "a"), "\"a\""));
  CHECK(contains(start("rows:" + std::to_string(ranks()), "a:rows:cols"), "\"a:rows:cols\""));
}

TEST_CASE("all faults of a mesh and a layout are listed at once") {
  const std::string text = start("rows:" + std::to_string(ranks()) + ";cols", "a:rows;a:rows;b:depth;c:rows,rows;d");
  for (const char* part : {"\"cols\"", "dim \"a\"", "\"depth\"", "dim \"c\", axis \"rows\"", "\"d\""}) {
    CAPTURE(text);
    CAPTURE(part);
    CHECK(contains(text, part));
  }
  CHECK(contains(text, "optional_rule"));
  CHECK(start("rows:" + std::to_string(ranks()), "b:depth?").empty());
}

TEST_CASE("sizes of dynamic axes are asked for, and must fit the type") {
  using Mesh = mtf::Mesh<mtf::Axis<"rows">, mtf::Axis<"one", 1>>;
  using Typed = mtf::World<Mesh, mtf::Layout<>>;
  const auto start_typed = [](const std::string& mesh) {
    return thrown<mtf::plan_error>([&] { Typed world(MPI_COMM_WORLD, {.mesh = mesh}); });
  };
  CHECK(contains(start_typed(""), "\"rows\""));
  CHECK(contains(start_typed("rows:1;one:2"), "\"one\" has static size 1, the mesh text says 2"));
  CHECK(contains(start_typed("rows:1;depth:2"), "\"depth\""));
  CHECK(start_typed("rows:" + std::to_string(ranks())).empty());
  CHECK(start_typed("one:1;rows:" + std::to_string(ranks())).empty());
}

TEST_CASE("uneven, empty, one: dims that cannot be placed are refused before anything is sent") {
  World world(MPI_COMM_WORLD, {.mesh = mesh_text(ranks(), 1), .layout = "a:rows;b:rows;c:cols"});
  const std::string text = thrown<mtf::plan_error>([&] { (void)mtf::zeros<float>(world, A{ranks()}, B{ranks() * 3}); });
  CHECK(contains(text, "\"a\" and \"b\""));
  CHECK(contains(text, "\"rows\""));
  if (ranks() > 1) {
    const std::string uneven = thrown<mtf::plan_error>([&] { (void)mtf::zeros<float>(world, A{ranks() + 1}); });
    CHECK(contains(uneven, "\"a\" has extent " + std::to_string(ranks() + 1)));
    CHECK(contains(uneven, "by " + std::to_string(ranks())));
    const std::string both = thrown<mtf::plan_error>([&] { (void)mtf::zeros<float>(world, A{ranks() + 1}, B{1}); });
    CHECK(contains(both, "\n  and "));
  }
  CHECK(world.counters().all().empty());
  CHECK(mtf::item(mtf::reduce_sum(mtf::ones<double>(world, A{ranks()}, C{2}))) == 2 * ranks());
  CHECK(world.verify_replicas());
}

TEST_CASE("a tensor that outlives its world can be destroyed and nothing else") {
  std::optional<mtf::Tensor<World, double, A, B>> kept;
  std::optional<mtf::Tensor<World, double>> pending;
  {
    World world(MPI_COMM_WORLD, {.mesh = mesh_text(ranks(), 1), .layout = "a:rows"});
    kept = mtf::watch(mtf::ones<double>(world, A{ranks()}, B{3}));
    pending = mtf::reduce_sum(*kept);
  }
  CHECK_THROWS_WITH_AS((void)mtf::to_host(*kept), doctest::Contains("has ended"), mtf::plan_error);
  CHECK_THROWS_AS((void)mtf::item(*pending), mtf::plan_error);
  CHECK_THROWS_AS((void)(*kept + *kept), mtf::plan_error);
  CHECK_THROWS_AS((void)(*kept * 2.0), mtf::plan_error);
  CHECK_THROWS_AS((void)mtf::local_view(*kept), mtf::plan_error);
  CHECK_THROWS_AS((void)mtf::reduce_sum(*kept), mtf::plan_error);
  CHECK_THROWS_AS((void)mtf::reduce_max(*kept), mtf::plan_error);
  CHECK_THROWS_AS((void)mtf::einsum<A>(*kept, *kept), mtf::plan_error);
  CHECK_THROWS_AS((void)mtf::cast<float>(*kept), mtf::plan_error);
  CHECK_THROWS_AS((void)mtf::gradients(*pending, *kept), mtf::plan_error);
  // Handles may be copied and dropped in any order.
  auto copy = kept;
  pending.reset();
  kept.reset();
  copy.reset();
  World next(MPI_COMM_WORLD, {.mesh = mesh_text(ranks(), 1), .layout = "a:rows"});
  CHECK(sum(next, ranks(), 2) == 2 * ranks());
}

TEST_CASE("operands of two worlds are refused, and both worlds go on") {
  World one(MPI_COMM_WORLD, {.mesh = mesh_text(ranks(), 1), .layout = "a:rows"});
  World two(MPI_COMM_WORLD, {.mesh = mesh_text(1, ranks()), .layout = "b:cols"});
  const auto x = mtf::ones<double>(one, A{ranks()}, B{ranks()});
  const auto y = mtf::ones<double>(two, A{ranks()}, B{ranks()});
  CHECK_THROWS_WITH_AS((void)(x + y), doctest::Contains("different worlds"), mtf::plan_error);
  CHECK_THROWS_WITH_AS((void)(y * x), doctest::Contains("different worlds"), mtf::plan_error);
  CHECK_THROWS_WITH_AS((void)mtf::einsum<A>(x, y), doctest::Contains("different worlds"), mtf::plan_error);
  CHECK_THROWS_WITH_AS((void)mtf::map([](double u, double v) { return u + v; }, x, y),
                       doctest::Contains("different worlds"), mtf::plan_error);
  const auto w = mtf::variable<double>(one, "w", mtf::init::ones, A{ranks()}, B{ranks()});
  CHECK_THROWS_AS((void)(w + y), mtf::plan_error);
  CHECK_THROWS_AS(w.assign(y), mtf::plan_error);
  const auto watched = mtf::watch(x);
  CHECK_THROWS_AS((void)mtf::gradients(mtf::reduce_sum(watched), mtf::watch(y)), mtf::plan_error);
  CHECK(mtf::item(mtf::reduce_sum(x)) == ranks() * ranks());
  CHECK(mtf::item(mtf::reduce_sum(y)) == ranks() * ranks());
  CHECK(mtf::item(mtf::reduce_sum(w)) == ranks() * ranks());
  // The way out that the message names.
  const auto carried = mtf::from_global<double>(two, mtf::to_host(x), A{ranks()}, B{ranks()});
  CHECK(mtf::item(mtf::reduce_sum(carried + y)) == 2 * ranks() * ranks());
  CHECK(one.verify_replicas());
  CHECK(two.verify_replicas());
}

TEST_CASE("hangs: an error in the middle of a step leaves no trace") {
  World world(MPI_COMM_WORLD, {.mesh = mesh_text(ranks(), 1), .layout = "a:rows"});
  const auto w = mtf::variable<double>(world, "w", mtf::init::ones, A{ranks()}, B{2});
  for (int round = 0; round < 3; ++round) {
    const auto loss = mtf::reduce_sum(mtf::square(w));
    const auto stranger = mtf::watch(mtf::ones<double>(world, B{2}));
    CHECK_THROWS_WITH_AS((void)mtf::gradients(loss, stranger), doctest::Contains("does not depend on"),
                         mtf::plan_error);
    const auto [dw] = mtf::gradients(loss, w);  // the graph is still there
    CHECK(mtf::item(mtf::reduce_sum(dw)) == 4 * ranks());
    CHECK_THROWS_WITH_AS((void)mtf::gradients(loss, w), doctest::Contains("keep_graph"), mtf::plan_error);
  }
  CHECK(world.verify_replicas());
}

TEST_CASE("a graph that was freed is refused also by a loss that uses only a part of it") {
  World world(MPI_COMM_WORLD, {.mesh = mesh_text(ranks(), 1), .layout = "a:rows"});
  const auto w = mtf::variable<double>(world, "w", mtf::init::constant(3), A{ranks()}, B{2});
  const auto h = mtf::square(w);
  const auto first = mtf::reduce_sum(h);
  const auto [dw] = mtf::gradients(first, w);
  CHECK(mtf::item(mtf::reduce_sum(dw)) == 2 * 3 * 2 * ranks());
  // d(w^3)/dw through w alone would be w^2: a wrong number without an error.
  CHECK_THROWS_WITH_AS((void)mtf::gradients(mtf::reduce_sum(h * w), w), doctest::Contains("keep_graph"),
                       mtf::plan_error);
  // A loss that does not use it is not concerned.
  const auto [again] = mtf::gradients(mtf::reduce_sum(mtf::square(w)), w);
  CHECK(mtf::item(mtf::reduce_sum(again)) == 2 * 3 * 2 * ranks());
}
