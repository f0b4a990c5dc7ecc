// Functions with a gradient of the user's own, and functions run again for their gradient.
#include <memory>
#include <optional>

#include "support.hpp"

using namespace support;

namespace {

const std::initializer_list<std::string_view> layouts{
    "", "a:rows", "k:cols", "a:rows;k:cols", "a:rows,cols", "k:rows,cols", "b:rows;a:cols"};

/// A block of a network: two products with variables, with enough in between to be worth forgetting.
struct Block {
  mtf::Variable<World, double, K, B> wi;
  mtf::Variable<World, double, B, K> wo;
  mtf::Key key;
  Block(World& world, const mtf::Scope& scope, std::uint64_t number)
      : wi(mtf::variable<double>(world, scope / "wi", mtf::init::normal(0.2), k, b)),
        wo(mtf::variable<double>(world, scope / "wo", mtf::init::normal(0.2), b, k)),
        key(mtf::seed{number} / "noise") {}
  template <class X>
  auto operator()(const X& x) const {
    const auto h = mtf::tanh(mtf::einsum<A, B>(x, wi));
    return x + mtf::einsum<A, K>(mtf::dropout(mtf::square(h) + h, 0.3, key), wo);
  }
};

struct Run {
  std::vector<Host> gradients;
  Host loss;
};

/// How the blocks are called: plain, each again for its gradient, and pairs of those once more.
enum class How { plain, recomputed, nested };

Run run_blocks(World& world, How how, int count) {
  std::vector<Block> blocks;
  for (int i = 0; i < count; ++i) blocks.emplace_back(world, mtf::Scope("block") / i, static_cast<std::uint64_t>(i));
  const auto input = mtf::watch(normal(world, 7, a, k));
  const std::int64_t before = world.engine().pool().live_bytes();
  Run run;
  {
    Tensor<A, K> x = input;
    for (int i = 0; i < count; ++i) {
      const Block& block = blocks[static_cast<std::size_t>(i)];
      if (how == How::plain) {
        x = block(x);
      } else if (how == How::recomputed || i + 1 == count) {
        x = mtf::recompute(block, x);
      } else {
        const Block& next = blocks[static_cast<std::size_t>(++i)];
        x = mtf::recompute([block, next](const auto& y) { return mtf::recompute(next, mtf::recompute(block, y)); }, x);
      }
    }
    const auto loss = mtf::reduce_mean(mtf::square(x));
    run.loss = host(loss);
    const auto [dx] = mtf::gradients({.keep = mtf::keep_graph::yes}, loss, input);
    const mtf::VariableGradients gradients = mtf::gradients_of_variables(world, loss);
    run.gradients.push_back(host(dx));
    for (std::size_t i = 0; i < gradients.variables.size(); ++i) {
      run.gradients.push_back(mtf::detail::gather_to_host<double>(world.engine(), *gradients.value(i)));
    }
  }
  CHECK(world.engine().pool().live_bytes() <= before);
  return run;
}

void check_equal(const Run& got, const Run& expected, const std::string& what) {
  check_close(got.loss, expected.loss, 1e-13, what + ", loss");
  REQUIRE(got.gradients.size() == expected.gradients.size());
  for (std::size_t i = 0; i < got.gradients.size(); ++i)
    check_close(got.gradients[i], expected.gradients[i], 1e-12, what + ", gradient " + std::to_string(i));
}

}  // namespace

TEST_CASE("recompute: the reference's x^2 + x at [5, 10] with dy [2, 3]") {
  for (const std::string& mesh : meshes()) {
    if (ranks() > 2) break;
    World world(MPI_COMM_WORLD, {.mesh = mesh, .layout = "a:rows,cols"});
    const auto x = mtf::watch(mtf::from_global<double>(world, Host{5, 10}, A{2}));
    const auto y = mtf::recompute([](const auto& u) { return u * u + u; }, x);
    const auto dy = mtf::from_global<double>(world, Host{2, 3}, A{2});
    const auto [dx] = mtf::gradients(mtf::reduce_sum(y * dy), x);
    CHECK(host(y) == Host{30, 110});
    CHECK(host(dx) == Host{22, 63});
  }
}

TEST_CASE("recompute: values and gradients are those of the function, nested too, under every layout") {
  std::optional<Run> expected;
  for_each_layout(layouts, [&](const Pair& pair) {
    if (!legal(pair.world, mtf::Shape(a, k, b).value())) return;
    if (!expected) {
      World alone(MPI_COMM_SELF, {.mesh = "rows:1;cols:1"});
      expected = run_blocks(alone, How::plain, 4);
    }
    for (const How how : {How::plain, How::recomputed, How::nested}) {
      World world(MPI_COMM_WORLD, {.mesh = fmt::format("rows:{};cols:{}", pair.world.mesh().axes[0].size,
                                                       pair.world.mesh().axes[1].size),
                                   .layout = pair.place.substr(pair.place.find("layout ") + 7)});
      check_equal(run_blocks(world, how, 4), *expected, pair.place + ", " + std::to_string(static_cast<int>(how)));
    }
  });
}

TEST_CASE("recompute: the memory of what is in between is not held") {
  const A rows{1024};
  const auto peak = [&](bool again, int count) {
    World world(MPI_COMM_WORLD, {.mesh = mesh_text(ranks(), 1), .layout = "a:rows"});
    const auto weights = mtf::variable<double>(world, "weights", mtf::init::normal(0.1), k, b);
    const auto block = [weights](const auto& x) {
      const auto h = mtf::tanh(mtf::einsum<A, B>(x, weights));
      return x + mtf::einsum<A, K>(mtf::dropout(mtf::square(h) + h, 0.3, mtf::seed{1}), weights);
    };
    Tensor<A, K> x = mtf::watch(normal(world, 7, rows, k));
    world.engine().pool().reset_peak();
    const std::int64_t before = world.engine().pool().live_bytes();
    for (int i = 0; i < count; ++i) x = again ? Tensor<A, K>(mtf::recompute(block, x)) : Tensor<A, K>(block(x));
    (void)mtf::gradients(mtf::reduce_sum(x), weights);
    return world.engine().pool().peak_bytes() - before;
  };
  const std::int64_t input = 1024 / ranks() * 24 * 8;  // of one block
  const std::int64_t hidden = 1024 / ranks() * 16 * 8;
  CHECK(peak(false, 16) - peak(false, 8) >= 8 * (input + 4 * hidden));
  CHECK(peak(true, 16) - peak(true, 8) == 8 * input);
  CHECK(3 * peak(true, 64) < peak(false, 64));
}

TEST_CASE("recompute: several results, one of them unused; integers pass through") {
  for_each_layout(layouts, [&](const Pair& pair) {
    World& w = pair.world;
    if (!legal(w, mtf::Shape(a, k).value())) return;
    const auto f = [](const auto& x, const auto& y, const auto& n) {
      const auto p = mtf::sin(x) * y;
      return std::tuple(p + mtf::cast<double>(n), mtf::reduce_sum<K>(mtf::square(p)), p * 3.0, n + n);
    };
    const auto x = mtf::watch(normal(w, 1, a, k));
    const auto y = mtf::watch(normal(w, 2, k));
    const auto n = integers(w, 3, -5, 5, a, k);
    const auto check = [&](const auto& results) {
      const auto& [p, q, unused, twice] = results;
      CHECK(!twice.array().node);
      CHECK(host(twice) == host(n * 2));
      const auto [dx, dy] = mtf::gradients(weighted_sum(p) + weighted_sum(mtf::tanh(q)), x, y);
      return std::vector<Host>{host(p), host(q), host(dx), host(dy)};
    };
    const auto expected = check(f(x, y, n));
    const auto got = check(mtf::recompute(f, x, y, n));
    for (std::size_t i = 0; i < 4; ++i) check_close(got[i], expected[i], 1e-13, pair.place + ", " + std::to_string(i));
    // Nothing depends on the results: no gradient, no call.
    const auto [p, q, r, s] = mtf::recompute(f, x, y, n);
    CHECK_THROWS_AS(mtf::gradients(mtf::reduce_sum(mtf::stop_gradient(p) * x), y), mtf::plan_error);
  });
}

TEST_CASE("recompute: a function's own gradients, in both runs") {
  World w(MPI_COMM_SELF, {.mesh = "rows:1;cols:1"});
  const auto scale = mtf::variable<double>(w, "scale", mtf::init::normal(1), a);
  const auto x = mtf::watch(normal(w, 1, a));
  const auto f = [scale](const auto& u) {
    const auto inner = mtf::watch(mtf::stop_gradient(u));
    const auto [slope] = mtf::gradients(mtf::reduce_sum(mtf::sin(inner)), inner);
    return u * slope * scale;
  };
  const auto [dx, ds] = mtf::gradients(mtf::reduce_sum(mtf::recompute(f, x)), x, scale);
  check_close(host(dx), host(mtf::cos(x) * scale), 1e-14, "dx");
  check_close(host(ds), host(mtf::cos(x) * x), 1e-14, "ds");
}

TEST_CASE("recompute: a graph that is kept is run again in each pass; inference runs once") {
  World w(MPI_COMM_WORLD, {.mesh = mesh_text(ranks(), 1), .layout = "a:rows"});
  const auto calls = std::make_shared<int>(0);
  const auto x = mtf::watch(normal(w, 1, a, k));
  const auto f = [calls](const auto& u) {
    ++*calls;
    return mtf::sin(u);
  };
  const auto loss = mtf::reduce_sum(mtf::recompute(f, x));
  CHECK(*calls == 1);
  const auto [first] = mtf::gradients({.keep = mtf::keep_graph::yes}, loss, x);
  CHECK(*calls == 2);
  const auto [second] = mtf::gradients(loss, x);
  CHECK(*calls == 3);
  CHECK(host(first) == host(second));
  CHECK_THROWS_WITH_AS(mtf::gradients(loss, x), doctest::Contains("keep_graph::yes"), mtf::plan_error);
  *calls = 0;
  const mtf::inference off(w);
  CHECK(!mtf::recompute(f, x).array().node);
  CHECK(*calls == 1);
}

TEST_CASE("recompute: what must not change in between is named, and the world stays usable") {
  World w(MPI_COMM_WORLD, {.mesh = mesh_text(1, ranks()), .layout = "k:cols"});
  const auto weights = mtf::variable<double>(w, "module/weights", mtf::init::normal(1), a, k);
  const auto x = mtf::watch(normal(w, 1, a, k));
  {
    const auto loss = mtf::reduce_sum(mtf::recompute([weights](const auto& u) { return u * weights; }, x));
    weights.assign(weights.read() * 2.0);
    CHECK_THROWS_WITH_AS(mtf::gradients(loss, x), doctest::Contains("\"module/weights\""), mtf::plan_error);
  }
  {
    const auto calls = std::make_shared<int>(0);
    const auto f = [&w, calls](const auto& u) {
      const auto late = mtf::variable<double>(w, mtf::Scope("late") / ++*calls, mtf::init::ones, k);
      return u * late;
    };
    const auto loss = mtf::reduce_sum(mtf::recompute(f, x));
    CHECK_THROWS_WITH_AS(mtf::gradients(loss, x), doctest::Contains("\"late/2\" is made while recompute"),
                         mtf::plan_error);
    CHECK(w.registry().find("late/1") != nullptr);
  }
  const auto [dx, dw] = mtf::gradients(mtf::reduce_sum(x * weights), x, weights);
  CHECK(host(dx) == host(weights));
  CHECK(host(dw) == host(x));
  const auto fresh = mtf::variable<double>(w, "afterwards", mtf::init::ones, k);
  CHECK(host(fresh) == Host(24, 1));
}

TEST_CASE("recompute: communication is that of the function twice") {
  if (ranks() == 1) return;
  World w(MPI_COMM_WORLD, {.mesh = mesh_text(1, ranks()), .layout = "k:cols"});
  const auto x = mtf::watch(normal(w, 1, a, k));
  const auto y = mtf::watch(normal(w, 2, k, b));
  const auto f = [](const auto& u, const auto& other) { return mtf::sin(mtf::einsum<A, B>(u, other)); };
  watch_collectives(w);
  const auto loss = mtf::reduce_sum(mtf::recompute(f, x, y));
  CHECK(joined(collectives(w)) == "allreduce over cols of 128");
  watch_collectives(w);
  (void)mtf::gradients(loss, x, y);
  CHECK(joined(collectives(w)) == "allreduce over cols of 128");
}

TEST_CASE("custom_gradient: the user's gradient, for one input and for several") {
  for_each_layout(layouts, [&](const Pair& pair) {
    World& w = pair.world;
    if (!legal(w, mtf::Shape(a, k).value())) return;
    const auto x = mtf::watch(normal(w, 1, a, k));
    const auto y = mtf::watch(normal(w, 2, k));
    // Straight through a step function.
    const auto step = mtf::custom_gradient(
        [](const auto& u) { return mtf::map([](double e) { return std::floor(e); }, mtf::stop_gradient(u)); },
        [](const auto& dy, const auto& result, const auto& u) { return dy * (u - result); }, x);
    const auto [dx] = mtf::gradients(weighted_sum(step), x);
    const auto floor = mtf::map([](double e) { return std::floor(e); }, mtf::stop_gradient(x));
    const auto one = mtf::watch(normal(w, 1, a, k));
    const auto [weights] = mtf::gradients(weighted_sum(one), one);
    check_close(host(dx), host(weights * (x - floor)), 1e-14, pair.place);
    // Two inputs, one without a gradient; two results.
    const auto both = mtf::custom_gradient(
        [](const auto& u, const auto& other) { return std::tuple(u * other, mtf::reduce_sum<A>(u)); },
        [](const auto& dys, const auto& ys, const auto& u, const auto& other) {
          return std::tuple(std::get<0>(dys) * 2.0 * other + std::get<1>(dys) + std::get<0>(ys) * 0.0 + u * 0.0,
                            mtf::no_gradient{});
        },
        x, y);
    const auto [du] = mtf::gradients(mtf::reduce_sum(std::get<0>(both)) + mtf::reduce_sum(std::get<1>(both)) * 5.0, x);
    check_close(host(du), host(x * 0.0 + y * 2.0 + 5.0), 1e-13, pair.place + ", two inputs");
    CHECK_THROWS_AS(mtf::gradients({.when_unused = mtf::unused::error}, mtf::reduce_sum(normal(w, 1, a)), y),
                    mtf::plan_error);
  });
}

TEST_CASE("custom_gradient: what the function refers to, and what leaves it, are errors by name") {
  World w(MPI_COMM_WORLD, {.mesh = mesh_text(ranks(), 1), .layout = "a:rows"});
  const auto weights = mtf::variable<double>(w, "module/weights", mtf::init::normal(1), a);
  const auto x = mtf::watch(normal(w, 1, a));
  const auto pass = [](const auto& dy, const auto&, const auto&) { return dy; };
  CHECK_THROWS_WITH_AS(mtf::custom_gradient([&](const auto& u) { return u * weights; }, pass, x),
                       doctest::Contains("\"module/weights\""), mtf::plan_error);
  CHECK(host(mtf::custom_gradient([&](const auto& u) { return u * mtf::stop_gradient(weights); }, pass, x)) ==
        host(x * weights));
  std::optional<Tensor<A>> inside;
  const auto y = mtf::custom_gradient(
      [&](const auto& u) {
        inside = mtf::sin(u);
        return *inside * 2.0;
      },
      pass, x);
  CHECK_THROWS_WITH_AS(*inside * 2.0, doctest::Contains("used outside"), mtf::plan_error);
  CHECK_THROWS_WITH_AS(mtf::gradients(mtf::reduce_sum(y), *inside), doctest::Contains("used outside"), mtf::plan_error);
  CHECK_THROWS_WITH_AS((void)mtf::recompute([](const auto& u) { return u * 2.0; }, *inside),
                       doctest::Contains("used outside"), mtf::plan_error);
  check_close(host(mtf::stop_gradient(*inside) * 2.0), host(y), 1e-15, "its value is no secret");
  std::optional<Tensor<A>> deeper;
  const auto z = mtf::recompute(
      [&](const auto& u) {
        const auto other = mtf::recompute(
            [&](const auto& t) {
              deeper = mtf::cos(t);
              return *deeper + t;
            },
            u);
        return other * 2.0;
      },
      x);
  CHECK_THROWS_WITH_AS(*deeper + x, doctest::Contains("used outside"), mtf::plan_error);
  const auto [dx] = mtf::gradients(mtf::reduce_sum(z), x);
  check_close(host(dx), host((mtf::sin(x) * -1.0 + 1.0) * 2.0), 1e-14, "nested");
  // Gradients of other dims than the input's are found when they are made.
  const auto wide = mtf::watch(normal(w, 1, A{16}));
  const auto narrow = normal(w, 1, a);
  const auto odd = mtf::custom_gradient([](const auto& u) { return u * 1.0; },
                                        [narrow](const auto&, const auto&, const auto&) { return narrow; }, wide);
  CHECK_THROWS_WITH_AS(mtf::gradients(mtf::reduce_sum(odd), wide), doctest::Contains("[a:8]"), mtf::plan_error);
  const auto [after] = mtf::gradients(mtf::reduce_sum(wide * 2.0), wide);
  CHECK(host(after) == Host(16, 2));
}

TEST_CASE("clip_activation_gradient limits the root mean square of the gradient") {
  for_each_layout(layouts, [&](const Pair& pair) {
    World& w = pair.world;
    if (!legal(w, mtf::Shape(a, k).value())) return;
    for (const double rms : {0.5, 100.0}) {
      const auto x = mtf::watch(normal(w, 1, a, k));
      const auto [plain] = mtf::gradients(weighted_sum(x * 3.0), x);
      const auto y = mtf::clip_activation_gradient(x, rms);
      CHECK(host(y) == host(x));
      const auto [dx] = mtf::gradients(weighted_sum(y * 3.0), x);
      double squares = 0;
      for (const double g : host(plain)) squares += g * g;
      const double actual = std::sqrt(squares / (8 * 24));
      check_close(host(dx), host(plain * std::min(1.0, rms / actual)), 1e-13, pair.place);
    }
  });
}
