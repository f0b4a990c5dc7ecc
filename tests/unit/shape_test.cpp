// Shape: extents, the algebra by name, selections turned back into types.
#include <concepts>
#include <string>

#include <doctest/doctest.h>

#include <mtf/core/shape.hpp>

namespace {

struct A : mtf::Dim<"a", 2> {};
struct B : mtf::Dim<"b", 3> {};
struct C : mtf::Dim<"c", 5> {};
struct D : mtf::Dim<"d"> {};
struct E : mtf::Dim<"e"> {};

std::string text(const mtf::ShapeValue& shape) {
  std::string result;
  for (const mtf::DimValue& dim : shape) result += std::string(dim.name.text) + std::to_string(dim.extent) + " ";
  return result;
}
template <class... Dims>
constexpr mtf::ShapeValue shape(const Dims&... dims) {
  return mtf::Shape<Dims...>(dims...).value();
}

constexpr auto a = shape(A{});
constexpr auto ab = shape(A{}, B{});
constexpr auto ba = shape(B{}, A{});
constexpr auto bc = shape(B{}, C{});
constexpr auto abc = shape(A{}, B{}, C{});
constexpr auto ac = shape(A{}, C{});
constexpr mtf::ShapeValue none;

constexpr bool size_is_the_product() {
  return mtf::Shape<>().size() == 1 && mtf::Shape<A, B, C>().size() == 30 &&
         mtf::Shape<A, D, E>(A{}, D{7}, E{1}).size() == 14 && mtf::Shape(A{}, B{}).size() == 6 &&
         mtf::size_of(none) == 1;
}
static_assert(size_is_the_product());

constexpr bool algebra_is_by_name_and_keeps_order() {
  return mtf::unite(ab, bc) == abc && mtf::unite(bc, ab) == shape(B{}, C{}, A{}) && mtf::unite(none, ab) == ab &&
         mtf::unite(ab, none) == ab && mtf::unite(ab, ba) == ab && mtf::minus(abc, ba) == shape(C{}) &&
         mtf::minus(ab, none) == ab && mtf::minus(ab, abc) == none && mtf::includes(abc, ba) &&
         !mtf::includes(ab, abc) && mtf::includes(ab, none);
}
static_assert(algebra_is_by_name_and_keeps_order());

constexpr bool broadcasting_takes_the_longer_list_if_it_can() {
  return mtf::broadcast_shape(ab, abc) == abc && mtf::broadcast_shape(abc, ab) == abc &&
         mtf::broadcast_shape(ac, abc) == abc && mtf::broadcast_shape(ba, abc) == shape(B{}, A{}, C{}) &&
         mtf::broadcast_shape(none, ba) == ba && mtf::broadcast_shape(a, bc) == shape(A{}, B{}, C{}) &&
         mtf::is_subsequence(ac, abc) && !mtf::is_subsequence(ba, abc) && mtf::is_subsequence(none, none) &&
         !mtf::is_subsequence(abc, ab);
}
static_assert(broadcasting_takes_the_longer_list_if_it_can());

// What the types know must be what the values know.
static_assert(mtf::DimList<A, B, D>::shape()[2].extent == mtf::dynamic);
static_assert(std::same_as<mtf::dim_at<1, A, B, C>, B>);
static_assert(std::same_as<mtf::select_dims<mtf::positions(abc, mtf::unite(shape(C{}), a)), mtf::DimList<A, B, C>>,
                           mtf::DimList<C, A>>);
static_assert(std::same_as<
              mtf::select_dims<mtf::first_occurrences(mtf::static_shape<A, B, A, C, B>()), mtf::DimList<A, B, A, C, B>>,
              mtf::DimList<A, B, C>>);
static_assert(std::same_as<mtf::select_dims<mtf::single_occurrences(mtf::static_shape<A, B, A, C, B, D>()),
                                            mtf::DimList<A, B, A, C, B, D>>,
                           mtf::DimList<C, D>>);
static_assert(std::same_as<mtf::select_dims<mtf::remaining(mtf::static_shape<A, B, C>(), mtf::static_shape<B>()),
                                            mtf::DimList<A, B, C>>,
                           mtf::DimList<A, C>>);
static_assert(std::same_as<mtf::select_dims<mtf::Selection{}, mtf::DimList<A, B>>, mtf::DimList<>>);

// Static extents cost no memory per dim beyond what an empty base may need; dynamic ones cost eight bytes.
static_assert(sizeof(mtf::Shape<D>) == 8 && sizeof(mtf::Shape<D, E>) == 16);
static_assert(sizeof(mtf::Shape<A, B, C>) < 8);

}  // namespace

TEST_CASE("the size of a shape is the product of its extents, 1 for a scalar") { CHECK(size_is_the_product()); }
TEST_CASE("union, difference and inclusion go by name and keep the order of the left operand") {
  CHECK(algebra_is_by_name_and_keeps_order());
  CHECK(text(mtf::unite(ab, bc)) == "a2 b3 c5 ");
}
TEST_CASE("broadcasting takes the longer list if the other is a subsequence of it") {
  CHECK(broadcasting_takes_the_longer_list_if_it_can());
}

TEST_CASE("dynamic extents come from the values") {
  for (const std::int64_t extent : {1, 6, 1000000}) {
    const mtf::Shape<A, D, E> dims(A{}, D{extent}, E{extent + 1});
    CHECK(
        text(dims.value()) ==
        std::string("a2 d").append(std::to_string(extent)).append(" e").append(std::to_string(extent + 1)).append(" "));
    CHECK(dims.size() == 2 * extent * (extent + 1));
  }
}

TEST_CASE("finding goes by name") {
  CHECK(mtf::find(abc, "b") == 1);
  CHECK(mtf::find(abc, "d") == -1);
  CHECK(mtf::contains(abc, "c"));
  CHECK_FALSE(mtf::contains(none, "a"));
}

TEST_CASE("extents of a large shape do not overflow an int") {
  const mtf::Shape<D, E> large(D{3'000'000'000}, E{2});
  CHECK(large.size() == 6'000'000'000);
}

TEST_CASE("names and einsum: the default output of an einsum keeps the names that occur once") {
  const mtf::Selection once = mtf::single_occurrences(mtf::static_shape<A, B, A, C>());
  REQUIRE(once.size() == 2);
  CHECK(once[0] == 1);
  CHECK(once[1] == 3);
}
