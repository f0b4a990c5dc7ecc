// halo_exchange, left_halo_exchange and pooling: values, gradients and messages under all layouts, reference values,
// errors.
#include "support.hpp"

using namespace support;

namespace {

struct P : mtf::Dim<"p"> {};
struct Static : mtf::Dim<"p", 6> {};

/// y[blocks, middle, left + size + right, inner] from x[blocks, middle, size, inner].
Host with_halo(const Host& x, std::int64_t blocks, std::int64_t middle, std::int64_t size, std::int64_t inner,
               std::int64_t left, std::int64_t right, bool wrap) {
  Host y;
  const std::int64_t length = blocks * size;
  for (std::int64_t block = 0; block < blocks; ++block) {
    for (std::int64_t m = 0; m < middle; ++m) {
      for (std::int64_t j = -left; j < size + right; ++j) {
        std::int64_t at = block * size + j;
        if (wrap) at = ((at % length) + length) % length;
        for (std::int64_t i = 0; i < inner; ++i) {
          y.push_back(at < 0 || at >= length
                          ? 0.0
                          : x[static_cast<std::size_t>(((at / size * middle + m) * size + at % size) * inner + i)]);
        }
      }
    }
  }
  return y;
}
/// [n, m] to [m, n].
Host transposed(const Host& x, std::size_t n, std::size_t m) {
  Host y(x.size());
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j < m; ++j) y[j * n + i] = x[i * m + j];
  }
  return y;
}

const CheckOptions apart{.unites = false};

}  // namespace

TEST_CASE("halos of blocks under all layouts") {
  for_each_layout({"", "a:rows", "c:cols", "a:rows;c:cols", "a:cols,rows"}, [](const Pair& pair) {
    for (const bool wrap : {false, true}) {
      for (const std::int64_t halo : {0, 1, 3, 7}) {
        const std::string name = fmt::format("halo {}, wrap {}", halo, wrap);
        check_operation(
            pair, name + ", last", [](World& w) { return std::tuple(normal(w, 1, a, K{3})); },
            [&](World&, const auto& x) { return mtf::halo_exchange<A, K>(x, halo, {.wrap = wrap}); },
            [&](const Host& x) { return with_halo(x, 8, 1, 3, 1, halo, halo, wrap); }, apart);
        check_operation(
            pair, name + ", left", [](World& w) { return std::tuple(normal(w, 1, a, K{3})); },
            [&](World&, const auto& x) { return mtf::left_halo_exchange<A, K>(x, halo, {.wrap = wrap}); },
            [&](const Host& x) { return with_halo(x, 8, 1, 3, 1, halo, 0, wrap); }, apart);
      }
      check_operation(
          pair, fmt::format("halo of blocks that lie apart, wrap {}", wrap),
          [](World& w) { return std::tuple(normal(w, 1, a, c, K{2}, V{2})); },
          [&](World&, const auto& x) { return mtf::halo_exchange<A, K>(x, 3, {.wrap = wrap}); },
          [&](const Host& x) { return with_halo(x, 8, 8, 2, 2, 3, 3, wrap); }, {.step = 1e-3, .unites = false});
      check_operation(
          pair, fmt::format("halo of blocks after what is in them, wrap {}", wrap),
          [](World& w) { return std::tuple(normal(w, 1, K{3}, a)); },
          [&](World&, const auto& x) { return mtf::halo_exchange<A, K>(x, 4, {.wrap = wrap}); },
          [&](const Host& x) { return transposed(with_halo(transposed(x, 3, 8), 8, 1, 3, 1, 4, 4, wrap), 8, 11); },
          apart);
    }
    check_operation(
        pair, "halo wider than everything, round several times",
        [](World& w) { return std::tuple(normal(w, 1, a, K{1})); },
        [&](World&, const auto& x) { return mtf::halo_exchange<A, K>(x, 19, {.wrap = true}); },
        [&](const Host& x) { return with_halo(x, 8, 1, 1, 1, 19, 19, true); }, apart);
    check_operation(
        pair, "halo under another name", [](World& w) { return std::tuple(normal(w, 1, a, K{2})); },
        [&](World&, const auto& x) { return mtf::halo_exchange<A, K, Static>(x, 2); },
        [&](const Host& x) { return with_halo(x, 8, 1, 2, 1, 2, 2, false); }, apart);
  });
}

TEST_CASE("a halo is one exchange with the neighbours") {
  for (const std::string& mesh : meshes()) {
    World world(MPI_COMM_WORLD, {.mesh = mesh, .layout = "a:rows"});
    const auto x = normal(world, 1, A{16}, K{4}, C{3});
    const std::int64_t rows = world.mesh().axes[0].size;
    watch_collectives(world);
    const auto y = mtf::halo_exchange<A, K>(x, 1, {.wrap = true});
    if (rows == 1) {
      CHECK(collectives(world).empty());
      continue;
    }
    REQUIRE(collectives(world).size() == 1);
    CHECK(collectives(world)[0] == fmt::format("exchange over rows of {}", 16 / rows * 6 * 3));
    const auto totals = world.counters().sum([](const auto&) { return true; });
    CHECK(totals.wire_bytes == 2.0 * 3 * 8);  // one element of the first and of the last block, times the rest
    CHECK(totals.mpi_calls == (rows == 2 ? 2 : 4));
    // The gradient takes the same way back.
    const auto watched = mtf::watch(x);
    const auto loss = mtf::reduce_sum(mtf::halo_exchange<A, K>(watched, 1, {.wrap = true}));
    watch_collectives(world);
    const auto [dx] = mtf::gradients(loss, watched);
    REQUIRE(collectives(world).size() == 1);
    CHECK(collectives(world)[0] == fmt::format("exchange over rows of {}", 16 / rows * 4 * 3));
    CHECK(world.counters().sum([](const auto&) { return true; }).wire_bytes == 2.0 * 3 * 8);
    const Host gradient = host(dx);
    for (std::size_t i = 0; i < gradient.size(); ++i)
      CHECK(gradient[i] == (i / 3 % 4 == 0 || i / 3 % 4 == 3 ? 2.0 : 1.0));
    CHECK(world.verify_replicas());
  }
}

TEST_CASE("pooling under all layouts") {
  const auto pool = [](const Host& x, std::int64_t outer, std::int64_t n, std::int64_t inner, std::int64_t size,
                       const auto& f) {
    Host y;
    for (std::int64_t o = 0; o < outer; ++o) {
      for (std::int64_t t = 0; t < n / size; ++t) {
        for (std::int64_t i = 0; i < inner; ++i) {
          Host window;
          for (std::int64_t s = 0; s < size; ++s)
            window.push_back(x[static_cast<std::size_t>((o * n + t * size + s) * inner + i)]);
          y.push_back(f(window));
        }
      }
    }
    return y;
  };
  const auto largest = [](const Host& window) { return *std::max_element(window.begin(), window.end()); };
  const auto smallest = [](const Host& window) { return *std::min_element(window.begin(), window.end()); };
  const auto total = [](const Host& window) {
    double sum = 0;
    for (const double x : window) sum += x;
    return sum;
  };
  for_each_layout({"", "b:rows", "a:rows", "b:cols;a:rows", "b:rows;p:cols"}, [&](const Pair& pair) {
    const auto one = [](World& w) { return std::tuple(normal(w, 1, a, b)); };
    check_operation(
        pair, "mean", one, [](World&, const auto& x) { return mtf::pool_tensor_1d<B>(x); },
        [&](const Host& x) { return pool(x, 8, 16, 1, 2, [&](const Host& w) { return total(w) / 2; }); }, apart);
    check_operation(
        pair, "sum of the first dim", one,
        [](World&, const auto& x) { return mtf::pool_tensor_1d<A, P>(x, 2, mtf::pooling::sum); },
        [&](const Host& x) { return pool(x, 1, 8, 16, 2, total); }, apart);
    check_operation(
        pair, "max", one, [](World&, const auto& x) { return mtf::pool_tensor_1d<B>(x, 2, mtf::pooling::max); },
        [&](const Host& x) { return pool(x, 8, 16, 1, 2, largest); }, apart);
    check_operation(
        pair, "min", one, [](World&, const auto& x) { return mtf::pool_tensor_1d<B, P>(x, 2, mtf::pooling::min); },
        [&](const Host& x) { return pool(x, 8, 16, 1, 2, smallest); }, apart);
    check_operation(
        pair, "stride", one, [](World&, const auto& x) { return mtf::stride_tensor_1d<B>(x, 2); },
        [&](const Host& x) { return pool(x, 8, 16, 1, 2, [](const Host& w) { return w[0]; }); }, apart);
    check_operation(
        pair, "first", one, [](World&, const auto& x) { return mtf::reduce_first<B>(x); },
        [&](const Host& x) { return pool(x, 8, 16, 1, 16, [](const Host& w) { return w[0]; }); }, apart);
    const auto x = mtf::cast<std::int32_t>(10.0 * normal(pair.world, 1, a, b));
    if (legal(pair.world, mtf::pool_tensor_1d<B>(x, 2, mtf::pooling::max).shape())) {
      const auto whole = mtf::cast<std::int32_t>(10.0 * normal(pair.alone, 1, a, b));
      CHECK(host(mtf::pool_tensor_1d<B>(x, 2, mtf::pooling::sum)) ==
            host(mtf::pool_tensor_1d<B>(whole, 2, mtf::pooling::sum)));
    }
    // Where the old and the new dim are split alike every window is whole on its rank.
    watch_collectives(pair.world);
    (void)mtf::pool_tensor_1d<B>(x, 2, mtf::pooling::max);
    (void)mtf::stride_tensor_1d<B>(x, 2);
    CHECK(collectives(pair.world).empty());
  });
}

TEST_CASE("pooling in one dim has the reference's values") {
  World alone(MPI_COMM_SELF, {.mesh = "rows:1;cols:1"});
  const auto x = mtf::from_global<double>(alone, Host{1, 2, 3, 4}, A{4});
  CHECK(host(mtf::pool_tensor_1d<A>(x)) == Host{1.5, 3.5});
  CHECK(host(mtf::pool_tensor_1d<A>(x, 2, mtf::pooling::max)) == Host{2, 4});
  CHECK(host(mtf::stride_tensor_1d<A>(x)) == Host{1, 3});
  // A random [2, 3, 4, 5], along the dim of 4.
  const auto y = normal(alone, 1, A{2}, B{3}, C{4}, K{5});
  const Host elements = host(y);
  const Host mean = host(mtf::pool_tensor_1d<C>(y, 2, mtf::pooling::mean));
  const Host largest = host(mtf::pool_tensor_1d<C>(y, 2, mtf::pooling::max));
  const Host smallest = host(mtf::pool_tensor_1d<C>(y, 2, mtf::pooling::min));
  for (std::size_t i = 0; i < 60; ++i) {
    const double first = elements[i / 5 * 10 + i % 5];
    const double second = elements[i / 5 * 10 + 5 + i % 5];
    CHECK(mean[i] == doctest::Approx((first + second) / 2));
    CHECK(largest[i] == std::max(first, second));
    CHECK(smallest[i] == std::min(first, second));
  }
}

TEST_CASE("errors of halos and pools") {
  World world(MPI_COMM_WORLD, {.mesh = mesh_text(1, ranks()), .layout = "k:cols"});
  const auto says = [&](const auto& f, std::string_view words) {
    watch_collectives(world);
    std::string what;
    try {
      f();
    } catch (const mtf::plan_error& error) {
      what = error.what();
    }
    CHECK_MESSAGE(what.find(words) != std::string::npos, what, " has not: ", std::string(words));
    CHECK(collectives(world).empty());
  };
  const auto x = normal(world, 1, a, b);
  says([&] { (void)mtf::halo_exchange<A, B>(x, -1); }, "mtf: halo_exchange: a halo of -1");
  says([&] { (void)mtf::halo_exchange<A, B, Static>(x, 1); },
       "mtf: halo_exchange: dim \"b\" of extent 16 with halos of 1 and 1 is not dim \"p\" of extent 6");
  says([&] { (void)mtf::left_halo_exchange<A, K>(normal(world, 1, a, k), 1); },
       "mtf: left_halo_exchange: dim \"k\" of extent 24 is split");
  says([&] { (void)mtf::pool_tensor_1d<B>(x, 3); },
       "mtf: pool_tensor_1d: dim \"b\" of extent 16 is not cut into windows of 3");
  says([&] { (void)mtf::pool_tensor_1d<B>(x, 0); }, "windows of 0");
  says([&] { (void)mtf::pool_tensor_1d<B, Static>(x, 2); }, "not of extent 6");
}
