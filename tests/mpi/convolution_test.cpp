// Convolution and transposed convolution: values, gradients, split spatial dims, collectives, errors, reference values.
#include "support.hpp"

using namespace support;
using mtf::Padding;
using mtf::Spatial;

namespace {

struct N : mtf::Dim<"n"> {};
struct D : mtf::Dim<"d"> {};
struct H : mtf::Dim<"h"> {};
struct W : mtf::Dim<"w"> {};
struct In : mtf::Dim<"in"> {};
struct Out : mtf::Dim<"out"> {};
struct KD : mtf::Dim<"kd"> {};
struct KH : mtf::Dim<"kh"> {};
struct KW : mtf::Dim<"kw"> {};
struct OD : mtf::Dim<"od"> {};
struct OH : mtf::Dim<"oh"> {};
struct OW : mtf::Dim<"ow"> {};

/// The sizes of a convolution over three dims; those that are not there have extent and window 1.
struct Sizes {
  std::int64_t n, input[3], window[3], in, out;
  std::int64_t stride[3] = {1, 1, 1};
  std::int64_t dilation[3] = {1, 1, 1};
  Padding padding = Padding::same;

  [[nodiscard]] std::int64_t span(int d) const { return (window[d] - 1) * dilation[d] + 1; }
  [[nodiscard]] std::int64_t output(int d) const {
    return padding == Padding::same
               ? static_cast<std::int64_t>(std::ceil(static_cast<double>(input[d]) / static_cast<double>(stride[d])))
               : (input[d] - span(d)) / stride[d] + 1;
  }
  [[nodiscard]] std::int64_t before(int d) const {
    return padding == Padding::same ? std::max<std::int64_t>(0, (output(d) - 1) * stride[d] + span(d) - input[d]) / 2
                                    : 0;
  }
};

/// Calls f(x index, filter index without the output channel, y index without it) for every input element that a window
/// sees. Orders: x[n, d, h, w, in], filter[kd, kh, kw, in, .], y[n, od, oh, ow, .].
template <class F>
void each_meeting(const Sizes& s, const F& f) {
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
                std::int64_t k = 0;
                std::int64_t y = n;
                bool inside = true;
                for (int d = 0; d < 3; ++d) {
                  const std::int64_t i = o[d] * s.stride[d] + j[d] * s.dilation[d] - s.before(d);
                  inside = inside && i >= 0 && i < s.input[d];
                  x = x * s.input[d] + i;
                  k = k * s.window[d] + j[d];
                  y = y * s.output(d) + o[d];
                }
                if (!inside) continue;
                for (std::int64_t c = 0; c < s.in; ++c) f(x * s.in + c, k * s.in + c, y);
              }
            }
          }
        }
      }
    }
  }
}
double& at(Host& host, std::int64_t i) { return host[static_cast<std::size_t>(i)]; }
double at(const Host& host, std::int64_t i) { return host[static_cast<std::size_t>(i)]; }

Host naive(const Sizes& s, const Host& x, const Host& filter) {
  Host y(static_cast<std::size_t>(s.n * s.output(0) * s.output(1) * s.output(2) * s.out));
  each_meeting(s, [&](std::int64_t i, std::int64_t k, std::int64_t o) {
    for (std::int64_t c = 0; c < s.out; ++c) at(y, o * s.out + c) += at(x, i) * at(filter, k * s.out + c);
  });
  return y;
}
/// From y[n, o..., out] to x.
Host naive_transposed(const Sizes& s, const Host& y, const Host& filter) {
  Host x(static_cast<std::size_t>(s.n * s.input[0] * s.input[1] * s.input[2] * s.in));
  each_meeting(s, [&](std::int64_t i, std::int64_t k, std::int64_t o) {
    for (std::int64_t c = 0; c < s.out; ++c) at(x, i) += at(y, o * s.out + c) * at(filter, k * s.out + c);
  });
  return x;
}

mtf::ConvolutionOptions options_of(const Sizes& s) {
  return {.stride = {s.stride[1], s.stride[2]}, .dilation = {s.dilation[1], s.dilation[2]}, .padding = s.padding};
}
mtf::ConvolutionOptions options_3d(const Sizes& s) {
  return {.stride = {s.stride[0], s.stride[1], s.stride[2]},
          .dilation = {s.dilation[0], s.dilation[1], s.dilation[2]},
          .padding = s.padding};
}

constexpr auto flat = [](World&, const auto& x, const auto& filter, const mtf::ConvolutionOptions& options) {
  return mtf::convolution<Spatial<H, KH, OH>, Spatial<W, KW, OW>>(x, filter, options);
};
const CheckOptions alone_legal{.unites = false};

const std::initializer_list<std::string_view> layouts = {"",
                                                         "n:rows",
                                                         "in:rows",
                                                         "out:cols",
                                                         "in:cols;out:rows",
                                                         "n:rows;in:cols",
                                                         "h:rows;oh:rows",
                                                         "h:rows;oh:rows;w:cols;ow:cols",
                                                         "h:rows,cols;oh:rows,cols",
                                                         "h:cols,rows;oh:cols,rows",
                                                         "h:rows",
                                                         "oh:cols",
                                                         "h:rows;oh:cols",
                                                         "n:cols;h:rows;oh:rows",
                                                         "in:cols;h:rows;oh:rows",
                                                         "out:cols;h:rows;oh:rows",
                                                         "h:rows;oh:rows;w:cols",
                                                         "w:cols;ow:cols;oh:rows"};

}  // namespace

TEST_CASE("convolution under all layouts") {
  const std::vector<std::pair<std::string, Sizes>> cases = {
      {"3x3", {4, {1, 16, 4}, {1, 3, 3}, 2, 2}},
      {"even window, stride 2", {4, {1, 16, 4}, {1, 4, 2}, 2, 2, {1, 2, 2}}},
      {"stride beyond the window", {4, {1, 16, 8}, {1, 1, 2}, 2, 2, {1, 2, 3}}},
      {"uneven strides round up", {4, {1, 16, 8}, {1, 2, 3}, 2, 2, {1, 3, 3}}},
      {"dilated", {4, {1, 16, 4}, {1, 3, 2}, 2, 2, {1, 2, 1}, {1, 3, 2}}},
      {"valid", {4, {1, 16, 4}, {1, 5, 3}, 2, 2, {1, 3, 1}, {1, 1, 1}, Padding::valid}},
      {"valid, wider than a block", {4, {1, 16, 4}, {1, 9, 1}, 2, 2, {1, 1, 1}, {1, 1, 1}, Padding::valid}},
      {"same, wider than the input", {2, {1, 8, 4}, {1, 17, 3}, 2, 2}},
  };
  for (const auto& [name, s] : cases) {
    for_each_layout(layouts, [&](const Pair& pair) {
      check_operation(
          pair, name,
          [&](World& w) {
            return std::tuple(normal(w, 1, N{s.n}, H{s.input[1]}, W{s.input[2]}, In{s.in}),
                              normal(w, 2, KH{s.window[1]}, KW{s.window[2]}, In{s.in}, Out{s.out}));
          },
          [&](World& w, const auto& x, const auto& filter) { return flat(w, x, filter, options_of(s)); },
          [&](const Host& x, const Host& filter) { return naive(s, x, filter); }, alone_legal);
    });
  }
}

TEST_CASE("convolution in any order of dims") {
  const Sizes s{4, {1, 8, 4}, {1, 3, 2}, 2, 4, {1, 2, 1}};
  for_each_layout({"", "n:rows;in:cols", "h:rows;oh:rows;w:cols;ow:cols", "h:rows;oh:rows;out:cols", "oh:rows"},
                  [&](const Pair& pair) {
                    const auto inputs = [&](World& w) {
                      return std::tuple(normal(w, 1, N{s.n}, H{s.input[1]}, W{s.input[2]}, In{s.in}),
                                        normal(w, 2, KH{3}, KW{2}, In{s.in}, Out{s.out}));
                    };
                    const auto by_loop = [&](const Host& x, const Host& filter) { return naive(s, x, filter); };
                    const auto check = [&](const std::string& name, auto to_x, auto to_filter) {
                      check_operation(
                          pair, name, inputs,
                          [&](World& w, const auto& x, const auto& filter) {
                            return mtf::einsum<N, OH, OW, Out>(flat(w, to_x(x), to_filter(filter), options_of(s)));
                          },
                          by_loop, alone_legal);
                    };
                    check(
                        "channels first", [](const auto& x) { return mtf::einsum<N, In, H, W>(x); },
                        [](const auto& f) { return mtf::einsum<Out, In, KH, KW>(f); });
                    check(
                        "batch last, filter interleaved", [](const auto& x) { return mtf::einsum<W, H, In, N>(x); },
                        [](const auto& f) { return mtf::einsum<KW, Out, In, KH>(f); });
                    check(
                        "batch between", [](const auto& x) { return mtf::einsum<In, H, N, W>(x); },
                        [](const auto& f) { return mtf::einsum<Out, KH, KW, In>(f); });
                  });
}

TEST_CASE("convolution in one and three dims") {
  const Sizes three{2, {4, 4, 8}, {2, 3, 3}, 2, 2, {1, 2, 1}};
  const Sizes one{4, {1, 1, 16}, {1, 1, 3}, 4, 4};
  for_each_layout(
      {"", "d:rows;od:rows", "w:rows;ow:rows;n:cols", "h:rows;d:cols;od:cols", "w:cols;ow:cols;in:rows",
       "w:rows,cols;ow:rows,cols"},
      [&](const Pair& pair) {
        check_operation(
            pair, "three",
            [&](World& w) {
              return std::tuple(normal(w, 1, N{2}, D{4}, H{4}, W{8}, In{2}),
                                normal(w, 2, KD{2}, KH{3}, KW{3}, In{2}, Out{2}));
            },
            [&](World&, const auto& x, const auto& filter) {
              return mtf::convolution<Spatial<D, KD, OD>, Spatial<H, KH, OH>, Spatial<W, KW, OW>>(x, filter,
                                                                                                  options_3d(three));
            },
            [&](const Host& x, const Host& filter) { return naive(three, x, filter); }, alone_legal);
        // The output may have the input's own dim; two dims of x are summed with the filter, two of the filter are new.
        check_operation(
            pair, "one",
            [&](World& w) {
              return std::tuple(normal(w, 1, N{4}, W{16}, A{2}, In{2}), normal(w, 2, KW{3}, A{2}, In{2}, Out{2}, B{2}));
            },
            [&](World&, const auto& x, const auto& filter) { return mtf::convolution<Spatial<W, KW, W>>(x, filter); },
            [&](const Host& x, const Host& filter) { return naive(one, x, filter); }, alone_legal);
      });
}

TEST_CASE("transposed convolution under all layouts") {
  const std::vector<std::pair<std::string, Sizes>> cases = {
      {"2x2, stride 2", {4, {1, 16, 8}, {1, 2, 2}, 2, 2, {1, 2, 2}}},
      {"overlapping", {4, {1, 16, 4}, {1, 5, 3}, 2, 2, {1, 2, 1}}},
      {"valid", {4, {1, 20, 9}, {1, 6, 3}, 2, 2, {1, 2, 2}, {1, 1, 1}, Padding::valid}},
  };
  for (const auto& [name, s] : cases) {
    for_each_layout(layouts, [&](const Pair& pair) {
      check_operation(
          pair, name,
          [&](World& w) {
            return std::tuple(normal(w, 1, N{s.n}, H{s.output(1)}, W{s.output(2)}, In{s.out}),
                              normal(w, 2, KH{s.window[1]}, KW{s.window[2]}, Out{s.in}, In{s.out}));
          },
          [&](World&, const auto& x, const auto& filter) {
            return mtf::transposed_convolution<Spatial<H, KH, OH>, Spatial<W, KW, OW>>(x, filter, options_of(s));
          },
          [&](const Host& x, const Host& filter) { return naive_transposed(s, x, filter); }, alone_legal);
    });
  }
}

TEST_CASE("a transposed convolution takes the extent that its type says") {
  struct Odd : mtf::Dim<"odd", 7> {};
  World world(MPI_COMM_SELF, {.mesh = "rows:1;cols:1"});
  const Sizes s{2, {1, 1, 7}, {1, 1, 3}, 3, 2, {1, 1, 2}};
  const auto x = normal(world, 1, N{2}, W{4}, In{2});
  const auto filter = normal(world, 2, KW{3}, Out{3}, In{2});
  const auto y = mtf::transposed_convolution<Spatial<W, KW, Odd>>(x, filter, {.stride = 2});
  check_close(host(y), naive_transposed(s, host(x), host(filter)), 1e-14, "odd extent");
}

namespace {

template <class T>
void check_tiles(World& world, const Sizes& s, double tolerance) {
  const auto draw = [&](std::uint64_t number, const auto&... dims) {
    return mtf::cast<T>(normal(world, number, dims...));
  };
  const auto x = mtf::watch(draw(1, N{s.n}, H{s.input[1]}, W{s.input[2]}, In{s.in}));
  const auto filter = mtf::watch(draw(2, KH{s.window[1]}, KW{s.window[2]}, In{s.in}, Out{s.out}));
  const auto y = mtf::convolution<Spatial<H, KH, OH>, Spatial<W, KW, OW>>(x, filter, options_of(s));
  const auto dy = draw(3, N{s.n}, OH{s.output(1)}, OW{s.output(2)}, Out{s.out});
  const auto [dx, df] = mtf::gradients(mtf::reduce_sum(y * dy), x, filter);
  check_close(host(y), naive(s, host(x), host(filter)), tolerance, "value in tiles");
  check_close(host(dx), naive_transposed(s, host(dy), host(filter)), tolerance, "gradient of x in tiles");
  Host expected(static_cast<std::size_t>(filter.size()));
  const Host hx = host(x);
  const Host hdy = host(dy);
  each_meeting(s, [&](std::int64_t i, std::int64_t k, std::int64_t o) {
    for (std::int64_t c = 0; c < s.out; ++c) at(expected, k * s.out + c) += at(hx, i) * at(hdy, o * s.out + c);
  });
  check_close(host(df), expected, tolerance, "gradient of the filter in tiles");
}

}  // namespace

TEST_CASE("a convolution in tiles: parts of an image, several images, float and double") {
  if (ranks() > 2) return;
  World world(MPI_COMM_WORLD, {.mesh = mesh_text(ranks(), 1), .layout = "h:rows;oh:rows"});
  for (const Sizes& s : {Sizes{2, {1, 100, 90}, {1, 3, 3}, 5, 3}, Sizes{70, {1, 16, 12}, {1, 3, 5}, 8, 2, {1, 2, 1}}}) {
    check_tiles<double>(world, s, 1e-12);
    check_tiles<float>(world, s, 2e-5);
  }
}

TEST_CASE("convolution of integers") {
  for_each_layout({"", "h:rows;oh:rows", "in:cols"}, [](const Pair& pair) {
    const auto run = [](World& w, auto zero) {
      using T = decltype(zero);
      const auto x = mtf::cast<T>(integers(w, 1, -9, 9, N{2}, H{16}, W{4}, In{8}));
      const auto filter = mtf::cast<T>(integers(w, 2, -9, 9, KH{3}, KW{2}, In{8}, Out{2}));
      const auto y = mtf::convolution<Spatial<H, KH, OH>, Spatial<W, KW, OW>>(x, filter);
      return std::tuple(host(x), host(filter), host(y),
                        host(mtf::transposed_convolution<Spatial<OH, KH, H>, Spatial<OW, KW, W>>(y, filter)));
    };
    const Sizes s{2, {1, 16, 4}, {1, 3, 2}, 8, 2};
    const auto check = [&](const auto& results) {
      const auto& [x, filter, y, back] = results;
      CHECK(y == naive(s, x, filter));
      CHECK(back == naive_transposed(s, y, filter));
    };
    check(run(pair.world, std::int32_t{}));
    check(run(pair.world, std::int64_t{}));
  });
}

TEST_CASE("what a convolution sends") {
  if (ranks() != 4) return;
  const auto sent = [](const char* mesh, const char* layout, std::int64_t window, std::int64_t stride) {
    World world(MPI_COMM_WORLD, {.mesh = mesh, .layout = layout});
    const auto x = mtf::watch(normal(world, 1, N{4}, H{16}, W{8}, In{4}));
    const auto filter = mtf::watch(normal(world, 2, KH{window}, KW{window}, In{4}, Out{4}));
    watch_collectives(world);
    const auto y = mtf::convolution<Spatial<H, KH, OH>, Spatial<W, KW, OW>>(x, filter, {.stride = stride});
    std::vector<std::string> result{joined(collectives(world))};
    (void)host(y * y);  // completes
    const auto dy = normal(world, 3, N{4}, OH{16 / stride}, OW{8 / stride}, Out{4});
    const auto loss = mtf::reduce_sum(y * dy);
    watch_collectives(world);
    const auto [dx, df] = mtf::gradients(loss, x, filter);
    result.push_back(joined(collectives(world)));
    mtf::complete(*dx.array().value, "test");
    mtf::complete(*df.array().value, "test");
    result.push_back(joined(collectives(world)));
    return result;
  };
  using Lines = std::vector<std::string>;
  CHECK(sent("rows:4;cols:1", "n:rows", 3, 1) == Lines{"", "", "allreduce over rows of 144"});
  // [n:4, h: 4 + 2, w:8, in:4] with its halo; backward what the own block receives. Then the filter.
  CHECK(sent("rows:4;cols:1", "h:rows;oh:rows", 3, 1) ==
        Lines{"exchange over rows of 768", "exchange over rows of 512",
              "exchange over rows of 512; allreduce over rows of 144"});
  CHECK(sent("rows:2;cols:2", "h:rows;oh:rows;w:cols;ow:cols", 3, 1) ==
        Lines{"exchange over rows of 640; exchange over cols of 960",
              "exchange over cols of 640; exchange over rows of 512",
              "exchange over cols of 640; exchange over rows of 512; allreduce over rows,cols of 144"});
  // Windows side by side meet no neighbour's block.
  CHECK(sent("rows:4;cols:1", "h:rows;oh:rows", 2, 2) == Lines{"", "", "allreduce over rows of 64"});
  CHECK(sent("rows:4;cols:1", "h:rows;oh:rows", 1, 1) == Lines{"", "", "allreduce over rows of 16"});
  // Output alone split: every rank has the windows' elements; x receives partial sums.
  CHECK(sent("rows:4;cols:1", "oh:rows", 3, 1) ==
        Lines{"", "", "allreduce over rows of 2048; allreduce over rows of 144"});
  // Input alone split: all of it to everyone; every rank then has the whole gradient.
  CHECK(sent("rows:4;cols:1", "h:rows", 3, 1) == Lines{"exchange over rows of 2304", "", ""});
  CHECK(sent("rows:1;cols:4", "out:cols", 3, 1) == Lines{"", "", "allreduce over cols of 2048"});
  CHECK(sent("rows:2;cols:2", "h:rows;oh:rows;out:cols", 3, 1) ==
        Lines{"exchange over rows of 1280", "exchange over rows of 1024",
              "exchange over rows of 1024; allreduce over cols of 1024; allreduce over rows of 72"});
}

TEST_CASE("a neighbour receives the halo and nothing else") {
  if (ranks() != 4) return;
  World world(MPI_COMM_WORLD, {.mesh = "rows:4;cols:1", .layout = "h:rows;oh:rows"});
  const auto x = normal(world, 1, N{4}, H{16}, W{8}, In{4});
  const auto filter = normal(world, 2, KH{3}, KW{3}, In{4}, Out{4});
  world.counters().reset();
  (void)mtf::convolution<Spatial<H, KH, OH>, Spatial<W, KW, OW>>(x, filter);
  const auto totals = world.counters().all();
  REQUIRE(totals.size() == 1);
  const int neighbours = rank_of_process() == 0 || rank_of_process() == 3 ? 1 : 2;
  CHECK(totals[0].wire_bytes == neighbours * 4 * 8 * 4 * 8);  // one row [n, w, in] of doubles to each
  CHECK(totals[0].mpi_calls == 2 * neighbours);
}

TEST_CASE("channels split: the result is a pending sum") {
  if (ranks() != 2) return;
  World world(MPI_COMM_WORLD, {.mesh = "rows:2;cols:1", .layout = "in:rows"});
  const auto x = normal(world, 1, N{2}, H{4}, W{4}, In{4});
  const auto filter = normal(world, 2, KH{3}, KW{3}, In{4}, Out{3});
  watch_collectives(world);
  const auto y = flat(world, x, filter, {});
  const auto z = y + y;
  CHECK(collectives(world).empty());
  (void)mtf::relu(z);
  CHECK(collectives(world) == std::vector<std::string>{"allreduce over rows of 96"});
}

TEST_CASE("what a convolution refuses, before anything is sent") {
  World world(MPI_COMM_WORLD, {.mesh = mesh_text(ranks(), 1), .layout = "h:rows;oh:rows;odd:rows;split:rows"});
  const int p = ranks();
  const auto x = normal(world, 1, N{2}, H{8 * p}, W{4}, In{2});
  const auto filter = normal(world, 2, KH{3}, KW{3}, In{2}, Out{2});
  const auto says = [&](const auto& body, std::initializer_list<std::string_view> words) {
    watch_collectives(world);
    try {
      body();
      FAIL("no error");
    } catch (const mtf::plan_error& error) {
      for (const std::string_view word : words)
        CHECK_MESSAGE(std::string_view(error.what()).find(word) != std::string_view::npos, error.what());
    }
    CHECK(collectives(world).empty());
  };
  struct Seven : mtf::Dim<"seven", 7> {};
  struct SplitWindow : mtf::Dim<"split"> {};
  says([&] { (void)mtf::convolution<Spatial<W, KW, Seven>>(x, mtf::reduce_sum<KH>(filter)); },
       {"convolution", "\"w\"", "\"seven\"", "the extent 4", "says 7", "span 3"});
  says(
      [&] {
        (void)mtf::convolution<Spatial<W, KH, OW>>(x, normal(world, 3, KH{5}, In{2}, Out{2}),
                                                   {.padding = Padding::valid});
      },
      {"span 5 of the 4 indices of dim \"w\"", "no output", "Padding::same"});
  says([&] { (void)flat(world, x, filter, {.stride = {1, 2, 3}}); }, {"stride must be positive", "2 spatial dims"});
  says([&] { (void)flat(world, x, filter, {.stride = 0}); }, {"stride must be positive"});
  says([&] { (void)flat(world, x, filter, {.dilation = -1}); }, {"dilation must be positive"});
  says([&] { (void)mtf::transposed_convolution<Spatial<W, KW, Seven>>(x, mtf::reduce_sum<KH>(filter)); },
       {"transposed_convolution", "\"seven\"", "says 7"});
  says([&] { (void)mtf::convolution<Spatial<W, SplitWindow, OW>>(x, normal(world, 4, SplitWindow{p}, In{2}, Out{2})); },
       {"\"split\"", "window dim of a filter is split", "rename"});
  if (p == 1) return;
  says([&] { (void)flat(world, x, filter, {.stride = {p == 2 ? 16 : 5, 1}}); },
       {"dim \"oh\" has extent", "axis \"rows\" divides it", "mesh \"rows:"});
  // Input and output may share an axis, a third dim may not.
  World third(MPI_COMM_WORLD, {.mesh = mesh_text(p, 1), .layout = "h:rows;ow:rows"});
  CHECK_THROWS_AS(
      (void)flat(third, normal(third, 1, N{2}, H{p}, W{p}, In{2}), normal(third, 2, KH{3}, KW{3}, In{2}, Out{2}), {}),
      mtf::plan_error);
  World channels(MPI_COMM_WORLD, {.mesh = mesh_text(p, 1), .layout = "h:rows;out:rows"});
  CHECK_THROWS_AS((void)flat(channels, normal(channels, 1, N{2}, H{p}, W{4}, In{2}),
                             normal(channels, 2, KH{3}, KW{3}, In{2}, Out{p}), {}),
                  mtf::plan_error);
  if (p != 4) return;
  World part(MPI_COMM_WORLD,
             {.mesh = "rows:2;cols:2", .layout = "h:rows,cols;oh:rows"});  // the same axes or none in common
  CHECK_THROWS_AS(
      (void)flat(part, normal(part, 1, N{2}, H{8}, W{4}, In{2}), normal(part, 2, KH{3}, KW{3}, In{2}, Out{2}), {}),
      mtf::plan_error);
}

TEST_CASE("convolutions have the reference's values") {
  const auto run = [](World& w) {
    const auto x = mtf::from_global<double>(w, Host{1, 2, 3, 4}, N{1}, H{2}, W{2}, In{1});
    const auto filter = mtf::from_global<double>(w, Host{1, 2, 3, 4}, KH{2}, KW{2}, Out{1}, In{1});
    const auto y = mtf::transposed_convolution<Spatial<H, KH, OH>, Spatial<W, KW, OW>>(x, filter, {.stride = 2});
    CHECK(host(y) == Host{1, 2, 2, 4, 3, 4, 6, 8, 3, 6, 4, 8, 9, 12, 12, 16});
    const auto line = mtf::from_global<double>(w, Host{1, 0, 0, 1, 1, 1, 2, 1}, N{1}, W{4}, In{2});
    const auto kernel =
        mtf::from_global<double>(w, Host{1, -1, 0, 0, 2, -2, -1, 1, 3, -3, -2, 2}, KW{3}, In{2}, Out{2});
    CHECK(host(mtf::convolution<Spatial<W, KW, OW>>(line, kernel)) == Host{0, 0, 1, -1, 5, -5, 4, -4});
    // A strided SAME convolution of a length that is no multiple rounds up.
    CHECK(mtf::convolution<Spatial<W, KW, OW>>(normal(w, 1, N{1}, W{5}, In{2}), kernel, {.stride = 2})
              .shape()[1]
              .extent == 3);
  };
  World alone(MPI_COMM_SELF, {.mesh = "rows:1;cols:1"});
  run(alone);
  if (ranks() != 2) return;
  World world(MPI_COMM_WORLD, {.mesh = "rows:2;cols:1", .layout = "h:rows;oh:rows"});
  run(world);
}

namespace {

// A layout as a type, static dims, one filter for two layers, whose output has the input's dims.
struct SN : mtf::Dim<"n", 4> {};
struct SH : mtf::Dim<"h", 8> {};
struct SW : mtf::Dim<"w", 8> {};
struct SK : mtf::Dim<"k", 3> {};
struct SL : mtf::Dim<"l", 3> {};
struct SIn : mtf::Dim<"in", 4> {};
struct SOut : mtf::Dim<"out", 4> {};
struct TypedMesh : mtf::Mesh<mtf::Axis<"rows">, mtf::Axis<"cols">> {};
struct TypedLayout : mtf::Layout<mtf::Split<"h", "rows">, mtf::Split<"w", "cols">> {};

template <class W>
std::vector<Host> two_layers(W& world) {
  auto filter = mtf::variable<double, SK, SL, SIn, SOut>(world, "filter", mtf::init::glorot);
  const auto x = mtf::watch(mtf::random_normal_of<double>(world, mtf::seed{5} / "x", 0, 1, SN{}, SH{}, SW{}, SIn{}));
  const auto layer = [&](const auto& input) {
    return mtf::relu(mtf::rename<SOut, SIn>(mtf::convolution<Spatial<SH, SK, SH>, Spatial<SW, SL, SW>>(input, filter)));
  };
  const auto y = layer(layer(x));
  static_assert(std::is_same_v<typename std::remove_cvref_t<decltype(y)>::dims, mtf::DimList<SN, SH, SW, SIn>>);
  const auto [dx, df] = mtf::gradients(mtf::reduce_sum(mtf::square(y)), x, filter);
  return {host(y), host(dx), host(df)};
}

}  // namespace

TEST_CASE("two layers in a world whose layout is a type") {
  World alone(MPI_COMM_SELF, {.mesh = "rows:1;cols:1"});
  const std::vector<Host> expected = two_layers(alone);
  mtf::World<TypedMesh, TypedLayout> world(MPI_COMM_WORLD,
                                           {.mesh = mesh_text(std::min(ranks(), 2), std::max(1, ranks() / 2))});
  const std::vector<Host> results = two_layers(world);
  for (std::size_t i = 0; i < results.size(); ++i) check_close(results[i], expected[i], 1e-12, "two layers");
}
