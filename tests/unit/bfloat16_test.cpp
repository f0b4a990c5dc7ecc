// mtf::bfloat16: conversions in both directions, and at the ends of the range.
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

#include <doctest/doctest.h>

#include <mtf/core/element.hpp>

namespace {

static_assert(sizeof(mtf::bfloat16) == 2 && std::is_trivially_copyable_v<mtf::bfloat16>);
static_assert(mtf::element<mtf::bfloat16> && mtf::floating<mtf::bfloat16> && !mtf::floating<std::int32_t> &&
              !mtf::floating<bool>);
static_assert(std::is_same_v<mtf::computed<mtf::bfloat16>, float> && std::is_same_v<mtf::computed<double>, double>);
static_assert(std::is_convertible_v<mtf::bfloat16, float> && !std::is_convertible_v<float, mtf::bfloat16>);
static_assert(mtf::bfloat16(1.0F).bits == 0x3F80 && float(mtf::bfloat16(1.0F)) == 1.0F);
static_assert(mtf::bfloat16(1).bits == 0x3F80 && mtf::bfloat16(-2.0).bits == 0xC000 &&
              mtf::bfloat16(std::int64_t{3}).bits == 0x4040);
static_assert(float(mtf::bfloat16(1.0F) + mtf::bfloat16(0.00390625F)) == 1.00390625F);  // the sum is a float

float of_bits(std::uint32_t word) {
  float value = 0;
  std::memcpy(&value, &word, sizeof value);
  return value;
}

/// The nearest of all mtf::bfloat16 numbers by search, even at a tie. For finite values within the range.
mtf::bfloat16 nearest(double value) {
  const auto cut = static_cast<std::uint16_t>(mtf::bfloat16(static_cast<float>(value)).bits);
  mtf::bfloat16 best = mtf::bfloat16::from_bits(cut);
  for (int step = -2; step <= 2; ++step) {
    const mtf::bfloat16 other = mtf::bfloat16::from_bits(static_cast<std::uint16_t>(cut + step));
    if (!std::isfinite(static_cast<float>(other))) continue;
    const double here = std::abs(static_cast<double>(best) - value);
    const double there = std::abs(static_cast<double>(other) - value);
    if (there < here || (there == here && (other.bits & 1U) == 0)) best = other;
  }
  return best;
}

}  // namespace

TEST_CASE("every mtf::bfloat16 comes back from float and double as it was") {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto x = mtf::bfloat16::from_bits(static_cast<std::uint16_t>(bits));
    const float wide = x;
    CHECK((std::isnan(wide) == ((bits & 0x7FFFU) > 0x7F80U)));
    if (std::isnan(wide)) {
      CHECK(std::isnan(static_cast<float>(mtf::bfloat16(wide))));
      CHECK(std::isnan(static_cast<float>(mtf::bfloat16(static_cast<double>(wide)))));
    } else if (mtf::bfloat16(wide).bits != bits || mtf::bfloat16(static_cast<double>(wide)).bits != bits) {
      FAIL("bits ", bits);
    }
  }
}

TEST_CASE("rounding is to nearest even, from float and without a detour from double") {
  std::uint64_t state = 1;
  for (int i = 0; i < 200000; ++i) {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    const float value = of_bits(static_cast<std::uint32_t>(state >> 32U));
    if (!std::isfinite(value) || std::abs(value) > 3.3e38F) continue;
    if (mtf::bfloat16(value).bits != nearest(static_cast<double>(value)).bits) FAIL(value);
    const double finer = static_cast<double>(value) * (1 + static_cast<double>(state & 0xFFFFU) * 1e-13);
    if (mtf::bfloat16(finer).bits != nearest(finer).bits) FAIL(finer);
  }
  // Ties, and doubles that float would round onto one.
  CHECK(mtf::bfloat16(1.00390625F).bits == 0x3F80);
  CHECK(mtf::bfloat16(1.01171875F).bits == 0x3F82);
  CHECK(mtf::bfloat16(1.00390625 + 1e-12).bits == 0x3F81);
  CHECK(mtf::bfloat16(1.01171875 - 1e-12).bits == 0x3F81);
  CHECK(mtf::bfloat16(-1.00390625 - 1e-12).bits == 0xBF81);
}

TEST_CASE("infinities, NaN, denormals, and what is too large") {
  const float infinity = std::numeric_limits<float>::infinity();
  CHECK(mtf::bfloat16(infinity).bits == 0x7F80);
  CHECK(mtf::bfloat16(-infinity).bits == 0xFF80);
  CHECK(mtf::bfloat16(std::numeric_limits<float>::max()).bits == 0x7F80);
  CHECK(mtf::bfloat16(1e300).bits == 0x7F80);
  CHECK(mtf::bfloat16(-1e300).bits == 0xFF80);
  CHECK(mtf::bfloat16(of_bits(0x7F7F7FFF)).bits == 0x7F7F);                   // just below the tie with infinity
  CHECK(std::isnan(static_cast<float>(mtf::bfloat16(of_bits(0x7F800001)))));  // a NaN whose upper half looks infinite
  CHECK(std::isnan(static_cast<float>(mtf::bfloat16(std::numeric_limits<double>::quiet_NaN()))));
  CHECK(mtf::bfloat16(-0.0F).bits == 0x8000);
  CHECK(mtf::bfloat16(of_bits(0x00010000)).bits == 1);  // the smallest denormal
  CHECK(mtf::bfloat16(of_bits(0x00018000)).bits == 2);  // a tie between denormals
  CHECK(mtf::bfloat16(of_bits(0x00008000)).bits == 0);  // a tie with zero
  CHECK(mtf::bfloat16(of_bits(0x00008001)).bits == 1);
  CHECK(mtf::bfloat16(1e-300).bits == 0);
}

TEST_CASE("the next number") {
  const mtf::bfloat16 one(1.0F);
  CHECK(static_cast<float>(one.next(mtf::bfloat16(2.0F))) == 1.0078125F);
  CHECK(static_cast<float>(one.next(mtf::bfloat16(0.0F))) == 0.99609375F);
  CHECK(mtf::bfloat16(-1.0F).next(mtf::bfloat16(0.0F)).bits == 0xBF7F);
  CHECK(mtf::bfloat16(0.0F).next(one).bits == 1);
  CHECK(mtf::bfloat16(0.0F).next(mtf::bfloat16(-1.0F)).bits == 0x8001);
  CHECK(one.next(one).bits == one.bits);
}
