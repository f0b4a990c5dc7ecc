// Random numbers: the published vectors of Philox, distributions, independence of how the array is cut.
#include <cmath>
#include <set>
#include <vector>

#include <doctest/doctest.h>

#include <mtf/kernels/random.hpp>

namespace {

using Space = Kokkos::DefaultExecutionSpace;

constexpr bool words(const mtf::kernels::Philox& block, std::uint32_t a, std::uint32_t b, std::uint32_t c,
                     std::uint32_t d) {
  return block.words[0] == a && block.words[1] == b && block.words[2] == c && block.words[3] == d;
}
// Known answers of philox4x32-10 in Random123 (tests/kat_vectors); counter and key are little-endian pairs of words.
constexpr bool philox_has_the_published_values() {
  constexpr std::uint64_t ones = ~std::uint64_t{0};
  return words({0, 0, 0}, 0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8) &&
         words({ones, ones, ones}, 0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd) &&
         words({0x85a308d3243f6a88ULL, 0x0370734413198a2eULL, 0x299f31d0a4093822ULL}, 0xd16cfe09, 0x94fdcceb,
               0x5001e420, 0x24126ea1);
}
static_assert(philox_has_the_published_values());

mtf::RandomPlan plan_of(std::int64_t count, mtf::Distribution distribution, double a, double b, const mtf::Key& key,
                        std::int64_t index = 0) {
  mtf::RandomPlan plan;
  plan.loop.operands = 2;
  plan.loop.dims.push_back({count, {1, 1}});
  plan.index = index;
  plan.key = key;
  plan.distribution = distribution;
  plan.a = a;
  plan.b = b;
  return plan;
}
template <class T = double>
std::vector<T> draw(const mtf::RandomPlan& plan) {
  std::vector<T> values(static_cast<std::size_t>(plan.loop.size()));
  mtf::kernels::execute(Space(), plan, values.data());
  Space().fence();
  return values;
}

struct Moments {
  double mean = 0, variance = 0, skewness = 0, kurtosis = 0, lowest = HUGE_VAL, highest = -HUGE_VAL;
};
Moments moments(const std::vector<double>& values) {
  Moments m;
  const auto n = static_cast<double>(values.size());
  for (const double x : values) {
    m.mean += x / n;
    m.lowest = std::min(m.lowest, x);
    m.highest = std::max(m.highest, x);
  }
  for (const double x : values) m.variance += (x - m.mean) * (x - m.mean) / n;
  for (const double x : values) {
    const double z = (x - m.mean) / std::sqrt(m.variance);
    m.skewness += z * z * z / n;
    m.kurtosis += z * z * z * z / n;
  }
  return m;
}

constexpr std::int64_t many = 400'000;  // five standard errors of a mean of standard numbers: 0.008

}  // namespace

TEST_CASE("Philox-4x32-10 has the published values") { CHECK(philox_has_the_published_values()); }

TEST_CASE("uniform numbers") {
  const Moments m = moments(draw(plan_of(many, mtf::Distribution::uniform, 0, 1, mtf::seed{1})));
  CHECK(std::abs(m.mean - 0.5) < 0.0023);
  CHECK(std::abs(m.variance - 1.0 / 12) < 0.0006);
  CHECK(std::abs(m.kurtosis - 1.8) < 0.02);
  CHECK(m.lowest > 0);
  CHECK(m.highest < 1);
  const Moments moved = moments(draw(plan_of(many, mtf::Distribution::uniform, -3, 5, mtf::seed{1})));
  CHECK(std::abs(moved.mean - 1) < 0.02);
  CHECK(moved.lowest > -3);
  CHECK(moved.highest < 5);
  // Sixteen bins, chi-square with 15 degrees of freedom: above 50 one time in 100000.
  int bins[16]{};
  for (const double x : draw(plan_of(many, mtf::Distribution::uniform, 0, 16, mtf::seed{2})))
    ++bins[static_cast<int>(x)];
  double chi_square = 0;
  for (const int count : bins) chi_square += std::pow(count - many / 16.0, 2) / (many / 16.0);
  CHECK(chi_square < 50);
}

TEST_CASE("normal numbers") {
  const Moments m = moments(draw(plan_of(many, mtf::Distribution::normal, 0, 1, mtf::seed{1})));
  CHECK(std::abs(m.mean) < 0.008);
  CHECK(std::abs(m.variance - 1) < 0.012);
  CHECK(std::abs(m.skewness) < 0.02);
  CHECK(std::abs(m.kurtosis - 3) < 0.05);
  const Moments moved = moments(draw(plan_of(many, mtf::Distribution::normal, 10, 0.5, mtf::seed{1})));
  CHECK(std::abs(moved.mean - 10) < 0.004);
  CHECK(std::abs(moved.variance - 0.25) < 0.003);
  double correlation = 0;  // of neighbours, which share a block or not
  const auto values = draw(plan_of(many, mtf::Distribution::normal, 0, 1, mtf::seed{3}));
  for (std::size_t i = 1; i < values.size(); ++i) correlation += values[i] * values[i - 1] / static_cast<double>(many);
  CHECK(std::abs(correlation) < 0.008);
}

TEST_CASE("truncated normal numbers stay within two standard deviations") {
  const Moments m = moments(draw(plan_of(many, mtf::Distribution::truncated_normal, 1, 0.1, mtf::seed{1})));
  CHECK(m.lowest >= 0.8);
  CHECK(m.highest <= 1.2);
  CHECK(m.highest > 1.19);
  CHECK(std::abs(m.mean - 1) < 0.001);
  CHECK(std::abs(m.variance - 0.01 * 0.7737) < 0.0001);
}

TEST_CASE("a dropout mask") {
  int kept = 0;
  for (const double x : draw(plan_of(many, mtf::Distribution::keep, 0.8, 1.25, mtf::seed{1}))) {
    if (x == 1.25) ++kept;
    if (x != 1.25) CHECK(x == 0);
  }
  CHECK(std::abs(kept / static_cast<double>(many) - 0.8) < 0.0032);
  for (const double x : draw(plan_of(1000, mtf::Distribution::keep, 1, 1, mtf::seed{1}))) CHECK(x == 1);
  for (const double x : draw(plan_of(1000, mtf::Distribution::keep, 0, 1, mtf::seed{1}))) CHECK(x == 0);
}

TEST_CASE("random numbers: a value depends on seed, stream and global index only") {
  const mtf::Key key = mtf::seed{5} / "w";
  for (const auto distribution :
       {mtf::Distribution::uniform, mtf::Distribution::normal, mtf::Distribution::truncated_normal}) {
    const auto whole = draw(plan_of(101, distribution, 0, 1, key));
    for (const std::int64_t begin : {0, 1, 2, 3, 4, 5, 63, 100}) {
      const auto part = draw(plan_of(101 - begin, distribution, 0, 1, key, begin));
      for (std::size_t i = 0; i < part.size(); ++i) CHECK(part[i] == whole[static_cast<std::size_t>(begin) + i]);
    }
    // Columns 3 and 4 of a matrix of 10 rows and 10 columns, transposed in memory.
    mtf::RandomPlan plan = plan_of(1, distribution, 0, 1, key, 3);
    plan.loop.dims.clear();
    plan.loop.dims.push_back({10, {1, 10}});
    plan.loop.dims.push_back({2, {10, 1}});
    const auto columns = draw(plan);
    for (std::size_t row = 0; row < 10; ++row) {
      CHECK(columns[row] == whole[10 * row + 3]);
      CHECK(columns[10 + row] == whole[10 * row + 4]);
    }
  }
}

TEST_CASE("one element, and indices beyond 32 bits") {
  mtf::RandomPlan scalar = plan_of(1, mtf::Distribution::normal, 0, 1, mtf::seed{1});
  scalar.loop.dims.clear();
  CHECK(draw(scalar).size() == 1);
  CHECK(draw(scalar)[0] == draw(plan_of(4, mtf::Distribution::normal, 0, 1, mtf::seed{1}))[0]);
  const auto far = draw(plan_of(8, mtf::Distribution::uniform, 0, 1, mtf::seed{1}, std::int64_t{1} << 40));
  const auto near = draw(plan_of(8, mtf::Distribution::uniform, 0, 1, mtf::seed{1}));
  for (std::size_t i = 0; i < 8; ++i) CHECK(far[i] != near[i]);
}

TEST_CASE("float is double rounded") {
  const auto plan = plan_of(1000, mtf::Distribution::normal, 0, 1, mtf::seed{1});
  const auto doubles = draw(plan);
  const auto floats = draw<float>(plan);
  for (std::size_t i = 0; i < doubles.size(); ++i) CHECK(floats[i] == static_cast<float>(doubles[i]));
}

TEST_CASE("seeds and streams give different numbers") {
  std::set<double> firsts;
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    for (int layer = 0; layer < 10; ++layer) {
      firsts.insert(draw(plan_of(1, mtf::Distribution::uniform, 0, 1, mtf::seed{seed} / "layer" / layer))[0]);
    }
  }
  CHECK(firsts.size() == 1000);
}
