// Dual numbers against central differences, and the conventions at ties, at zero and for NaN.
#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <limits>

#include <doctest/doctest.h>

#include <mtf/core/dual.hpp>

namespace {

using Dual = mtf::Dual<double>;
constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();
constexpr double infinity = std::numeric_limits<double>::infinity();

/// The slopes of f(x, y) in x and in y.
template <class F>
void compare(const char* name, const F& f, double x, double y) {
  CAPTURE(name);
  CAPTURE(x);
  CAPTURE(y);
  const double step = 1e-6;
  const Dual in_x = f(Dual(x, 1), Dual(y));
  const Dual in_y = f(Dual(x), Dual(y, 1));
  CHECK(in_x.value == doctest::Approx(f(x, y)).epsilon(1e-14));
  CHECK(in_x.value == in_y.value);
  CHECK(in_x.slope == doctest::Approx((f(x + step, y) - f(x - step, y)) / (2 * step)).epsilon(1e-7).scale(1));
  CHECK(in_y.slope == doctest::Approx((f(x, y + step) - f(x, y - step)) / (2 * step)).epsilon(1e-7).scale(1));
  // Slopes are linear in those of the arguments.
  CHECK(f(Dual(x, 3), Dual(y, -2)).slope == doctest::Approx(3 * in_x.slope - 2 * in_y.slope).epsilon(1e-12).scale(1));
}

constexpr bool arithmetic_is_constant() {
  const Dual x(3, 1);
  const Dual y = x * x - 2 / x + x;  // slope 2x + 2/x^2 + 1
  return y.value > 11.33 && y.value < 11.34 && y.slope > 7.22 && y.slope < 7.23 && max(x, Dual(2)).slope == 1 &&
         abs(-x).slope == 1;
}
static_assert(arithmetic_is_constant());

constexpr bool square_root_is_constant() {
  return mtf::sqrt(0.0) == 0 && mtf::sqrt(1.0) == 1 && mtf::sqrt(4.0) == 2 && mtf::sqrt(1e-10) > 0.99999999999e-5 &&
         mtf::sqrt(1e-10) < 1.00000000001e-5 && mtf::sqrt(2.0F) > 1.41421F && mtf::sqrt(2.0F) < 1.41422F;
}
static_assert(square_root_is_constant());

}  // namespace

TEST_CASE("duals in constant expressions") {
  CHECK(arithmetic_is_constant());
  CHECK(square_root_is_constant());
}

TEST_CASE("the square root of constants is that of the machine") {
  constexpr double roots[] = {mtf::sqrt(2.0),    mtf::sqrt(3.0), mtf::sqrt(1e300),
                              mtf::sqrt(1e-300), mtf::sqrt(0.5), mtf::sqrt(12345.678)};
  const double squares[] = {2.0, 3.0, 1e300, 1e-300, 0.5, 12345.678};
  for (int i = 0; i < 6; ++i) CHECK(roots[i] == doctest::Approx(std::sqrt(squares[i])).epsilon(1e-15));
  CHECK(std::isnan(mtf::sqrt(-1.0)));
}

TEST_CASE("slopes are those of central differences") {
  for (const double x : {-2.3, -0.7, 0.4, 1.9}) {
    for (const double y : {-1.6, -0.31, 0.8, 2.5}) {
      compare("+", [](auto a, auto b) { return a + b; }, x, y);
      compare("-", [](auto a, auto b) { return a - b; }, x, y);
      compare("*", [](auto a, auto b) { return a * b; }, x, y);
      compare("/", [](auto a, auto b) { return a / b; }, x, y);
      compare("negation", [](auto a, auto b) { return -a * b; }, x, y);
      compare("scalars", [](auto a, auto b) { return 2 * a - b / 3 + 1; }, x, y);
      compare("exp", [](auto a, auto b) { return exp(a * b); }, x, y);
      compare("log", [](auto a, auto b) { return log(a * a + b * b); }, x, y);
      compare("sqrt", [](auto a, auto b) { return sqrt(a * a + b * b); }, x, y);
      compare("tanh", [](auto a, auto b) { return tanh(a - b); }, x, y);
      compare("sin", [](auto a, auto b) { return sin(a) * cos(b); }, x, y);
      using mtf::abs, mtf::max, mtf::min;
      compare("max", [](auto a, auto b) { return max(a, b * b); }, x, y);
      compare("min", [](auto a, auto b) { return min(a, b * b); }, x, y);
      compare("abs", [](auto a, auto b) { return abs(a) * b; }, x, y);
      compare("log1p", [](auto a, auto b) { return log1p(a * a + b * b); }, x, y);
      compare("expm1", [](auto a, auto b) { return expm1(a * b); }, x, y);
      compare("pow", [](auto a, auto b) { return pow(a * a, b); }, x, y);
      compare("sigmoid", [](auto a, auto b) { return b / (1 + exp(-a)); }, x, y);
    }
  }
}

TEST_CASE("at a tie each operand of max and min has the full slope") {
  CHECK(max(Dual(5, 1), Dual(5)).slope == 1);
  CHECK(max(Dual(5), Dual(5, 1)).slope == 1);
  CHECK(min(Dual(5, 1), Dual(5)).slope == 1);
  CHECK(min(Dual(5), Dual(5, 1)).slope == 1);
}

TEST_CASE("pow asks only for the derivatives that move it") {
  CHECK(pow(Dual(-2, 1), Dual(3)).slope == 12);
  CHECK(pow(Dual(0.0, 1), Dual(1)).slope == 1);
  CHECK(pow(Dual(0.0, 1), Dual(0)).slope == 0);
  CHECK(pow(Dual(0.0), Dual(0.5, 1)).slope == 0);
  CHECK(std::isnan(pow(Dual(-2), Dual(3, 1)).slope));
  CHECK(pow(Dual(-2), Dual(3, 1)).value == -8);
}

TEST_CASE("the slope of abs at zero is zero") {
  CHECK(abs(Dual(0.0, 1)).slope == 0);
  CHECK(abs(Dual(-0.0, 1)).slope == 0);
  CHECK(abs(Dual(-3, 1)).slope == -1);
}

TEST_CASE("NaN passes max and min, of numbers and of duals, from either side") {
  CHECK(std::isnan(mtf::max(not_a_number, 1.0)));
  CHECK(std::isnan(mtf::max(1.0, not_a_number)));
  CHECK(std::isnan(mtf::min(not_a_number, 1.0)));
  CHECK(std::isnan(mtf::min(1.0, not_a_number)));
  CHECK(std::isnan(max(Dual(not_a_number), Dual(1)).value));
  CHECK(std::isnan(max(Dual(1), Dual(not_a_number)).value));
  CHECK(std::isnan(min(Dual(not_a_number), Dual(1)).value));
  CHECK(std::isnan(min(Dual(1), Dual(not_a_number)).value));
  CHECK(mtf::max(-infinity, 1.0) == 1);
  CHECK(mtf::min(infinity, -infinity) == -infinity);
}

TEST_CASE("integers have max, min and abs") {
  CHECK(mtf::max(2, 3) == 3);
  CHECK(mtf::min(2, 3) == 2);
  CHECK(mtf::abs(-7) == 7);
  CHECK(mtf::abs(std::int64_t{-1} << 40) == std::int64_t{1} << 40);
}
