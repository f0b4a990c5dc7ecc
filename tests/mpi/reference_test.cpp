// Values that Mesh-TensorFlow gives, by its own tests or by running it, for what is made of several operations here and
// for counts of what is computed and sent. Those of single operations stand with the operations' tests: "... the
// reference's values".
#include "support.hpp"

using namespace support;

namespace {

struct N : mtf::Dim<"n"> {};
struct L : mtf::Dim<"l"> {};
struct In : mtf::Dim<"in"> {};
struct Out : mtf::Dim<"out"> {};

Host count_up(std::size_t size) {
  Host result(size);
  for (std::size_t i = 0; i < size; ++i) result[i] = static_cast<double>(i);
  return result;
}
/// The weights of its examples: element i of a random initializer.
Host weights(std::size_t size) {
  Host result(size);
  for (std::size_t i = 0; i < size; ++i) result[i] = static_cast<double>((7 * i + 3) % 11) / 10 - 0.5;
  return result;
}

}  // namespace

TEST_CASE("reference: an einsum under every layout, and what it sends and computes") {
  const Host expected{84, 90, 96, 102, 108, 114, 228, 250, 272, 294, 316, 338};
  const auto run = [](World& w) {
    return mtf::einsum<B, N>(mtf::from_global<double>(w, count_up(8), B{2}, K{4}),
                             mtf::from_global<double>(w, count_up(24), K{4}, N{6}));
  };
  World alone(MPI_COMM_SELF, {.mesh = "p:1;q:1"});
  CHECK(host(run(alone)) == expected);
  /// Elements that are summed, over all ranks as the original counts them; multiply-adds over all ranks.
  const auto check = [&](std::string_view mesh, std::string_view layout, std::int64_t summed, std::int64_t multiplied) {
    World w(MPI_COMM_WORLD, {.mesh = mesh, .layout = layout});
    watch_collectives(w);
    const auto y = run(w);
    CHECK(collectives(w).empty());
    mtf::complete(*y.array().value, "test");
    std::int64_t elements = 0;
    for (const mtf::Record& record : w.records()) {
      if (!record.is_collective) continue;
      CHECK(record.collective == mtf::Collective::all_reduce);
      elements += record.count;
    }
    CHECK_MESSAGE(elements * ranks() == summed, mesh, " ", layout);
    CHECK(host(y) == expected);
    mtf::DryRun<mtf::dynamic_mesh, mtf::dynamic_layout> dry({.mesh = mesh, .layout = layout});
    (void)mtf::einsum<B, N>(mtf::placeholder<double>(dry, B{2}, K{4}), mtf::placeholder<double>(dry, K{4}, N{6}));
    CHECK_MESSAGE(dry.cost().multiply_adds() * ranks() == multiplied, mesh, " ", layout);
  };
  if (ranks() == 2) {
    check("p:2", "k:p", 24, 48);
    check("p:2", "b:p", 0, 48);
    check("p:2", "n:p", 0, 48);
    check("p:2", "", 0, 96);
  }
  if (ranks() == 4) {
    check("p:2;q:2", "b:p;k:q", 24, 48);
    check("p:2;q:2", "k:p", 48, 96);
    check("p:2;q:2", "b:p;n:q", 0, 48);
    check("p:4", "k:p", 48, 48);
  }
}

TEST_CASE("reference: what a shift sends, over all ranks") {
  const auto moved = [](std::string_view mesh, std::int64_t by) {
    World w(MPI_COMM_WORLD, {.mesh = mesh, .layout = "t:p"});
    struct T : mtf::Dim<"t"> {};
    const auto x = mtf::from_global<double>(w, Host{1, 2, 3, 4, 5, 6, 7, 8}, T{8});
    watch_collectives(w);
    const auto y = mtf::shift<T>(x, by, {.wrap = true});
    const double own = w.counters().sum([](const auto&) { return true; }).wire_bytes / sizeof(double);
    double all = 0;
    MPI_Allreduce(&own, &all, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    return std::pair(all, host(y));
  };
  if (ranks() == 4)
    CHECK(moved("p:4", 3) == std::pair(8.0, Host{6, 7, 8, 1, 2, 3, 4, 5}));  // 4 to the next rank, 4 to the one after
  if (ranks() == 2) CHECK(moved("p:2", 1) == std::pair(2.0, Host{8, 1, 2, 3, 4, 5, 6, 7}));  // 6 more stay
}

TEST_CASE("reference: dense layers") {
  for_each_layout({"", "b:rows", "out:cols"}, [](const Pair& pair) {
    if (ranks() > 1 && !pair.world.engine().rules.rules.empty()) return;  // extents of 1 to 3
    World& w = pair.world;
    const auto x = mtf::from_global<double>(w, Host{1, 2, 3}, B{1}, K{3});
    const auto y = mtf::relu(mtf::einsum<B, Out>(x, mtf::from_global<double>(w, weights(6), K{3}, Out{2})));
    check_close(host(y), {1.2, 0}, 1e-14, "k:3 to n:2 with relu");
    const auto same = mtf::einsum<B, K>(mtf::rename<K, In>(x), mtf::from_global<double>(w, weights(9), In{3}, K{3}));
    check_close(host(same), {-2, 2.2, -0.2}, 1e-14, "k:3 to k:3");
  });
}

TEST_CASE("reference: layer norm, and its gradient") {
  for_each_layout({"", "a:rows", "b:cols", "b:rows,cols"}, [](const Pair& pair) {
    if (ranks() > 2) return;
    const auto x = mtf::watch(mtf::from_global<double>(pair.world, Host{1, 2, 3, 4, 0, 0, 0, 10}, A{2}, B{4}));
    const auto centred = x - mtf::reduce_mean<B>(x);
    const auto y = centred * mtf::rsqrt(mtf::reduce_mean<B>(mtf::square(centred)) + 1e-6);
    check_close(
        host(y),
        {-1.34164025, -0.447213417, 0.447213417, 1.34164025, -0.577350254, -0.577350254, -0.577350254, 1.732050761},
        1e-8, pair.place);
    const auto [dx] = mtf::gradients(mtf::reduce_sum(y * y * y), x);
    const Host gradient = host(dx);
    check_close({gradient.begin(), gradient.begin() + 4}, {2.146622682, -2.146622682, -2.146622682, 2.146622682}, 1e-8,
                pair.place + ", gradient");
  });
}

TEST_CASE("reference: which targets count") {
  World w(MPI_COMM_SELF, {.mesh = "rows:1;cols:1"});
  const auto targets = mtf::from_global<std::int32_t>(w, Ids{3, 1, 0, 1, 0, 0}, A{2}, B{3});
  CHECK(host(mtf::cast<double>(mtf::not_equal(targets, 0))) == Host{1, 1, 0, 1, 0, 0});
}

TEST_CASE("reference: a separable convolution by shifts") {
  for_each_layout({"", "l:rows", "l:rows,cols"}, [](const Pair& pair) {
    if (ranks() > 4) return;
    World& w = pair.world;
    const auto x = mtf::from_global<double>(w, Host{1, 0, 0, 1, 1, 1, 2, 1}, L{4}, In{2});
    const auto depth = mtf::from_global<double>(w, Host{1, 2}, In{2});
    const auto y = mtf::shift<L>(x, 1) * depth + x * depth + mtf::shift<L>(x, -1) * depth;
    const auto point = mtf::from_global<double>(w, Host{1, 0, 1, -1}, In{2}, Out{2});
    CHECK(host(mtf::einsum<L, Out>(y, point)) == Host{3, -2, 6, -4, 9, -6, 7, -4});
  });
}

TEST_CASE("reference: a vocabulary in two factors") {
  for_each_layout({"", "v:rows"}, [](const Pair& pair) {
    if (ranks() > 1 && !pair.world.engine().rules.rules.empty()) return;  // a vocabulary of 3
    World& w = pair.world;
    const auto table = mtf::from_global<double>(w, Host{1, 2, 3}, V{3}, In{1});
    const auto factor = mtf::from_global<double>(w, Host{1, 2}, In{1}, C{2});
    const auto ids = mtf::from_global<std::int32_t>(w, Ids{0, 1, 2, 1}, L{4});
    CHECK(host(mtf::einsum<L, C>(mtf::gather<V>(table, ids), factor)) == Host{1, 2, 2, 4, 3, 6, 2, 4});
    const auto hidden = mtf::from_global<double>(w, Host{1, 0, 0, 1, 1, 1, 2, 1}, L{4}, C{2});
    const auto logits = mtf::einsum<L, V>(mtf::einsum<L, In>(hidden, factor), table) / std::sqrt(2.0);
    const double unit = 1 / std::sqrt(2.0);
    check_close(host(logits),
                {unit, 2 * unit, 3 * unit, 2 * unit, 4 * unit, 6 * unit, 3 * unit, 6 * unit, 9 * unit, 4 * unit,
                 8 * unit, 12 * unit},
                1e-15, pair.place);
  });
}

TEST_CASE("reference: layout texts") {
  // Its delimiters are more than one; the semicolon is ours.
  World w(MPI_COMM_SELF, {.mesh = "model:1", .layout = "d_ff:model;heads:model"});
  CHECK(w.engine().rules.rules.size() == 2);
  CHECK_THROWS_AS((World(MPI_COMM_SELF, {.mesh = "model:1", .layout = "d_ff;heads"})), mtf::plan_error);
}
