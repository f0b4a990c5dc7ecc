// Max and average pooling: values, gradients, ties, split dims, collectives, errors, reference values.
#include "support.hpp"

using namespace support;
using mtf::Spatial;

namespace {

struct N : mtf::Dim<"n"> {};
struct D : mtf::Dim<"d"> {};
struct H : mtf::Dim<"h"> {};
struct W : mtf::Dim<"w"> {};
struct OD : mtf::Dim<"od"> {};
struct OH : mtf::Dim<"oh"> {};
struct OW : mtf::Dim<"ow"> {};

double& at(Host& host, std::int64_t i) { return host[static_cast<std::size_t>(i)]; }
double at(const Host& host, std::int64_t i) { return host[static_cast<std::size_t>(i)]; }

/// Pooling of x[n, d, h, w, c].
struct Sizes {
  std::int64_t n, input[3], c, window[3], stride[3];
  [[nodiscard]] std::int64_t output(int d) const { return (input[d] - window[d]) / stride[d] + 1; }
};

/// Calls f(x index, y index) for every element of every window.
template <class F>
void each_element(const Sizes& s, const F& f) {
  std::int64_t o[3];
  std::int64_t j[3];
  for (std::int64_t n = 0; n < s.n; ++n) {
    for (o[0] = 0; o[0] < s.output(0); ++o[0]) {
      for (o[1] = 0; o[1] < s.output(1); ++o[1]) {
        for (o[2] = 0; o[2] < s.output(2); ++o[2]) {
          for (j[0] = 0; j[0] < s.window[0]; ++j[0]) {
            for (j[1] = 0; j[1] < s.window[1]; ++j[1]) {
              for (j[2] = 0; j[2] < s.window[2]; ++j[2]) {
                std::int64_t x = n;
                std::int64_t y = n;
                for (int d = 0; d < 3; ++d) {
                  x = x * s.input[d] + o[d] * s.stride[d] + j[d];
                  y = y * s.output(d) + o[d];
                }
                for (std::int64_t c = 0; c < s.c; ++c) f(x * s.c + c, y * s.c + c);
              }
            }
          }
        }
      }
    }
  }
}
Host naive(const Sizes& s, const Host& x, bool average) {
  Host y(static_cast<std::size_t>(s.n * s.output(0) * s.output(1) * s.output(2) * s.c), average ? 0 : -HUGE_VAL);
  const auto area = static_cast<double>(s.window[0] * s.window[1] * s.window[2]);
  each_element(s, [&](std::int64_t i, std::int64_t o) {
    at(y, o) = average ? at(y, o) + at(x, i) / area : std::max(at(y, o), at(x, i));
  });
  return y;
}

const CheckOptions alone_legal{.unites = false};

}  // namespace

TEST_CASE("pooling under all layouts") {
  const std::vector<std::pair<std::string, Sizes>> cases = {
      {"2x2", {4, {1, 16, 8}, 4, {1, 2, 2}, {1, 2, 2}}},
      {"overlapping", {4, {1, 17, 9}, 4, {1, 3, 3}, {1, 2, 2}}},
      {"overlapping, a split input", {4, {1, 16, 8}, 4, {1, 9, 5}, {1, 1, 1}}},
      {"a rest that no window sees", {4, {1, 16, 8}, 4, {1, 2, 2}, {1, 4, 3}}},
  };
  for (const auto& [name, s] : cases) {
    for_each_layout(
        {"", "n:rows", "c:cols", "h:rows;oh:rows", "h:rows;oh:rows;w:cols;ow:cols", "h:cols,rows;oh:cols,rows",
         "h:rows", "oh:rows", "h:rows;oh:cols", "n:cols;w:rows;ow:rows", "c:cols;h:rows;oh:rows"},
        [&](const Pair& pair) {
          const mtf::PoolOptions options{.window = {s.window[1], s.window[2]}, .stride = {s.stride[1], s.stride[2]}};
          const auto inputs = [&](World& w) {
            return std::tuple(normal(w, 1, N{s.n}, H{s.input[1]}, W{s.input[2]}, C{s.c}));
          };
          check_operation(
              pair, name + ", max", inputs,
              [&](World&, const auto& x) { return mtf::max_pool<Spatial<H, OH>, Spatial<W, OW>>(x, options); },
              [&](const Host& x) { return naive(s, x, false); }, alone_legal);
          check_operation(
              pair, name + ", average", inputs,
              [&](World&, const auto& x) { return mtf::average_pool<Spatial<H, OH>, Spatial<W, OW>>(x, options); },
              [&](const Host& x) { return naive(s, x, true); }, alone_legal);
          check_operation(
              pair, name + ", channels first", inputs,
              [&](World&, const auto& x) {
                return mtf::einsum<N, OH, OW, C>(mtf::max_pool<Spatial<W, OW>, Spatial<H, OH>>(
                    mtf::einsum<N, C, H, W>(x),
                    {.window = {s.window[2], s.window[1]}, .stride = {s.stride[2], s.stride[1]}}));
              },
              [&](const Host& x) { return naive(s, x, false); }, alone_legal);
        });
  }
}

TEST_CASE("pooling in one and three dims") {
  const Sizes three{2, {4, 4, 8}, 2, {2, 3, 2}, {2, 1, 2}};
  const Sizes one{2, {1, 1, 16}, 2, {1, 1, 1}, {1, 1, 1}};
  for_each_layout({"", "d:rows;od:rows", "h:rows;w:cols;ow:cols", "w:rows,cols;ow:rows,cols"}, [&](const Pair& pair) {
    for (const bool average : {false, true}) {
      check_operation(
          pair, average ? "mean of three" : "max of three",
          [&](World& w) { return std::tuple(normal(w, 1, N{2}, D{4}, H{4}, W{8}, C{2})); },
          [&](World&, const auto& x) {
            const mtf::PoolOptions options{.window = {2, 3, 2}, .stride = {2, 1, 2}};
            return average ? mtf::average_pool<Spatial<D, OD>, Spatial<H, OH>, Spatial<W, OW>>(x, options)
                           : mtf::max_pool<Spatial<D, OD>, Spatial<H, OH>, Spatial<W, OW>>(x, options);
          },
          [&](const Host& x) { return naive(three, x, average); }, alone_legal);
    }
    check_operation(
        pair, "windows of one", [&](World& w) { return std::tuple(normal(w, 1, N{2}, W{16}, C{2})); },
        [&](World&, const auto& x) { return mtf::max_pool<Spatial<W, W>>(x, {.window = 1}); },
        [&](const Host& x) { return naive(one, x, false); }, alone_legal);
  });
}

TEST_CASE("ties: every maximum receives the window's full gradient") {
  const Sizes s{2, {1, 16, 8}, 2, {1, 2, 2}, {1, 1, 2}};
  const auto run = [&](World& w) {
    const auto x = mtf::watch(mtf::cast<double>(integers(w, 1, 0, 2, N{2}, H{16}, W{8}, C{2})));
    const auto y = mtf::max_pool<Spatial<H, OH>, Spatial<W, OW>>(x, {.window = 2, .stride = {1, 2}});
    const auto dy = normal(w, 2, N{2}, OH{15}, OW{4}, C{2});
    const auto [dx] = mtf::gradients(mtf::reduce_sum(y * dy), x);
    Host expected(static_cast<std::size_t>(x.size()));
    const Host hx = host(x);
    const Host hy = host(y);
    const Host hdy = host(dy);
    each_element(s,
                 [&](std::int64_t i, std::int64_t o) { at(expected, i) += at(hx, i) == at(hy, o) ? at(hdy, o) : 0; });
    check_close(host(dx), expected, 1e-13, "ties");
  };
  for_each_layout({"", "h:rows", "w:cols;h:rows"}, [&](const Pair& pair) { run(pair.world); });
}

TEST_CASE("pooling has the reference's values, of integers too") {
  World world(MPI_COMM_SELF, {.mesh = "rows:1;cols:1"});
  const auto x = mtf::from_global<double>(world, Host{1, 2, 3, 4}, W{4});
  CHECK(host(mtf::average_pool<Spatial<W, OW>>(x, {.window = 2})) == Host{1.5, 3.5});
  CHECK(host(mtf::max_pool<Spatial<W, OW>>(x, {.window = 2})) == Host{2, 4});
  CHECK(host(mtf::max_pool<Spatial<W, OW>>(mtf::cast<std::int32_t>(x), {.window = 3, .stride = 1})) == Host{3, 4});
  CHECK(host(mtf::max_pool<Spatial<W, OW>>(mtf::cast<std::int64_t>(x), {.window = 3})) ==
        Host{3});  // what is left over is dropped
  const Host with_nan =
      host(mtf::max_pool<Spatial<W, OW>>(mtf::from_global<double>(world, Host{1, NAN, 3, 4}, W{4}), {.window = 2}));
  CHECK(std::isnan(with_nan[0]));
  CHECK(with_nan[1] == 4);
}

TEST_CASE("what pooling sends") {
  if (ranks() != 4) return;
  const auto sent = [](const char* layout, std::int64_t input, std::int64_t window, std::int64_t stride, bool average) {
    World world(MPI_COMM_WORLD, {.mesh = "rows:4;cols:1", .layout = layout});
    const auto x = mtf::watch(normal(world, 1, N{4}, H{input}, C{4}));
    watch_collectives(world);
    const auto y = average ? mtf::average_pool<Spatial<H, OH>>(x, {.window = window, .stride = stride})
                           : mtf::max_pool<Spatial<H, OH>>(x, {.window = window, .stride = stride});
    std::vector<std::string> result{joined(collectives(world))};
    const auto loss = weighted_sum(y);
    watch_collectives(world);
    const auto [dx] = mtf::gradients(loss, x);
    result.push_back(joined(collectives(world)));
    mtf::complete(*dx.array().value, "test");
    result.push_back(joined(collectives(world)));
    return result;
  };
  using Lines = std::vector<std::string>;
  for (const bool average : {false, true}) {
    CHECK(sent("h:rows;oh:rows", 16, 2, 2, average) == Lines{"", "", ""});
    // [n:4, h:6, c:4]: windows of 4 with stride 2 over blocks of 5, 2 outputs each.
    CHECK(sent("h:rows;oh:rows", 20, 6, 2, average) ==
          Lines{"exchange over rows of 128", "exchange over rows of 80", "exchange over rows of 80"});
    CHECK(sent("oh:rows", 17, 2, 2, average) == Lines{"", "", "allreduce over rows of 272"});
    CHECK(sent("h:rows", 16, 3, 2, average) == Lines{"exchange over rows of 240", "", ""});
  }
}

TEST_CASE("the mean of a pending sum stays pending") {
  if (ranks() != 2) return;
  for (const bool splits_output : {false, true}) {
    World world(MPI_COMM_WORLD, {.mesh = "rows:2;cols:1", .layout = splits_output ? "k:rows;ow:rows" : "k:rows"});
    World alone(MPI_COMM_SELF, {.mesh = "rows:1;cols:1"});
    const auto run = [](World& w) {
      return mtf::average_pool<Spatial<W, OW>>(mtf::reduce_sum<K>(normal(w, 1, N{2}, W{8}, K{4})), {.window = 2});
    };
    watch_collectives(world);
    const auto y = run(world);
    CHECK(collectives(world) ==
          (splits_output ? std::vector<std::string>{"allreduce over rows of 16"} : std::vector<std::string>{}));
    check_close(host(y), host(run(alone)), 1e-14, "pooled");
    CHECK(collectives(world).size() == 1 + (splits_output ? 1 : 0));
  }
}

TEST_CASE("what pooling refuses") {
  World world(MPI_COMM_WORLD, {.mesh = mesh_text(ranks(), 1), .layout = "oh:rows"});
  const auto x = normal(world, 1, N{2}, H{2 * ranks() + 2}, W{4});
  struct Three : mtf::Dim<"three", 3> {};
  const auto says = [&](const auto& body, std::initializer_list<std::string_view> words) {
    try {
      body();
      FAIL("no error");
    } catch (const mtf::plan_error& error) {
      for (const std::string_view word : words)
        CHECK_MESSAGE(std::string_view(error.what()).find(word) != std::string_view::npos, error.what());
    }
  };
  says([&] { (void)mtf::max_pool<Spatial<W, OW>>(x, {.window = 5}); },
       {"max_pool", "span 5 of the 4 indices of dim \"w\"", "no output"});
  says([&] { (void)mtf::average_pool<Spatial<W, Three>>(x, {.window = 2}); },
       {"average_pool", "\"three\"", "extent 2", "says 3"});
  says([&] { (void)mtf::max_pool<Spatial<W, OW>>(x, {.window = 0}); }, {"window must be positive"});
  says([&] { (void)mtf::max_pool<Spatial<W, OW>>(x, {.window = 2, .stride = {1, 1}}); }, {"stride must be positive"});
  says([&] { (void)mtf::max_pool<Spatial<W, W>>(x, {.window = 2}); }, {"\"w\" has extents"});
  if (ranks() == 1) return;
  says([&] { (void)mtf::max_pool<Spatial<H, OH>>(x, {.window = 2}); },
       {"dim \"oh\" has extent", "axis \"rows\" divides it"});
}
