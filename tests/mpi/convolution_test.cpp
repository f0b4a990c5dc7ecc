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
    return padding == Padding::same ? static_cast<std::int64_t>(std::ceil(static_cast<double>(input[d]) / static_cast<double>(stride[d])))
                                    : (input[d] - span(d)) / stride[d] + 1;
  }
  [[nodiscard]] std::int64_t before(int d) const {
    return padding == Padding::same ? std::max<std::int64_t>(0, (output(d) - 1) * stride[d] + span(d) - input[d]) / 2 : 0;
  }
};

/// Calls f(x index, filter index without the output channel, y index without it) for every input element that a window sees. Orders:
/// x[n, d, h, w, in], filter[kd, kh, kw, in, .], y[n, od, oh, ow, .].
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
  return {.stride = {s.stride[0], s.stride[1], s.stride[2]}, .dilation = {s.dilation[0], s.dilation[1], s.dilation[2]}, .padding = s.padding};
}

constexpr auto flat = [](World&, const auto& x, const auto& filter, const mtf::ConvolutionOptions& options) {
  return mtf::convolution<Spatial<H, KH, OH>, Spatial<W, KW, OW>>(x, filter, options);
};
const CheckOptions alone_legal{.unites = false};

const std::initializer_list<std::string_view> layouts = {
    "", "n:rows", "in:rows", "out:cols", "in:cols;out:rows", "n:rows;in:cols", "h:rows;oh:rows", "h:rows;oh:rows;w:cols;ow:cols",
    "h:rows,cols;oh:rows,cols", "h:cols,rows;oh:cols,rows", "h:rows", "oh:cols", "h:rows;oh:cols", "n:cols;h:rows;oh:rows", "in:cols;h:rows;oh:rows",
    "out:cols;h:rows;oh:rows", "h:rows;oh:rows;w:cols", "w:cols;ow:cols;oh:rows"};

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
      check_operation(pair, name,
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
  for_each_layout({"", "n:rows;in:cols", "h:rows;oh:rows;w:cols;ow:cols", "h:rows;oh:rows;out:cols", "oh:rows"}, [&](const Pair& pair) {
    const auto inputs = [&](World& w) {
      return std::tuple(normal(w, 1, N{s.n}, H{s.input[1]}, W{s.input[2]}, In{s.in}), normal(w, 2, KH{3}, KW{2}, In{s.in}, Out{s.out}));
    };
    const auto by_loop = [&](const Host& x, const Host& filter) { return naive(s, x, filter); };
    const auto check = [&](const std::string& name, auto to_x, auto to_filter) {
      check_operation(pair, name, inputs,
                      [&](World& w, const auto& x, const auto& filter) {
                        return mtf::einsum<N, OH, OW, Out>(flat(w, to_x(x), to_filter(filter), options_of(s)));
                      },
                      by_loop, alone_legal);
    };
    check("channels first", [](const auto& x) { return mtf::einsum<N, In, H, W>(x); }, [](const auto& f) { return mtf::einsum<Out, In, KH, KW>(f); });
    check("batch last, filter interleaved", [](const auto& x) { return mtf::einsum<W, H, In, N>(x); },
          [](const auto& f) { return mtf::einsum<KW, Out, In, KH>(f); });
    check("batch between", [](const auto& x) { return mtf::einsum<In, H, N, W>(x); }, [](const auto& f) { return mtf::einsum<Out, KH, KW, In>(f); });
  });
}

TEST_CASE("convolution in one and three dims") {
  const Sizes three{2, {4, 4, 8}, {2, 3, 3}, 2, 2, {1, 2, 1}};
  const Sizes one{4, {1, 1, 16}, {1, 1, 3}, 4, 4};
  for_each_layout({"", "d:rows;od:rows", "w:rows;ow:rows;n:cols", "h:rows;d:cols;od:cols", "w:cols;ow:cols;in:rows", "w:rows,cols;ow:rows,cols"},
                  [&](const Pair& pair) {
    check_operation(pair, "three",
                    [&](World& w) { return std::tuple(normal(w, 1, N{2}, D{4}, H{4}, W{8}, In{2}), normal(w, 2, KD{2}, KH{3}, KW{3}, In{2}, Out{2})); },
                    [&](World&, const auto& x, const auto& filter) {
                      return mtf::convolution<Spatial<D, KD, OD>, Spatial<H, KH, OH>, Spatial<W, KW, OW>>(x, filter, options_3d(three));
                    },
                    [&](const Host& x, const Host& filter) { return naive(three, x, filter); }, alone_legal);
    // The output may have the input's own dim; two dims of x are summed with the filter, two of the filter are new.
    check_operation(pair, "one", [&](World& w) { return std::tuple(normal(w, 1, N{4}, W{16}, A{2}, In{2}), normal(w, 2, KW{3}, A{2}, In{2}, Out{2}, B{2})); },
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
      check_operation(pair, name,
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
