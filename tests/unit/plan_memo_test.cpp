// What a backend keeps: one placement for each shape, one plan for each key.
#include <vector>

#include <doctest/doctest.h>

#include <mtf/model.hpp>

namespace {

struct Rows : mtf::Dim<"rows_dim", 8> {};
struct Cols : mtf::Dim<"cols_dim", 6> {};
struct Mesh : mtf::Mesh<mtf::Axis<"r", 2>, mtf::Axis<"c", 3>> {};
struct Layout : mtf::Layout<mtf::Split<"rows_dim", "r">, mtf::Split<"cols_dim", "c">> {};
using World = mtf::DryRun<Mesh, Layout>;

struct Number {
  int value;
};
struct OtherNumber {
  int value;
};

}  // namespace

TEST_CASE("a shape is placed once, wherever it comes from") {
  World world;
  mtf::DryEngine& engine = world.engine();
  const mtf::ShapeValue shape = mtf::Shape(Rows{}, Cols{}).value();
  const mtf::KeptPlacement& kept = engine.place(shape);
  CHECK(&engine.place(shape) == &kept);
  CHECK(&engine.keep(mtf::place(engine.rules, shape)) == &kept);
  CHECK(static_cast<const mtf::Placement&>(kept) == mtf::place(engine.rules, shape));
  CHECK(kept.size() == 48);
  CHECK(kept.local_size() == 8);
  CHECK(kept.split_axes() == engine.mesh().all());
  CHECK(&engine.place(mtf::Shape(Cols{}, Rows{}).value()) != &kept);
  CHECK(&engine.place(mtf::Shape(Rows{}, mtf::Dim<"cols_dim", 12>{}).value()) != &kept);
  CHECK(&mtf::placeholder<float>(world, Rows{}, Cols{}).placement() == &kept);
}

TEST_CASE("a placement that the rules do not make is another one") {
  World world;
  mtf::DryEngine& engine = world.engine();
  const mtf::ShapeValue shape = mtf::Shape(Rows{}, Cols{}).value();
  mtf::Placement whole = mtf::place(engine.rules, shape);
  whole.dims[1].axes = {};
  whole.dims[1].parts = 1;
  const mtf::KeptPlacement& other = engine.keep(whole);  // before the one of the rules
  CHECK(other.local_size() == 24);
  const mtf::KeptPlacement& kept = engine.place(shape);
  CHECK(&kept != &other);
  CHECK(kept.local_size() == 8);
  CHECK(&engine.keep(whole) == &other);
}

TEST_CASE("a plan is made once for a key, and keys of different plans are apart") {
  mtf::PlanMemo memo;
  int made = 0;
  const auto plan = [&] { return Number{++made}; };
  CHECK(memo.get<Number>(mtf::PlanKey(1, 2), plan).value == 1);
  CHECK(memo.get<Number>(mtf::PlanKey(2, 1), plan).value == 2);
  CHECK(memo.get<Number>(mtf::PlanKey(1, 2), plan).value == 1);
  CHECK(memo.get<Number>(mtf::PlanKey(1, 2, 0, 0, 0, 0, 0, 7), plan).value == 3);
  CHECK(memo.get<OtherNumber>(mtf::PlanKey(1, 2), [] { return OtherNumber{-1}; }).value == -1);
  CHECK(memo.get<Number>(mtf::PlanKey(1, 2), plan).value == 1);
  CHECK(made == 3);
}

TEST_CASE("a plan that throws is not kept") {
  mtf::PlanMemo memo;
  CHECK_THROWS_AS((void)memo.get<Number>(mtf::PlanKey(1), []() -> Number { throw 1; }), int);
  CHECK(memo.get<Number>(mtf::PlanKey(1), [] { return Number{5}; }).value == 5);
}

TEST_CASE("old plans are forgotten, and one stays valid while as many others are made as are kept") {
  mtf::PlanMemo memo;
  const Number& first = memo.get<Number>(mtf::PlanKey(1), [] { return Number{1}; });
  for (unsigned key = 2; key < 2 + mtf::PlanMemo::capacity; ++key) {
    CHECK(memo.get<Number>(mtf::PlanKey(key), [&] { return Number{static_cast<int>(key)}; }).value ==
          static_cast<int>(key));
  }
  CHECK(first.value == 1);
  int made = 0;
  CHECK(memo.get<Number>(mtf::PlanKey(1), [&] { return Number{++made}; }).value == 1);
  CHECK(made == 1);
}

TEST_CASE("the vector of the graph") {
  mtf::RecycledVector<std::vector<int>> v;
  for (int i = 0; i < 20; ++i) v.push_back(std::vector<int>(static_cast<std::size_t>(i), i));
  v.push_back(v[3]);  // refers into the memory that is about to go
  REQUIRE(v.size() == 21);
  CHECK(v.back() == std::vector<int>(3, 3));
  CHECK(v[19] == std::vector<int>(19, 19));
  mtf::RecycledVector<std::vector<int>> copy = v;
  v.pop_back();
  CHECK(copy.size() == 21);
  copy = std::move(v);
  CHECK(copy.size() == 20);
  copy.resize(2);
  CHECK(copy.back() == std::vector<int>(1, 1));
  copy.clear();
  CHECK(copy.empty());
}
