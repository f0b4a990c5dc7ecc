// What is refused of the dims of a tensor and of all operands of an operation together, by name.
#include <string>
#include <type_traits>
#include <vector>

#include <doctest/doctest.h>

#include <mtf/model.hpp>

namespace {

struct A : mtf::Dim<"a", 4> {};
struct B : mtf::Dim<"b", 2> {};
struct C : mtf::Dim<"c", 3> {};
struct D : mtf::Dim<"d", 2> {};
struct E : mtf::Dim<"e", 2> {};
struct Mesh : mtf::Mesh<mtf::Axis<"rows", 2>> {};
struct Layout : mtf::Layout<mtf::Split<"a", "rows">> {};
using World = mtf::DryRun<Mesh, Layout>;

struct Sum {
  template <class... X>
  constexpr auto operator()(const X&... x) const {
    return (x + ...);
  }
};

/// Products and sums of as many operands as an operation takes have few dims, but many entries of dims.
constexpr std::int64_t elements_of_repeated_dims() {
  World world;
  const auto x = mtf::placeholder<float>(world, A{}, B{}, C{});
  const auto product = mtf::einsum<A>(x, x, x, x, x, x, x, x);
  const auto y = mtf::placeholder<float>(world, A{}, B{}, C{}, D{}, E{});
  const auto sum = mtf::map(Sum{}, y, y, y, y, y, y);
  const auto chosen = mtf::where(mtf::greater(y, y), y, y);
  return mtf::detail::array_of(product).value->placement.size() +
         100 * mtf::detail::array_of(sum).value->placement.size() +
         10000 * mtf::detail::array_of(chosen).value->placement.size();
}
static_assert(elements_of_repeated_dims() == 4 + 100 * 96 + 10000 * 96);

// 25 dims, five to a tensor.
template <mtf::FixedString Name>
using N = mtf::Dim<Name, 1>;
template <mtf::FixedString... Names>
using Tensor = mtf::Tensor<World, float, N<Names>...>;
using T1 = Tensor<"f", "g", "h", "i", "j">;
using T2 = Tensor<"k", "l", "m", "n", "o">;
using T3 = Tensor<"p", "q", "r", "s", "t">;
using T4 = Tensor<"u", "v", "w", "x", "y">;
using T5 = Tensor<"z", "1", "2", "3", "4">;
using T6 = Tensor<"z", "1", "2", "3", "y">;
static_assert(mtf::operable<T1, T2, T3, T4, T6, T1, T2, T3>);
static_assert(!mtf::operable<T1, T2, T3, T4, T5>);
static_assert(!mtf::contractible<mtf::DimList<>, T1, T2, T3, T4, T5, T1, T2, T3>);
static_assert(std::is_same_v<mtf::not_operable<T1, T2, T1, T3, T4, T5>, mtf::too_many_dims<25>>);

}  // namespace

TEST_CASE("a name that recurs in an operation takes no room") {
  CHECK(elements_of_repeated_dims() == 4 + 100 * 96 + 10000 * 96);
}

TEST_CASE("the union of operands at run time") {
  std::vector<std::string> names;
  for (int i = 0; i < 60; ++i) names.push_back("d" + std::to_string(i));
  const auto dim = [&](int i, std::int64_t extent) { return mtf::DimValue{mtf::Name(names[std::size_t(i)]), extent}; };
  for (const int distinct : {1, 12, 23, 24, 25, 26, 47, 48, 49, 60}) {
    CAPTURE(distinct);
    mtf::UnionValue all;
    for (int round = 0; round < 3; ++round) {
      for (int first = 0; first < distinct; first += 12) {
        mtf::ShapeValue operand;
        for (int i = first; i < distinct && i < first + 12; ++i) operand.push_back(dim(i, 2));
        mtf::add_dims(all, operand);
      }
    }
    CHECK(all.size() == (distinct < 48 ? distinct : 48));
    const mtf::Violations found = mtf::check({}, all, false);
    CHECK(found.empty() == (distinct <= 24));
    if (distinct > 24) {
      REQUIRE(found.size() == 1);
      CHECK(found[0].fault == mtf::Fault::too_many_dims);
      CHECK(found[0].extent == (distinct < 48 ? distinct : 48));
    }
  }
  SUBCASE("another extent of a name that is there is reported, however many dims there are") {
    for (const int distinct : {1, 23, 24}) {
      mtf::UnionValue all;
      mtf::ShapeValue operand;
      for (int i = 0; i < distinct; ++i) operand.push_back(dim(i, 2));
      mtf::add_dims(all, operand);
      operand.back().extent = 3;
      mtf::add_dims(all, operand);
      const mtf::Violations found = mtf::check({}, all, false);
      REQUIRE(found.size() == 1);
      CHECK(found[0].fault == mtf::Fault::unequal_extents);
      CHECK(found[0].extent == 3);
      CHECK(found[0].other_extent == 2);
    }
  }
}

TEST_CASE("an operation over too many dims of dynamic extent is refused by name") {
  mtf::DryRun<Mesh, Layout> world;
  const auto of = [&]<mtf::FixedString... Names>(mtf::DimList<mtf::Dim<Names>...>) {
    return mtf::placeholder<float>(world, mtf::Dim<Names>(1)...);
  };
  const auto dims = []<mtf::FixedString... Names>() { return mtf::DimList<mtf::Dim<Names>...>{}; };
  const auto a = of(dims.operator()<"f", "g", "h", "i", "j">());
  const auto b = of(dims.operator()<"k", "l", "m", "n", "o">());
  const auto c = of(dims.operator()<"p", "q", "r", "s", "t">());
  const auto d = of(dims.operator()<"u", "v", "w", "x", "y">());
  CHECK(mtf::detail::array_of(mtf::einsum<mtf::Dim<"f">>(a, b, a, a, a, a, a, a)).value->placement.size() == 1);
  const mtf::Array five[]{mtf::detail::array_of(a), mtf::detail::array_of(b), mtf::detail::array_of(c),
                          mtf::detail::array_of(d),
                          mtf::detail::array_of(of(dims.operator()<"z", "1", "2", "3", "4">()))};
  CHECK_THROWS_WITH_AS(mtf::detail::require_union(five[0].value->backend(), "map", five),
                       "mtf: map on mesh \"rows:2\": 25 dims: " MTF_RULE_TOO_MANY_DIMS, mtf::plan_error);
}

TEST_CASE("all that is wrong with the texts of a world is listed at once, what cannot be read first") {
  using OpenMesh = mtf::Mesh<mtf::Axis<"rows">, mtf::Axis<"cols">, mtf::Axis<"one", 1>>;
  using Open = mtf::DryRun<OpenMesh, mtf::dynamic_layout>;
  const auto start = [](std::string_view mesh, std::string_view layout) -> std::string {
    try {
      const Open world({.mesh = mesh, .layout = layout});
    } catch (const mtf::plan_error& error) {
      return error.what();
    }
    return {};
  };
  CHECK(start("rows:1;cols:1", "a:rows").empty());
  CHECK(
      start("rows=1;cols:1", "") ==
      "mtf: World on mesh \"rows:?;cols:1;one:1\": \"rows=1\": " MTF_RULE_MALFORMED_LAYOUT
      "; reading stops before \"=\", character 5\n  and axis \"rows\" has a dynamic size: " MTF_RULE_MISSING_AXIS_SIZE);
  CHECK(start("cols:0;one:2;depth:3", "a:rows:1;b:up") ==
        "mtf: World on mesh \"rows:?;cols:?;one:1\": \"cols:0\": " MTF_RULE_EMPTY_AXIS
        "\n  and axis \"rows\" has a dynamic size: " MTF_RULE_MISSING_AXIS_SIZE
        "\n  and axis \"cols\" has a dynamic size: " MTF_RULE_MISSING_AXIS_SIZE
        "\n  and axis \"one\" has static size 1, the mesh text says 2: " MTF_RULE_OTHER_AXIS_SIZE
        "\n  and axis \"depth\": " MTF_RULE_EXTRA_AXIS "\n  and \"a:rows:1\": " MTF_RULE_MALFORMED_LAYOUT
        "; reading stops before \":\", character 7\n  and rule for dim \"b\", axis \"up\": " MTF_RULE_UNKNOWN_AXIS);
}

TEST_CASE("an extent below 1 at run time is refused by name, also the number -1") {
  mtf::DryRun<Mesh, Layout> world;
  using Length = mtf::Dim<"length">;
  for (const std::int64_t extent : {std::int64_t{0}, std::int64_t{-1}, std::int64_t{-7}}) {
    const std::string what = "mtf: constant on mesh \"rows:2\": dim \"length\" has extent " + std::to_string(extent) +
                             ": " + MTF_RULE_EMPTY_DIM;
    CHECK_THROWS_WITH_AS((mtf::zeros<float>(world, Length{extent})), what.c_str(), mtf::plan_error);
  }
  CHECK_THROWS_AS((mtf::zeros<float>(world, Length{mtf::dynamic})), mtf::plan_error);
}

// As types: not placed, and the template that says so.
struct Long : mtf::Dim<"long", std::int64_t{1} << 40> {};
struct Wide : mtf::Dim<"wide", std::int64_t{1} << 20> {};
struct Wider : mtf::Dim<"wider", std::int64_t{1} << 23> {};
struct Narrow : mtf::Dim<"narrow", (std::int64_t{1} << 20) - 1> {};
static_assert(mtf::placeable<World, Long, Narrow>);
static_assert(!mtf::placeable<World, Long, Wide>);
static_assert(mtf::uniteable<World, Long, Wide>);
static_assert(!mtf::uniteable<World, Long, Wide, Wider>);
static_assert(std::is_same_v<mtf::not_placeable<World, Long, Wide>,
                             mtf::too_many_elements<Wide, std::int64_t{1} << 20, std::int64_t{1} << 40>>);

// A dim over several axes: all of them are named, with their sizes.
struct ThreeAxes : mtf::Mesh<mtf::Axis<"rows", 2>, mtf::Axis<"planes", 3>, mtf::Axis<"cols", 4>> {};
struct OverThree : mtf::Layout<mtf::Split<"long", "cols", "rows">, mtf::Split<"length", "rows", "planes", "cols">> {};
struct Odd : mtf::Dim<"long", 12> {};
static_assert(std::is_same_v<mtf::not_placeable<mtf::DryRun<ThreeAxes, OverThree>, Odd>,
                             mtf::indivisible_extent<Odd, 12, 8, "cols", "rows">>);

TEST_CASE("an extent that the sizes of several axes do not divide") {
  mtf::DryRun<ThreeAxes, OverThree> world;
  CHECK_THROWS_WITH_AS(
      (mtf::zeros<float>(world, mtf::Dim<"long">{12})),
      "mtf: constant on mesh \"rows:2;planes:3;cols:4\": dim \"long\" has extent 12, axes \"rows\" (2) "
      "and \"cols\" (4) divide it by 8: " MTF_RULE_INDIVISIBLE_EXTENT,
      mtf::plan_error);
  CHECK_THROWS_WITH_AS((mtf::zeros<float>(world, mtf::Dim<"length">{36})),
                       "mtf: constant on mesh \"rows:2;planes:3;cols:4\": dim \"length\" has extent 36, axes \"rows\" "
                       "(2), \"planes\" (3) and \"cols\" (4) divide it by 24: " MTF_RULE_INDIVISIBLE_EXTENT,
                       mtf::plan_error);
}

TEST_CASE("elements that cannot be counted are refused by name") {
  mtf::DryRun<Mesh, Layout> world;
  using L = mtf::Dim<"long">;
  using W = mtf::Dim<"wide">;
  constexpr std::int64_t large = std::int64_t{1} << 40;
  const std::string facts = "dim \"wide\" has extent 1099511627776, the dims before it 1099511627776 elements: ";
  CHECK_THROWS_WITH_AS((mtf::zeros<float>(world, L{large}, W{large})),
                       ("mtf: constant on mesh \"rows:2\": " + facts + MTF_RULE_TOO_MANY_ELEMENTS).c_str(),
                       mtf::plan_error);
  const auto x = mtf::placeholder<float>(world, L{large});
  const auto y = mtf::placeholder<float>(world, W{large});
  CHECK_THROWS_AS(x * y, mtf::plan_error);
  CHECK_THROWS_AS((mtf::einsum<mtf::Shape<>>(x, y)), mtf::plan_error);
  // Few enough to multiply, too many to keep.
  const auto z = mtf::placeholder<float>(world, W{1 << 20});
  CHECK_NOTHROW((mtf::einsum<L>(x, z)));
  CHECK_THROWS_AS((mtf::einsum<L, W>(x, z)), mtf::plan_error);
  CHECK_THROWS_AS(x + z, mtf::plan_error);
}
