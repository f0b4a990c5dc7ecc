// The algebra of shapes against that of Boost.Hana: sets for membership, filtered tuples for order.
#include <algorithm>
#include <string>
#include <vector>

#include <boost/hana.hpp>
#include <doctest/doctest.h>

#include <mtf/core/shape.hpp>

namespace {

namespace hana = boost::hana;

struct A : mtf::Dim<"a", 2> {};
struct B : mtf::Dim<"b", 3> {};
struct C : mtf::Dim<"c", 5> {};
struct D : mtf::Dim<"d", 7> {};
struct E : mtf::Dim<"e"> {};

using Names = std::vector<std::string>;

template <class Types>
Names names(const Types& types) {
  Names result;
  hana::for_each(types, [&](auto type) { result.emplace_back(decltype(type)::type::name.text); });
  return result;
}
Names names(const mtf::ShapeValue& shape) {
  Names result;
  for (const mtf::DimValue& dim : shape) result.emplace_back(dim.name.text);
  return result;
}
template <class... Dims>
Names names(mtf::DimList<Dims...>) {
  return {std::string(Dims::name.text)...};
}
Names sorted(Names list) {
  std::sort(list.begin(), list.end());
  return list;
}

template <class... X, class... Y>
void compare(mtf::DimList<X...>, mtf::DimList<Y...>) {
  const mtf::ShapeValue x = mtf::static_shape<X...>();
  const mtf::ShapeValue y = mtf::static_shape<Y...>();
  constexpr auto x_set = hana::make_set(hana::type_c<X>...);
  constexpr auto y_set = hana::make_set(hana::type_c<Y>...);
  constexpr auto x_list = hana::make_tuple(hana::type_c<X>...);
  constexpr auto y_list = hana::make_tuple(hana::type_c<Y>...);
  const auto in_x = [&](auto type) { return hana::contains(x_set, type); };
  const auto not_in_x = [&](auto type) { return hana::not_(hana::contains(x_set, type)); };
  const auto in_y = [&](auto type) { return hana::contains(y_set, type); };
  const auto not_in_y = [&](auto type) { return hana::not_(hana::contains(y_set, type)); };
  CAPTURE(sizeof...(X));
  CAPTURE(sizeof...(Y));

  CHECK(sorted(names(mtf::unite(x, y))) == sorted(names(hana::union_(x_set, y_set))));
  CHECK(sorted(names(mtf::minus(x, y))) == sorted(names(hana::difference(x_set, y_set))));
  CHECK(sorted(names(mtf::minus(x, mtf::minus(x, y)))) == sorted(names(hana::intersection(x_set, y_set))));
  CHECK(mtf::includes(x, y) == hana::value(hana::is_subset(y_set, x_set)));

  CHECK(names(mtf::unite(x, y)) == names(hana::concat(x_list, hana::filter(y_list, not_in_x))));
  CHECK(names(mtf::minus(x, y)) == names(hana::filter(x_list, not_in_y)));
  CHECK(names(mtf::minus(x, mtf::minus(x, y))) == names(hana::filter(x_list, in_y)));

  // The same as selections of types.
  using Both = mtf::DimList<X..., Y...>;
  CHECK(names(mtf::select_dims<mtf::first_occurrences(Both::shape()), Both>{}) == names(mtf::unite(x, y)));
  CHECK(names(mtf::select_dims<mtf::single_occurrences(Both::shape()), Both>{}) ==
        names(hana::concat(hana::filter(x_list, not_in_y), hana::filter(y_list, not_in_x))));
  CHECK(names(mtf::select_dims<mtf::remaining(mtf::static_shape<X...>(), mtf::static_shape<Y...>()),
                               mtf::DimList<X...>>{}) == names(hana::filter(x_list, not_in_y)));
  const Names common = names(hana::filter(x_list, in_y));
  CHECK(sorted(common) == sorted(names(hana::filter(y_list, in_x))));
}

}  // namespace

TEST_CASE("union, difference and intersection of shapes are those of sets, in order") {
  using mtf::DimList;
  constexpr auto lists = hana::make_tuple(DimList<>{}, DimList<A>{}, DimList<B, A>{}, DimList<C, D>{},
                                          DimList<A, B, C>{}, DimList<D, B, E>{}, DimList<E, D, C, B, A>{});
  hana::for_each(lists, [&](auto x) { hana::for_each(lists, [&](auto y) { compare(x, y); }); });
}
