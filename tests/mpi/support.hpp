// What the tests of distributed programs share: worlds for every mesh and layout, the same world on one rank as the
// oracle, comparisons.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <mtf/testing.hpp>

namespace support {

using World = mtf::World<mtf::dynamic_mesh, mtf::dynamic_layout>;
template <class... Dims>
using Tensor = mtf::Tensor<World, double, Dims...>;
using Host = std::vector<double>;
using Ids = std::vector<std::int32_t>;

struct A : mtf::Dim<"a"> {};
struct B : mtf::Dim<"b"> {};
struct C : mtf::Dim<"c"> {};
struct K : mtf::Dim<"k"> {};
struct V : mtf::Dim<"v"> {};
inline const A a{8};
inline const B b{16};
inline const C c{8};
inline const K k{24};
inline const V v{16};

inline int rank_of_process() {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  return rank;
}
inline int ranks() {
  int size = 1;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  return size;
}

inline std::string mesh_text(int rows, int cols) { return fmt::format("rows:{};cols:{}", rows, cols); }

/// Every factorisation of the number of ranks.
inline std::vector<std::string> meshes() {
  const mtf::Texts all = mtf::all_meshes(ranks(), {"rows", "cols"});
  return {all.begin(), all.end()};
}

/// The results of program(world) under every layout, on every mesh of this number of ranks, are those of one rank.
template <class Program>
void as_on_one_rank(const mtf::Texts& layouts, double tolerance, const Program& program) {
  const mtf::LayoutReport report = mtf::check_layouts(program, meshes(), layouts, {.tolerance = tolerance});
  CHECK_MESSAGE(report, report.text());
}

/// Value and gradients of an operation on one rank, and the dims that meet in it.
struct Expected {
  std::vector<Host> results;
  std::vector<mtf::ShapeValue> shapes;
};

/// A world over all ranks beside one on this rank alone.
struct Pair {
  World& world;
  World& alone;
  std::map<std::string, Expected>& expected;  ///< by name, found once for all pairs of a test
  std::string place;
};

/// Calls body(Pair) for every mesh of this number of ranks and every layout.
template <class Body>
void for_each_layout(std::initializer_list<std::string_view> layouts, const Body& body) {
  World alone(MPI_COMM_SELF, {.mesh = "rows:1;cols:1"});
  std::map<std::string, Expected> expected;
  for (const std::string& mesh : meshes()) {
    for (const std::string_view layout : layouts) {
      World world(MPI_COMM_WORLD, {.mesh = mesh, .layout = layout, .unused_rules = mtf::UnusedRules::ignore});
      body(Pair{world, alone, expected, fmt::format("mesh {}, layout {}", mesh, layout)});
      CHECK_MESSAGE(world.verify_replicas(), "sequence of collectives, mesh ", mesh, ", layout ", std::string(layout));
    }
  }
}

/// The whole array as double, on every rank.
template <mtf::operand X>
Host host(const X& x) {
  const auto values = mtf::to_host(x);
  Host result(values.size());
  for (std::size_t i = 0; i < values.size(); ++i) result[i] = static_cast<double>(values[i]);
  return result;
}

/// Largest difference over the largest finite magnitude expected. Equal infinities and NaN in both places are no
/// difference.
inline double difference(const Host& got, const Host& expected) {
  if (got.size() != expected.size()) return HUGE_VAL;
  double scale = 1e-300;
  double worst = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (std::isfinite(expected[i])) scale = std::max(scale, std::abs(expected[i]));
    if (got[i] == expected[i] || (std::isnan(got[i]) && std::isnan(expected[i]))) continue;
    const double apart = std::abs(got[i] - expected[i]);
    worst = std::isfinite(apart) ? std::max(worst, apart) : HUGE_VAL;
  }
  return worst == 0 ? 0 : worst / scale;
}
inline void check_close(const Host& got, const Host& expected, double tolerance, const std::string& what) {
  const double apart = difference(got, expected);
  CHECK_MESSAGE(apart <= tolerance, what, ": relative difference ", apart);
}

template <class... Dims>
Tensor<Dims...> normal(World& world, std::uint64_t number, const Dims&... dims) {
  return mtf::random_normal_of<double>(world, mtf::seed{number} / "test", 0, 1, dims...);
}
/// Integers in [low, high], the same on every mesh.
template <class... Dims>
auto integers(World& world, std::uint64_t number, int low, int high, const Dims&... dims) {
  const auto x = mtf::random_uniform_of<double>(world, mtf::seed{number} / "integers", low, high + 1, dims...);
  return mtf::cast<std::int32_t>(mtf::map([](double u) { return std::floor(u); }, x));
}

/// A scalar whose gradient differs from element to element.
template <class T, class... Dims>
auto weighted_sum(const mtf::Tensor<World, T, Dims...>& y) {
  using E = World::engine_type;
  const mtf::Key key = mtf::seed{99} / "weights";
  const mtf::Tensor<World, T, Dims...> weights(
      mtf::Array{mtf::untyped::random<E, T>(y.engine(), y.placement(), key, mtf::Distribution::normal, 0, 1), {}});
  return mtf::reduce_sum(y * weights);
}

/// A tensor of the same dims with other elements.
template <class T, class... Dims>
auto with_elements(const mtf::Tensor<World, T, Dims...>& like, const std::vector<T>& elements) {
  auto value = mtf::make_value(like.engine(), like.placement(), mtf::element_type_of<T>::value);
  like.engine().template write<T>(*value->block, like.placement(),
                                  [&](std::int64_t i) { return elements[static_cast<std::size_t>(i)]; });
  return mtf::Tensor<World, T, Dims...>(mtf::Array{std::move(value), {}});
}

/// f(world, xs...) and the gradients of its weighted sum, as host arrays.
template <class F, class... Xs>
std::vector<Host> results_of(World& world, const F& f, const std::tuple<Xs...>& xs) {
  std::vector<Host> results;
  std::apply(
      [&](const auto&... x) {
        const std::tuple<Xs...> watched{mtf::watch(x)...};
        std::apply(
            [&](const auto&... w) {
              const auto y = f(world, w...);
              const auto loss = weighted_sum(y);
              const auto gradients = mtf::gradients(loss, w...);
              std::apply([&](const auto&... g) { (results.push_back(host(g)), ...); }, gradients);
              results.push_back(host(y));
            },
            watched);
      },
      xs);
  return results;
}

/// Whether the dims may meet in one operation of the world.
inline bool legal(const World& world, const mtf::ShapeValue& dims) {
  return mtf::check(world.engine().rules, dims, false).empty();
}

struct CheckOptions {
  double tolerance = 1e-12;
  double step = 0;           ///< of the difference quotients, relative; 0: that of check_gradients
  double difference = 1e-6;  ///< tolerance of the gradients against difference quotients
  bool unites = true;  ///< the dims of all operands and the result meet in the operation; else each tensor stands alone
};

/// Value and gradients of f on inputs(world)... in a distributed world against those on one rank; there, against
/// naive(host inputs ...) and difference quotients. Where the dims may not meet, the operation must say so.
template <class Inputs, class F, class Naive>
void check_operation(const Pair& pair, const std::string& name, const Inputs& inputs, const F& f, const Naive& naive,
                     const CheckOptions& options = {}) {
  constexpr std::size_t count = std::tuple_size_v<decltype(inputs(pair.alone))>;
  Expected& expected = pair.expected[name];
  if (expected.results.empty()) {
    const auto xs = inputs(pair.alone);
    expected.results = results_of(pair.alone, f, xs);
    if (ranks() == 1) {  // the same on every rank, so one run of the tests does it
      check_close(expected.results.back(), std::apply([&](const auto&... x) { return naive(host(x)...); }, xs),
                  options.tolerance, name + " against a naive loop");
      const mtf::GradientReport report = std::apply(
          [&](const auto&... x) {
            return mtf::check_gradients(
                pair.alone, {.tolerance = options.difference, .step = options.step, .elements = 100000},
                [&](const auto&... moved) { return f(pair.alone, moved...); }, x...);
          },
          xs);
      CHECK_MESSAGE(report, name, ": ", report.text());
      CHECK_MESSAGE(report.kinks == 0, name, ": the inputs are at kinks: ", report.kinks, " of ", report.compared);
    }
    std::apply([&](const auto&... x) { expected.shapes = {f(pair.alone, x...).shape(), x.shape()...}; }, xs);
    if (options.unites) {
      for (const mtf::ShapeValue& shape : expected.shapes) expected.shapes[0] = mtf::unite(expected.shapes[0], shape);
    }
  }
  for (const mtf::ShapeValue& dims : expected.shapes) {
    if (legal(pair.world, dims)) continue;
    CHECK_THROWS_AS(results_of(pair.world, f, inputs(pair.world)), mtf::plan_error);
    return;
  }
  const std::vector<Host> results = results_of(pair.world, f, inputs(pair.world));
  for (std::size_t i = 0; i <= count; ++i) {
    check_close(results[i], expected.results[i], options.tolerance,
                name + (i < count ? ", gradient " + std::to_string(i) : ", value") + ", " + pair.place);
  }
}

/// Collectives recorded since the last call of `watch_collectives`, as text: "allreduce over rows of 64".
template <class AnyWorld>
void watch_collectives(AnyWorld& world) {
  world.counters().reset();
  world.start_tracing();
}
template <class AnyWorld>
std::vector<std::string> collectives(AnyWorld& world) {
  std::vector<std::string> result;
  for (const mtf::Record& record : world.records()) {
    if (!record.is_collective) continue;
    std::string axes;
    for (int i = 0; i < world.mesh().rank(); ++i) {
      if (!record.axes.has(i)) continue;
      if (!axes.empty()) axes += ',';
      axes += world.mesh().axes[i].name.text;
    }
    result.push_back(fmt::format("{} over {} of {}", record.plan, axes, record.count));
  }
  return result;
}
inline std::string text_of(const mtf::Record& record) {
  return fmt::format("{} {}{}: {} of {}, axes {:b}, work {}, bytes {}, count {}, wire {}, for {}", record.operation,
                     record.occurrence, record.is_gradient ? ", gradient" : "", record.plan, mtf::name_of(record.type),
                     record.axes.bits, record.work, record.bytes, record.count, record.wire_bytes, record.subject);
}
/// The same records in the same order.
inline void check_same_work(const mtf::Records& done, const mtf::Records& planned, const std::string& place) {
  CHECK(!done.empty());
  for (std::size_t i = 0; i < std::min(done.size(), planned.size()); ++i) {
    if (!same_work(done[i], planned[i])) CHECK_MESSAGE(text_of(done[i]) == text_of(planned[i]), place, ", record ", i);
    CHECK(done[i].begin <= done[i].end);
    if (i > 0) CHECK(done[i - 1].end <= done[i].begin);
  }
  CHECK_MESSAGE(done.size() == planned.size(), place);
}
inline std::string joined(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) {
    if (!text.empty()) text += "; ";
    text += line;
  }
  return text;
}

}  // namespace support

template <>
struct doctest::StringMaker<std::vector<std::string>> {
  static doctest::String convert(const std::vector<std::string>& lines) { return support::joined(lines).c_str(); }
};
