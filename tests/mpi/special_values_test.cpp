// Every function at infinities, the largest, smallest and zero numbers and NaN: values and slopes against the
// mathematical ones, which the table states in long double (limits where a formula has none).
#include <bit>
#include <limits>
#include <span>
#include <type_traits>

#include "support.hpp"

using namespace support;

namespace {

using Real = long double;
constexpr Real inf = std::numeric_limits<Real>::infinity();
constexpr Real nan = std::numeric_limits<Real>::quiet_NaN();

struct P : mtf::Dim<"p", 16> {};
struct Q : mtf::Dim<"q", 16> {};
struct N : mtf::Dim<"n", 8> {};

template <class T>
struct Numbers {
  using Limits = std::numeric_limits<T>;
  static constexpr T largest = Limits::max(), smallest = Limits::min(), denormal = Limits::denorm_min();
  static constexpr Real roundoff = Limits::epsilon();
};
template <>
struct Numbers<mtf::bfloat16> {
  static constexpr float largest = 0x1.FEp127F, smallest = 0x1p-126F, denormal = 0x1p-133F;
  static constexpr Real roundoff = 0x1p-7L;
};

template <class T>
std::vector<T> points() {
  using Of = Numbers<T>;
  std::vector<T> result;
  for (const double x : {HUGE_VAL, static_cast<double>(Of::largest), static_cast<double>(Of::smallest),
                         static_cast<double>(Of::denormal), 0.0, 1.0, 100.0}) {
    result.push_back(static_cast<T>(x));
    result.push_back(static_cast<T>(-x));
  }
  result.push_back(static_cast<T>(std::nan("")));
  result.push_back(static_cast<T>(0.5));
  return result;
}

Real real(auto x) { return static_cast<Real>(static_cast<double>(x)); }
/// The number as the element type has it.
template <class T>
Real rounded(Real x) {
  if constexpr (std::is_same_v<T, double>) return static_cast<double>(x);
  const auto single = static_cast<float>(x);
  if constexpr (std::is_same_v<T, mtf::bfloat16>) return static_cast<float>(mtf::bfloat16(single));
  return single;
}

/// NaN for NaN, infinities with their sign; else within some roundoffs, or steps of the denormal numbers. `absolute`
/// is what a sum that cancels may be off.
template <class T>
bool agrees(Real got, Real expected, Real absolute, Real steps) {
  expected = rounded<T>(expected);
  if (std::isnan(expected)) return std::isnan(got);
  if (std::isinf(expected) || std::isinf(got)) return got == expected;
  const Real tolerance = 8 * Numbers<T>::roundoff * std::fabs(expected) + steps * real(Numbers<T>::denormal) +
                         absolute * Numbers<T>::roundoff;
  return std::fabs(got - expected) <= tolerance;
}
/// `at` and `other` are the arguments, for the message.
template <class T>
void check(const std::string& what, Real at, Real other, Real got, Real expected, Real absolute = 0) {
  const Real steps = 4 * std::max(Real(1), std::min(std::fabs(at), Real(100)));  // of a denormal factor
  CHECK_MESSAGE(agrees<T>(got, expected, absolute, steps), what, " at ", static_cast<double>(at), ", ",
                static_cast<double>(other), ": ", static_cast<double>(got), " for ", static_cast<double>(expected));
}

// The mathematical functions.
Real sigmoid(Real x) { return x < 0 ? std::exp(x) / (1 + std::exp(x)) : 1 / (1 + std::exp(-x)); }
Real swish(Real x) { return x == -inf ? 0 : x * sigmoid(x); }
Real swish_slope(Real x) {
  if (std::isinf(x)) return x > 0 ? 1 : 0;
  return sigmoid(x) * (1 + x * sigmoid(-x));
}
constexpr Real gelu_factor = 0.7978845608028653558798921198687637L;
Real gelu(Real x) {
  const Real t = std::tanh(gelu_factor * (x + 0.044715L * x * x * x));
  return x == -inf ? 0 : x / 2 * (1 + t);
}
Real gelu_slope(Real x) {
  if (std::fabs(x) > 1e10L) return x > 0 ? 1 : 0;
  const Real t = std::tanh(gelu_factor * (x + 0.044715L * x * x * x));
  return (1 + t) / 2 + x / 2 * (1 - t * t) * gelu_factor * (1 + 3 * 0.044715L * x * x);
}
Real sign(Real x) { return x > 0 ? 1 : x < 0 ? -1 : x; }
constexpr Real selu_scale = 1.0507009873554805L;
constexpr Real selu_alpha = 1.6732632423543772L;

/// A function of one tensor, what it is, and its slope; `cancels` where the slope is a difference of numbers near 1.
template <class F>
struct Row {
  const char* name;
  F f;
  Real (*value)(Real);
  Real (*slope)(Real);
  Real cancels = 0;
};

/// Calls row(...) for each function.
template <class Call>
void for_each_function(const Call& call) {
  const auto row = [&](const char* name, auto f, Real (*value)(Real), Real (*slope)(Real), Real cancels = 0) {
    call(Row<decltype(f)>{name, f, value, slope, cancels});
  };
  using R = Real;
  row("square", [](const auto& x) { return mtf::square(x); }, [](R x) { return x * x; }, [](R x) { return 2 * x; });
  row(
      "sqrt", [](const auto& x) { return mtf::sqrt(x); }, [](R x) { return std::sqrt(x); },
      [](R x) { return 1 / (2 * std::sqrt(x)); });
  row(
      "rsqrt", [](const auto& x) { return mtf::rsqrt(x); }, [](R x) { return 1 / std::sqrt(x); },
      [](R x) { return x == inf ? -0.0L : -1 / std::sqrt(x) / x / 2 * (x == 0 && std::signbit(x) ? -1 : 1); });
  row(
      "exp", [](const auto& x) { return mtf::exp(x); }, [](R x) { return std::exp(x); },
      [](R x) { return std::exp(x); });
  row("log", [](const auto& x) { return mtf::log(x); }, [](R x) { return std::log(x); }, [](R x) { return 1 / x; });
  row(
      "tanh", [](const auto& x) { return mtf::tanh(x); }, [](R x) { return std::tanh(x); },
      [](R x) { return 1 / std::cosh(x) / std::cosh(x); }, 1);
  row("sigmoid", [](const auto& x) { return mtf::sigmoid(x); }, sigmoid, [](R x) { return sigmoid(x) * sigmoid(-x); });
  row(
      "sin", [](const auto& x) { return mtf::sin(x); }, [](R x) { return std::sin(x); },
      [](R x) { return std::cos(x); });
  row(
      "cos", [](const auto& x) { return mtf::cos(x); }, [](R x) { return std::cos(x); },
      [](R x) { return -std::sin(x); });
  row(
      "abs", [](const auto& x) { return mtf::abs(x); }, [](R x) { return std::fabs(x); },
      [](R x) { return std::isnan(x) ? 0 : sign(x); });
  row("sign", [](const auto& x) { return mtf::sign(x); }, sign, nullptr);
  row(
      "relu", [](const auto& x) { return mtf::relu(x); }, [](R x) { return x < 0 ? 0 : x; },
      [](R x) -> R { return x <= 0 ? 0 : 1; });
  row(
      "leaky_relu", [](const auto& x) { return mtf::leaky_relu(x, 0.25); }, [](R x) { return x > 0 ? x : x * 0.25L; },
      [](R x) { return x > 0 ? 1 : 0.25L; });
  row(
      "elu", [](const auto& x) { return mtf::elu(x); }, [](R x) { return x > 0 ? x : std::expm1(x); },
      [](R x) { return x > 0 ? 1 : std::exp(x); });
  row(
      "selu", [](const auto& x) { return mtf::selu(x); },
      [](R x) { return selu_scale * (x < 0 ? selu_alpha * std::expm1(x) : x); },
      [](R x) { return selu_scale * (x < 0 ? selu_alpha * std::exp(x) : 1); });
  row(
      "softplus", [](const auto& x) { return mtf::softplus(x); },
      [](R x) { return x > 0 ? x + std::log1p(std::exp(-x)) : std::log1p(std::exp(x)); }, sigmoid);
  row("swish", [](const auto& x) { return mtf::swish(x); }, swish, swish_slope);
  row("gelu", [](const auto& x) { return mtf::gelu(x); }, gelu, gelu_slope, 1);
  row(
      "reciprocal", [](const auto& x) { return mtf::reciprocal(x); }, [](R x) { return 1 / x; },
      [](R x) { return std::isnan(x) ? nan : -std::fabs(1 / x / x); });
  row("negative", [](const auto& x) { return -x; }, [](R x) { return -x; }, [](R) { return -1.0L; });
  row("x + 1", [](const auto& x) { return x + 1; }, [](R x) { return x + 1; }, [](R) { return 1.0L; });
  row("1 - x", [](const auto& x) { return 1 - x; }, [](R x) { return 1 - x; }, [](R) { return -1.0L; });
  row("3 x", [](const auto& x) { return 3 * x; }, [](R x) { return 3 * x; }, [](R) { return 3.0L; });
  row("x / 4", [](const auto& x) { return x / 4; }, [](R x) { return x / 4; }, [](R) { return 0.25L; });
  row(
      "0.5 / x", [](const auto& x) { return 0.5 / x; }, [](R x) { return 0.5L / x; },
      [](R x) { return std::isnan(x) ? nan : -std::fabs(0.5L / x / x); });
  row("x^2", [](const auto& x) { return mtf::pow(x, 2); }, [](R x) { return x * x; }, [](R x) { return 2 * x; });
  row(
      "x^3", [](const auto& x) { return mtf::pow(x, 3); }, [](R x) { return x * x * x; },
      [](R x) { return 3 * x * x; });
  row("x^0", [](const auto& x) { return mtf::pow(x, 0); }, [](R) { return 1.0L; }, [](R) { return 0.0L; });
  row(
      "2^x", [](const auto& x) { return mtf::pow(2, x); }, [](R x) { return std::exp2(x); },
      [](R x) { return std::exp2(x) * std::log(2.0L); });
  row(
      "maximum of 1", [](const auto& x) { return mtf::maximum(x, 1); }, [](R x) { return x < 1 ? 1 : x; },
      [](R x) -> R { return x < 1 ? 0 : 1; });
  row(
      "minimum of 1", [](const auto& x) { return mtf::minimum(x, 1); }, [](R x) { return x > 1 ? 1 : x; },
      [](R x) -> R { return x > 1 ? 0 : 1; });
  row(
      "clip", [](const auto& x) { return mtf::clip(x, -3, 3); }, [](R x) { return x < -3  ? -3
                                                                                  : x > 3 ? 3
                                                                                          : x; },
      [](R x) -> R { return std::fabs(x) > 3 ? 0 : 1; });
  row(
      "dropout", [](const auto& x) { return mtf::dropout(x, 1 - 0x1p-40, mtf::seed{5} / "none is kept"); },
      [](R) { return 0.0L; }, [](R) { return 0.0L; });
  row(
      "where", [](const auto& x) { return mtf::where(mtf::greater(x, 1), x, 0); }, [](R x) { return x > 1 ? x : 0; },
      [](R x) -> R { return x > 1 ? 1 : 0; });
  row(
      "gaussian", [](const auto& x) { return mtf::exp(-mtf::square(x)); }, [](R x) { return std::exp(-x * x); },
      [](R x) { return std::isinf(x) ? 0 : -2 * x * std::exp(-x * x); });
  row(
      "map of a gaussian",
      [](const auto& x) {
        return mtf::map(
            [](auto e) {
              using mtf::exp;
              return exp(-e * e);
            },
            x);
      },
      [](R x) { return std::exp(-x * x); }, [](R x) { return std::isinf(x) ? 0 : -2 * x * std::exp(-x * x); });
  row(
      "map of tanh x^3",
      [](const auto& x) {
        return mtf::map(
            [](auto e) {
              using mtf::tanh;
              return tanh(e * e * e);
            },
            x);
      },
      [](R x) { return std::tanh(x * x * x); },
      [](R x) { return std::fabs(x) > 50 ? 0 : 3 * x * x / std::cosh(x * x * x) / std::cosh(x * x * x); }, 10);
  row(
      "map of log1p, sqrt of constants",
      [](const auto& x) {
        return mtf::map(
            [](auto e) {
              using mtf::log1p, mtf::sqrt;
              return decltype(e)(log1p(e * 0) + sqrt(decltype(e)(0)) + e);
            },
            x);
      },
      [](R x) { return x * 0 + x; }, [](R) { return 1.0L; });
  row(
      "floor_divide", [](const auto& x) { return mtf::floor_divide(x, 2); },
      [](R x) { return std::isinf(x) ? nan : std::floor(x / 2); }, nullptr);
  row(
      "mod", [](const auto& x) { return mtf::mod(x, 2); },
      [](R x) { return std::fmod(x, 2.0L) < 0 ? std::fmod(x, 2.0L) + 2 : std::fmod(x, 2.0L); }, nullptr);
}

template <class T>
void check_functions(World& w) {
  const std::vector<T> xs = points<T>();
  for_each_function([&](const auto& row) {
    const std::string what = std::string(row.name) + " of " + std::string(name_of(mtf::element_type_of<T>::value));
    CAPTURE(what);
    const auto x = mtf::watch(mtf::from_global<T>(w, xs, P{}));
    const auto y = row.f(x);
    const Host values = host(y);
    for (std::size_t i = 0; i < xs.size(); ++i) check<T>(what, real(xs[i]), 0, values[i], row.value(real(xs[i])));
    if (row.slope == nullptr) return;
    const auto [dx] = mtf::gradients(mtf::reduce_sum(y), x);
    const Host slopes = host(dx);
    for (std::size_t i = 0; i < xs.size(); ++i)
      check<T>(what + ", slope", real(xs[i]), 0, slopes[i], row.slope(real(xs[i])), row.cancels);
    // Nothing depends on y where its gradient is 0, whatever the slope.
    const auto [nothing] = mtf::gradients(mtf::reduce_sum(row.f(x) * 0.0), x);
    for (const double d : host(nothing)) CHECK_MESSAGE(d == 0, what);
  });
}

Real power_slope(Real x, Real y) {
  if (y == 0) return 0;
  if (std::isnan(std::pow(x, y))) return nan;
  Real power = std::pow(x, y - 1);
  if (x < 0 && y - 1 == y && std::isfinite(y)) power = -power;  // an odd exponent
  return power == 0 ? 0 : y * power;
}
Real power_log(Real x, Real y) {
  const Real power = std::pow(x, y);
  return x == 0 || (power == 0 && x > 0) ? 0 : power * std::log(x);
}
Real modulo(Real x, Real y) {
  const Real rest = std::fmod(x, y);
  return rest != 0 && (rest < 0) != (y < 0) ? rest + y : rest;
}

template <class F>
struct Row2 {
  const char* name;
  F f;
  Real (*value)(Real, Real);
  Real (*slopes[2])(Real, Real);
};
template <class Call>
void for_each_function_of_two(const Call& call) {
  using R = Real;
  const auto row = [&](const char* name, auto f, R (*value)(R, R), R (*in_x)(R, R), R (*in_y)(R, R)) {
    call(Row2<decltype(f)>{name, f, value, {in_x, in_y}});
  };
  const auto one = [](R, R) -> R { return 1; };
  row("+", [](const auto& x, const auto& y) { return x + y; }, [](R x, R y) { return x + y; }, one, one);
  row(
      "-", [](const auto& x, const auto& y) { return x - y; }, [](R x, R y) { return x - y; }, one,
      [](R, R) -> R { return -1; });
  row(
      "*", [](const auto& x, const auto& y) { return x * y; }, [](R x, R y) { return x * y; }, [](R, R y) { return y; },
      [](R x, R) { return x; });
  row(
      "/", [](const auto& x, const auto& y) { return x / y; }, [](R x, R y) { return x / y; },
      [](R, R y) { return 1 / y; }, [](R x, R y) { return -(x / y) / y; });
  row(
      "map of a product",
      [](const auto& x, const auto& y) { return mtf::map([](auto a, auto b) { return a * b; }, x, y); },
      [](R x, R y) { return x * y; }, [](R, R y) { return y; }, [](R x, R) { return x; });
  row(
      "maximum", [](const auto& x, const auto& y) { return mtf::maximum(x, y); },
      [](R x, R y) { return x > y || std::isnan(x) ? x : y; },
      [](R x, R y) -> R { return x >= y || std::isnan(x) ? 1 : 0; },
      [](R x, R y) -> R { return (y >= x || std::isnan(y)) && !std::isnan(x) ? 1 : 0; });
  row(
      "minimum", [](const auto& x, const auto& y) { return mtf::minimum(x, y); },
      [](R x, R y) { return x < y || std::isnan(x) ? x : y; },
      [](R x, R y) -> R { return x <= y || std::isnan(x) ? 1 : 0; },
      [](R x, R y) -> R { return (y <= x || std::isnan(y)) && !std::isnan(x) ? 1 : 0; });
  row(
      "squared_difference", [](const auto& x, const auto& y) { return mtf::squared_difference(x, y); },
      [](R x, R y) { return (x - y) * (x - y); }, [](R x, R y) { return 2 * (x - y); },
      [](R x, R y) { return 2 * (y - x); });
  row(
      "pow", [](const auto& x, const auto& y) { return mtf::pow(x, y); }, [](R x, R y) { return std::pow(x, y); },
      power_slope, power_log);
  row(
      "floor_divide", [](const auto& x, const auto& y) { return mtf::floor_divide(x, y); },
      [](R x, R y) {
        return y == 0          ? x / y
               : std::isinf(x) ? nan
               : std::isinf(y) ? (x != 0 && x == x && (x < 0) != (y < 0) ? -1 : x / y)
                               : std::floor((x - modulo(x, y)) / y + 0.25L);
      },
      nullptr, nullptr);
  row("mod", [](const auto& x, const auto& y) { return mtf::mod(x, y); }, modulo, nullptr, nullptr);
  const auto flag = [&](const char* name, auto f, R (*value)(R, R)) { row(name, f, value, nullptr, nullptr); };
  flag("less", [](const auto& x, const auto& y) { return mtf::less(x, y); }, [](R x, R y) -> R { return x < y; });
  flag("greater", [](const auto& x, const auto& y) { return mtf::greater(x, y); }, [](R x, R y) -> R { return x > y; });
  flag(
      "less_equal", [](const auto& x, const auto& y) { return mtf::less_equal(x, y); },
      [](R x, R y) -> R { return x <= y; });
  flag(
      "greater_equal", [](const auto& x, const auto& y) { return mtf::greater_equal(x, y); },
      [](R x, R y) -> R { return x >= y; });
  flag("equal", [](const auto& x, const auto& y) { return mtf::equal(x, y); }, [](R x, R y) -> R { return x == y; });
  flag(
      "not_equal", [](const auto& x, const auto& y) { return mtf::not_equal(x, y); },
      [](R x, R y) -> R { return x != y; });
}

/// All pairs of points.
template <class T>
void check_functions_of_two(World& w) {
  const std::vector<T> all = points<T>();
  std::vector<T> xs, ys;
  for (const T& x : all) {
    for (const T& y : all) {
      xs.push_back(x);
      ys.push_back(y);
    }
  }
  for_each_function_of_two([&](const auto& row) {
    const std::string what = std::string(row.name) + " of " + std::string(name_of(mtf::element_type_of<T>::value));
    const auto x = mtf::watch(mtf::from_global<T>(w, xs, P{}, Q{}));
    const auto y = mtf::watch(mtf::from_global<T>(w, ys, P{}, Q{}));
    const auto z = row.f(x, y);
    const Host values = host(z);
    for (std::size_t i = 0; i < xs.size(); ++i)
      check<T>(what, real(xs[i]), real(ys[i]), values[i], row.value(real(xs[i]), real(ys[i])));
    if constexpr (mtf::floating<mtf::element_of<decltype(z)>>) {
      if (row.slopes[0] == nullptr) return;
      const auto [dx, dy] = mtf::gradients(mtf::reduce_sum(z), x, y);
      const Host slopes[]{host(dx), host(dy)};
      for (std::size_t i = 0; i < xs.size(); ++i) {
        for (std::size_t of : {0U, 1U})
          check<T>(what + ", slope " + std::to_string(of), real(xs[i]), real(ys[i]), slopes[of][i],
                   row.slopes[of](real(xs[i]), real(ys[i])));
      }
    }
  });
}

// Rows of 8 along which softmax and its like work: two, four or eight ranks have parts that are off, or infinite, as a
// whole.
constexpr double top = std::numeric_limits<double>::infinity();
template <class T>
std::vector<std::vector<T>> rows() {
  const double most = static_cast<double>(std::numeric_limits<T>::max());
  const double least = static_cast<double>(std::numeric_limits<T>::denorm_min());
  std::vector<std::vector<T>> result;
  for (const auto& row : std::initializer_list<std::initializer_list<double>>{
           {1, 2, 3, 0, -1, 0.5, 7, -2},
           {1, -top, 3, 0, -1, -top, 2, -2},
           {-top, -top, -top, -top, 1, 2, 0, 1},
           {0, 1, -top, -top, -top, -top, -top, -top},
           {-top, -top, -top, -top, -top, -top, -top, -top},
           {0, 1, 2, -1, 3, top, 0, 1},
           {0, top, -top, 1, 2, -top, top, 5},
           {-top, -top, -top, -top, top, top, top, top},
           {top, top, top, top, top, top, top, top},
           {-top, -top, -top, top, -top, -top, -top, -top},
           {0, -0.0, least, -least, 0, -0.0, least, -least},
           {-1e30, -1e30, -1e30, 0, -1e30, -1e30, -1e30, -1e30},
           {1e30, 1e30, 1e30, 1e30, -1e30, -top, 1e30, 1e30},
           {-most, -most, -most, -most, -most, -most, -most, -most},
           {0, most, -most, -top, most, 0, -1, 2},
           {0, 1, 2, -top, std::nan(""), 4, 5, top},
       }) {
    std::vector<T> values;
    for (const double x : row) values.push_back(static_cast<T>(x));
    result.push_back(values);
  }
  return result;
}

/// What the rows are in the world without classes that are off: shares, their logarithms, log of the sum.
struct Shares {
  std::vector<Real> share, log_share;
  Real log_sum = -inf;
};
template <class T>
Shares shares_of(const std::vector<T>& row, Real extra = -inf) {
  Shares result;
  Real largest = extra;
  bool has_nan = false;
  Real infinite = extra == inf ? 1 : 0;
  for (const T x : row) {
    has_nan = has_nan || std::isnan(x);
    largest = std::max(largest, real(x));
    if (real(x) == inf) ++infinite;
  }
  Real sum = extra == -inf ? 0 : std::exp(extra - largest);
  for (const T x : row) sum += real(x) == -inf ? 0 : std::exp(real(x) - largest);
  for (const T x : row) {
    Real log_share = real(x) == -inf ? -inf : real(x) - largest - std::log(sum);
    if (infinite > 0) log_share = real(x) == inf ? -std::log(infinite) : -inf;
    if (has_nan) log_share = nan;
    result.log_share.push_back(log_share);
    result.share.push_back(std::exp(log_share));
  }
  result.log_sum = has_nan ? nan : infinite > 0 ? inf : largest == -inf ? -inf : largest + std::log(sum);
  return result;
}

constexpr std::size_t count = 8;

template <class T>
void check_softmax(World& w, bool with_extra, double extra) {
  const auto all = rows<T>();
  std::vector<T> flat, weights;
  for (const auto& row : all) flat.insert(flat.end(), row.begin(), row.end());
  const Host drawn = host(normal(w, 3, P{}, N{}));
  for (const double d : drawn) weights.push_back(static_cast<T>(d));
  const auto x = mtf::watch(mtf::from_global<T>(w, flat, P{}, N{}));
  const auto g = mtf::from_global<T>(w, weights, P{}, N{});
  const auto g_rows = mtf::from_global<T>(w, std::vector<T>(weights.begin(), weights.begin() + 16), P{});
  const auto number = static_cast<T>(extra);
  const auto y = with_extra ? mtf::softmax<N>(x, number) : mtf::softmax<N>(x);
  const auto l = with_extra ? mtf::log_softmax<N>(x, number) : mtf::log_softmax<N>(x);
  const auto s = with_extra ? mtf::logsumexp<N>(x, number) : mtf::logsumexp<N>(x);
  const auto [dy] = mtf::gradients(mtf::reduce_sum(y * g), x);
  const auto [dl] = mtf::gradients(mtf::reduce_sum(l * g), x);
  const auto [ds] = mtf::gradients(mtf::reduce_sum(s * g_rows), x);
  const Host values[]{host(y), host(l), host(dy), host(dl), host(ds)};
  const Host sums = host(s);
  for (std::size_t r = 0; r < all.size(); ++r) {
    const Shares e = shares_of(all[r], with_extra ? real(number) : -inf);
    check<T>("logsumexp", static_cast<Real>(r), extra, sums[r], e.log_sum, 8);
    Real mean = 0;
    Real total = 0;
    Real size = 1;
    for (std::size_t i = 0; i < count; ++i) {
      mean += e.share[i] * real(weights[r * count + i]);
      total += real(weights[r * count + i]);
      size += std::fabs(real(weights[r * count + i]));
    }
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t at = r * count + i;
      const Real weight = real(weights[at]);
      const std::string where = " of row " + std::to_string(r) + ", class";
      check<T>("softmax" + where, static_cast<Real>(i), extra, values[0][at], e.share[i], 8);
      check<T>("log_softmax" + where, static_cast<Real>(i), extra, values[1][at], e.log_share[i], 8);
      check<T>("softmax'" + where, static_cast<Real>(i), extra, values[2][at], e.share[i] * (weight - mean), 16 * size);
      check<T>("log_softmax'" + where, static_cast<Real>(i), extra, values[3][at],
               rounded<T>(e.log_share[i]) == -inf ? 0 : weight - e.share[i] * total, 16 * size);
      check<T>("logsumexp'" + where, static_cast<Real>(i), extra, values[4][at], e.share[i] * real(weights[r]), 16);
    }
  }
}

template <class T>
void check_cross_entropy(World& w, const mtf::CrossEntropyOptions& options, std::int32_t target) {
  auto all = rows<T>();
  // Sums of differences of the largest numbers overflow with label smoothing, as the loss about does.
  if (options.label_smoothing > 0) all[14] = all[0];
  std::vector<T> flat;
  for (const auto& row : all) flat.insert(flat.end(), row.begin(), row.end());
  const auto x = mtf::watch(mtf::from_global<T>(w, flat, P{}, N{}));
  const auto targets = mtf::constant(w, target, P{});
  const auto loss = mtf::cross_entropy<N>(x, targets, options);
  const auto [dx] = mtf::gradients(mtf::reduce_sum(loss), x);
  const auto [nothing] = mtf::gradients(mtf::reduce_sum(mtf::cross_entropy<N>(x, targets, options) * 0.0), x);
  for (const double d : host(nothing)) CHECK(d == 0);
  const Host losses = host(loss);
  const Host slopes = host(dx);
  for (std::size_t r = 0; r < all.size(); ++r) {
    const Shares e = shares_of(all[r]);
    const auto off = [&](std::size_t i) { return real(all[r][i]) == -inf; };
    Real classes = 0;
    for (std::size_t i = 0; i < count; ++i) classes += off(i) ? 0 : 1;
    const Real s = options.label_smoothing;
    Real expected = options.z_loss == 0 ? 0 : options.z_loss * e.log_sum * e.log_sum;
    Real total = 0;
    std::vector<Real> weight(count);
    for (std::size_t i = 0; i < count && classes > 0; ++i) {
      weight[i] = (off(i) ? 0 : s / classes) + (static_cast<std::int32_t>(i) == target ? 1 - s : 0);
      total += weight[i];
      if (weight[i] != 0) expected -= weight[i] * e.log_share[i];
    }
    if (std::isnan(e.log_sum)) expected = nan;
    if (classes == 0) expected = 0;
    const std::string where =
        fmt::format(" s {} z {}, target {}, row", options.label_smoothing, options.z_loss, target);
    check<T>("cross_entropy" + where, static_cast<Real>(r), 0, losses[r], expected, 32);
    for (std::size_t i = 0; i < count; ++i) {
      const Real z = options.z_loss == 0 ? 0 : 2 * options.z_loss * e.log_sum;
      Real slope = e.share[i] == 0 ? 0 : e.share[i] * (total + z);
      slope -= weight[i];
      if (classes == 0) slope = 0;
      if (options.z_loss != 0 && e.log_sum == inf && e.share[i] > 0) slope = inf;
      if (std::isnan(e.log_sum)) continue;  // some of a row with NaN is NaN
      check<T>("cross_entropy'" + where, static_cast<Real>(r), static_cast<Real>(i), slopes[r * count + i], slope,
               32 * (1 + (std::isfinite(z) ? std::fabs(z) : 0)));
    }
  }
}

}  // namespace

TEST_CASE("special values: functions of one number") {
  for_each_layout({"", "p:rows", "p:cols,rows"}, [](const Pair& pair) {
    check_functions<float>(pair.world);
    check_functions<double>(pair.world);
  });
}

TEST_CASE("special values: functions of two numbers, all pairs") {
  for_each_layout({"", "p:rows;q:cols"}, [](const Pair& pair) {
    check_functions_of_two<float>(pair.world);
    check_functions_of_two<double>(pair.world);
  });
}

TEST_CASE("special values: bfloat16 is float, rounded") {
  World w(MPI_COMM_WORLD, {.mesh = mesh_text(1, ranks()), .layout = "p:cols"});
  check_functions<mtf::bfloat16>(w);
}

TEST_CASE("special values: softmax, log_softmax, logsumexp") {
  for_each_layout({"", "n:rows", "n:cols,rows", "p:rows;n:cols"}, [](const Pair& pair) {
    for (const double extra : {0.0, 1.0, -top, top, -1e30}) {
      check_softmax<float>(pair.world, true, extra);
      check_softmax<double>(pair.world, true, extra);
    }
    check_softmax<float>(pair.world, false, 0);
    check_softmax<double>(pair.world, false, 0);
  });
}

TEST_CASE("special values: cross_entropy, a class that is off is as if it were not there") {
  for_each_layout({"", "n:rows", "n:cols,rows", "p:rows;n:cols"}, [](const Pair& pair) {
    for (const mtf::CrossEntropyOptions& options :
         {mtf::CrossEntropyOptions{}, mtf::CrossEntropyOptions{.label_smoothing = 0.1},
          mtf::CrossEntropyOptions{.label_smoothing = 1}, mtf::CrossEntropyOptions{.z_loss = 0.01},
          mtf::CrossEntropyOptions{.z_loss = 0.01, .label_smoothing = 0.25}}) {
      for (const std::int32_t target : {-1, 0, 1, 3, 5, 7, 8}) {
        check_cross_entropy<float>(pair.world, options, target);
        check_cross_entropy<double>(pair.world, options, target);
      }
    }
  });
}

TEST_CASE("special values: without the classes that are off the loss is the same") {
  World w(MPI_COMM_SELF, {.mesh = "rows:1;cols:1"});
  const mtf::CrossEntropyOptions options{.z_loss = 0.01, .label_smoothing = 0.3};
  Host few = host(normal(w, 4, V{5}));
  Host many;
  for (std::size_t i = 0; i < 5; ++i) {
    many.push_back(few[i]);
    for (std::size_t off = 0; off < i; ++off) many.push_back(-HUGE_VAL);
  }
  const std::int32_t places[]{0, 1, 3, 6, 10};
  for (std::int32_t t = 0; t < 5; ++t) {
    const auto run = [&](const Host& logits, std::int32_t target) {
      const auto x = mtf::watch(mtf::from_global<double>(w, logits, V{static_cast<std::int64_t>(logits.size())}));
      const auto loss = mtf::cross_entropy<V>(x, mtf::constant(w, target), options);
      const auto [dx] = mtf::gradients(loss, x);
      return std::pair(mtf::item(loss), host(dx));
    };
    const auto [expected, slopes] = run(few, t);
    const auto [loss, wide] = run(many, places[t]);
    CHECK(loss == doctest::Approx(expected).epsilon(1e-14));
    Host kept;
    for (const std::int32_t place : places) kept.push_back(wide[static_cast<std::size_t>(place)]);
    check_close(kept, slopes, 1e-14, "gradient");
  }
}

TEST_CASE("special values: reductions, scans and choices along a dim") {
  for_each_layout({"", "n:rows", "n:cols,rows", "p:rows;n:cols"}, [](const Pair& pair) {
    World& w = pair.world;
    auto all = rows<double>();
    all[14] = all[13];  // the largest numbers of both signs add up to infinity in some orders
    Host flat;
    for (const auto& row : all) flat.insert(flat.end(), row.begin(), row.end());
    const auto x = mtf::watch(mtf::from_global<double>(w, flat, P{}, N{}));
    const Host largest = host(mtf::reduce_max<N>(x));
    const Host smallest = host(mtf::reduce_min<N>(x));
    const Host sums = host(mtf::reduce_sum<N>(x));
    const Host running = host(mtf::cumsum<N>(x));
    const Host at_largest = host(mtf::argmax<N>(x));
    const Host at_smallest = host(mtf::argmin<N>(x));
    const auto sorted = mtf::sort<N>(x, mtf::order::descending);
    const Host in_order = host(sorted.values);
    const Host first = host(mtf::top_1<N>(x).values);
    const Host third = host(mtf::nth_largest_element<N>(x, 2));
    const Host drawn = host(mtf::sample_with_temperature<N>(x, 0, mtf::seed{1} / "s"));
    const auto [d_largest] = mtf::gradients(mtf::reduce_sum(mtf::reduce_max<N>(x)), x);
    const auto [d_sum] = mtf::gradients(mtf::reduce_sum(mtf::cumsum<N>(x)), x);
    const auto [d_sorted] = mtf::gradients(mtf::reduce_sum(sorted.values), x);
    const Host slopes = host(d_largest);
    for (const double d : host(d_sorted)) CHECK(d == 1);
    const Host sum_slopes = host(d_sum);
    for (std::size_t r = 0; r < all.size(); ++r) {
      const auto larger = [](double p, double q) { return p > q || (std::isnan(p) && !std::isnan(q)); };
      std::vector<double> order = all[r];
      std::sort(order.begin(), order.end(), larger);
      const auto same = [&](const char* what, double got, double expected) {
        CHECK_MESSAGE((got == expected || (std::isnan(got) && std::isnan(expected))), what, " of row ", r, ": ", got);
      };
      const bool has_nan = std::isnan(order[0]);
      const auto index_of = [&](double value) {
        std::size_t i = 0;
        while (!(all[r][i] == value || (std::isnan(value) && std::isnan(all[r][i])))) ++i;
        return static_cast<double>(i);
      };
      same("reduce_max", largest[r], order[0]);
      same("reduce_min", smallest[r], has_nan ? order[0] : order.back());
      same("argmax", at_largest[r], index_of(order[0]));
      same("argmin", at_smallest[r], index_of(has_nan ? order[0] : order.back()));
      same("sample at temperature 0", drawn[r], index_of(order[0]));
      same("top_1", first[r], order[0]);
      same("nth_largest_element", third[r], order[2]);
      Real sum = 0;
      Real magnitude = 0;
      for (std::size_t i = 0; i < count; ++i) {
        const std::size_t at = r * count + i;
        same("sort", in_order[at], order[i]);
        sum += real(all[r][i]);
        magnitude = std::max(magnitude, std::fabs(sum));
        check<double>("cumsum", static_cast<Real>(r), static_cast<Real>(i), running[at], sum,
                      std::isfinite(magnitude) ? magnitude * 16 : 0);
        same("reduce_max'", slopes[at], !has_nan && all[r][i] == order[0] ? 1 : 0);
        same("cumsum'", sum_slopes[at], static_cast<double>(count - i));
      }
      check<double>("reduce_sum", static_cast<Real>(r), 0, sums[r], sum, std::isfinite(magnitude) ? magnitude * 16 : 0);
    }
  });
}

TEST_CASE("special values: samples keep to the classes that are not off") {
  World w(MPI_COMM_WORLD, {.mesh = mesh_text(1, ranks()), .layout = "n:cols"});
  const auto all = rows<double>();
  for (const double temperature : {1e-30, 1.0, 1e30}) {
    for (const std::size_t r : {std::size_t{1}, std::size_t{2}, std::size_t{3}, std::size_t{9}}) {
      const auto x = mtf::broadcast(mtf::from_global<double>(w, all[r], N{}), mtf::Dim<"draws", 64>{});
      for (const double i : host(mtf::sample_with_temperature<N>(x, temperature, mtf::seed{2} / "draws")))
        CHECK(all[r][static_cast<std::size_t>(i)] != -HUGE_VAL);
    }
  }
}

TEST_CASE("special values: the norm of a row") {
  World w(MPI_COMM_WORLD, {.mesh = mesh_text(1, ranks()), .layout = "n:cols"});
  const mtf::RmsNorm<World, float, N> norm(w, mtf::Scope{} / "norm", N{});
  const auto run = [&](float scale) {
    std::vector<float> values;
    for (int i = 0; i < 8; ++i) values.push_back(scale * (i % 2 == 0 ? 1.0F : -1.0F));
    return host(norm(mtf::from_global<float>(w, values, N{})));
  };
  for (const float scale : {1e18F, 1.0F, -1e10F})
    check_close(run(scale), run(std::copysign(1.0F, scale)), 1e-5, "scale");
  CHECK(run(0) == Host(8, 0.0));
  CHECK(run(1e-40F)[0] >= 0);
  CHECK(run(1e30F) == Host(8, 0.0));  // as documented: the squares overflow
  for (const double y : run(NAN)) CHECK(std::isnan(y));
}

TEST_CASE("special values: signs of zeros") {
  World w(MPI_COMM_SELF, {.mesh = "rows:1;cols:1"});
  const auto negative_zero = [](const auto& y) { return mtf::item(y) == 0 && std::signbit(mtf::item(y)); };
  const auto at = [&](double x) { return mtf::constant(w, x); };
  CHECK(negative_zero(mtf::swish(at(-HUGE_VAL))));
  CHECK(negative_zero(mtf::gelu(at(-HUGE_VAL))));
  CHECK(negative_zero(mtf::sqrt(at(-0.0))));
  CHECK(negative_zero(mtf::tanh(at(-0.0))));
  CHECK(negative_zero(mtf::elu(at(-0.0))));
  CHECK(negative_zero(mtf::floor_divide(at(-0.0), 3)));
  CHECK(!negative_zero(mtf::abs(at(-0.0))));
  CHECK(!negative_zero(mtf::floor_divide(at(0.0), 3)));
}

namespace {

constexpr bool constants_agree() {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  constexpr double no_number = std::numeric_limits<double>::quiet_NaN();
  using D = mtf::Dual<double>;
  const auto is_nan = [](double x) { return x != x; };
  bool good = mtf::sqrt(infinity) == infinity && is_nan(mtf::sqrt(-1.0)) && is_nan(mtf::sqrt(no_number));
  good = good && std::bit_cast<std::int64_t>(mtf::sqrt(-0.0)) < 0 && std::bit_cast<std::int64_t>(mtf::abs(-0.0)) == 0;
  good = good && mtf::abs(-infinity) == infinity;
  good = good && is_nan(mtf::max(no_number, 1.0)) && is_nan(mtf::abs(no_number));
  good = good && mtf::abs(std::numeric_limits<int>::min()) == std::numeric_limits<int>::min();
  good = good && (D(infinity, 1) * D(2)).slope == 2 && (D(2, 1) * D(infinity)).slope == infinity;
  good = good && (D(1, 1) / D(infinity)).slope == 0 && (D(infinity) / D(2, 0)).slope == 0;
  good = good && mtf::functions::LeakyRelu{0.25}(D(-infinity, 1)).slope == 0.25;
  return good && mtf::functions::Relu{}(D(infinity, 1)).slope == 1;
}
static_assert(constants_agree());

}  // namespace

TEST_CASE("special values: constant expressions give the same") { CHECK(constants_agree()); }
