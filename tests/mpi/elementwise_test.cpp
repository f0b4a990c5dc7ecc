// Element-wise functions, comparisons, whole division and where: values, gradients, conventions at ties and at zero,
// and that none of them communicates.
#include <limits>

#include "support.hpp"

using namespace support;

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();

/// x[a, b] op y[b]: element i of the first belongs to this one of the second.
std::size_t column(std::size_t i) { return i % static_cast<std::size_t>(b.extent()); }

template <class F>
Host each(const Host& x, const F& f) {
  Host result;
  for (const double e : x) result.push_back(f(e));
  return result;
}

/// f(world) under a layout and on one rank, against a naive result that is found on one rank; no collective.
template <class F, class Naive>
void check_local(const Pair& pair, const std::string& name, const F& f, const Naive& naive) {
  watch_collectives(pair.world);
  const auto result = f(pair.world);
  CHECK_MESSAGE(collectives(pair.world).empty(), name, ", ", pair.place);
  const Host expected = naive();
  CHECK_MESSAGE(difference(host(result), expected) <= 1e-12, name, ", ", pair.place);
  CHECK_MESSAGE(difference(host(f(pair.alone)), expected) <= 1e-12, name, ", one rank");
}

const std::initializer_list<std::string_view> layouts = {
    "", "a:rows", "b:cols", "a:rows;b:cols", "a:cols;b:rows", "b:rows,cols", "a:cols,rows"};

}  // namespace

TEST_CASE("element-wise functions under all layouts") {
  for_each_layout(layouts, [](const Pair& pair) {
    const auto one = [](World& w) { return std::tuple(normal(w, 1, a, b) * 2.0); };
    const auto positive = [](World& w) { return std::tuple(mtf::exp(normal(w, 1, a, b))); };
    const auto run = [&](const char* name, const auto& inputs, const auto& f, double (*naive)(double)) {
      check_operation(
          pair, name, inputs, [&](World&, const auto& x) { return f(x); },
          [&](const Host& x) { return each(x, naive); });
    };
    run(
        "leaky_relu", one, [](const auto& x) { return mtf::leaky_relu(x); },
        [](double x) { return x > 0 ? x : 0.2 * x; });
    run(
        "leaky_relu 0.01", one, [](const auto& x) { return mtf::leaky_relu(x, 0.01); },
        [](double x) { return x > 0 ? x : 0.01 * x; });
    run("elu", one, [](const auto& x) { return mtf::elu(x); }, [](double x) { return x > 0 ? x : std::exp(x) - 1; });
    run(
        "selu", one, [](const auto& x) { return mtf::selu(x); },
        [](double x) { return 1.0507009873554805 * (x > 0 ? x : 1.6732632423543772 * (std::exp(x) - 1)); });
    run(
        "softplus", one, [](const auto& x) { return mtf::softplus(x); },
        [](double x) { return std::log(1 + std::exp(x)); });
    run("swish", one, [](const auto& x) { return mtf::swish(x); }, [](double x) { return x / (1 + std::exp(-x)); });
    run(
        "gelu", one, [](const auto& x) { return mtf::gelu(x); },
        [](double x) {
          return 0.5 * x * (1 + std::tanh(std::sqrt(2 / 3.14159265358979323846) * (x + 0.044715 * std::pow(x, 3))));
        });
    run("sigmoid", one, [](const auto& x) { return mtf::sigmoid(x); }, [](double x) { return 1 / (1 + std::exp(-x)); });
    run("negative", one, [](const auto& x) { return mtf::negative(x); }, [](double x) { return -x; });
    run("reciprocal", positive, [](const auto& x) { return mtf::reciprocal(x); }, [](double x) { return 1 / x; });
    run("pow 3", one, [](const auto& x) { return mtf::pow(x, 3); }, [](double x) { return x * x * x; });
    run(
        "pow -1.5", positive, [](const auto& x) { return mtf::pow(x, -1.5); },
        [](double x) { return std::exp(-1.5 * std::log(x)); });
    run("power of 2", one, [](const auto& x) { return mtf::pow(2, x); }, [](double x) { return std::exp2(x); });
    run(
        "maximum 0.5", one, [](const auto& x) { return mtf::maximum(x, 0.5); },
        [](double x) { return x > 0.5 ? x : 0.5; });
    run("minimum -1", one, [](const auto& x) { return mtf::minimum(-1, x); }, [](double x) { return x < -1 ? x : -1; });
  });
}

TEST_CASE("element-wise functions of two tensors under all layouts") {
  for_each_layout(layouts, [](const Pair& pair) {
    const auto two = [](World& w) { return std::tuple(mtf::exp(normal(w, 1, a, b)), normal(w, 2, b)); };
    const auto run = [&](const char* name, const auto& f, double (*naive)(double, double)) {
      check_operation(
          pair, name, two, [&](World&, const auto& x, const auto& y) { return f(x, y); },
          [&](const Host& x, const Host& y) {
            Host result;
            for (std::size_t i = 0; i < x.size(); ++i) result.push_back(naive(x[i], y[column(i)]));
            return result;
          });
    };
    run(
        "pow", [](const auto& x, const auto& y) { return mtf::pow(x, y); },
        [](double x, double y) { return std::exp(y * std::log(x)); });
    run(
        "squared_difference", [](const auto& x, const auto& y) { return mtf::squared_difference(x, y); },
        [](double x, double y) { return (x - y) * (x - y); });
    run(
        "maximum", [](const auto& x, const auto& y) { return mtf::maximum(x, y); },
        [](double x, double y) { return x > y ? x : y; });
    run(
        "minimum of the smaller first", [](const auto& x, const auto& y) { return mtf::minimum(y, x); },
        [](double x, double y) { return x < y ? x : y; });
  });
}

TEST_CASE("conventions at zero and at ties, and the reference's values") {
  World w(MPI_COMM_SELF, {.mesh = "rows:1;cols:1"});
  const A few{5};
  const auto x = mtf::watch(mtf::from_global<double>(w, Host{-2, -0.5, 0, 1, 3}, few));
  // The last one is the reference's float: exactly it is 2.857722380, 2e-8 more.
  check_close(host(mtf::swish(x)), {-.238405844, -.188770334, 0, .731058579, 2.857722320}, 5e-8, "swish");
  const auto slope_at_0 = [&](const auto& y) {
    const auto [dx] = mtf::gradients(mtf::reduce_sum(y), x);
    return host(dx)[2];
  };
  CHECK(slope_at_0(mtf::relu(x)) == 0);
  CHECK(slope_at_0(mtf::leaky_relu(x)) == 0.2);
  CHECK(slope_at_0(mtf::elu(x)) == 1);
  CHECK(slope_at_0(mtf::selu(x)) == 1.0507009873554805);
  CHECK(slope_at_0(mtf::softplus(x)) == 0.5);
  CHECK(slope_at_0(mtf::swish(x)) == 0.5);
  CHECK(slope_at_0(mtf::gelu(x)) == 0.5);
  CHECK(slope_at_0(mtf::abs(x)) == 0);
  CHECK(slope_at_0(mtf::pow(x, 2)) == 0);
  CHECK(slope_at_0(mtf::maximum(x, 0)) == 1);
  check_close(host(mtf::sign(x)), {-1, -1, 0, 1, 1}, 0, "sign");
  const A four{4};
  const auto p = mtf::watch(mtf::from_global<double>(w, Host{1, 5, 5, 2}, four));
  const auto q = mtf::watch(mtf::from_global<double>(w, Host{3, 5, 1, 2}, four));
  const auto [dp, dq] = mtf::gradients(mtf::reduce_sum(mtf::maximum(p, q)), p, q);
  check_close(host(dp), {0, 1, 1, 1}, 0, "gradient of maximum");
  check_close(host(dq), {1, 1, 0, 1}, 0, "gradient of maximum");
  // A scalar that clamps all of them: its gradient is a scalar.
  const auto limit = mtf::watch(mtf::constant(w, 2.0));
  const auto [dl] = mtf::gradients(mtf::reduce_sum(mtf::minimum(p, limit)), limit);
  CHECK(mtf::item(dl) == 3);
  const A two{2};
  const auto cube = mtf::watch(mtf::from_global<double>(w, Host{2, 3}, two));
  const auto [dc] = mtf::gradients(mtf::reduce_sum(mtf::pow(cube, 3)), cube);
  check_close(host(dc), {12, 27}, 1e-14, "gradient of the cube");
}

TEST_CASE("sign, floor_divide and mod are constants to gradients") {
  World w(MPI_COMM_SELF, {.mesh = "rows:1;cols:1"});
  const auto x = mtf::watch(normal(w, 1, a));
  const auto y = x * mtf::sign(x) + mtf::mod(x, 0.5) * mtf::floor_divide(x, 0.25);
  const auto [dx] = mtf::gradients(mtf::reduce_sum(y), x);
  check_close(host(dx), host(mtf::sign(x)), 0, "sign");
  CHECK_THROWS_AS(mtf::gradients(mtf::reduce_sum(mtf::sign(x)), x), mtf::plan_error);
}

TEST_CASE("numerics: values and gradients far from zero are finite, also in float") {
  World w(MPI_COMM_SELF, {.mesh = "rows:1;cols:1"});
  const A few{8};
  const auto x = mtf::watch(
      mtf::from_global<float>(w, std::vector<float>{-1e30F, -3e4F, -200.0F, -90.0F, 90.0F, 200.0F, 3e4F, 1e30F}, few));
  const auto check = [&](const char* name, const auto& y, const Host& slopes) {
    const auto [dx] = mtf::gradients(mtf::reduce_sum(y), x);
    for (const double e : host(y)) CHECK_MESSAGE(std::isfinite(e), name);
    const Host got = host(dx);
    for (std::size_t i = 0; i < got.size(); ++i)
      CHECK_MESSAGE(std::abs(got[i] - slopes[i]) < 1e-6, name, " ", i, " ", got[i]);
  };
  check("sigmoid", mtf::sigmoid(x), {0, 0, 0, 0, 0, 0, 0, 0});
  check("swish", mtf::swish(x), {0, 0, 0, 0, 1, 1, 1, 1});
  check("softplus", mtf::softplus(x), {0, 0, 0, 0, 1, 1, 1, 1});
  check("gelu", mtf::gelu(x), {0, 0, 0, 0, 1, 1, 1, 1});
  check("elu", mtf::elu(x), {0, 0, 0, 0, 1, 1, 1, 1});
  check("selu", mtf::selu(x),
        {0, 0, 0, 0, 1.0507009873554805, 1.0507009873554805, 1.0507009873554805, 1.0507009873554805});
}

TEST_CASE("pow of negative numbers and of zero") {
  World w(MPI_COMM_SELF, {.mesh = "rows:1;cols:1"});
  const A few{4};
  const auto x = mtf::watch(mtf::from_global<double>(w, Host{-2, 0, 0, 3}, few));
  const auto y = mtf::watch(mtf::from_global<double>(w, Host{3, 2, 0, -1}, few));
  const auto z = mtf::pow(x, y);
  check_close(host(z), {-8, 0, 1, 1.0 / 3}, 1e-15, "pow");
  const auto [dx, dy] = mtf::gradients(mtf::reduce_sum(z), x, y);
  check_close(host(dx), {12, 0, 0, -1.0 / 9}, 1e-15, "gradient in x");
  check_close(host(dy), {not_a_number, 0, 0, std::log(3.0) / 3}, 1e-15, "gradient in y");
}

TEST_CASE("comparisons under all layouts, with numbers and NaN") {
  for_each_layout(layouts, [](const Pair& pair) {
    const auto x_of = [](World& w) {  // some elements are NaN
      return mtf::map([](double e) { return e > 1.5 ? std::numeric_limits<double>::quiet_NaN() : e; },
                      normal(w, 1, a, b));
    };
    const auto y_of = [](World& w) { return normal(w, 2, b); };
    const Host x = host(x_of(pair.alone));
    const Host y = host(y_of(pair.alone));
    const auto n_of = [](World& w) { return integers(w, 3, -2, 2, b, a); };
    const Host n = host(n_of(pair.alone));
    const auto run = [&](const std::string& name, const auto& f, bool (*naive)(double, double)) {
      check_local(
          pair, name, [&](World& w) { return f(x_of(w), y_of(w)); },
          [&] {
            Host result;
            for (std::size_t i = 0; i < x.size(); ++i) result.push_back(naive(x[i], y[column(i)]));
            return result;
          });
      check_local(
          pair, name + " with a number", [&](World& w) { return f(x_of(w), 0.25); },
          [&] {
            Host result;
            for (const double e : x) result.push_back(naive(e, 0.25));
            return result;
          });
      check_local(
          pair, name + " of integers, number first", [&](World& w) { return f(1, n_of(w)); },
          [&] {
            Host result;
            for (const double e : n) result.push_back(naive(1, e));
            return result;
          });
    };
    run("less", [](const auto& p, const auto& q) { return mtf::less(p, q); }, [](double p, double q) { return p < q; });
    run(
        "greater", [](const auto& p, const auto& q) { return mtf::greater(p, q); },
        [](double p, double q) { return p > q; });
    run(
        "less_equal", [](const auto& p, const auto& q) { return mtf::less_equal(p, q); },
        [](double p, double q) { return p <= q; });
    run(
        "greater_equal", [](const auto& p, const auto& q) { return mtf::greater_equal(p, q); },
        [](double p, double q) { return p >= q; });
    run(
        "equal", [](const auto& p, const auto& q) { return mtf::equal(p, q); },
        [](double p, double q) { return p == q; });
    run(
        "not_equal", [](const auto& p, const auto& q) { return mtf::not_equal(p, q); },
        [](double p, double q) { return p != q; });
    check_local(
        pair, "logical",
        [&](World& w) {
          const auto p = mtf::less(n_of(w), 1);
          const auto q = mtf::greater(y_of(w), 0);
          return mtf::logical_or(mtf::logical_and(p, mtf::logical_not(q)), mtf::equal(n_of(w), 2));
        },
        [&] {
          Host result;
          for (std::size_t i = 0; i < n.size(); ++i) {
            result.push_back((n[i] < 1 && !(y[i / static_cast<std::size_t>(a.extent())] > 0)) || n[i] == 2);
          }
          return result;
        });
  });
}

TEST_CASE("floor_divide and mod have Python's signs") {
  World w(MPI_COMM_SELF, {.mesh = "rows:1;cols:1"});
  const A few{8};
  const auto run = [&]<class T>(T, const std::vector<T>& x, const std::vector<T>& y, const Host& quotients,
                                const Host& rests) {
    const auto p = mtf::from_global<T>(w, x, few);
    const auto q = mtf::from_global<T>(w, y, few);
    check_close(host(mtf::floor_divide(p, q)), quotients, 0, "floor_divide");
    check_close(host(mtf::mod(p, q)), rests, 0, "mod");
  };
  constexpr auto least = std::numeric_limits<std::int32_t>::min();
  run(std::int32_t{}, {7, -7, 7, -7, 6, -6, 5, least}, {2, 2, -2, -2, -3, 3, 0, -1},
      {3, -4, -4, 3, -2, -2, 0, static_cast<double>(least)}, {1, 1, -1, -1, 0, 0, 0, 0});
  run(std::int64_t{}, {7, -7, 1LL << 40, -(1LL << 40), 6, -6, 0, 1}, {2, 2, 3, 3, -3, 3, 5, -5},
      {3, -4, 366503875925.0, -366503875926.0, -2, -2, 0, -1}, {1, 1, 1, 2, 0, 0, 0, -4});
  run(double{}, {7, -7, 1, -1, 5.5, -5.5, -1, 1}, {2, 2, 0.1, 0.1, -2, -2, infinity, 0},
      {3, -4, 9, -10, -3, 2, -1, infinity},
      {1, 1, 0.09999999999999995, 0.1 - 0.09999999999999995, -0.5, -1.5, infinity, not_a_number});
  CHECK(std::signbit(host(mtf::mod(mtf::constant(w, 4.0), -2.0))[0]));
}

TEST_CASE("floor_divide and mod under all layouts, with numbers on either side") {
  for_each_layout(layouts, [](const Pair& pair) {
    const auto n_of = [](World& w) { return mtf::cast<std::int64_t>(integers(w, 3, -50, 50, a, b)); };
    const auto m_of = [](World& w) {
      const auto m = mtf::cast<std::int64_t>(integers(w, 4, -7, 7, b));
      return mtf::where(mtf::equal(m, 0), 3, m);
    };
    const auto x_of = [](World& w) { return normal(w, 1, a, b) * 10.0; };
    const Host n = host(n_of(pair.alone));
    const Host m = host(m_of(pair.alone));
    const Host x = host(x_of(pair.alone));
    const auto floor_of = [](double p, double q) { return std::floor(p / q); };
    const auto rest_of = [](double p, double q) { return p - q * std::floor(p / q); };
    const auto run = [&](const std::string& name, const auto& f, const auto& naive) {
      check_local(
          pair, name, [&](World& w) { return f(n_of(w), m_of(w)); },
          [&] {
            Host result;
            for (std::size_t i = 0; i < n.size(); ++i) result.push_back(naive(n[i], m[column(i)]));
            return result;
          });
      check_local(
          pair, name + " by a number", [&](World& w) { return f(n_of(w), -7); },
          [&] { return each(n, [&](double e) { return naive(e, -7); }); });
      check_local(
          pair, name + " of a number", [&](World& w) { return f(100, m_of(w)); },
          [&] { return each(m, [&](double e) { return naive(100, e); }); });
      check_local(
          pair, name + " of doubles", [&](World& w) { return f(x_of(w), 0.75); },
          [&] { return each(x, [&](double e) { return naive(e, 0.75); }); });
    };
    run("floor_divide", [](const auto& p, const auto& q) { return mtf::floor_divide(p, q); }, floor_of);
    run("mod", [](const auto& p, const auto& q) { return mtf::mod(p, q); }, rest_of);
  });
}

TEST_CASE("where under all layouts") {
  for_each_layout(
      {"", "a:rows", "b:cols", "a:rows;b:cols", "a:cols;b:rows", "b:rows,cols", "c:rows", "a:rows;c:cols",
       "c:cols,rows"},
      [](const Pair& pair) {
        const auto condition = [](World& w) { return mtf::greater(normal(w, 4, c, a), 0); };
        const Host chosen = host(condition(pair.alone));
        const auto at = [&](std::int64_t i, std::int64_t l) {
          return chosen[static_cast<std::size_t>(l * a.extent() + i)] != 0;
        };
        check_operation(
            pair, "where", [&](World& w) { return std::tuple(normal(w, 1, a, b), normal(w, 2, b)); },
            [&](World& w, const auto& x, const auto& y) { return mtf::where(condition(w), x, y); },
            [&](const Host& x, const Host& y) {
              Host result;  // [a, b, c]
              for (std::int64_t i = 0; i < a.extent(); ++i) {
                for (std::int64_t j = 0; j < b.extent(); ++j) {
                  for (std::int64_t l = 0; l < c.extent(); ++l) {
                    result.push_back(at(i, l) ? x[static_cast<std::size_t>(i * b.extent() + j)]
                                              : y[static_cast<std::size_t>(j)]);
                  }
                }
              }
              return result;
            });
        check_operation(
            pair, "where with a number", [&](World& w) { return std::tuple(normal(w, 3, c)); },
            [&](World& w, const auto& z) { return mtf::where(condition(w), -2, z); },
            [&](const Host& z) {
              Host result;  // [c, a]
              for (std::int64_t l = 0; l < c.extent(); ++l) {
                for (std::int64_t i = 0; i < a.extent(); ++i)
                  result.push_back(at(i, l) ? -2 : z[static_cast<std::size_t>(l)]);
              }
              return result;
            });
        if (!legal(pair.world, {.items = {{a.name, 8}, {c.name, 8}}, .count = 2})) return;
        watch_collectives(pair.world);
        const auto x = mtf::where(condition(pair.world), 1.0, normal(pair.world, 5, a));
        CHECK(collectives(pair.world).empty());
        CHECK(difference(host(x), host(mtf::where(condition(pair.alone), 1.0, normal(pair.alone, 5, a)))) == 0);
      });
}

TEST_CASE("numerics: a branch that where does not take has no influence") {
  for_each_layout({"", "a:rows", "a:cols,rows"}, [](const Pair& pair) {
    World& w = pair.world;
    const Host values{1, -1, 0, 2, -3, 0, 4, 5};
    const auto x = mtf::watch(mtf::from_global<double>(w, values, a));
    const auto y = mtf::where(mtf::greater(x, 0), mtf::log(x), 7.0);  // log has no value or an infinite slope elsewhere
    check_close(host(y), {0, 7, 7, std::log(2.0), 7, 7, std::log(4.0), std::log(5.0)}, 1e-15, pair.place);
    const auto [dx] = mtf::gradients(mtf::reduce_sum(y), x);
    check_close(host(dx), {1, 0, 0, 0.5, 0, 0, 0.25, 0.2}, 1e-15, pair.place);
    const auto z =
        mtf::where(mtf::greater(x, 0), mtf::rsqrt(x), mtf::where(mtf::less(x, 0), mtf::reciprocal(x), mtf::sqrt(x)));
    const auto [dz] = mtf::gradients(mtf::reduce_sum(mtf::where(mtf::equal(x, 0), 0, z)), x);
    check_close(host(dz),
                each(values, [](double e) { return e > 0   ? -0.5 * std::pow(e, -1.5)
                                                   : e < 0 ? -1 / (e * e)
                                                           : 0; }),
                1e-15, pair.place);
  });
}

TEST_CASE("where keeps sums pending over the same axes, and completes others") {
  if (ranks() != 4) return;
  World w(MPI_COMM_WORLD, {.mesh = "rows:2;cols:2", .layout = "k:rows;c:rows"});
  World alone(MPI_COMM_SELF, {.mesh = "rows:1;cols:1"});
  const auto run = [](World& on, const auto& f) {
    const auto x = mtf::reduce_sum<K>(normal(on, 1, a, k));
    const auto y = mtf::reduce_sum<K>(normal(on, 2, a, k));
    return f(x, y);
  };
  const auto taken = [](World& on) { return mtf::greater(normal(on, 3, a), 0); };
  watch_collectives(w);
  const auto both = run(w, [&](const auto& x, const auto& y) { return mtf::where(taken(w), x, y); });
  CHECK(collectives(w).empty());
  const Host got = host(both);
  CHECK(collectives(w) == std::vector<std::string>{"allreduce over rows of 8"});
  CHECK(difference(got, host(run(alone, [&](const auto& x, const auto& y) {
                     return mtf::where(taken(alone), x, y);
                   }))) < 1e-12);

  watch_collectives(w);
  const auto mixed = run(w, [&](const auto& x, const auto&) { return mtf::where(taken(w), x, 0.5); });
  CHECK(collectives(w) == std::vector<std::string>{"allreduce over rows of 8"});
  CHECK(difference(host(mixed), host(run(alone, [&](const auto& x, const auto&) {
                     return mtf::where(taken(alone), x, 0.5);
                   }))) < 1e-12);

  // The condition splits the result over the axis that the sums are pending over.
  const auto split = [](World& on) { return mtf::greater(normal(on, 3, c), 0); };
  watch_collectives(w);
  const auto whole = run(w, [&](const auto& x, const auto& y) { return mtf::where(split(w), x, y); });
  CHECK(collectives(w) == std::vector<std::string>{"allreduce over rows of 8", "allreduce over rows of 8"});
  CHECK(difference(host(whole), host(run(alone, [&](const auto& x, const auto& y) {
                     return mtf::where(split(alone), x, y);
                   }))) < 1e-12);
}

TEST_CASE("numbers that are no elements are errors") {
  World w(MPI_COMM_SELF, {.mesh = "rows:1;cols:1"});
  World other(MPI_COMM_SELF, {.mesh = "rows:1;cols:1"});
  const auto n = integers(w, 1, 0, 9, a);
  CHECK_THROWS_WITH_AS(
      mtf::less(n, 3000000000LL),
      "mtf: less: the number 3000000000 is no element of a tensor of int32; cast the tensor to a larger type",
      mtf::plan_error);
  CHECK_THROWS_AS(mtf::maximum(n, std::uint32_t{4000000000U}), mtf::plan_error);
  CHECK_THROWS_WITH_AS(n + 5000000000LL, doctest::Contains("add: the number 5000000000 is no element"),
                       mtf::plan_error);
  CHECK_THROWS_AS(5000000000LL - n, mtf::plan_error);
  CHECK_THROWS_AS(n - 5000000000LL, mtf::plan_error);
  CHECK_THROWS_AS(n * -5000000000LL, mtf::plan_error);
  CHECK_THROWS_AS(mtf::mod(n, -(1LL << 40)), mtf::plan_error);
  CHECK_THROWS_AS(mtf::where(mtf::less(n, 3), n, 1LL << 33), mtf::plan_error);
  CHECK_THROWS_AS(mtf::where(mtf::less(n, 3), n, integers(other, 1, 0, 9, a)), mtf::plan_error);
  CHECK_THROWS_AS(mtf::where(mtf::less(n, 3), n, integers(w, 1, 0, 9, A{16})), mtf::plan_error);
  CHECK(host(mtf::less(n, 3)) == host(mtf::greater(3, n)));
}

TEST_CASE("arithmetic of integers with a number is exact") {
  World w(MPI_COMM_SELF, {.mesh = "rows:1;cols:1"});
  constexpr std::int64_t odd = (std::int64_t{1} << 53) + 1;  // no double
  const auto n = mtf::cast<std::int64_t>(integers(w, 1, -9, 9, a));
  const auto at = [](const auto& x, std::size_t i) { return mtf::to_host(x)[i]; };
  for (std::size_t i = 0; i < 8; ++i) {
    const std::int64_t x = at(n, i);
    CHECK(at(n + odd, i) == x + odd);
    CHECK(at(odd + n, i) == odd + x);
    CHECK(at(n - odd, i) == x - odd);
    CHECK(at(odd - n, i) == odd - x);
    CHECK(at(n * odd, i) == x * odd);
    CHECK(at(-n, i) == -x);
  }
  const auto least = mtf::constant(w, std::int32_t{0}, a) + std::numeric_limits<std::int32_t>::min();
  CHECK(at(least - std::numeric_limits<std::int32_t>::min(), 0) == 0);
}

TEST_CASE("a quotient by a number is rounded once, and stays pending") {
  World w(MPI_COMM_WORLD, {.mesh = mesh_text(1, ranks()), .layout = "k:cols"});
  for (std::int64_t number = 1; number < 200; ++number) {
    const auto divisor = static_cast<float>(number) * 0.37F;
    CHECK(mtf::item(mtf::constant(w, divisor) / divisor) == 1.0F);
  }
  CHECK(mtf::item(mtf::constant(w, 1e-310) / 1e-310) == 1.0);
  const auto x = mtf::watch(normal(w, 1, a, k));
  watch_collectives(w);
  const auto y = mtf::einsum<A>(x, normal(w, 2, k)) / 3;
  CHECK(collectives(w).empty());
  const auto [dx] = mtf::gradients(mtf::reduce_sum(y), x);
  check_close(host(dx), host(x * 0.0 + normal(w, 2, k) / 3), 1e-15, "gradient");
}

TEST_CASE("clip, add_n and constants like a tensor") {
  for_each_layout({"", "a:rows", "b:cols", "a:rows;b:cols"}, [](const Pair& pair) {
    World& w = pair.world;
    const auto x = mtf::watch(normal(w, 1, a, b));
    const Host values = host(x);
    const auto y = mtf::clip(x, -0.5, 1);
    const auto [dx] = mtf::gradients(mtf::reduce_sum(y), x);
    const Host clipped = host(y);
    const Host slopes = host(dx);
    for (std::size_t i = 0; i < values.size(); ++i) {
      CHECK(clipped[i] == std::clamp(values[i], -0.5, 1.0));
      CHECK(slopes[i] == (values[i] > -0.5 && values[i] < 1 ? 1 : 0));
    }
    const auto z = normal(w, 2, b);
    check_close(host(mtf::add_n(x, z, x)), host(x + z + x), 0, "add_n");
    CHECK(host(mtf::zeros_like(x)) == Host(values.size(), 0.0));
    const auto ones = mtf::ones_like(mtf::cast<std::int32_t>(x));
    static_assert(std::same_as<mtf::element_of<decltype(ones)>, std::int32_t>);
    CHECK(host(ones) == Host(values.size(), 1.0));
  });
}
