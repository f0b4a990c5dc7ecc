// Windows: extents against counting, patches and their transpose against the definition, the gradient of pooling.
#include <cstdint>
#include <random>
#include <vector>

#include <doctest/doctest.h>

#include <mtf/kernels/pool_gradient.hpp>
#include <mtf/kernels/window.hpp>

namespace {

using Space = Kokkos::DefaultExecutionSpace;
using mtf::Padding;
using mtf::PatchesPlan;
using mtf::Window;

static_assert(mtf::output_extent(5, {.size = 3, .stride = 2}, Padding::same) == 3);
static_assert(mtf::output_extent(5, {.size = 3, .stride = 2}, Padding::valid) == 2);
static_assert(mtf::output_extent(2, {.size = 3}, Padding::valid) == 0);
static_assert(mtf::input_extent(3, {.size = 3, .stride = 2}, Padding::same) == 6);
static_assert(mtf::input_extent(3, {.size = 3, .stride = 2}, Padding::valid) == 7);
static_assert(mtf::padding_before(5, 5, {.size = 4}, Padding::same) == 1);
static_assert(Window{.size = 3, .stride = 2, .dilation = 2}.reach(4) == 11);

template <class T>
std::vector<T> numbers(std::int64_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<T> result(static_cast<std::size_t>(count));
  for (T& x : result) x = static_cast<T>(static_cast<int>(random() % 41) - 20);
  return result;
}

/// array[image, h, w, c], windows over h and w; columns [kh, kw, c] or [c, kh, kw].
struct Case {
  std::int64_t images, h, w, c;
  Window over_h, over_w;
  std::int64_t outputs_h, outputs_w;
  bool channels_first;

  [[nodiscard]] PatchesPlan plan() const {
    PatchesPlan plan;
    plan.sliding.push_back({-over_h.before, over_h.stride, over_h.dilation, h, w * c});
    plan.sliding.push_back({-over_w.before, over_w.stride, over_w.dilation, w, c});
    plan.rows.push_back({images, h * w * c, -1});
    plan.rows.push_back({outputs_h, 0, 0});
    plan.rows.push_back({outputs_w, 0, 1});
    if (channels_first) plan.columns.push_back({c, 1, -1});
    plan.columns.push_back({over_h.size, 0, 0});
    plan.columns.push_back({over_w.size, 0, 1});
    if (!channels_first) plan.columns.push_back({c, 1, -1});
    return plan;
  }
  /// Calls f(row, column, index in the array or -1).
  template <class F>
  void each(const F& f) const {
    for (std::int64_t row = 0; row < images * outputs_h * outputs_w; ++row) {
      for (std::int64_t i = 0; i < over_h.size; ++i) {
        for (std::int64_t j = 0; j < over_w.size; ++j) {
          for (std::int64_t k = 0; k < c; ++k) {
            const std::int64_t y = row / outputs_w % outputs_h * over_h.stride - over_h.before + i * over_h.dilation;
            const std::int64_t x = row % outputs_w * over_w.stride - over_w.before + j * over_w.dilation;
            const bool inside = y >= 0 && y < h && x >= 0 && x < w;
            f(row, channels_first ? (k * over_h.size + i) * over_w.size + j : (i * over_w.size + j) * c + k,
              inside ? ((row / (outputs_h * outputs_w) * h + y) * w + x) * c + k : -1);
          }
        }
      }
    }
  }
};

const Case cases[] = {
    {2, 5, 7, 3, {3, 1, 1, 1}, {3, 1, 1, 1}, 5, 7, false},   {2, 5, 7, 3, {3, 1, 1, 1}, {3, 1, 1, 1}, 5, 7, true},
    {3, 6, 9, 1, {2, 2, 1, 0}, {4, 3, 2, 2}, 3, 3, false},   {3, 6, 9, 2, {2, 2, 1, 0}, {4, 3, 2, 5}, 3, 4, true},
    {1, 2, 3, 130, {5, 1, 1, 2}, {7, 1, 1, 3}, 2, 3, false}, {4, 1, 1, 2, {1, 1, 1, 0}, {9, 1, 1, 4}, 1, 1, true},
    {2, 4, 4, 2, {1, 3, 1, 0}, {1, 3, 1, -1}, 2, 1, true},
};

}  // namespace

TEST_CASE("output extents are the number of windows that start or fit") {
  for (std::int64_t input = 1; input < 12; ++input) {
    for (std::int64_t size = 1; size < 5; ++size) {
      for (std::int64_t stride = 1; stride < 5; ++stride) {
        for (std::int64_t dilation = 1; dilation < 3; ++dilation) {
          const Window window{size, stride, dilation, 0};
          std::int64_t starts = 0;
          std::int64_t fits = 0;
          for (std::int64_t at = 0; at < input; at += stride) {
            ++starts;
            fits += at + window.span() <= input ? 1 : 0;
          }
          CHECK(mtf::output_extent(input, window, Padding::same) == starts);
          CHECK(mtf::output_extent(input, window, Padding::valid) == fits);
          // Padding leaves no window without an element, and an extent found backward leads forward again.
          const std::int64_t before = mtf::padding_before(input, starts, window, Padding::same);
          CHECK(before < window.span());
          for (const Padding padding : {Padding::same, Padding::valid}) {
            CHECK(mtf::output_extent(mtf::input_extent(input, window, padding), window, padding) == input);
          }
        }
      }
    }
  }
}

TEST_CASE("patches and their transpose, in tiles of every size") {
  for (const Case& one : cases) {
    for (const bool joined : {false, true}) {
      PatchesPlan whole = one.plan();
      if (joined) {  // the channels as one run with the window
        if (one.channels_first || one.over_w.dilation != 1) continue;
        whole.columns.erase(2);
        whole.columns[1].unit = one.c;
      }
      const std::int64_t width = whole.width();
      const std::int64_t height = whole.height();
      const auto array = numbers<float>(one.images * one.h * one.w * one.c, 1);
      const auto weights = numbers<float>(height * width, 2);
      std::vector<float> expected(static_cast<std::size_t>(height * width), 0.0F);
      std::vector<float> back(array.size(), 0.0F);
      one.each([&](std::int64_t row, std::int64_t column, std::int64_t index) {
        const auto at = static_cast<std::size_t>(row * width + column);
        if (index < 0) return;
        expected[at] = array[static_cast<std::size_t>(index)];
        back[static_cast<std::size_t>(index)] += weights[at];
      });
      for (std::int64_t tile = 1; tile <= height; ++tile) {
        std::vector<float> patches(static_cast<std::size_t>(height * width), -1.0F);
        std::vector<float> sums(array.size(), 0.0F);
        for (std::int64_t begin = 0; begin < height; begin += tile) {
          mtf::AddPatchesPlan part{};
          static_cast<PatchesPlan&>(part) = whole;
          part.begin = begin;
          part.count = std::min(tile, height - begin);
          mtf::kernels::execute(Space{}, static_cast<const PatchesPlan&>(part), patches.data() + begin * width,
                                array.data());
          mtf::kernels::execute(Space{}, part, sums.data(), weights.data() + begin * width);
        }
        Space{}.fence();
        CHECK(patches == expected);
        CHECK(sums == back);
      }
    }
  }
}

TEST_CASE("the gradient of pooling, by element") {
  // x[5, 7], y[2, 3] from windows of 3 x 2 that begin at row 1 and column 0, strides 1 and 3.
  const auto x = numbers<double>(35, 3);
  const auto dy = numbers<double>(6, 4);
  std::vector<double> y(6, -1e9);
  const auto each = [](const auto& f) {
    for (std::size_t o = 0; o < 6; ++o) {
      for (std::size_t i = 0; i < 3; ++i) {
        for (std::size_t j = 0; j < 2; ++j) f(o, (1 + o / 3 + i) * 7 + o % 3 * 3 + j);
      }
    }
  };
  // The last window of a row begins at 6 and sees one column of the array only: leave it out.
  each([&](std::size_t o, std::size_t e) {
    if (o % 3 < 2) y[o] = std::max(y[o], x[e]);
  });
  for (const bool ties : {false, true}) {
    std::vector<double> expected(35, 0.0);
    each([&](std::size_t o, std::size_t e) {
      if (o % 3 < 2 && (!ties || x[e] == y[o])) expected[e] += dy[o] * (ties ? 1 : 0.25);
    });
    mtf::PoolGradientPlan plan;
    plan.loop.operands = 2;
    plan.loop.dims.push_back({5, {7, 0}});
    plan.loop.dims.push_back({7, {1, 0}});
    plan.sliding.push_back({0, 1, 1, 3, 2, 3});
    plan.sliding.push_back({1, 0, 3, 2, 2, 1});
    plan.ties = ties;
    plan.factor = 0.25;
    std::vector<double> dx(35, -1.0);
    mtf::kernels::execute(Space{}, plan, dx.data(), x.data(), y.data(), dy.data());
    Space{}.fence();
    CHECK(dx == expected);
  }
}
