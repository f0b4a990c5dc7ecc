// Learning-rate schedules against their formula, and what a training run relies on at its ends.
#include <algorithm>
#include <cstdint>
#include <random>

#include <doctest/doctest.h>

#include <mtf/optim/schedule.hpp>

namespace {

using mtf::LinearSchedule;

constexpr LinearSchedule schedule{.peak = 0.5, .warmup_steps = 4, .total_steps = 16};

static_assert(schedule.rate({.step = 0}) == 0.5 * 0.25, "the first step moves");
static_assert(schedule.rate({.step = 1}) == 0.5 * 0.5 * 15 / 16);
static_assert(schedule.rate({.step = 3}) == 0.5 * 13 / 16, "the rise is over after warmup_steps steps");
static_assert(schedule.rate({.step = 8}) == 0.25);
static_assert(schedule.rate({.step = 15}) > 0, "the last step moves");
static_assert(schedule.rate({.step = 16}) == 0);
static_assert(schedule.rate({.step = 99}) == 0, "never below 0");
static_assert(LinearSchedule{.peak = 0.5}.rate({.step = 1000000}) == 0.5, "neither rise nor fall unless asked for");
static_assert(LinearSchedule{.peak = 0.5, .warmup_steps = 1}.rate({.step = 0}) == 0.5);

}  // namespace

TEST_CASE("a linear schedule is the product of its rise and its fall") {
  std::mt19937_64 random(7);
  const auto whole = [&](std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random);
  };
  for (int i = 0; i < 1000; ++i) {
    const LinearSchedule drawn{.peak = std::uniform_real_distribution<double>(1e-5, 1)(random),
                               .warmup_steps = whole(1, 50),
                               .total_steps = whole(1, 200)};
    const std::int64_t step = whole(0, 250);
    const double time = std::uniform_real_distribution<double>(0, 1.2)(random);
    const double rise = std::min(1.0, static_cast<double>(step + 1) / static_cast<double>(drawn.warmup_steps));
    const double fall = 1 - static_cast<double>(step) / static_cast<double>(drawn.total_steps);
    const double in_time = 1 - time;
    CHECK(drawn.rate({.step = step}) == doctest::Approx(drawn.peak * rise * std::max(0.0, fall)).epsilon(1e-12));
    CHECK(drawn.rate({.step = step, .time_fraction = time}) ==
          doctest::Approx(drawn.peak * rise * std::max(0.0, std::min(fall, in_time))).epsilon(1e-12));
  }
}

TEST_CASE("the fall follows what ends first, steps or time") {
  const LinearSchedule long_run{.peak = 1, .total_steps = 1000};
  CHECK(long_run.rate({.step = 10, .time_fraction = 0.75}) == 0.25);
  CHECK(long_run.rate({.step = 750, .time_fraction = 0.1}) == 0.25);
  CHECK(long_run.rate({.step = 10, .time_fraction = 1}) == 0);
  CHECK(LinearSchedule{.peak = 2}.rate({.step = 10, .time_fraction = 0.5}) == 1);
}
