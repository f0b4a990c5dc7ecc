// The checks that the library has for its users' tests: they find what is wrong, tell where, and let the rest pass.
#include <array>
#include <limits>
#include <list>
#include <random>

#include <mtf/testing.hpp>

#include "support.hpp"

using namespace support;

namespace {

/// Every mesh with arrays [a, k] split in several ways.
template <class Body>
void in_worlds(const Body& body) {
  for (const std::string& mesh : meshes()) {
    for (const std::string_view layout : {"", "a:rows;k:cols", "k:rows,cols"}) {
      World world(MPI_COMM_WORLD, {.mesh = mesh, .layout = layout});
      body(world, fmt::format("mesh {}, layout {}: ", mesh, layout));
      CHECK(world.verify_replicas());
    }
  }
}
bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }
/// Whether all ranks have the same text.
bool is_common(World& world, const std::string& text) {
  return mtf::detail::is_same_everywhere(mtf::hash_text(text), world.engine().communicators().world());
}

/// x * x, whose gradient is `factors` times the right one.
template <class X, class M>
auto square_with(const X& x, const M& factors) {
  return mtf::custom_gradient([](const auto& u) { return u * u; },
                              [factors](const auto& dy, const auto&, const auto& u) { return dy * u * 2.0 * factors; },
                              x);
}
/// Ones [a, k], but for one column.
auto one_column(World& world, std::int64_t column, double other) {
  Host factors(8 * 24, 1.0);
  for (std::size_t row = 0; row < 8; ++row) factors[row * 24 + static_cast<std::size_t>(column)] = other;
  return mtf::from_global<double>(world, factors, a, k);
}

}  // namespace

TEST_CASE("check_gradients: right gradients pass under every layout, of one x or several, results of any dims") {
  in_worlds([](World& w, const std::string& place) {
    const auto x = normal(w, 1, a, k);
    const auto u = normal(w, 2, k, b);
    const auto product = [](const auto& p, const auto& q) { return mtf::tanh(mtf::einsum<A, B>(p, q)); };
    const mtf::GradientReport report = mtf::check_gradients(w, {.elements = 16}, product, x, u);
    CHECK_MESSAGE(report, place, report.text());
    CHECK(report.compared == 2 * (16 + 4));
    CHECK(report.kinks == 0);
    CHECK(report.worst.difference < 1e-6);
    CHECK(is_common(w, report.text()));
    // A scalar, a tuple with integers in it, sums still pending.
    const auto several = [](const auto& p, const auto& q) {
      return std::tuple(mtf::reduce_mean(mtf::square(p)), mtf::cast<std::int32_t>(q * 9.0),
                        std::pair(mtf::reduce_sum<K>(mtf::sin(p)), mtf::einsum<A, B>(p, q)));
    };
    CHECK_MESSAGE(mtf::check_gradients(w, {.elements = 8, .directions = 2}, several, x, u), place);
  });
}

TEST_CASE("check_gradients: a wrong custom_gradient is found, with the x and the element") {
  in_worlds([](World& w, const std::string& place) {
    const auto x = normal(w, 1, a, k);
    const auto y = normal(w, 2, k);
    const auto factors = one_column(w, 5, 0.99);
    const auto f = [&](const auto& p, const auto& q) { return mtf::reduce_sum<A>(square_with(q, factors) * p); };
    const mtf::GradientReport report = mtf::check_gradients(w, {.elements = 1000}, f, y, x);
    CHECK(!report);
    CHECK(report.compared == 24 + 192 + 2 * 4);
    CHECK(report.failures == 8 + 4);  // eight elements of the column, and every direction
    CHECK(report.worst.x == 1);
    CHECK(report.worst.difference == doctest::Approx(0.01).epsilon(0.05));
    REQUIRE(report.failed.size() == 8);
    for (std::size_t i = 0; i < report.failed.size(); ++i) {
      const mtf::ComparedDerivative& d = report.failed[i];
      CHECK(d.x == 1);
      CHECK(d.element == static_cast<std::int64_t>(i) * 24 + 5);
      CHECK(d.analytic == doctest::Approx(0.99 * d.numeric));
      CHECK(d.outcome == mtf::DerivativeOutcome::different);
    }
    CHECK_MESSAGE(has(report.text(), "x 1, double [a:8, k:24], element [1, 5]"), place, report.text());
    CHECK(is_common(w, report.text()));
    CHECK_THROWS_AS(report.require(), mtf::check_failure);
    // The world goes on.
    CHECK(mtf::check_gradients(w, {.elements = 4}, [](const auto& p) { return p * p; }, x).require().compared == 8);
  });
}

TEST_CASE("check_gradients: what no drawn element shows, a direction does") {
  in_worlds([](World& w, const std::string& place) {
    const auto x = normal(w, 1, a, k);
    const auto factors = one_column(w, 5, 1.05);
    const auto f = [&](const auto& p) { return square_with(p, factors); };
    std::int64_t without = 0;
    for (std::uint64_t seed = 0; seed < 4; ++seed) {
      const auto report = mtf::check_gradients(w, {.elements = 2, .seed = seed}, f, x);
      CHECK_MESSAGE(!report, place, report.text());
      if (report.failed.front().element < 0) ++without;
    }
    CHECK(without > 0);
  });
}

TEST_CASE("check_gradients: a dependence that the gradient does not see is found") {
  in_worlds([](World& w, const std::string& place) {
    const auto x = normal(w, 1, a, k);
    const auto y = normal(w, 2, k);
    const auto cut = [](const auto& p, const auto& q) { return mtf::stop_gradient(p) * q; };
    const auto one = mtf::check_gradients(w, {.elements = 4}, cut, x, y);
    CHECK_MESSAGE(one.failures == 4 + 4, place, one.text());
    CHECK(one.worst.x == 0);
    CHECK(one.worst.analytic == 0);
    const auto both = mtf::check_gradients(
        w, {.elements = 4}, [&](const auto& p, const auto& q) { return mtf::stop_gradient(p * q); }, x, y);
    CHECK(both.failures == 2 * (4 + 4));
    // What truly does not depend on an x passes.
    CHECK(mtf::check_gradients(w, {.elements = 4}, [&](const auto&, const auto& q) { return q * q; }, x, y));
  });
}

TEST_CASE("check_gradients: kinks and ends of the domain are told apart from wrong gradients") {
  in_worlds([](World& w, const std::string& place) {
    // A third of the elements are 0.
    const auto x = mtf::cast<double>(integers(w, 3, -1, 1, a, k));
    const auto zeros = static_cast<std::int64_t>(mtf::item(mtf::reduce_sum(mtf::cast<double>(mtf::equal(x, 0.0)))));
    CHECK(zeros > 0);
    const auto check = [&](const auto& f) {
      return mtf::check_gradients(w, {.elements = 1000, .directions = 3}, f, x);
    };
    for (const auto& report :
         {check([](const auto& p) { return mtf::relu(p); }), check([](const auto& p) { return mtf::abs(p) * 3.0; })}) {
      CHECK_MESSAGE(report, place, report.text());
      CHECK(report.kinks == zeros + 3);
      CHECK(report.compared == 192 - zeros);
      CHECK(has(report.text(), fmt::format("{} do not exist", zeros + 3)));
    }
    // All gradients of the elements that tie at a maximum are one-sided slopes.
    const auto ties = check([](const auto& p) { return mtf::reduce_max<K>(p); });
    CHECK_MESSAGE(ties, place, ties.text());
    CHECK(ties.kinks > 3);
    // What the gradient is at a kink is told, beside the slopes of both sides.
    const auto bent = mtf::check_gradients(
        w, {.elements = 1000, .directions = 0}, [](const auto& p) { return mtf::reduce_sum(mtf::leaky_relu(p, 0.25)); },
        x);
    CHECK_MESSAGE(bent, place, bent.text());
    REQUIRE(bent.at_kinks.size() == 8);
    for (const mtf::ComparedDerivative& d : bent.at_kinks) {
      CHECK(d.forward == doctest::Approx(1));
      CHECK(d.backward == doctest::Approx(0.25));
      CHECK(d.analytic == 0.25);  // the library's slope at 0
    }
    // Where f ends on one side, too; but NaN is wrong.
    const auto root =
        mtf::check_gradients(w, {.elements = 1000}, [](const auto& p) { return mtf::sqrt(p) * p; }, mtf::abs(x));
    CHECK_MESSAGE(root, place, root.text());
    CHECK(root.kinks >= zeros);
    const auto undefined = check([](const auto& p) { return mtf::sqrt(p * p); });
    CHECK_MESSAGE(undefined.failures == zeros + 3, place, undefined.text());
    // Nothing but kinks is not a pass.
    const auto nothing = mtf::check_gradients(w, [](const auto& p) { return mtf::relu(p); }, x * 0.0);
    CHECK(!nothing);
    CHECK(nothing.failures == 0);
    CHECK(has(nothing.text(), "no derivative at any of 68 points"));
    // A kink near by, on either side.
    const auto near =
        mtf::check_gradients(w, {.elements = 1000}, [](const auto& p) { return mtf::relu(p - 1.0 + 1e-6); }, x);
    CHECK_MESSAGE(near, place, near.text());
  });
}

TEST_CASE("check_gradients: no smooth function has a kink, whatever its curvature, scale and inputs") {
  World w(MPI_COMM_SELF, {.mesh = mesh_text(1, 1), .layout = ""});
  for (std::uint64_t seed = 0; seed < 6; ++seed) {
    const auto draw = [&](std::uint64_t more, double scale) {
      return mtf::random_normal_of<double>(w, mtf::seed{100 * seed + more}, 0, scale, a, k);
    };
    const auto check = [&](const char* name, const auto& f, const auto&... xs) {
      const auto report = mtf::check_gradients(w, {.elements = 1000, .directions = 16, .seed = seed}, f, xs...);
      CHECK_MESSAGE(report, name, ", seed ", seed, ": ", report.text());
      CHECK_MESSAGE(report.kinks == 0, name, ", seed ", seed, ": ", report.kinks, " of ", report.compared);
    };
    for (const double scale : {0.01, 1.0, 4.0}) {
      const auto x = draw(1, scale);
      check("gelu", [](const auto& p) { return mtf::gelu(p); }, x);
      check("swish", [](const auto& p) { return mtf::swish(p); }, x);
      check("tanh", [](const auto& p) { return mtf::tanh(p * p); }, x);
      check("log_softmax", [](const auto& p) { return mtf::log_softmax<K>(p); }, x);
      check("a number from log_softmax", [](const auto& p) { return mtf::reduce_mean(mtf::log_softmax<K>(p)); }, x);
      check(
          "three operands",
          [](const auto& p, const auto& q, const auto& r) { return p * mtf::exp(q) + mtf::sin(p * r) * q; }, x,
          draw(2, scale), draw(3, scale));
      check("a square near its least", [](const auto& p) { return mtf::reduce_sum(mtf::square(p * 1e-3)) + 1.0; }, x);
    }
  }
}

TEST_CASE("check_gradients: kinks at every distance are no wrong gradients, and those that are met are told") {
  World w(MPI_COMM_SELF, {.mesh = mesh_text(1, 1), .layout = ""});
  const auto ones = mtf::cast<double>(integers(w, 3, 1, 1, a, k));
  std::mt19937 random(5);
  std::uniform_real_distribution<double> exponent(-30, -14);
  for (int i = 0; i < 40; ++i) {
    const double distance = std::exp2(exponent(random)) * (i % 2 == 0 ? 1 : -1);
    // Curved on one side, straight on the other.
    const auto f = [&](const auto& p) { return mtf::relu(mtf::exp(p) - std::exp(1 + distance)); };
    const auto report = mtf::check_gradients(w, {.elements = 4, .directions = 0}, f, ones);
    CHECK_MESSAGE(report.failures == 0, distance, ": ", report.text());
    if (std::abs(distance) < 0x1p-28) CHECK(report.kinks == 4);
    if (std::abs(distance) > 0x1p-16) CHECK(report.kinks == 0);
  }
}

TEST_CASE("check_gradients: a gradient that is not finite is wrong where the slope is finite") {
  in_worlds([](World& w, const std::string&) {
    const auto x = normal(w, 1, a, k);
    const auto factors = one_column(w, 5, std::numeric_limits<double>::quiet_NaN());
    const auto report = mtf::check_gradients(
        w, {.elements = 1000, .directions = 0}, [&](const auto& p) { return square_with(p, factors); }, x);
    CHECK(report.failures == 8);
    CHECK(std::isnan(report.worst.analytic));
    const auto infinite = mtf::check_gradients(w, [](const auto& p) { return mtf::log(p * 0.0); }, x);
    CHECK(!infinite);
    CHECK(has(infinite.text(), "f is"));
  });
}

TEST_CASE("check_gradients: in float, with variables, by name") {
  in_worlds([](World& w, const std::string& place) {
    const auto weights = mtf::variable<float>(w, "layer/weights", mtf::init::normal(0.2), k, b);
    const auto bias = mtf::variable<float>(w, "layer/bias", mtf::init::normal(0.2), b);
    const Host before = host(weights);
    const auto held = weights.read();
    const auto x = mtf::random_normal_of<float>(w, mtf::seed{1}, 0, 1, a, k);
    // f takes the tensors and refers to the variables itself,
    const auto model = [&](const auto& input) {
      return mtf::reduce_mean(mtf::square(mtf::tanh(mtf::einsum<A, B>(input, weights) + bias)));
    };
    const auto report = mtf::check_gradients(w, {.elements = 12}, model, x, weights, bias);
    CHECK_MESSAGE(report, place, report.text());
    CHECK(report.tolerance == 1e-2);
    CHECK(report.xs[1] == "variable \"layer/weights\", float [k:24, b:16]");
    // or takes all of them,
    const auto whole = mtf::check_gradients(
        w, {.elements = 12}, [](const auto& p, const auto& q) { return mtf::einsum<A, B>(p, q); }, x, weights);
    CHECK_MESSAGE(whole, place, whole.text());
    // or nothing, if all are variables.
    const auto norm = [&] { return mtf::reduce_sum(weights * weights) * mtf::reduce_sum(bias); };
    CHECK_MESSAGE(mtf::check_gradients(w, {.elements = 12}, norm, weights, bias), place);
    // A wrong one is found.
    const auto wrong = mtf::check_gradients(
        w, {.elements = 12},
        [&] { return mtf::reduce_sum(weights * weights) + mtf::reduce_sum(mtf::stop_gradient(bias.read()) * bias); },
        weights, bias);
    CHECK(wrong.failures >= 8);  // the smallest slopes are within the roundoff of float
    CHECK(wrong.worst.x == 1);
    CHECK(has(wrong.text(), "variable \"layer/bias\""));
    // The variables are as they were, also after an error of f.
    CHECK_THROWS_AS(mtf::check_gradients(
                        w,
                        [&, calls = std::make_shared<int>(0)] {
                          const auto y = mtf::reduce_sum(weights * weights);
                          return ++*calls > 3 ? mtf::reduce_sum(mtf::reshape(y, A{1}, K{2})) : y;
                        },
                        weights),
                    mtf::plan_error);
    CHECK(host(weights) == before);
    CHECK(host(held) == before);
  });
}

TEST_CASE("check_gradients: f must depend on its xs alone") {
  in_worlds([](World& w, const std::string&) {
    const auto x = normal(w, 1, a, k);
    int calls = 0;
    const auto report = mtf::check_gradients(w, [&](const auto& p) { return p * (1.0 + ++calls); }, x);
    CHECK(!report);
    CHECK(has(report.text(), "called again with the same xs"));
    // Random numbers of a key are the same each time.
    const auto dropped = mtf::check_gradients(
        w, {.elements = 8}, [](const auto& p) { return mtf::dropout(p * p, 0.5, mtf::seed{3}); }, x);
    CHECK_MESSAGE(dropped, dropped.text());
    CHECK_THROWS_AS(
        mtf::check_gradients(w, [](const auto& p) { return mtf::cast<std::int32_t>(p); }, x), mtf::plan_error);
    World other(MPI_COMM_SELF, {.mesh = "rows:1;cols:1"});
    CHECK_THROWS_AS(mtf::check_gradients(other, [](const auto& p) { return p * p; }, x), mtf::plan_error);
  });
}

TEST_CASE("check_gradients: sends what f sends, and single numbers") {
  in_worlds([](World& w, const std::string&) {
    const auto x = normal(w, 1, a, k);
    watch_collectives(w);
    const auto report = mtf::check_gradients(w, {.elements = 6}, [](const auto& p) { return mtf::sin(p); }, x);
    CHECK(report.compared == 6 + 4);
    // f is local: the sums of its elements, and of their squares, are all there is.
    std::int64_t sent = 0;
    for (const mtf::Record& record : w.records()) {
      if (!record.is_collective) continue;
      CHECK(record.collective == mtf::Collective::all_reduce);
      CHECK(record.count == 1);
      ++sent;
    }
    CHECK(sent <= 3 + 2 * (6 + 4));
    CHECK((sent > 0) == !x.placement().split_axes().empty());
  });
}

TEST_CASE("check_layouts: the same results under every layout, in every form that a program may return") {
  const auto program = [](auto& world) {
    const auto x = mtf::watch(mtf::random_normal_of<float>(world, mtf::seed{1}, 0, 1, a, k));
    const auto weights = mtf::variable<float>(world, "weights", mtf::init::normal(0.2), k, b);
    const auto y = mtf::einsum<A, B>(x, weights);
    const auto [dx, dw] = mtf::gradients(mtf::reduce_sum(mtf::square(y)), x, weights);
    return std::tuple(y, std::pair(dx, dw), mtf::argmax<B>(y), mtf::greater(y, 0.0F), mtf::reduce_mean(x),
                      mtf::cast<mtf::bfloat16>(y), mtf::sin(mtf::cast<double>(x)), 7, 0.5, std::vector<float>{1, 2},
                      std::array{host(x), host(mtf::exp(x))}, std::list<std::vector<std::int64_t>>{{1}, {2, 3}});
  };
  const mtf::Texts everywhere = mtf::all_meshes(ranks(), {"rows", "cols"});
  const auto report =
      mtf::check_layouts(program, everywhere, {"", "a:rows", "k:rows;b:cols", "a:rows;b:cols", "k:cols,rows"});
  CHECK_MESSAGE(report, report.text());
  CHECK(report.compared == 5 * static_cast<std::int64_t>(meshes().size()));
  CHECK(report.worst < 1e-5);
  CHECK(report.require().refused.empty());
  CHECK(std::vector<std::string>(everywhere.begin(), everywhere.end()) == meshes());
}

namespace {

struct Rows : mtf::Mesh<mtf::Axis<"rows">, mtf::Axis<"cols">> {};
struct ByRow : mtf::Layout<mtf::Split<"a", "rows">, mtf::Split<"k", "cols">> {};
struct ByColumn : mtf::Layout<mtf::Split<"k", "rows", "cols">> {};

}  // namespace

TEST_CASE("check_layouts: layouts as types, and texts beside them, on a mesh that is a type") {
  const auto program = [](auto& world) {
    const auto x = mtf::random_normal_of<double>(world, mtf::seed{1}, 0, 1, a, k);
    return std::tuple(mtf::softmax<K>(x), mtf::reduce_max<A>(x), mtf::sort<K>(x));
  };
  const std::string mesh = mesh_text(ranks(), 1);
  const auto report = mtf::check_layouts<Rows>(program, {.mesh = mesh}, ByRow{}, ByColumn{}, "a:cols", "k:rows");
  CHECK_MESSAGE(report, report.text());
  CHECK(report.compared == 4);
  const auto wrong = mtf::check_layouts<Rows>([](auto& world) { return world.size() + 3; }, {.mesh = mesh}, ByRow{},
                                              "a:cols", ByColumn{});
  CHECK(wrong.differences.size() == (ranks() > 1 ? 3U : 0U));
  if (ranks() > 1) {
    CHECK(wrong.differences[0].layout == fmt::format("mesh \"{}\", layout \"a:rows;k:cols\"", mesh));
    CHECK(wrong.differences[2].layout == fmt::format("mesh \"{}\", layout \"k:rows,cols\"", mesh));
    CHECK(has(wrong.differences[0].what,
              fmt::format("result, an integer [], element [] is {}, on one rank 4", ranks() + 3)));
  }
}

TEST_CASE("check_layouts: a result that depends on the layout is found, with place and both values") {
  if (ranks() == 1) return;
  World all(MPI_COMM_WORLD, {.mesh = mesh_text(ranks(), 1)});
  const auto check = [&](const auto& program, const std::string& layout, const mtf::LayoutCheck& options = {}) {
    const auto report = mtf::check_layouts(program, {mesh_text(ranks(), 1)}, {"", layout}, options);
    CHECK(report.compared == 2);
    CHECK(is_common(all, report.text()));
    return report;
  };
  // A slice that knows which it is: the last element that every layout has right is [3, 23] on two ranks.
  const auto by_rank = [](auto& world) {
    const auto x = mtf::random_normal_of<double>(world, mtf::seed{1}, 1, 0.1, a, k);
    const auto where = mtf::make_value(world.engine(), x.placement(), mtf::ElementType::float64);
    world.engine().template write<double>(
        *where->block, x.placement(), [&](std::int64_t) { return 1.0 + static_cast<double>(world.coordinates()[0]); });
    return std::pair(x, x * mtf::Tensor<std::remove_cvref_t<decltype(world)>, double, A, K>(mtf::Array(where, {})));
  };
  const auto split = check(by_rank, "a:rows");
  CHECK(split.differences.size() == 2);  // without a layout, the replicas differ
  CHECK(has(split.differences[1].layout, "layout \"a:rows\""));
  const std::int64_t rows = a.extent() / ranks();
  CHECK_MESSAGE(has(split.differences[1].what, fmt::format("result 1, double [a:8, k:24], element [{}, 0] is ", rows)),
                split.text());
  CHECK(has(split.differences[0].what, "element [0, 0] is "));
  CHECK(has(split.differences[0].what, "seen by rank 1 (rows=1, cols=0)"));
  CHECK(split.worst > 0.9);
  CHECK_THROWS_AS(split.require(), mtf::check_failure);
  // An integer that is off by one, far beyond what a double tells apart.
  const auto large = [](auto& world) { return (std::int64_t{1} << 60) + (world.rank() == 1 ? 1 : 0); };
  CHECK(has(check(large, "a:rows").differences.at(0).what,
            "element [] is 1152921504606846977, on one rank 1152921504606846976, seen by rank 1"));
  // Other dims, more or fewer results.
  const auto longer = [](auto& world) { return mtf::zeros<float>(world, A{4 + world.size()}, b); };
  CHECK(has(check(longer, "b:rows").differences.at(1).what,
            fmt::format("result is float [a:{}, b:16], on one rank float [a:5, b:16]", 4 + ranks())));
  const auto count = [](auto& world) { return std::vector<Host>(static_cast<std::size_t>(world.size()), Host{1}); };
  CHECK(has(check(count, "a:rows").differences.at(0).what, "result.1 is not there on one rank"));
  const auto fewer = [](auto& world) { return std::vector<Host>(world.size() == 1 ? 2 : 1, Host{1}); };
  CHECK(has(check(fewer, "a:rows").differences.at(0).what, "result.1 is missing"));
  // NaN and infinities in the same places are no difference, elsewhere they are.
  const auto odd = [](double at_last) {
    return [at_last](auto& world) {
      return Host{1, NAN, HUGE_VAL, world.rank() + 1 == world.size() && world.size() > 1 ? at_last : -HUGE_VAL};
    };
  };
  CHECK(check(odd(-HUGE_VAL), "a:rows"));
  CHECK(check(odd(HUGE_VAL), "a:rows").differences.size() == 2);
  CHECK(check(odd(NAN), "a:rows").differences.size() == 2);
  // A tolerance of one's own, and its limits.
  const auto off = [](auto& world) { return Host{1.0, 100.0 + 0.5 * (world.size() > 1 ? 1 : 0)}; };
  CHECK(!check(off, "a:rows"));
  CHECK(check(off, "a:rows", {.tolerance = 0.0051}));
  CHECK(!check(off, "a:rows", {.tolerance = 0.0049}));
  CHECK(check(off, "a:rows", {.tolerance = 0.0051}).worst == doctest::Approx(0.005));
}

TEST_CASE("check_layouts: replicas of a variable that differ are found though no result shows it") {
  const auto program = [](auto& world) {
    const auto weights = mtf::variable<double>(world, "weights", mtf::init::ones, a);
    weights.assign(mtf::from_global<double>(world, Host(8, world.rank()), a));
    return 1;
  };
  const auto report = mtf::check_layouts(program, {mesh_text(ranks(), 1)}, {"", "a:rows"});
  CHECK(report.passed() == (ranks() == 1));
  if (ranks() == 1) return;
  CHECK(report.differences.size() == 1);
  CHECK(has(report.text(), "layout \"\": ranks have run different collectives, or replicas of a variable differ"));
}

TEST_CASE("check_layouts: an illegal layout is an error by name, or counted where that is asked for") {
  const auto program = [](auto& world) {
    return mtf::random_normal_of<double>(world, mtf::seed{1}, 0, 1, A{6}, K{8}) * 2.0;
  };
  const mtf::Texts both{"rows:" + std::to_string(ranks()) + ";cols:1"};
  const bool divides = 6 % ranks() == 0;
  const auto run = [&](const char* layout, const mtf::LayoutCheck& options = {}) {
    return mtf::check_layouts(program, both, {"k:cols", layout}, options);
  };
  CHECK_THROWS_WITH_AS(run("a:rows;k:rows"), doctest::Contains("layout \"a:rows;k:rows\": "), mtf::plan_error);
  CHECK_THROWS_WITH_AS(run("a:stacks"), doctest::Contains("layout \"a:stacks\": World"), mtf::plan_error);
  if (divides) {
    CHECK(run("a:rows").compared == 2);
  } else {
    CHECK_THROWS_WITH_AS(run("a:rows"), doctest::Contains("dim \"a\" has extent 6"), mtf::plan_error);
  }
  const auto skipped = run("a:rows;k:rows", {.skip_illegal = true});
  CHECK_MESSAGE(skipped, skipped.text());
  CHECK(skipped.compared == 1);
  REQUIRE(skipped.refused.size() == 1);
  CHECK(has(skipped.refused[0], "both split over axis \"rows\""));
  const auto nothing = mtf::check_layouts(program, both, {"a:rows;k:rows"}, {.skip_illegal = true});
  CHECK(!nothing);
  CHECK(has(nothing.text(), "nothing was compared, 1 layouts are illegal"));
  CHECK_THROWS_AS(nothing.require(), mtf::check_failure);
}
