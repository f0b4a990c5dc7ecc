// Counter-based random numbers: Philox-4x32-10.
#pragma once

#include <cmath>

#include <mtf/kernels/launch.hpp>
#include <mtf/plan/random.hpp>

namespace mtf {
inline namespace v0 {

namespace kernels {

/// Four 32-bit words from a counter and a key (Salmon, Moraes, Dror, Shaw: Parallel Random Numbers: As Easy as 1, 2, 3;
/// SC 2011; 10 rounds).
struct Philox {
  std::uint32_t words[4];

  MTF_FUNCTION constexpr Philox(std::uint64_t low, std::uint64_t high, std::uint64_t key)
      : words{static_cast<std::uint32_t>(low), static_cast<std::uint32_t>(low >> 32), static_cast<std::uint32_t>(high),
              static_cast<std::uint32_t>(high >> 32)} {
    auto k0 = static_cast<std::uint32_t>(key);
    auto k1 = static_cast<std::uint32_t>(key >> 32);
    for (int round = 0; round < 10; ++round) {
      const std::uint64_t p0 = std::uint64_t{0xD2511F53U} * words[0];
      const std::uint64_t p1 = std::uint64_t{0xCD9E8D57U} * words[2];
      const std::uint32_t next[4] = {
          static_cast<std::uint32_t>(p1 >> 32) ^ words[1] ^ k0, static_cast<std::uint32_t>(p1),
          static_cast<std::uint32_t>(p0 >> 32) ^ words[3] ^ k1, static_cast<std::uint32_t>(p0)};
      for (int i = 0; i < 4; ++i) words[i] = next[i];
      k0 += 0x9E3779B9U;
      k1 += 0xBB67AE85U;
    }
  }

  /// In (0, 1), never an end.
  [[nodiscard]] MTF_FUNCTION constexpr double uniform(int word) const {
    return (static_cast<double>(words[word]) + 0.5) * 0x1p-32;
  }
  /// Standard normal by the transform of Box and Muller on words 0, 1 or 2, 3.
  [[nodiscard]] MTF_FUNCTION double normal(int word) const {
    const int pair = word & ~1;
    const double radius = std::sqrt(-2.0 * std::log(uniform(pair)));
    const double angle = 6.283185307179586 * uniform(pair + 1);
    return radius * ((word & 1) == 0 ? std::cos(angle) : std::sin(angle));
  }
};

/// The value at a global index: four neighbours share a counter. Redraws of a truncated normal count in the high word.
MTF_FUNCTION inline double draw(const RandomPlan& plan, std::uint64_t key, const Philox& block, std::uint64_t index) {
  const int word = static_cast<int>(index & 3U);
  switch (plan.distribution) {
    case Distribution::uniform: return plan.a + (plan.b - plan.a) * block.uniform(word);
    case Distribution::keep: return block.uniform(word) < plan.a ? plan.b : 0.0;
    case Distribution::normal: return plan.a + plan.b * block.normal(word);
    case Distribution::integers:
    case Distribution::truncated_normal: break;
  }
  double value = block.normal(word);
  for (std::uint64_t attempt = 1; value < -2 || value > 2; ++attempt)
    value = Philox(index >> 2U, attempt << 32U, key).normal(word);
  return plan.a + plan.b * value;
}

template <class T>
MTF_FUNCTION T next_towards(T from, T to) {
  if constexpr (std::is_same_v<T, bfloat16>) {
    return from.next(to);
  } else {
    return std::nextafter(from, to);
  }
}

template <class T>
struct RandomKernel {
  Outer<2> outer;  ///< output, global index
  RandomPlan plan;
  std::uint64_t key;
  T* out;
  MTF_FUNCTION void operator()(std::int64_t row) const {
    std::int64_t offset[2];
    outer.offsets(row, offset);
    std::uint64_t counter = ~std::uint64_t{0};
    Philox block(0, 0, 0);
    for (std::int64_t i = 0; i < outer.inner; ++i) {
      const auto index = static_cast<std::uint64_t>(plan.index + offset[1] + i * outer.inner_strides[1]);
      if (index >> 2U != counter) {
        counter = index >> 2U;
        block = Philox(counter, 0, key);
      }
      T value = static_cast<T>(draw(plan, key, block, index));
      if (plan.distribution == Distribution::uniform) {  // rounding to T must not reach an end
        if (value >= static_cast<T>(plan.b)) value = next_towards(static_cast<T>(plan.b), static_cast<T>(plan.a));
        if (value <= static_cast<T>(plan.a)) value = next_towards(static_cast<T>(plan.a), static_cast<T>(plan.b));
      }
      out[offset[0] + i * outer.inner_strides[0]] = value;
    }
  }
};

/// A whole number in [0, count): the upper half of the product of count and 64 random bits, so that no number is
/// likelier than another by more than 2^-64 (Lemire, Fast Random Integer Generation in an Interval, 2019, without its
/// rejections).
MTF_FUNCTION constexpr std::uint64_t draw_integer(std::uint64_t count, std::uint64_t key, std::uint64_t index) {
  const Philox block(index, 0, key);
  const std::uint64_t low = std::uint64_t{block.words[0]} * (count & 0xFFFFFFFFU);
  const std::uint64_t middle = std::uint64_t{block.words[1]} * (count & 0xFFFFFFFFU) + (low >> 32U);
  const std::uint64_t other = std::uint64_t{block.words[0]} * (count >> 32U) + (middle & 0xFFFFFFFFU);
  return std::uint64_t{block.words[1]} * (count >> 32U) + (middle >> 32U) + (other >> 32U);
}

template <class T>
struct RandomIntegerKernel {
  Outer<2> outer;  ///< output, global index
  RandomPlan plan;
  std::uint64_t key;
  T* out;
  MTF_FUNCTION void operator()(std::int64_t row) const {
    std::int64_t offset[2];
    outer.offsets(row, offset);
    for (std::int64_t i = 0; i < outer.inner; ++i) {
      const auto index = static_cast<std::uint64_t>(plan.index + offset[1] + i * outer.inner_strides[1]);
      out[offset[0] + i * outer.inner_strides[0]] =
          static_cast<T>(static_cast<std::uint64_t>(plan.low) + draw_integer(plan.count, key, index));
    }
  }
};

template <class Space, class T>
void execute(const Space& space, const RandomPlan& plan, T* out) {
  const Outer<2> outer(plan.loop);
  // One 64-bit key from seed and stream; the multiplier spreads small seeds (Knuth's MMIX constant).
  const std::uint64_t key = plan.key.stream ^ (plan.key.seed * 6364136223846793005ULL + 1442695040888963407ULL);
  if constexpr (std::is_integral_v<T>) {
    for_blocks(space, "mtf::random", outer.size, RandomIntegerKernel<T>{outer, plan, key, out});
  } else {
    for_blocks(space, "mtf::random", outer.size, RandomKernel<T>{outer, plan, key, out});
  }
}

}  // namespace kernels

}  // namespace v0
}  // namespace mtf
