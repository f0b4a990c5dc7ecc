// Data into tensors and out of them, under all layouts.
#include <cstdio>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <mpi.h>
#include <unistd.h>

#include <mtf/mtf.hpp>

namespace {

using World = mtf::World<mtf::dynamic_mesh, mtf::dynamic_layout>;
struct A : mtf::Dim<"a"> {};
struct B : mtf::Dim<"b"> {};
struct C : mtf::Dim<"c"> {};
const A a{8};
const B b{16};
const C c{3};

std::string mesh_text(int rows, int cols) { return "rows:" + std::to_string(rows) + ";cols:" + std::to_string(cols); }

/// A world for every mesh of this number of ranks, and every layout.
template <class Body>
void for_each_world(const Body& body) {
  int ranks = 1;
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  for (int rows = 1; rows <= ranks; ++rows) {
    if (ranks % rows != 0) continue;
    for (const std::string layout : {"", "a:rows", "b:rows;a:cols", "a:rows,cols", "b:cols,rows", "a:cols"}) {
      World world(MPI_COMM_WORLD, {.mesh = mesh_text(rows, ranks / rows), .layout = layout, .check_lent = true});
      CAPTURE(rows);
      CAPTURE(layout);
      body(world);
      CHECK(world.verify_replicas());
    }
  }
}

template <class T>
std::vector<T> scrambled(std::int64_t count) {
  std::vector<T> result;
  for (std::int64_t i = 0; i < count; ++i) result.push_back(static_cast<T>((i * 7919 + 13) % 1009));
  return result;
}

/// The global row-major index of an element of this rank's slice of [a, b, c].
template <class View>
std::size_t global_index(const View& slice, std::size_t i, std::size_t j, std::size_t k) {
  return (((i + static_cast<std::size_t>(slice.begin[0])) * 16 + j + static_cast<std::size_t>(slice.begin[1])) * 3) +
         k + static_cast<std::size_t>(slice.begin[2]);
}
template <class View>
bool holds(const View& slice, const std::vector<double>& global) {
  bool right = true;
  for (std::size_t i = 0; i < slice.view.extent(0); ++i) {
    for (std::size_t j = 0; j < slice.view.extent(1); ++j) {
      for (std::size_t k = 0; k < slice.view.extent(2); ++k)
        right = right && slice.view(i, j, k) == global[global_index(slice, i, j, k)];
    }
  }
  return right;
}

/// What rank 0 writes to the standard output while f runs; the others' is empty.
template <class F>
std::string printed(const F& f) {
  std::fflush(stdout);
  std::FILE* file = std::tmpfile();
  const int saved = dup(1);
  dup2(fileno(file), 1);
  f();
  std::fflush(stdout);
  dup2(saved, 1);
  close(saved);
  std::rewind(file);
  std::string text;
  for (int character = std::fgetc(file); character != EOF; character = std::fgetc(file))
    text.push_back(static_cast<char>(character));
  std::fclose(file);
  return text;
}

}  // namespace

TEST_CASE("what every rank has goes in and comes out, in every element type") {
  for_each_world([](World& world) {
    const auto check = [&]<class T>(T) {
      const auto global = scrambled<T>(8 * 16 * 3);
      const auto x = mtf::from_global<T>(world, global, a, b, c);
      CHECK(mtf::to_host(x) == global);
      CHECK(mtf::to_host(x) == global);
      CHECK(x.size() == 8 * 16 * 3);
    };
    check(float{});
    check(double{});
    check(std::int32_t{});
    check(std::int64_t{});
  });
}

TEST_CASE("what one rank has goes in") {
  for_each_world([](World& world) {
    const auto global = scrambled<double>(8 * 16 * 3);
    const std::vector<double> nothing;
    const auto& given = world.rank() == 0 ? global : nothing;
    CHECK(mtf::to_host(mtf::from_root<double>(world, std::span<const double>(given), a, b, c)) == global);
    CHECK(mtf::to_host(mtf::from_root(world, given, a, b, c)) == global);
    // The number of elements that counts is that of rank 0; the error is everyone's.
    CHECK_THROWS_WITH_AS((void)mtf::from_root<double>(world, std::span<const double>(given), a, b),
                         doctest::Contains("384 elements"), mtf::plan_error);
    CHECK_THROWS_AS((void)mtf::from_root<double>(world, std::span<const double>(nothing), a, b), mtf::plan_error);
  });
}

TEST_CASE("bits that one rank has go in") {
  for_each_world([](World& world) {
    std::vector<bool> given;
    std::vector<std::uint8_t> expected;
    for (const std::int32_t x : scrambled<std::int32_t>(8 * 16)) {
      given.push_back(x % 3 == 0);
      expected.push_back(x % 3 == 0 ? 1 : 0);
    }
    if (world.rank() != 0) given.clear();
    CHECK(mtf::to_host(mtf::from_root(world, given, a, b)) == expected);
  });
}

TEST_CASE("a layout under which the array is illegal is found before anything is sent") {
  int ranks = 1;
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const std::string mesh = "rows:" + std::to_string(ranks);
  const mtf::WorldOptions options{.mesh = mesh, .layout = "a:rows;b:rows"};
  const auto global = scrambled<double>(8 * 16);
  {  // rank 0 alone: what it sent would arrive in the next collective of the others
    World world(MPI_COMM_WORLD, options);
    if (world.rank() == 0) CHECK_THROWS_AS((void)mtf::from_root(world, global, a, b), mtf::plan_error);
    const auto agreed = world.agree(world.rank() == 0 ? std::int64_t{-7} : std::int64_t{0});
    CHECK(agreed == -7);
    if (agreed != -7) (void)world.agree(agreed);  // takes what is too much, so that a failure does not end in a hang
  }
  World world(MPI_COMM_WORLD, options);
  CHECK_THROWS_AS((void)mtf::from_root(world, global, a, b), mtf::plan_error);
  const std::vector<double> column(global.begin(), global.begin() + 8);
  CHECK(mtf::to_host(mtf::from_root(world, column, a)) == column);
  CHECK(world.verify_replicas());
}

TEST_CASE("a wrong number of elements is named beside the right one") {
  for_each_world([](World& world) {
    for (const std::int64_t count : {0, 127, 129}) {
      const auto given = scrambled<float>(count);
      CHECK_THROWS_WITH_AS((void)mtf::from_global<float>(world, given, a, b),
                           doctest::Contains(std::to_string(count).c_str()), mtf::plan_error);
      CHECK_THROWS_WITH_AS((void)mtf::from_global<float>(world, given, a, b), doctest::Contains("128"),
                           mtf::plan_error);
    }
  });
}

TEST_CASE("a local view is this rank's slice and says where it begins") {
  for_each_world([](World& world) {
    const auto global = scrambled<double>(8 * 16 * 3);
    const auto x = mtf::from_global<double>(world, global, a, b, c);
    const auto slice = mtf::local_view(x);
    const mtf::Placement& placement = x.placement();
    for (std::size_t d = 0; d < 3; ++d) {
      const mtf::PlacedDim& dim = placement.dims[static_cast<int>(d)];
      CHECK(static_cast<std::int64_t>(slice.view.extent(d)) == dim.local());
      CHECK(slice.begin[d] == mtf::slice_begin(dim, world.mesh(), world.coordinates()));
    }
    CHECK(holds(slice, global));
    // Of a scalar, and of a sum that is not complete yet.
    const auto sum = mtf::reduce_sum(x);
    double expected = 0;
    for (const double value : global) expected += value;
    CHECK(mtf::local_view(sum).view() == expected);
    CHECK(mtf::item(sum) == expected);
  });
}

TEST_CASE("a local view keeps the slice of a temporary alive") {
  for_each_world([](World& world) {
    const auto global = scrambled<double>(8 * 16 * 3);
    std::vector<double> doubled;
    for (const double x : global) doubled.push_back(2 * x);
    const auto x = mtf::from_global<double>(world, global, a, b, c);
    const auto slice = mtf::local_view(x * 2.0);
    const auto other = x * 3.0;  // would take the memory of a slice that was given back
    CHECK(slice.view.data() != mtf::local_view(other).view.data());
    CHECK(holds(slice, doubled));
  });
}

TEST_CASE("a local view of a variable stays as it was when the variable changes") {
  World world(MPI_COMM_SELF, {.mesh = "rows:1"});
  const auto w = mtf::variable<double>(world, "w", mtf::init::constant(2), a);
  const auto slice = mtf::local_view(w);
  w.assign_add(mtf::ones<double>(world, a));
  CHECK(slice.view(0) == 2);
  CHECK(mtf::to_host(w)[0] == 3);
}

TEST_CASE("MPI: a slice of the user's own: row-major is used in place, other layouts are copied") {
  for_each_world([](World& world) {
    const auto global = scrambled<double>(8 * 16 * 3);
    const auto like = mtf::from_global<double>(world, global, a, b, c);
    const auto slice = mtf::local_view(like);
    const auto n0 = slice.view.extent(0);
    const auto n1 = slice.view.extent(1);
    const auto n2 = slice.view.extent(2);
    const auto fill = [&](const auto& view) {
      for (std::size_t i = 0; i < n0; ++i) {
        for (std::size_t j = 0; j < n1; ++j) {
          for (std::size_t k = 0; k < n2; ++k) view(i, j, k) = slice.view(i, j, k);
        }
      }
    };
    SUBCASE("LayoutRight, without a copy") {
      const Kokkos::View<double***, Kokkos::LayoutRight, Kokkos::HostSpace> view("view", n0, n1, n2);
      fill(view);
      const auto lent = mtf::from_local(world, view, a, b, c);
      CHECK(mtf::local_view(lent.tensor()).view.data() == view.data());
      CHECK(mtf::to_host(lent.tensor()) == global);
      // Operations read it and never write to it.
      const auto doubled = mtf::to_host(lent.tensor() + lent.tensor());
      CHECK(doubled[5] == 2 * global[5]);
      CHECK(view(0, 0, 0) == slice.view(0, 0, 0));
    }
    SUBCASE("LayoutLeft") {
      const Kokkos::View<double***, Kokkos::LayoutLeft, Kokkos::HostSpace> view("view", n0, n1, n2);
      fill(view);
      const auto lent = mtf::from_local(world, view, a, b, c);
      CHECK(mtf::local_view(lent.tensor()).view.data() != view.data());
      CHECK(mtf::to_host(lent.tensor()) == global);
      view(0, 0, 0) = -1;  // the tensor is a copy
      CHECK(mtf::to_host(lent.tensor()) == global);
    }
    SUBCASE("a part of a larger array") {
      const Kokkos::View<double****, Kokkos::LayoutRight, Kokkos::HostSpace> large("large", n0, n1 + 3, n2, 2);
      const auto view = Kokkos::subview(large, Kokkos::ALL, std::make_pair(std::size_t{2}, 2 + n1), Kokkos::ALL, 1);
      fill(view);
      const auto lent = mtf::from_local(world, view, a, b, c);
      CHECK(mtf::to_host(lent.tensor()) == global);
    }
    SUBCASE("a constant view") {
      const Kokkos::View<double***, Kokkos::LayoutRight, Kokkos::HostSpace> view("view", n0, n1, n2);
      fill(view);
      const Kokkos::View<const double***, Kokkos::LayoutRight, Kokkos::HostSpace> constant = view;
      const auto lent = mtf::from_local(world, constant, a, b, c);
      CHECK(mtf::to_host(lent.tensor()) == global);
    }
    SUBCASE("wrong extents") {
      const Kokkos::View<double***, Kokkos::LayoutRight, Kokkos::HostSpace> view("view", n0, n1 + 1, n2);
      CHECK_THROWS_WITH_AS((void)mtf::from_local(world, view, a, b, c), doctest::Contains("\"b\""), mtf::plan_error);
      CHECK_THROWS_WITH_AS((void)mtf::from_local(world, view, a, b, c),
                           doctest::Contains(std::to_string(n1 + 1).c_str()), mtf::plan_error);
    }
  });
}

TEST_CASE("a tensor made from lent memory may be kept for as long as the guard") {
  // Of a guard that ends with the expression there is no tensor.
  const auto has_tensor = []<class Guard>(Guard&&) {
    return requires(Guard&& guard) { std::forward<Guard>(guard).tensor(); };
  };
  World world(MPI_COMM_SELF, {.mesh = "rows:1", .check_lent = true});
  Kokkos::View<float, Kokkos::HostSpace> scalar("scalar");
  scalar() = 2.5F;
  const auto lent = mtf::from_local(world, scalar);
  CHECK(mtf::item(lent.tensor()) == 2.5F);
  CHECK(mtf::item(lent.tensor() * lent.tensor()) == 6.25F);
  CHECK(has_tensor(lent));
  CHECK(!has_tensor(mtf::from_local(world, scalar)));
}

TEST_CASE("pending sums are completed on the way out, once") {
  for_each_world([](World& world) {
    const auto global = scrambled<double>(8 * 16);
    const auto x = mtf::from_global<double>(world, global, a, b);
    const auto sums = mtf::reduce_sum<A>(x);  // [b], pending over the axes of a
    std::vector<double> expected(16);
    for (std::size_t i = 0; i < global.size(); ++i) expected[i % 16] += global[i];
    world.counters().reset();
    CHECK(mtf::to_host(sums) == expected);
    CHECK(mtf::to_host(sums) == expected);
    const bool split = !world.engine().rules.axes_of("a").empty();
    CHECK(world.counters()
              .sum([](const mtf::CollectiveTotals& t) { return t.collective == mtf::Collective::all_reduce; })
              .count == (split ? 1 : 0));
  });
}

TEST_CASE("print writes once, on rank 0, what all have together") {
  for_each_world([](World& world) {
    const auto x = mtf::from_global<std::int32_t>(world, scrambled<std::int32_t>(8 * 16), a, b);
    const auto small = mtf::from_global<double>(world, std::vector<double>{1, 2.5, -3}, c);
    std::string text;
    text = printed([&] { mtf::print(world, "{} and {} of {}\n", mtf::reduce_max(x), small, "three"); });
    std::int32_t largest = 0;
    for (const std::int32_t value : scrambled<std::int32_t>(8 * 16)) largest = std::max(largest, value);
    CHECK(text == (world.rank() == 0 ? std::to_string(largest) + " and [1, 2.5, -3] of three\n" : ""));
    text = printed([&] {
      mtf::print(world, "{:.2f}|{}\n", mtf::reduce_sum(small),
                 mtf::from_global<std::int32_t>(world, std::vector<std::int32_t>{1, 2, 3}, c));
    });
    CHECK(text == (world.rank() == 0 ? "0.50|[1, 2, 3]\n" : ""));
  });
}

TEST_CASE("matrices are printed by rows") {
  World world(MPI_COMM_SELF, {.mesh = "rows:1"});
  const auto x = mtf::from_global<std::int32_t>(world, std::vector<std::int32_t>{1, 2, 3, 4, 5, 6}, A{2}, C{3});
  CHECK(printed([&] { mtf::print(world, "{}", x); }) == "[[1, 2, 3], [4, 5, 6]]");
}
