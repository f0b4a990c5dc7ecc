// Choosing elements along a dim: argmax, top_k, n-th elements, sort, sampling; along split and unsplit dims, with ties
// and NaN.
#include <algorithm>
#include <limits>
#include <numeric>

#include "support.hpp"

using namespace support;

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();

struct Few : mtf::Dim<"few"> {};

const std::initializer_list<std::string_view> layouts = {"",
                                                         "a:rows",
                                                         "b:cols",
                                                         "b:rows",
                                                         "a:rows;b:cols",
                                                         "c:cols;b:rows",
                                                         "b:rows,cols",
                                                         "b:cols,rows",
                                                         "a:cols;c:rows",
                                                         "few:cols;b:rows"};

/// Integers, so that most rows have ties, as doubles.
auto with_ties(World& w) { return mtf::cast<double>(integers(w, 5, -4, 4, a, b, c)); }

/// Indices along the middle of x[a, b, c] in order; equal elements by index, NaN as the largest.
std::vector<std::size_t> sorted_row(const Host& x, std::int64_t i, std::int64_t l, bool descending) {
  std::vector<std::size_t> order(static_cast<std::size_t>(b.extent()));
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto element = [&](std::size_t j) {
    const double e = x[static_cast<std::size_t>((i * b.extent() + static_cast<std::int64_t>(j)) * c.extent() + l)];
    return std::isnan(e) ? std::pair(1, 0.0) : std::pair(0, e);
  };
  std::sort(order.begin(), order.end(), [&](std::size_t p, std::size_t q) {
    if (element(p) == element(q)) return p < q;
    return descending ? element(q) < element(p) : element(p) < element(q);
  });
  return order;
}

/// f(element indices of a row in order, row) for every row of x[a, b, c], in the order of [a, c].
template <class F>
void for_each_row(const Host& x, bool descending, const F& f) {
  for (std::int64_t i = 0; i < a.extent(); ++i) {
    for (std::int64_t l = 0; l < c.extent(); ++l) {
      f(sorted_row(x, i, l, descending), [&, i, l](std::size_t j) {
        return x[static_cast<std::size_t>((i * b.extent() + static_cast<std::int64_t>(j)) * c.extent() + l)];
      });
    }
  }
}

struct Both {
  Host values, indices;
};
/// [a, c, k]
Both naive_top_k(const Host& x, std::int64_t k, bool largest = true) {
  Both result;
  for_each_row(x, largest, [&](const std::vector<std::size_t>& order, const auto& element) {
    for (std::size_t j = 0; j < static_cast<std::size_t>(k); ++j) {
      result.values.push_back(element(order[j]));
      result.indices.push_back(static_cast<double>(order[j]));
    }
  });
  return result;
}
/// [a, b, c]
Both naive_sort(const Host& x, bool descending) {
  Both result{Host(x.size()), Host(x.size())};
  std::int64_t row = 0;
  for_each_row(x, descending, [&](const std::vector<std::size_t>& order, const auto& element) {
    for (std::size_t j = 0; j < order.size(); ++j) {
      const auto at = static_cast<std::size_t>(row / c.extent() * b.extent() * c.extent() +
                                               static_cast<std::int64_t>(j) * c.extent() + row % c.extent());
      result.values[at] = element(order[j]);
      result.indices[at] = static_cast<double>(order[j]);
    }
    ++row;
  });
  return result;
}

void check_equal(const Host& got, const Host& expected, const std::string& what) {
  check_close(got, expected, 0, what);
}

/// Elements of a slice with these dims.
std::int64_t slice_size(const World& world, const mtf::ShapeValue& shape) {
  return mtf::place(world.engine().rules, shape).local_size();
}
std::string axes_of(const World& world, const mtf::Name& dim) {
  std::string text;
  const mtf::AxisSet set = mtf::set_of(world.engine().rules.axes_of(dim));
  for (int i = 0; i < world.engine().mesh().rank(); ++i) {
    if (!set.has(i)) continue;
    if (!text.empty()) text += ',';
    text += world.engine().mesh().axes[i].name.text;
  }
  return text;
}
std::int64_t parts_of(const World& world, const mtf::Name& dim) {
  return mtf::place(world.engine().rules, mtf::DimValue{dim, 64}).parts;
}

mtf::ShapeValue shape_of(std::initializer_list<mtf::DimValue> dims) {
  mtf::ShapeValue result;
  for (const mtf::DimValue& dim : dims) result.push_back(dim);
  return result;
}

}  // namespace

TEST_CASE("argmax and argmin under all layouts, of several element types") {
  for_each_layout(layouts, [](const Pair& pair) {
    const Host x = host(with_ties(pair.alone));
    const auto run = [&]<class T>(T) {
      const auto of = [](World& w) { return mtf::cast<T>(with_ties(w)); };
      const std::string what = std::string(mtf::name_of(mtf::element_type_of<T>::value)) + ", " + pair.place;
      check_equal(host(mtf::argmax<B>(of(pair.world))), naive_top_k(x, 1).indices, "argmax of " + what);
      check_equal(host(mtf::argmin<B>(of(pair.world))), naive_top_k(x, 1, false).indices, "argmin of " + what);
      // Along the first and the last dim.
      const auto first = mtf::einsum<B, A, C>(of(pair.world));
      check_equal(host(mtf::argmax<B>(first)), naive_top_k(x, 1).indices, "argmax along the first dim of " + what);
      const auto last = mtf::einsum<A, C, B>(of(pair.world));
      check_equal(host(mtf::argmin<B>(last)), naive_top_k(x, 1, false).indices, "argmin along the last dim of " + what);
    };
    run(double{});
    run(float{});
    run(std::int32_t{});
    run(std::int64_t{});

    const auto y = with_ties(pair.world);
    watch_collectives(pair.world);
    (void)mtf::argmax<B>(y);
    std::vector<std::string> expected;
    if (parts_of(pair.world, b.name) > 1) {
      const std::string line = fmt::format("allreduce over {} of {}", axes_of(pair.world, b.name),
                                           slice_size(pair.world, shape_of({{a.name, 8}, {c.name, 8}})));
      expected = {line, line};
    }
    CHECK(collectives(pair.world) == expected);
  });
}

TEST_CASE("NaN and infinities in rows that are searched and sorted") {
  for_each_layout({"", "b:rows", "b:cols,rows", "a:cols;b:rows"}, [](const Pair& pair) {
    Host values = host(normal(pair.alone, 1, a, b));
    const auto at = [](std::int64_t i, std::int64_t j) { return static_cast<std::size_t>(i * b.extent() + j); };
    values[at(1, 9)] = values[at(1, 13)] = not_a_number;
    values[at(2, 3)] = -infinity;
    values[at(2, 12)] = infinity;
    for (std::int64_t j = 0; j < b.extent(); ++j) {
      values[at(3, j)] = -infinity;
      values[at(4, j)] = not_a_number;
    }
    const auto x = mtf::from_global<double>(pair.world, values, a, b);
    const Host largest = host(mtf::argmax<B>(x));
    const Host smallest = host(mtf::argmin<B>(x));
    CHECK(largest[1] == 9);
    CHECK(smallest[1] == 9);
    CHECK(largest[2] == 12);
    CHECK(smallest[2] == 3);
    CHECK(largest[3] == 0);
    CHECK(largest[4] == 0);
    const auto [top, places] = mtf::top_k<B>(x, Few{3});
    const Host t = host(top);
    const Host p = host(places);
    CHECK(std::isnan(t[3]));
    CHECK(std::isnan(t[4]));
    CHECK(std::isfinite(t[5]));
    CHECK(p[3] == 9);
    CHECK(p[4] == 13);
    CHECK(t[6] == infinity);
    for (std::size_t j = 0; j < 3; ++j) {
      CHECK(t[9 + j] == -infinity);
      CHECK(p[9 + j] == static_cast<double>(j));
      CHECK(p[12 + j] == static_cast<double>(j));
    }
    const auto [sorted, from] = mtf::sort<B>(x);
    const Host s = host(sorted);
    const Host f = host(from);
    CHECK(std::isnan(s[at(1, 15)]));
    CHECK(f[at(1, 14)] == 9);
    CHECK(f[at(1, 15)] == 13);
    CHECK(std::isfinite(s[at(1, 13)]));
    CHECK(s[at(2, 0)] == -infinity);
    CHECK(s[at(2, 15)] == infinity);
  });
}

TEST_CASE("top_k under all layouts, for k below and above the slice") {
  for_each_layout(layouts, [](const Pair& pair) {
    const Host ties = host(with_ties(pair.alone));
    for (const std::int64_t extent : {8, 16}) {
      const Few few{extent};
      const std::string name = "top_" + std::to_string(extent);
      check_operation(
          pair, name, [](World& w) { return std::tuple(normal(w, 1, a, b, c)); },
          [&](World&, const auto& x) { return mtf::top_k<B>(x, few).values; },
          [&](const Host& x) { return naive_top_k(x, extent).values; });
      if (!legal(pair.world, shape_of({{a.name, 8}, {b.name, 16}, {c.name, 8}, {few.name, extent}}))) continue;
      const auto run = [&]<class T>(T) {
        const auto [values, indices] = mtf::top_k<B>(mtf::cast<T>(with_ties(pair.world)), few);
        static_assert(std::is_same_v<mtf::element_of<decltype(indices)>, std::int32_t>);
        const Both expected = naive_top_k(ties, extent);
        check_equal(host(values), expected.values, name + " values, " + pair.place);
        check_equal(host(indices), expected.indices, name + " indices, " + pair.place);
      };
      run(double{});
      run(std::int32_t{});
      run(std::int64_t{});

      const auto x = mtf::watch(with_ties(pair.world));
      watch_collectives(pair.world);
      const auto y = mtf::top_k<B>(x, few).values;
      std::vector<std::string> expected;
      const std::int64_t parts = parts_of(pair.world, b.name);
      if (parts > 1) {
        const std::int64_t each = std::min(extent, b.extent() / parts);
        const std::string line =
            fmt::format("allgather over {} of {}", axes_of(pair.world, b.name),
                        slice_size(pair.world, shape_of({{a.name, 8}, {c.name, 8}})) * each * parts);
        expected = {line, line};
      }
      CHECK(collectives(pair.world) == expected);
      const auto loss = weighted_sum(y);
      watch_collectives(pair.world);
      const auto [dx] = mtf::gradients(loss, x);
      CHECK(collectives(pair.world).empty());
      (void)host(dx);
    }
    check_operation(
        pair, "top_3 along the last dim", [](World& w) { return std::tuple(normal(w, 1, a, c, b)); },
        [&](World&, const auto& x) { return mtf::top_k<B>(x, Few{8}).values; },
        [](const Host& x) {
          Host swapped(x.size());  // [a, c, b] to [a, b, c]
          for (std::int64_t i = 0; i < std::ssize(x); ++i) {
            const std::int64_t row = i / b.extent();
            swapped[static_cast<std::size_t>(row / c.extent() * b.extent() * c.extent() + i % b.extent() * c.extent() +
                                             row % c.extent())] = x[static_cast<std::size_t>(i)];
          }
          return naive_top_k(swapped, 8).values;
        });
  });
}

TEST_CASE("n-th largest and smallest elements under all layouts") {
  for_each_layout(layouts, [](const Pair& pair) {
    const Host ties = host(with_ties(pair.alone));
    for (const std::int64_t n : {0, 1, 6, 15}) {
      const auto nth = [&](const Host& x, bool largest) {
        Host result;
        for_each_row(x, largest, [&](const auto& order, const auto& element) {
          result.push_back(element(order[static_cast<std::size_t>(n)]));
        });
        return result;
      };
      check_operation(
          pair, "nth_largest " + std::to_string(n), [](World& w) { return std::tuple(normal(w, 1, a, b, c)); },
          [&](World&, const auto& x) { return mtf::nth_largest_element<B>(x, n); },
          [&](const Host& x) { return nth(x, true); });
      check_operation(
          pair, "nth_smallest " + std::to_string(n), [](World& w) { return std::tuple(normal(w, 1, a, b, c)); },
          [&](World&, const auto& x) { return mtf::nth_smallest_element<B>(x, n); },
          [&](const Host& x) { return nth(x, false); });
      check_equal(host(mtf::nth_smallest_element<B>(mtf::cast<std::int32_t>(with_ties(pair.world)), n)),
                  nth(ties, false), pair.place);
    }
    const auto x = with_ties(pair.world);
    watch_collectives(pair.world);
    (void)mtf::nth_smallest_element<B>(x, 6);
    std::vector<std::string> expected;
    const std::int64_t parts = parts_of(pair.world, b.name);
    if (parts > 1) {
      const std::string line = fmt::format("allgather over {} of {}", axes_of(pair.world, b.name),
                                           slice_size(pair.world, shape_of({{a.name, 8}, {c.name, 8}})) *
                                               std::min<std::int64_t>(7, b.extent() / parts) * parts);
      expected = {line, line};
    }
    CHECK(collectives(pair.world) == expected);
  });
}

TEST_CASE("sort under all layouts") {
  for_each_layout(layouts, [](const Pair& pair) {
    const Host ties = host(with_ties(pair.alone));
    for (const bool descending : {false, true}) {
      const mtf::order order = descending ? mtf::order::descending : mtf::order::ascending;
      const std::string name = descending ? "descending" : "ascending";
      check_operation(
          pair, name, [](World& w) { return std::tuple(normal(w, 1, a, b, c)); },
          [&](World&, const auto& x) { return mtf::sort<B>(x, order).values; },
          [&](const Host& x) { return naive_sort(x, descending).values; });
      const Both expected = naive_sort(ties, descending);
      const auto run = [&]<class T>(T) {
        const auto [values, indices] = mtf::sort<B>(mtf::cast<T>(with_ties(pair.world)), order);
        check_equal(host(values), expected.values, name + " values, " + pair.place);
        check_equal(host(indices), expected.indices, name + " indices, " + pair.place);
      };
      run(double{});
      run(float{});
      run(std::int32_t{});
    }
    // A single vector has no rows to share out: it is gathered. Of a matrix whose other dim is short, too.
    check_operation(
        pair, "one vector", [](World& w) { return std::tuple(normal(w, 2, b)); },
        [&](World&, const auto& x) { return mtf::sort<B>(x).values; },
        [&](const Host& x) {
          Host sorted = x;
          std::sort(sorted.begin(), sorted.end());
          return sorted;
        });
    check_operation(
        pair, "three rows", [](World& w) { return std::tuple(normal(w, 3, b, Few{8})); },
        [&](World&, const auto& x) { return mtf::sort<B>(x).values; },
        [&](const Host& x) {
          Host result(x.size());
          for (std::size_t row = 0; row < 8; ++row) {
            Host one;
            for (std::size_t j = 0; j < x.size() / 8; ++j) one.push_back(x[j * 8 + row]);
            std::sort(one.begin(), one.end());
            for (std::size_t j = 0; j < one.size(); ++j) result[j * 8 + row] = one[j];
          }
          return result;
        });
    const std::int64_t parts = parts_of(pair.world, b.name);
    if (parts == 1) return;
    const std::string axes = axes_of(pair.world, b.name);
    const std::int64_t slice = slice_size(pair.world, shape_of({{a.name, 8}, {b.name, 16}, {c.name, 8}}));
    const std::string exchange = fmt::format("all-to-all over {} of {}", axes, slice);
    const std::string gather =
        fmt::format("allgather over {} of {}", axes, slice_size(pair.world, shape_of({{b.name, 16}})) * parts);
    const auto check = [&](const auto& x, const std::vector<std::string>& forward,
                           const std::vector<std::string>& backward) {
      watch_collectives(pair.world);
      const auto y = mtf::sort<B>(x).values;
      CHECK(collectives(pair.world) == forward);
      const auto loss = mtf::reduce_sum(y);
      watch_collectives(pair.world);
      const auto [dx] = mtf::gradients(loss, x);
      CHECK(collectives(pair.world) == backward);
    };
    check(mtf::watch(normal(pair.world, 1, a, b, c)), {exchange, exchange, exchange}, {exchange, exchange});
    check(mtf::watch(normal(pair.world, 1, b)), {gather}, {gather});
  });
}

TEST_CASE("the reference's values of top_k and of n-th elements") {
  for_each_layout({"", "b:rows", "b:cols"}, [](const Pair& pair) {
    if (ranks() > 2) return;
    const auto x = mtf::from_global<double>(pair.world, Host{3, 1, 3, 2, 5, 5}, B{6});
    CHECK(host(mtf::argmax<B>(x)) == Host{4});
    const auto [top, place] = mtf::top_k<B>(x, Few{1});
    CHECK(host(top) == Host{5});
    CHECK(host(place) == Host{4});
    const auto [three, places] = mtf::top_k<B>(x, Few{3});
    CHECK(host(three) == Host{5, 5, 3});
    CHECK(host(places) == Host{4, 5, 0});
    const auto [five, all] = mtf::top_k<B>(x, Few{5});
    CHECK(host(five) == Host{5, 5, 3, 3, 2});
    CHECK(host(all) == Host{4, 5, 0, 2, 3});
    const auto y = mtf::from_global<double>(pair.world, Host{1, 10, 2, 9, 3, 8, 4, 7, 5, 6, 6, 5}, A{6}, B{2});
    CHECK(host(mtf::nth_smallest_element<B>(y, 0)) == Host{1, 2, 3, 4, 5, 5});
    CHECK(host(mtf::nth_largest_element<B>(y, 1)) == Host{1, 2, 3, 4, 5, 5});
  });
}

TEST_CASE("samples follow the logits, on any mesh the same") {
  for_each_layout(layouts, [](const Pair& pair) {
    const auto run = [](World& w, double temperature) {
      return host(mtf::sample_with_temperature<B>(normal(w, 1, a, b, c) * 3.0, temperature, mtf::seed{7} / "sample"));
    };
    for (const double temperature : {0.0, 0.5, 1.0, 10.0})
      check_equal(run(pair.world, temperature), run(pair.alone, temperature), pair.place);
    check_equal(run(pair.world, 0), host(mtf::argmax<B>(normal(pair.world, 1, a, b, c))), pair.place);
    const auto x = normal(pair.world, 1, a, b, c);
    watch_collectives(pair.world);
    (void)mtf::sample_with_temperature<B>(x, 1, mtf::seed{7} / "sample");
    CHECK(collectives(pair.world).size() == (parts_of(pair.world, b.name) > 1 ? 2 : 0));
  });
  if (ranks() > 1) return;
  World w(MPI_COMM_SELF, {.mesh = "rows:1;cols:1"});
  const Host logits{0.3, -1, 1.5, 0};
  const auto frequencies = [&](double temperature, std::string_view stream) {
    const auto x =
        mtf::broadcast(mtf::from_global<float>(w, std::vector<float>(logits.begin(), logits.end()), B{4}), A{200000});
    Host counts(4);
    for (const double i : host(mtf::sample_with_temperature<B>(x, temperature, mtf::seed{3} / stream)))
      counts[static_cast<std::size_t>(i)] += 1.0 / 200000;
    return counts;
  };
  for (const double temperature : {0.5, 1.0, 4.0}) {
    double sum = 0;
    for (const double logit : logits) sum += std::exp(logit / temperature);
    const Host counts = frequencies(temperature, "s");
    for (std::size_t i = 0; i < 4; ++i) {
      const double p = std::exp(logits[i] / temperature) / sum;
      CHECK(std::abs(counts[i] - p) < 5 * std::sqrt(p * (1 - p) / 200000));
    }
  }
  CHECK(frequencies(1, "s") != frequencies(1, "t"));
}

TEST_CASE("mistakes in selections are named before anything is sent") {
  for_each_layout({"", "b:rows"}, [](const Pair& pair) {
    World& w = pair.world;
    const auto x = normal(w, 1, a, b);
    watch_collectives(w);
    CHECK_THROWS_WITH_AS((mtf::top_k<B>(x, Few{17})),
                         "mtf: top_k: dim \"few\" asks for 17 elements of dim \"b\", which has 16", mtf::plan_error);
    CHECK_THROWS_WITH_AS(mtf::nth_largest_element<B>(x, 16),
                         "mtf: nth_largest_element: n is 16, dim \"b\" has elements 0 to 15", mtf::plan_error);
    CHECK_THROWS_AS(mtf::nth_smallest_element<B>(x, -1), mtf::plan_error);
    CHECK_THROWS_AS(mtf::sample_with_temperature<B>(x, -1, mtf::seed{1} / "s"), mtf::plan_error);
    CHECK_THROWS_AS(mtf::sample_with_temperature<B>(x, not_a_number, mtf::seed{1} / "s"), mtf::plan_error);
    CHECK(collectives(w).empty());
  });
  if (ranks() == 1) return;
  World w(MPI_COMM_WORLD, {.mesh = mesh_text(ranks(), 1), .layout = "b:rows;few:rows"});
  const auto x = normal(w, 1, a, b);
  CHECK_THROWS_AS((mtf::top_k<B>(x, Few{8})), mtf::plan_error);  // k and the dim are split over one axis
  World uneven(MPI_COMM_WORLD, {.mesh = mesh_text(ranks(), 1), .layout = "few:rows"});
  CHECK_THROWS_AS((mtf::top_k<B>(normal(uneven, 1, a, b), Few{3})), mtf::plan_error);
}

TEST_CASE("pending sums are completed before they are searched") {
  for_each_layout({"k:rows", "k:cols;b:rows"}, [](const Pair& pair) {
    const auto sum = [](World& w) { return mtf::reduce_sum<K>(normal(w, 1, a, k, b)); };
    check_equal(host(mtf::argmax<B>(sum(pair.world))), host(mtf::argmax<B>(sum(pair.alone))), pair.place);
    check_equal(host(mtf::top_k<B>(sum(pair.world), Few{5}).indices),
                host(mtf::top_k<B>(sum(pair.alone), Few{5}).indices), pair.place);
    check_equal(host(mtf::sort<B>(sum(pair.world)).indices), host(mtf::sort<B>(sum(pair.alone)).indices), pair.place);
  });
}

namespace fixed {

struct Rows : mtf::Dim<"rows_of_x", 4> {};
struct Wide : mtf::Dim<"wide", 12> {};
struct Top : mtf::Dim<"top", 5> {};
struct Mesh : mtf::Mesh<mtf::Axis<"rows", 2>, mtf::Axis<"cols", 2>> {};
struct Layout : mtf::Layout<mtf::Split<"rows_of_x", "rows">, mtf::Split<"wide", "cols">> {};

}  // namespace fixed

TEST_CASE("static dims and layouts run the same") {
  if (ranks() != 4) return;
  using namespace fixed;
  mtf::World<Mesh, Layout> world(MPI_COMM_WORLD);
  mtf::World<mtf::dynamic_mesh, mtf::dynamic_layout> alone(MPI_COMM_SELF, {.mesh = "rows:1;cols:1"});
  const auto run = [](auto& w) {
    const auto x = mtf::watch(mtf::random_normal<double, Rows, Wide>(w, mtf::seed{4} / "x"));
    const auto [values, indices] = mtf::top_k<Wide, Top>(x);
    const auto [sorted, order] = mtf::sort<Wide>(x, mtf::order::descending);
    const auto loss = mtf::reduce_sum(mtf::square(values)) + mtf::reduce_sum(mtf::square(sorted)) +
                      mtf::reduce_sum(mtf::nth_largest_element<Wide>(x, 2));
    const auto [dx] = mtf::gradients(loss, x);
    return std::vector<Host>{host(values), host(indices), host(sorted),
                             host(order),  host(dx),      host(mtf::argmin<Wide>(x))};
  };
  const std::vector<Host> results = run(world);
  const std::vector<Host> expected = run(alone);
  for (std::size_t i = 0; i < results.size(); ++i) check_equal(results[i], expected[i], "result " + std::to_string(i));
}

TEST_CASE("top_1 is top_k of one without its dim") {
  struct One : mtf::Dim<"one", 1> {};
  for_each_layout({"", "a:rows", "b:cols", "a:rows;b:cols", "b:rows,cols"}, [](const Pair& pair) {
    World& w = pair.world;
    const auto x = mtf::watch(mtf::cast<double>(integers(w, 1, 0, 5, a, b)));  // with ties
    const auto [values, indices] = mtf::top_1<B>(x);
    const auto [value_of_k, index_of_k] = mtf::top_k<B, One>(x);
    CHECK(host(values) == host(value_of_k));
    CHECK(host(indices) == host(index_of_k));
    CHECK(host(indices) == host(mtf::argmax<B>(x)));
    const auto [dx] = mtf::gradients(weighted_sum(values), x);
    const auto [expected] = mtf::gradients(weighted_sum(mtf::reshape(value_of_k, a)), x);
    CHECK(host(dx) == host(expected));
  });
}
