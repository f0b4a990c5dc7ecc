// Layouts as types: every family of operations under layouts that the compiler knows sends what it sends, and gives
// what it gives bit for bit, under the same layout as a value; and both give what one rank gives.
//
// The programs are generic functions of a world, so the typed shells are compiled for each layout and the untyped
// operations once.
#include "support.hpp"

namespace {

using mtf::Spatial;
using support::Host;
using support::ranks;

struct A : mtf::Dim<"a", 8> {};
struct B : mtf::Dim<"b", 16> {};
struct C : mtf::Dim<"c", 8> {};
struct D : mtf::Dim<"d", 4> {};
struct Half : mtf::Dim<"half", 8> {};
struct Twice : mtf::Dim<"twice", 32> {};
struct Joined : mtf::Dim<"joined", 128> {};
struct H : mtf::Dim<"h", 16> {};
struct Window : mtf::Dim<"window", 3> {};
struct Out : mtf::Dim<"out", 8> {};
struct Pair : mtf::Dim<"pair", 2> {};
struct WithHalo : mtf::Dim<"with_halo", 22> {};
struct First : mtf::Dim<"first", 2> {};
struct Rest : mtf::Dim<"rest", 6> {};

template <class World, class... Dims>
auto normal(World& world, const char* name) {
  return mtf::watch(mtf::random_normal<double, Dims...>(world, mtf::seed{3} / name));
}
template <class World, class... Dims>
auto integers(World& world, const char* name, int low, int high) {
  return mtf::cast<std::int32_t>(
      mtf::map([](double u) { return std::floor(u); },
               mtf::random_uniform<double, Dims...>(world, mtf::seed{4} / name, low, high + 1)));
}

/// Sum of y with weights that differ from element to element.
template <class W, class... Dims>
auto weighted(const mtf::Tensor<W, double, Dims...>& y) {
  using E = typename W::engine_type;
  const mtf::Tensor<W, double, Dims...> weights(
      mtf::Array{mtf::untyped::random<E, double>(y.engine(), y.placement(), mtf::seed{5} / "weights",
                                                 mtf::Distribution::normal, 0, 1),
                 {}});
  return mtf::reduce_sum(y * weights);
}
/// The elements of the tensors, then the gradients of the loss with respect to xs.
template <class Loss, class... Ys, class... Xs>
std::vector<Host> results(const std::tuple<Ys...>& ys, const Loss& loss, const Xs&... xs) {
  std::vector<Host> all;
  std::apply([&](const auto&... y) { (all.push_back(support::host(y)), ...); }, ys);
  std::apply([&](const auto&... g) { (all.push_back(support::host(g)), ...); }, mtf::gradients(loss, xs...));
  return all;
}

struct Products {
  template <class W>
  std::vector<Host> operator()(W& world) const {
    const auto x = normal<W, A, B>(world, "x");
    const auto w = normal<W, B, C>(world, "w");
    const auto z = normal<W, C, D>(world, "z");
    const auto y = mtf::einsum<A, C>(x, w);
    const auto three = mtf::einsum<D, A>(x, w, z);
    return results(std::tuple(y, three), weighted(y) + weighted(three), x, w, z);
  }
};
struct Elementwise {
  template <class W>
  std::vector<Host> operator()(W& world) const {
    const auto x = normal<W, A, B>(world, "x");
    const auto b = normal<W, B>(world, "b");
    const auto y = mtf::where(mtf::less(x, b), mtf::tanh(x + b), mtf::maximum(x, 0.5) * b);
    const auto f = mtf::cast<double>(mtf::cast<float>(y) - 1);
    return results(std::tuple(y, f), weighted(f), x, b);
  }
};
struct Reductions {
  template <class W>
  std::vector<Host> operator()(W& world) const {
    const auto x = normal<W, A, B, D>(world, "x");
    const auto sum = mtf::reduce_sum<B>(x);
    const auto most = mtf::reduce_max<A, D>(x);
    const auto mean = mtf::reduce_mean(x);
    const auto wide = mtf::broadcast(sum, C{});
    const auto any = mtf::reduce_any<B>(mtf::greater(x, 2.0));
    return results(std::tuple(sum, most, mean, wide, any), weighted(sum) + weighted(most) + mean + weighted(wide), x);
  }
};
struct Losses {
  template <class W>
  std::vector<Host> operator()(W& world) const {
    const auto x = normal<W, A, B>(world, "x");
    const auto targets = integers<W, A>(world, "targets", -1, 16);
    const auto loss = mtf::cross_entropy<B>(x, targets, {.z_loss = 0.01});
    const auto shares = mtf::softmax<B>(x);
    const auto logs = mtf::log_softmax<A>(x);
    return results(std::tuple(loss, shares, logs), weighted(loss) + weighted(shares) + weighted(logs), x);
  }
};
struct Reshapes {
  template <class W>
  std::vector<Host> operator()(W& world) const {
    const auto x = normal<W, A, B>(world, "x");
    const auto renamed = mtf::rename<A, C>(x);
    const auto joined = mtf::reshape<Joined>(x);
    const auto apart = mtf::reshape<Twice, D>(joined);
    return results(std::tuple(renamed, joined, apart), weighted(renamed) + weighted(apart), x);
  }
};
struct Lookups {
  template <class W>
  std::vector<Host> operator()(W& world) const {
    const auto table = normal<W, B, D>(world, "table");
    const auto ids = integers<W, A>(world, "ids", -1, 16);
    const auto rows = mtf::gather<B>(table, ids);
    const auto hot = mtf::one_hot<double>(ids, B{});
    return results(std::tuple(rows, hot), weighted(rows), table);
  }
};
struct Selections {
  template <class W>
  std::vector<Host> operator()(W& world) const {
    const auto x = normal<W, A, B>(world, "x");
    const auto [values, indices] = mtf::top_k<B, D>(x);
    const auto [sorted, order] = mtf::sort<B>(x);
    const auto median = mtf::nth_largest_element<B>(x, 7);
    return results(std::tuple(values, indices, sorted, order, median, mtf::argmax<B>(x)),
                   weighted(values) + weighted(sorted) + weighted(median), x);
  }
};
struct Movements {
  template <class W>
  std::vector<Host> operator()(W& world) const {
    const auto x = normal<W, A, B>(world, "x");
    const auto moved = mtf::shift<B>(x, 3, {.wrap = true});
    const auto half = mtf::slice<B, Half>(x, 5);
    const auto padded = mtf::pad<B>(x, 7, 9, Twice{});
    const auto both = mtf::concat<B>(Twice{}, x, mtf::reverse<B>(x));
    const auto stacked = mtf::stack(Pair{}, x, moved);
    return results(std::tuple(moved, half, padded, both, stacked),
                   weighted(half) + weighted(padded) + weighted(both) + weighted(stacked), x);
  }
};
struct Convolutions {
  template <class W>
  std::vector<Host> operator()(W& world) const {
    const auto x = normal<W, A, H, C>(world, "x");
    const auto filter = normal<W, Window, C, D>(world, "filter");
    const auto y = mtf::convolution<Spatial<H, Window, Out>>(x, filter, {.stride = 2});
    const auto pooled = mtf::max_pool<Spatial<H, Out>>(x, {.window = 2});
    return results(std::tuple(y, pooled), weighted(y) + weighted(pooled), x, filter);
  }
};
struct Noise {
  template <class W>
  std::vector<Host> operator()(W& world) const {
    const auto x = normal<W, A, B>(world, "x");
    const auto y = mtf::dropout<B>(x, 0.3, mtf::seed{6} / "dropout");
    const auto sums = mtf::cumsum<B>(x);
    return results(std::tuple(y, sums, mtf::sample_with_temperature<B>(x, 0.7, mtf::seed{7} / "sample")),
                   weighted(y) + weighted(sums), x);
  }
};

struct Blocks {
  template <class W>
  std::vector<Host> operator()(W& world) const {
    const auto x = normal<W, A, B>(world, "x");
    const auto wide = mtf::halo_exchange<A, B, WithHalo>(x, 3);
    const auto [first, rest] = mtf::split<A>(x, First{}, Rest{});
    const auto [even, odd] = mtf::unstack<Pair>(normal<W, Pair, B>(world, "pair"));
    const auto pooled = mtf::average_pool<Spatial<B, Half>>(x, {.window = 2});
    const auto turned = mtf::transpose<B, A>(x);
    const auto n = mtf::floor_divide(integers<W, A, B>(world, "n", -9, 9), 2);
    return results(
        std::tuple(wide, first, rest, even, odd, pooled, turned, n, mtf::reduce_min<B>(n)),
        weighted(wide) + weighted(first) + weighted(rest) + weighted(even * odd) + weighted(pooled) + weighted(turned),
        x);
  }
};
struct Recomputed {
  template <class W>
  std::vector<Host> operator()(W& world) const {
    const auto x = normal<W, A, B>(world, "x");
    const auto w = normal<W, B, C>(world, "w");
    const auto y =
        mtf::recompute([](const auto& u, const auto& v) { return mtf::swish(mtf::einsum<A, C>(u, v)); }, x, w);
    const auto z = mtf::recompute([](const auto& u) { return mtf::softmax<B>(u, mtf::reduce_mean<B>(u)); }, x);
    return results(std::tuple(y, z), weighted(y) + weighted(z), x, w);
  }
};

/// Axes of any size.
struct Grid : mtf::Mesh<mtf::Axis<"p">, mtf::Axis<"q">> {};

/// The program under the layout as a type and as a value: the same bits, the same collectives.
template <class Mesh, class Layout, class Program>
void compare_forms(const std::string& mesh, const Program& program) {
  const std::string layout = mtf::detail::layout_text(Layout::value());
  const std::string what = fmt::format("mesh {}, layout {}", mesh, layout);
  mtf::World<Mesh, Layout> typed(MPI_COMM_WORLD,
                                 {.mesh = Mesh::is_static ? std::string_view() : std::string_view(mesh)});
  support::World drawn(MPI_COMM_WORLD, {.mesh = mesh, .layout = layout});
  support::watch_collectives(typed);
  support::watch_collectives(drawn);
  CHECK_MESSAGE(program(typed) == program(drawn), what, ": other results than under the layout as a value");
  CHECK_MESSAGE(support::collectives(typed) == support::collectives(drawn), what);
  CHECK_MESSAGE(typed.unused_rules() == std::vector<std::string>{}, what);
  CHECK_MESSAGE(typed.verify_replicas(), what);
}

/// Runs a program under each of the layouts, on a mesh.
template <class Mesh, class... Layouts, class Program>
void compare(const std::string& mesh, const Program& program) {
  const mtf::LayoutReport report = mtf::check_layouts<Mesh>(
      program, {.mesh = Mesh::is_static ? std::string_view() : std::string_view(mesh), .tolerance = 1e-12},
      Layouts{}...);
  CHECK_MESSAGE(report, report.text());
  (compare_forms<Mesh, Layouts>(mesh, program), ...);
}

/// The same on every mesh of this number of ranks.
template <class... Layouts, class Program>
void under_layouts(const Program& program) {
  for (int p = 1; p <= ranks(); p *= 2) compare<Grid, Layouts...>(fmt::format("p:{};q:{}", p, ranks() / p), program);
}

template <class... Splits>
using L = mtf::Layout<Splits...>;
template <mtf::FixedString Dim, mtf::FixedString... Axes>
using S = mtf::Split<Dim, Axes...>;

}  // namespace

TEST_CASE("layouts as types: products") {
  under_layouts<L<S<"a", "p">>, L<S<"b", "p">>, L<S<"a", "p">, S<"c", "q">>, L<S<"a", "q">, S<"b", "p">>>(Products{});
}
TEST_CASE("layouts as types: element-wise functions") {
  under_layouts<L<S<"a", "p">>, L<S<"b", "p", "q">>, L<S<"a", "q">, S<"b", "p">>>(Elementwise{});
}
TEST_CASE("layouts as types: reductions") {
  under_layouts<L<S<"b", "p">>, L<S<"a", "p">, S<"b", "q">>, L<S<"b", "q">, S<"c", "p">>>(Reductions{});
}
TEST_CASE("layouts as types: losses") {
  under_layouts<L<S<"b", "p">>, L<S<"a", "p">, S<"b", "q">>, L<S<"b", "q", "p">>>(Losses{});
}
TEST_CASE("layouts as types: reshapes") {
  under_layouts<L<S<"a", "p">, S<"c", "p">>, L<S<"b", "q">, S<"c", "p">>,
                L<S<"joined", "p">, S<"b", "q">, S<"twice", "q">>>(Reshapes{});
}
TEST_CASE("layouts as types: lookups") {
  under_layouts<L<S<"b", "p">>, L<S<"a", "p">, S<"b", "q">>, L<S<"a", "q", "p">>>(Lookups{});
}
TEST_CASE("layouts as types: selections") {
  under_layouts<L<S<"b", "p">>, L<S<"a", "q">>, L<S<"a", "p">, S<"b", "q">>>(Selections{});
}
TEST_CASE("layouts as types: movements") {
  under_layouts<L<S<"b", "p">>, L<S<"b", "p">, S<"half", "p">, S<"twice", "q">>, L<S<"a", "q">, S<"twice", "p">>>(
      Movements{});
}
TEST_CASE("layouts as types: convolutions and pools") {
  under_layouts<L<S<"h", "p">, S<"out", "p">>, L<S<"a", "p">, S<"c", "q">>, L<S<"h", "q">, S<"a", "p">>>(
      Convolutions{});
}
TEST_CASE("layouts as types: noise and running sums") {
  under_layouts<L<S<"a", "p">>, L<S<"b", "p">>, L<S<"b", "q", "p">>>(Noise{});
}
TEST_CASE("layouts as types: blocks with halos, parts, pools") {
  under_layouts<L<S<"a", "p">>, L<S<"a", "q", "p">>, L<S<"a", "q">, S<"half", "p">>>(Blocks{});
}
TEST_CASE("layouts as types: functions run again") {
  under_layouts<L<S<"a", "p">>, L<S<"b", "q">>, L<S<"a", "p">, S<"b", "q">>>(Recomputed{});
}

TEST_CASE("layouts as types: meshes as types too") {
  const auto on = [&]<class Mesh, class Program>(std::type_identity<Mesh>, const std::string& text,
                                                 const Program& program) {
    if (ranks() != Mesh::value().size()) return;
    compare<Mesh, L<S<"a", "p">, S<"b", "q">>>(text, program);
  };
  on(std::type_identity<mtf::Mesh<mtf::Axis<"p", 1>, mtf::Axis<"q", 1>>>{}, "p:1;q:1", Losses{});
  on(std::type_identity<mtf::Mesh<mtf::Axis<"p", 1>, mtf::Axis<"q", 2>>>{}, "p:1;q:2", Reductions{});
  on(std::type_identity<mtf::Mesh<mtf::Axis<"p", 2>, mtf::Axis<"q", 2>>>{}, "p:2;q:2", Selections{});
  on(std::type_identity<mtf::Mesh<mtf::Axis<"p", 2>, mtf::Axis<"q", 4>>>{}, "p:2;q:4", Movements{});
}
