// Random numbers, dropout, creation, casts: equal on every mesh and layout, and what the names promise.
#include <array>

#include "support.hpp"

using namespace support;

namespace {

const mtf::Key key = mtf::seed{7} / "stream";

struct Moments {
  double mean, deviation;
};
Moments moments(const Host& x) {
  double sum = 0;
  double squares = 0;
  for (const double e : x) {
    sum += e;
    squares += e * e;
  }
  const double mean = sum / static_cast<double>(x.size());
  return {mean, std::sqrt(squares / static_cast<double>(x.size()) - mean * mean)};
}

}  // namespace

TEST_CASE("random numbers: random tensors are the same global array on every mesh and layout, bit for bit") {
  for_each_layout({"", "a:rows", "b:cols", "a:rows;b:cols", "a:cols;b:rows", "k:rows", "a:rows,cols", "b:cols,rows",
                   "a:cols;k:rows"},
                  [](const Pair& pair) {
                    const auto run = [](World& w) {
                      return std::vector<Host>{
                          host(mtf::random_normal_of<double>(w, key, 0.5, 2, a, b, k)),
                          host(mtf::random_uniform_of<double>(w, key / 1, -3, 2, b, a)),
                          host(mtf::random_normal_of<float>(w, key, 0.5, 2, a, b, k)),
                          host(mtf::random_uniform_of<float>(w, key / 2, 0, 1, k)),
                          host(mtf::random_normal_of<double>(w, key, 0, 1)),
                          host(mtf::random_normal<double, mtf::Dim<"a", 8>, mtf::Dim<"b", 16>>(w, key)),
                      };
                    };
                    const std::vector<Host> results = run(pair.world);
                    const std::vector<Host> expected = run(pair.alone);
                    for (std::size_t i = 0; i < results.size(); ++i)
                      CHECK_MESSAGE(results[i] == expected[i], pair.place, ", result ", i);
                    for (std::size_t i = 0; i < results[0].size(); ++i)
                      CHECK(results[2][i] == static_cast<double>(static_cast<float>(results[0][i])));
                  });
}

TEST_CASE(
    "random numbers: initial values depend on seed and path, not on the mesh, the order of creation or other "
    "variables") {
  const std::array<std::pair<const char*, mtf::init::Initializer>, 6> variables{{
      {"zeros", mtf::init::zeros},
      {"constant", mtf::init::constant(1.5)},
      {"uniform", mtf::init::uniform(-2, 3)},
      {"normal", mtf::init::normal(0.5)},
      {"truncated", mtf::init::truncated_normal(2)},
      {"glorot", mtf::init::glorot},
  }};
  const auto values_of = [&](World& w, bool reversed) {
    std::vector<Host> results(variables.size());
    for (std::size_t n = 0; n < variables.size(); ++n) {
      const std::size_t i = reversed ? variables.size() - 1 - n : n;
      results[i] = host(mtf::variable<double>(w, mtf::Scope("scope") / variables[i].first, variables[i].second, a, b));
    }
    return results;
  };
  World alone(MPI_COMM_SELF, {.mesh = "rows:1;cols:1", .seed = 5});
  const std::vector<Host> expected = values_of(alone, false);
  for (const std::string& mesh : meshes()) {
    for (const std::string_view layout : {"", "a:rows;b:cols", "b:rows,cols"}) {
      World world(MPI_COMM_WORLD, {.mesh = mesh, .layout = layout, .seed = 5});
      CHECK(values_of(world, true) == expected);
      CHECK(world.verify_replicas());
    }
  }
  World other_seed(MPI_COMM_SELF, {.mesh = "rows:1;cols:1", .seed = 6});
  CHECK(values_of(other_seed, false)[3] != expected[3]);
  const double limit = std::sqrt(6.0 / static_cast<double>(a.extent() + b.extent()));
  for (std::size_t i = 0; i < expected[0].size(); ++i) {
    CHECK(expected[0][i] == 0);
    CHECK(expected[1][i] == 1.5);
    CHECK((expected[2][i] > -2 && expected[2][i] < 3));
    CHECK(std::abs(expected[4][i]) <= 4);
    CHECK(std::abs(expected[5][i]) <= limit);
  }
  CHECK_THROWS_WITH_AS(mtf::variable<double>(alone, "scope/glorot", mtf::init::zeros, a),
                       doctest::Contains("exists already"), mtf::plan_error);
}

TEST_CASE("random numbers have the distribution asked for, and streams differ") {
  World alone(MPI_COMM_SELF, {.mesh = "rows:1;cols:1"});
  const mtf::Dim<"n"> n{200000};
  const Host normal_numbers = host(mtf::random_normal_of<double>(alone, key, 1, 2, n));
  const Moments m = moments(normal_numbers);
  CHECK(std::abs(m.mean - 1) < 0.02);
  CHECK(std::abs(m.deviation - 2) < 0.02);
  const Host uniform_numbers = host(mtf::random_uniform_of<double>(alone, key, -1, 3, n));
  const Moments u = moments(uniform_numbers);
  CHECK(std::abs(u.mean - 1) < 0.02);
  CHECK(std::abs(u.deviation - 4 / std::sqrt(12.0)) < 0.02);
  for (const double x : uniform_numbers) {
    if (!(x > -1 && x < 3)) FAIL_CHECK("a uniform number outside its interval: ", x);
  }
  const Host truncated = host(mtf::variable<double>(alone, "truncated", mtf::init::truncated_normal(1), n));
  const Moments t = moments(truncated);
  CHECK(std::abs(t.mean) < 0.01);
  CHECK(std::abs(t.deviation - 0.8796) < 0.01);
  // Neighbours, streams and seeds are uncorrelated.
  const auto correlation = [&](const Host& x, const Host& y, std::size_t lag) {
    const Moments mx = moments(x);
    const Moments my = moments(y);
    double sum = 0;
    for (std::size_t i = 0; i + lag < x.size(); ++i) sum += (x[i] - mx.mean) * (y[i + lag] - my.mean);
    return sum / (static_cast<double>(x.size() - lag) * mx.deviation * my.deviation);
  };
  for (const std::size_t lag : {std::size_t{1}, std::size_t{2}, std::size_t{3}, std::size_t{4}})
    CHECK(std::abs(correlation(normal_numbers, normal_numbers, lag)) < 0.01);
  const mtf::Key same_text = mtf::seed{8} / "stream";
  for (const mtf::Key& other : {key / 0, key / 1, key / "x", mtf::seed{7} / "Stream", same_text}) {
    CHECK(std::abs(correlation(normal_numbers, host(mtf::random_normal_of<double>(alone, other, 0, 1, n)), 0)) < 0.01);
  }
}

TEST_CASE("random numbers: dropout has one mask on every mesh, scales what it keeps, and its gradient is the mask") {
  for_each_layout({"", "a:rows", "b:cols", "a:rows;b:cols", "a:cols,rows", "b:rows;c:cols", "c:rows"},
                  [](const Pair& pair) {
                    const auto run = [](World& w) {
                      const auto x = mtf::watch(normal(w, 1, a, b, c) + 10.0);
                      std::vector<Host> results{host(x)};
                      const auto add = [&](const auto& y) {
                        const auto [dx] = mtf::gradients(mtf::reduce_sum(y), x);
                        results.push_back(host(y));
                        results.push_back(host(dx));
                      };
                      add(mtf::dropout(x, 0.25, key));
                      add(mtf::dropout<A, C>(x, 0.25, key));
                      add(mtf::dropout<B>(x, 0.5, key));
                      add(mtf::dropout(x, 0.0, key));
                      results.push_back(host(mtf::dropout(mtf::cast<float>(x), 0.25, key)));
                      return results;
                    };
                    const std::vector<Host> results = run(pair.world);
                    const std::vector<Host> expected = run(pair.alone);
                    for (std::size_t i = 0; i < results.size(); ++i)
                      CHECK_MESSAGE(results[i] == expected[i], pair.place, ", result ", i);
                    const auto at = [](std::size_t i, std::size_t j, std::size_t l) { return (i * 16 + j) * 8 + l; };
                    std::size_t kept = 0;
                    for (std::size_t i = 0; i < results[0].size(); ++i) {
                      const double mask = results[2][i];
                      CHECK((mask == 0 || mask == doctest::Approx(1 / 0.75)));
                      CHECK(results[1][i] == doctest::Approx(results[0][i] * mask));
                      kept += mask != 0 ? 1U : 0U;
                      CHECK((results[9][i] == 0) == (mask == 0));
                    }
                    const double fraction = static_cast<double>(kept) / static_cast<double>(results[0].size());
                    CHECK((fraction > 0.70 && fraction < 0.80));
                    for (std::size_t i = 0; i < 8; ++i) {
                      for (std::size_t j = 0; j < 16; ++j) {
                        for (std::size_t l = 0; l < 8; ++l) {
                          CHECK(results[4][at(i, j, l)] == results[4][at(i, 0, l)]);  // shared along b
                          CHECK(results[6][at(i, j, l)] == results[6][at(0, j, 0)]);  // shared along a and c
                        }
                      }
                    }
                    CHECK(results[7] == results[0]);
                    CHECK(results[8] == Host(results[0].size(), 1.0));
                    const auto y = normal(pair.world, 1, a);
                    CHECK_THROWS_WITH_AS(mtf::dropout(y, 1.0, key), doctest::Contains("rate"), mtf::plan_error);
                    CHECK_THROWS_AS(mtf::dropout(y, -0.1, key), mtf::plan_error);
                    CHECK_THROWS_AS(mtf::dropout(y, std::nan(""), key), mtf::plan_error);
                  });
}

TEST_CASE("dropout under all layouts against differences") {
  for_each_layout({"", "k:rows", "a:rows;k:cols"}, [](const Pair& pair) {
    check_operation(
        pair, "dropout of a sum", [](World& w) { return std::tuple(normal(w, 1, a, k), normal(w, 2, k, b)); },
        [](World&, const auto& x, const auto& y) { return mtf::dropout<B>(mtf::einsum<A, B>(x, y), 0.4, key); },
        [&](const Host& x, const Host& y) {
          const Host mask = host(mtf::dropout<B>(mtf::ones<double>(pair.alone, a, b), 0.4, key));
          Host result(mask.size());
          for (std::size_t i = 0; i < result.size(); ++i) {
            for (std::size_t l = 0; l < 24; ++l) result[i] += x[i / 16 * 24 + l] * y[l * 16 + i % 16] * mask[i];
          }
          return result;
        });
  });
}

TEST_CASE("range, constants and host data arrive in every slice") {
  for_each_layout({"", "a:rows", "b:cols", "a:rows;b:cols", "a:rows,cols", "b:cols,rows"}, [](const Pair& pair) {
    World& w = pair.world;
    Host counted;
    for (std::int64_t i = 0; i < b.extent(); ++i) counted.push_back(static_cast<double>(i));
    CHECK(host(mtf::range<double>(w, b)) == counted);
    CHECK(host(mtf::range<std::int32_t>(w, b)) == counted);
    CHECK(host(mtf::range<std::int64_t>(w, b)) == counted);
    CHECK(host(mtf::range<float>(w, b)) == counted);
    CHECK(host(mtf::constant(w, 2.5, a, b)) == Host(128, 2.5));
    CHECK(host(mtf::constant<std::int32_t>(w, -7, b)) == Host(16, -7));
    CHECK(host(mtf::ones<float>(w, a)) == Host(8, 1));
    CHECK(host(mtf::zeros<double>(w, a)) == Host(8, 0));
    CHECK(mtf::item(mtf::constant(w, 3.0)) == 3.0);
    CHECK(mtf::to_host(mtf::constant(w, std::int64_t{9007199254740993}, a))[3] == 9007199254740993);
    const Host elements = host(normal(pair.alone, 1, a, b));
    CHECK(host(mtf::from_global<double>(w, elements, a, b)) == elements);
    const auto rooted =
        mtf::from_root<double>(w, w.rank() == 0 ? std::span<const double>(elements) : std::span<const double>(), a, b);
    CHECK(host(rooted) == elements);
  });
}

TEST_CASE("casts") {
  for_each_layout({"", "a:rows", "k:cols", "a:rows;k:cols"}, [](const Pair& pair) {
    check_operation(
        pair, "through float and back", [](World& w) { return std::tuple(normal(w, 1, a, k), normal(w, 2, k)); },
        [](World&, const auto& x, const auto& y) { return mtf::cast<double>(mtf::cast<double>(mtf::einsum<A>(x, y))); },
        [](const Host& x, const Host& y) {
          Host result(8);
          for (std::size_t i = 0; i < x.size(); ++i) result[i / 24] += x[i] * y[i % 24];
          return result;
        });
    const auto run = [](World& w) {
      const auto x = mtf::watch(normal(w, 1, a, k) * 100.0);
      const auto sum = mtf::reduce_sum<K>(x);
      const auto narrow = mtf::cast<float>(sum);
      const auto [dx] = mtf::gradients(weighted_sum(narrow), x);
      return std::vector<Host>{host(narrow),
                               host(mtf::cast<std::int32_t>(x)),
                               host(mtf::cast<std::int64_t>(sum)),
                               host(mtf::cast<bool>(mtf::cast<std::int32_t>(x))),
                               host(mtf::cast<double>(mtf::cast<std::int32_t>(x))),
                               host(dx)};
    };
    const std::vector<Host> results = run(pair.world);
    const std::vector<Host> expected = run(pair.alone);
    for (std::size_t i = 0; i < results.size(); ++i)
      check_close(results[i], expected[i], 1e-6, pair.place + ", result " + std::to_string(i));
    const Host x = host(normal(pair.alone, 1, a, k) * 100.0);
    for (std::size_t i = 0; i < x.size(); ++i) CHECK(results[1][i] == std::trunc(x[i]));
  });
}

TEST_CASE("random numbers: an empty interval is an error") {
  World w(MPI_COMM_WORLD, {.mesh = mesh_text(1, ranks())});
  CHECK_THROWS_WITH_AS(mtf::random_uniform_of<float>(w, mtf::seed{1}, 1.0, 0.0, a), doctest::Contains("is empty"),
                       mtf::plan_error);
  CHECK_THROWS_AS(mtf::random_uniform_of<double>(w, mtf::seed{1}, 2.0, 2.0, a), mtf::plan_error);
}
