// Kernels of the user's own: slices and offsets, declared placements, gradients given and derived.
#include "support.hpp"

using namespace support;

namespace {

const std::initializer_list<std::string_view> layouts{
    "", "a:rows", "k:cols", "a:rows;k:cols", "a:rows,cols", "k:rows,cols", "b:rows;a:cols", "a:cols;k:rows"};

/// y[a, k] = x[a, k] (1 + i) + w[k] (2 + j), i and j being global indices.
struct Affine {
  template <class Space, class Y, class X, class W>
  void operator()(const Space& space, const Y& y, const X& x, const W& w) const {
    const auto out = y.view;
    const auto in = x.view;
    const auto row = w.view;
    const std::int64_t i0 = y.begin[0];
    const std::int64_t j0 = y.begin[1];
    using T = typename decltype(y.view)::non_const_value_type;
    Kokkos::parallel_for("affine",
                         Kokkos::MDRangePolicy<Space, Kokkos::Rank<2>>(space, {0, 0}, {out.extent(0), out.extent(1)}),
                         [=](std::size_t i, std::size_t j) {
                           out(i, j) = in(i, j) * in(i, j) * T(1.0 + static_cast<double>(i0) + static_cast<double>(i)) +
                                       row(j) * T(2.0 + static_cast<double>(j0) + static_cast<double>(j)) * in(i, j);
                         });
  }
};
/// y[a] = sum over k of x[a, k] w[k], of the local part of k.
struct Product {
  template <class Space, class Y, class X, class W>
  void operator()(const Space& space, const Y& y, const X& x, const W& w) const {
    const auto out = y.view;
    const auto in = x.view;
    const auto row = w.view;
    Kokkos::parallel_for("product", Kokkos::RangePolicy<Space>(space, 0, out.extent(0)), [=](std::size_t i) {
      double sum = 0;
      for (std::size_t j = 0; j < row.extent(0); ++j) sum += in(i, j) * row(j);
      out(i) = sum;
    });
  }
};
/// dx[a, k] = dy[a] w[k].
struct Outer {
  template <class Space, class Y, class G, class W>
  void operator()(const Space& space, const Y& y, const G& g, const W& w) const {
    const auto out = y.view;
    const auto dy = g.view;
    const auto row = w.view;
    Kokkos::parallel_for("outer", Kokkos::RangePolicy<Space>(space, 0, out.extent(0)), [=](std::size_t i) {
      for (std::size_t j = 0; j < out.extent(1); ++j) out(i, j) = dy(i) * row(j);
    });
  }
};
/// dw[k] = sum over a of dy[a] x[a, k].
struct Columns {
  template <class Space, class Y, class G, class X>
  void operator()(const Space& space, const Y& y, const G& g, const X& x) const {
    const auto out = y.view;
    const auto dy = g.view;
    const auto in = x.view;
    Kokkos::parallel_for("columns", Kokkos::RangePolicy<Space>(space, 0, out.extent(0)), [=](std::size_t j) {
      out(j) = 0;
      for (std::size_t i = 0; i < in.extent(0); ++i) out(j) += dy(i) * in(i, j);
    });
  }
};

}  // namespace

TEST_CASE("local_map: offsets are global, a pointwise gradient is derived") {
  for_each_layout(layouts, [&](const Pair& pair) {
    check_operation(
        pair, "affine", [](World& w) { return std::tuple(normal(w, 1, a, k), normal(w, 2, k)); },
        [](World&, const auto& x, const auto& w) {
          return mtf::local_map(mtf::local_result<double>(a, k), Affine{}, mtf::pointwise, x, w);
        },
        [](const Host& x, const Host& w) {
          Host y(x.size());
          for (std::size_t i = 0; i < 8; ++i) {
            for (std::size_t j = 0; j < 24; ++j) {
              const double e = x[i * 24 + j];
              y[i * 24 + j] = e * e * (1.0 + static_cast<double>(i)) + w[j] * (2.0 + static_cast<double>(j)) * e;
            }
          }
          return y;
        });
  });
}

TEST_CASE("local_map: a partial sum over the axes of a dim, gradients by kernels too") {
  for_each_layout(layouts, [&](const Pair& pair) {
    const auto product = [](World&, const auto& x, const auto& w) {
      return mtf::local_map(
          mtf::local_result<double>(a).template summed<K>(), Product{},
          [](const auto& dy, const auto&, const auto& u, const auto& other) {
            return std::tuple(mtf::local_map(mtf::local_result<double>(a, k), Outer{}, dy, other),
                              mtf::local_map(mtf::local_result<double>(k).template summed<A>(), Columns{}, dy, u));
          },
          x, w);
    };
    check_operation(
        pair, "product", [](World& w) { return std::tuple(normal(w, 1, a, k), normal(w, 2, k)); }, product,
        [](const Host& x, const Host& w) {
          Host y(8, 0.0);
          for (std::size_t i = 0; i < 8; ++i) {
            for (std::size_t j = 0; j < 24; ++j) y[i] += x[i * 24 + j] * w[j];
          }
          return y;
        });
  });
}

TEST_CASE("local_map: the sum is pending: one allreduce at first use, none before") {
  if (ranks() == 1) return;
  World w(MPI_COMM_WORLD, {.mesh = mesh_text(1, ranks()), .layout = "k:cols"});
  const auto x = normal(w, 1, a, k);
  const auto other = normal(w, 2, k);
  watch_collectives(w);
  const auto y = mtf::local_map(mtf::local_result<double>(a).summed<K>(), Product{}, x, other);
  const auto z = y + mtf::einsum<A>(x, other);
  CHECK(collectives(w).empty());
  check_close(host(z), host(mtf::einsum<A>(x, other) * 2.0), 1e-13, "sum");
  CHECK(joined(collectives(w)) == "allreduce over cols of 8; allreduce over cols of 8");
  // Data of the program's own, summed over a named axis.
  const double mine = w.rank() + 1;
  const auto fill = [mine](const auto& space, const auto& out, const auto&) {
    Kokkos::deep_copy(space, out.view, mine);
  };
  const auto total = mtf::local_map(mtf::local_result<double>().summed_over("cols"), fill, mtf::constant(w, 0.0));
  CHECK(mtf::item(total) == ranks() * (ranks() + 1) / 2);
}

TEST_CASE("local_map: declarations that cannot be right are errors by dim and axis") {
  World w(MPI_COMM_WORLD, {.mesh = mesh_text(1, ranks()), .layout = "k:cols;a:rows;b:cols"});
  const auto x = normal(w, 1, a, k);
  const auto other = normal(w, 2, k);
  const auto result = mtf::local_result<double>(a);
  CHECK_THROWS_WITH_AS(mtf::local_map(result, Product{}, x, other),
                       doctest::Contains("dim \"k\" of an input is split over axis \"cols\""), mtf::plan_error);
  CHECK_THROWS_WITH_AS(mtf::local_map(result.summed_over("depth"), Product{}, x, other), doctest::Contains("\"depth\""),
                       mtf::plan_error);
  CHECK_THROWS_WITH_AS(mtf::local_map(result.summed_over("rows").summed<K>(), Product{}, x, other),
                       doctest::Contains("splits dim \"a\""), mtf::plan_error);
  CHECK_THROWS_WITH_AS(mtf::local_map(result.summed<K, C>(), Product{}, x, other),
                       doctest::Contains("\"c\" is in no input"), mtf::plan_error);
  CHECK_THROWS_WITH_AS(mtf::local_map(result.summed<K, A>(), Product{}, x, other),
                       doctest::Contains("\"a\" is summed and also"), mtf::plan_error);
  CHECK_THROWS_WITH_AS(mtf::local_map(mtf::local_result<double>(b).summed<K>(), Product{}, x, other),
                       doctest::Contains("\"cols\""), mtf::plan_error);
  CHECK_THROWS_WITH_AS(mtf::local_map(result.summed<K>(), Product{}, mtf::watch(x), other),
                       doctest::Contains("gradient"), mtf::plan_error);
  CHECK(mtf::local_map(result.summed_over("cols"), Product{}, x, other).shape()[0].extent == 8);
}

TEST_CASE("local_map: a pointwise gradient is 0 where nothing depends on the element, whatever the slope") {
  World w(MPI_COMM_WORLD, {.mesh = mesh_text(1, ranks()), .layout = "a:cols"});
  const auto roots = [](const auto& space, const auto& out, const auto& in) {
    const auto x = in.view;
    const auto y = out.view;
    const auto elements = static_cast<std::int64_t>(x.extent(0));
    using Space = std::remove_cvref_t<decltype(space)>;
    Kokkos::parallel_for(
        Kokkos::RangePolicy<Space, Kokkos::IndexType<std::int64_t>>(space, 0, elements), KOKKOS_LAMBDA(std::int64_t i) {
          using std::sqrt;
          y(i) = sqrt(x(i));
        });
  };
  const auto x = mtf::watch(mtf::map([](double i) { return i * i; }, mtf::range<double>(w, a)));
  const auto y = mtf::local_map(mtf::local_result<double>(a), roots, mtf::pointwise, x);
  const auto [dx] = mtf::gradients(mtf::reduce_sum(mtf::where(mtf::greater(x, 0), y, mtf::zeros<double>(w, a))), x);
  Host slopes(8);
  for (std::size_t i = 1; i < 8; ++i) slopes[i] = 0.5 / static_cast<double>(i);
  check_close(host(dx), slopes, 1e-15, "gradient");
}
