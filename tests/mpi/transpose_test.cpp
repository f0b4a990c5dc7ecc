// transpose under all layouts: values, gradients, no communication.
#include "support.hpp"

using namespace support;

namespace {

/// [a, b, c] in the order c, a, b.
Host moved(const Host& x) {
  Host y;
  for (std::size_t k_ = 0; k_ < 8; ++k_) {
    for (std::size_t i = 0; i < 8 * 16; ++i) y.push_back(x[i * 8 + k_]);
  }
  return y;
}

}  // namespace

TEST_CASE("transpose under all layouts, of every element type") {
  for_each_layout({"", "a:rows", "b:cols", "a:rows;b:cols", "c:rows,cols", "c:cols;a:rows"}, [](const Pair& pair) {
    const auto operands = [](World& w) { return std::tuple(normal(w, 1, a, b, c)); };
    check_operation(
        pair, "transpose", operands, [](World&, const auto& x) { return mtf::transpose<C, A, B>(x); },
        [](const Host& x) { return moved(x); });
    World& w = pair.world;
    const auto n = integers(w, 2, -9, 9, a, b, c);
    watch_collectives(w);
    const auto y = mtf::transpose<C, A, B>(n);
    const auto flags = mtf::transpose<C, A, B>(mtf::less(n, 0));
    CHECK(collectives(w).empty());
    CHECK(host(y) == moved(host(n)));
    CHECK(host(flags) == moved(host(mtf::less(n, 0))));
    CHECK(host(mtf::transpose<A, B, C>(y)) == host(n));
  });
}

TEST_CASE("a transposed sum stays pending, in bfloat16 too") {
  World w(MPI_COMM_WORLD, {.mesh = mesh_text(1, ranks()), .layout = "k:cols"});
  const auto check = [&](auto like) {
    using T = decltype(like);
    const auto x = mtf::watch(mtf::cast<T>(normal(w, 1, a, k)));
    const auto other = mtf::cast<T>(normal(w, 2, k, b));
    watch_collectives(w);
    const auto sum = mtf::einsum<A, B>(x, other);
    const auto y = mtf::transpose<B, A>(sum);
    CHECK(collectives(w).empty());
    check_close(host(y), host(mtf::einsum<B, A>(x, other)), 0, "value");
    const auto [dx] = mtf::gradients(weighted_sum(y), x);
    const auto [expected] = mtf::gradients(weighted_sum(mtf::einsum<B, A>(x, other)), x);
    check_close(host(dx), host(expected), 1e-15, "gradient");
  };
  check(double());
  check(mtf::bfloat16());
}
