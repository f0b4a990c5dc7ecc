// Worlds: over all ranks, over some, several at once, many after each other; their ranks, axes and communicators.
#include <memory>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <mpi.h>

#include <mtf/mtf.hpp>

namespace {

using World = mtf::World<mtf::dynamic_mesh, mtf::dynamic_layout>;
struct A : mtf::Dim<"a"> {};
struct B : mtf::Dim<"b"> {};

int rank_in(MPI_Comm comm) {
  int rank = 0;
  MPI_Comm_rank(comm, &rank);
  return rank;
}
int size_of(MPI_Comm comm) {
  int size = 0;
  MPI_Comm_size(comm, &size);
  return size;
}
std::string mesh_text(int rows, int cols) { return "rows:" + std::to_string(rows) + ";cols:" + std::to_string(cols); }

/// A sum that every rank takes part in, whatever the layout: of 0, 1, ... over a and b.
double total(World& world, std::int64_t a, std::int64_t b) {
  std::vector<double> values(static_cast<std::size_t>(a * b));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>(i);
  return mtf::item(mtf::reduce_sum(mtf::from_global<double>(world, values, A{a}, B{b})));
}
double expected_total(std::int64_t a, std::int64_t b) {
  const auto n = static_cast<double>(a * b);
  return n * (n - 1) / 2;
}

}  // namespace

TEST_CASE("ranks stand row-major in the mesh, and each axis has its communicator") {
  const int ranks = size_of(MPI_COMM_WORLD);
  for (int rows = 1; rows <= ranks; ++rows) {
    if (ranks % rows != 0) continue;
    const int cols = ranks / rows;
    World world(MPI_COMM_WORLD, {.mesh = mesh_text(rows, cols)});
    const int me = rank_in(MPI_COMM_WORLD);
    CHECK(world.rank() == me);
    CHECK(world.size() == ranks);
    CHECK(world.coordinates()[0] == me / cols);
    CHECK(world.coordinates()[1] == me % cols);
    CHECK(world.describe_rank() == "rank " + std::to_string(me) + " (rows=" + std::to_string(me / cols) +
                                       ", cols=" + std::to_string(me % cols) + ")");
    int relation = 0;
    MPI_Comm_compare(world.comm(), MPI_COMM_WORLD, &relation);
    CHECK(relation == MPI_CONGRUENT);

    // The order of first use is the same on all ranks.
    const MPI_Comm along_cols = world.axis_comm("cols");
    const MPI_Comm along_rows = world.axis_comm("rows");
    CHECK(size_of(along_rows) == rows);
    CHECK(size_of(along_cols) == cols);
    CHECK(rank_in(along_rows) == me / cols);
    CHECK(rank_in(along_cols) == me % cols);
    std::vector<int> members(static_cast<std::size_t>(cols));
    MPI_Allgather(&me, 1, MPI_INT, members.data(), 1, MPI_INT, along_cols);
    for (int i = 0; i < cols; ++i) CHECK(members[static_cast<std::size_t>(i)] == me / cols * cols + i);
    CHECK(world.axis_comm("rows") == along_rows);
    CHECK_THROWS_WITH_AS((void)world.axis_comm("depth"), doctest::Contains("\"depth\""), mtf::plan_error);
    CHECK_THROWS_WITH_AS((void)world.axis_comm("rosw"), doctest::Contains("(did you mean \"rows\"?)"), mtf::plan_error);
    CHECK_THROWS_WITH_AS((void)world.axis_comm("depth"), doctest::Contains(mesh_text(rows, cols).c_str()),
                         mtf::plan_error);
  }
}

TEST_CASE("uneven, empty, one: a mesh may have static sizes, dynamic sizes, axes of size 1 and no axes") {
  const int ranks = size_of(MPI_COMM_WORLD);
  using Mixed = mtf::Mesh<mtf::Axis<"one", 1>, mtf::Axis<"all">>;
  mtf::World<Mixed, mtf::Layout<mtf::Split<"a", "all">, mtf::Split<"b", "one">>> mixed(
      MPI_COMM_WORLD, {.mesh = "all:" + std::to_string(ranks)});
  CHECK(mixed.mesh().size() == ranks);
  CHECK(mixed.coordinates()[0] == 0);
  const auto x = mtf::range<std::int32_t>(mixed, A{3 * ranks});
  CHECK(mtf::item(mtf::reduce_sum(x)) == 3 * ranks * (3 * ranks - 1) / 2);
  mtf::World<mtf::Mesh<>, mtf::Layout<>> alone(MPI_COMM_SELF);
  CHECK(alone.size() == 1);
  CHECK(mtf::item(mtf::reduce_sum(mtf::range<std::int32_t>(alone, A{5}))) == 10);
  CHECK(mtf::to_host(mtf::from_root<double>(alone, std::vector<double>{1, 2, 3}, A{3})) ==
        std::vector<double>{1, 2, 3});
}

TEST_CASE("the user's communicator keeps its error handler and its attributes") {
  MPI_Errhandler before = MPI_ERRHANDLER_NULL;
  MPI_Errhandler after = MPI_ERRHANDLER_NULL;
  MPI_Comm_get_errhandler(MPI_COMM_WORLD, &before);
  {
    World world(MPI_COMM_WORLD, {.mesh = mesh_text(1, size_of(MPI_COMM_WORLD)), .layout = "a:cols"});
    CHECK(total(world, size_of(MPI_COMM_WORLD), 3) == expected_total(size_of(MPI_COMM_WORLD), 3));
    MPI_Errhandler own = MPI_ERRHANDLER_NULL;
    MPI_Comm_get_errhandler(world.comm(), &own);
    CHECK(own == MPI_ERRORS_RETURN);
    if (own != MPI_ERRHANDLER_NULL) MPI_Errhandler_free(&own);
  }
  MPI_Comm_get_errhandler(MPI_COMM_WORLD, &after);
  CHECK(before == after);
}

TEST_CASE("hangs: a world on some ranks, while the others do something else") {
  const int me = rank_in(MPI_COMM_WORLD);
  MPI_Comm part = MPI_COMM_NULL;
  MPI_Comm_split(MPI_COMM_WORLD, me % 2, me, &part);
  const int size = size_of(part);
  if (me % 2 == 0) {
    World world(part, {.mesh = "rows:" + std::to_string(size), .layout = "a:rows"});
    CHECK(world.size() == size);
    for (int i = 1; i < 4; ++i) CHECK(total(world, i * size, 5) == expected_total(i * size, 5));
    CHECK(world.verify_replicas());
  } else {
    int sum = 0;
    for (int i = 0; i < 10; ++i) MPI_Allreduce(&me, &sum, 1, MPI_INT, MPI_SUM, part);
    CHECK(sum == size * size);  // 1 + 3 + 5 + ...
  }
  MPI_Comm_free(&part);
  // And then all together.
  const int ranks = size_of(MPI_COMM_WORLD);
  World world(MPI_COMM_WORLD, {.mesh = mesh_text(ranks, 1), .layout = "a:rows"});
  CHECK(total(world, ranks, 2) == expected_total(ranks, 2));
}

TEST_CASE("the order of ranks is that of the communicator that is given") {
  const int me = rank_in(MPI_COMM_WORLD);
  const int ranks = size_of(MPI_COMM_WORLD);
  MPI_Comm reversed = MPI_COMM_NULL;
  MPI_Comm_split(MPI_COMM_WORLD, 0, ranks - me, &reversed);
  {
    World world(reversed, {.mesh = "rows:" + std::to_string(ranks), .layout = "a:rows"});
    CHECK(world.coordinates()[0] == ranks - 1 - me);
    const auto x = mtf::range<double>(world, A{2 * ranks});
    CHECK(mtf::local_view(x).view(0) == 2 * (ranks - 1 - me));
    const auto host = mtf::to_host(x);
    for (std::size_t i = 0; i < host.size(); ++i) CHECK(host[i] == static_cast<double>(i));
  }
  MPI_Comm_free(&reversed);
}

TEST_CASE("two worlds at once, used in turn") {
  const int ranks = size_of(MPI_COMM_WORLD);
  World tall(MPI_COMM_WORLD, {.mesh = mesh_text(ranks, 1), .layout = "a:rows"});
  World wide(MPI_COMM_WORLD, {.mesh = mesh_text(1, ranks), .layout = "b:cols"});
  World alone(MPI_COMM_SELF, {.mesh = "rows:1;cols:1"});
  for (int i = 1; i < 5; ++i) {
    CHECK(total(tall, i * ranks, 3) == expected_total(i * ranks, 3));
    CHECK(total(alone, i, 3) == expected_total(i, 3));
    CHECK(total(wide, i, ranks) == expected_total(i, ranks));
  }
  CHECK(tall.counters().all().size() == 1);
  CHECK(tall.verify_replicas());
  CHECK(wide.verify_replicas());
}

TEST_CASE("worlds may end in any order") {
  const int ranks = size_of(MPI_COMM_WORLD);
  auto first = std::make_unique<World>(MPI_COMM_WORLD,
                                       mtf::WorldOptions{.mesh = "rows:" + std::to_string(ranks), .layout = "a:rows"});
  World second(MPI_COMM_WORLD, {.mesh = "rows:" + std::to_string(ranks), .layout = "a:rows"});
  CHECK(total(*first, ranks, 1) == total(second, ranks, 1));
  first.reset();
  CHECK(total(second, ranks, 2) == expected_total(ranks, 2));
}

TEST_CASE("MPI: thousands of worlds on one rank, hundreds on all") {
  const int ranks = size_of(MPI_COMM_WORLD);
  bool right = true;
  for (int i = 0; i < 10000 / ranks; ++i) {
    World world(MPI_COMM_SELF, {.mesh = "rows:1", .layout = "a:rows"});
    right = right && (i % 500 != 0 || total(world, 3, 2) == 15);
  }
  CHECK(right);
  for (int i = 0; i < 300; ++i) {
    World world(MPI_COMM_WORLD, {.mesh = mesh_text(ranks, 1), .layout = "a:rows"});
    right = right && total(world, ranks, 2) == expected_total(ranks, 2);  // makes a communicator of an axis
  }
  CHECK(right);
}

TEST_CASE("all ranks agree on the value of rank 0") {
  const int me = rank_in(MPI_COMM_WORLD);
  World world(MPI_COMM_WORLD, {.mesh = mesh_text(1, size_of(MPI_COMM_WORLD))});
  CHECK(world.agree(me + 17) == 17);
  CHECK(world.agree(me == 0));
  struct Two {
    double a;
    int b;
  };
  const Two two = world.agree(Two{me + 0.5, me});
  CHECK(two.a == 0.5);
  CHECK(two.b == 0);
}

TEST_CASE("rules that split nothing are named") {
  const int ranks = size_of(MPI_COMM_WORLD);
  World world(
      MPI_COMM_WORLD,
      {.mesh = mesh_text(ranks, 1), .layout = "bacth:rows;a:rows;c:cols", .unused_rules = mtf::UnusedRules::ignore});
  CHECK(world.unused_rules() == std::vector<std::string>{"bacth", "a", "c"});
  const auto x = mtf::random_normal_of<double>(world, mtf::seed{1}, 0, 1, A{2 * ranks});
  CHECK(world.unused_rules() == std::vector<std::string>{"bacth", "c"});
}

TEST_CASE("totals are those of exactly the named axes") {
  const int ranks = size_of(MPI_COMM_WORLD);
  World world(MPI_COMM_WORLD, {.mesh = mesh_text(ranks, 1), .layout = "a:rows;b:cols"});
  (void)total(world, ranks, 4);
  CHECK(world.totals("rows", "cols").count == 1);
  CHECK(world.totals("rows", "cols").elements == 1);
  CHECK(world.totals("rows").count == 0);
  CHECK(world.totals().count == 0);
}

TEST_CASE("all ranks say the same of where they run") {
  World world(MPI_COMM_WORLD, {.mesh = mesh_text(size_of(MPI_COMM_WORLD), 1)});
  const std::string text = world.describe_processes();
  CHECK(text.find(std::to_string(world.size()) + (world.size() == 1 ? " rank on " : " ranks on ")) == 0);
  const std::uint64_t hash = mtf::hash_text(text);
  CHECK(world.agree(hash) == hash);
}
