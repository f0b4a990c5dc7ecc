// Random layouts are refused where a rule says so, replicas that differ are found, and forms that take types give what a
// naive loop gives, under random layouts.
//
// MTF_PROPERTY_CASES sets how many, a tenth of it, MTF_PROPERTY_START the number of the first.
#include "worlds.hpp"

#include "execution.hpp"

using namespace property;
using support::A;
using support::B;
using support::C;
using support::host;
using support::rank_of_process;
using support::ranks;

namespace {

struct Split {
  std::string dim;
  std::vector<std::string> axes;
};

/// Rules in which each axis splits one of the dims or none, and the parts that these have.
std::vector<Split> draw_split(Draw& draw, const DrawnMesh& mesh, std::initializer_list<std::string_view> dims,
                              std::map<std::string, std::int64_t>& parts) {
  std::vector<Split> rules;
  for (const std::string_view dim : dims) {
    rules.push_back({std::string(dim), {}});
    parts[rules.back().dim] = 1;
  }
  for (const auto& [axis, size] : mesh) {
    const std::int64_t at = draw.number(-1, std::ssize(rules) - 1);
    if (at < 0) continue;
    Split& rule = rules[static_cast<std::size_t>(at)];
    rule.axes.insert(draw.chance(50) ? rule.axes.begin() : rule.axes.end(), axis);
    parts[rule.dim] *= size;
  }
  std::erase_if(rules, [](const Split& rule) { return rule.axes.empty(); });
  return rules;
}

/// Texts of a random mesh and of legal rules for the dims a, b, c, and the parts that the rules cut these into.
struct DrawnTexts {
  std::string mesh, layout;
  std::map<std::string, std::int64_t> parts;
  explicit DrawnTexts(Draw& draw) {
    const DrawnMesh axes = draw_mesh(draw);
    mesh = text_of_mesh(axes);
    layout = text_of_rules(draw_split(draw, axes, {"a", "b", "c"}, parts));
  }
  /// A random extent that the parts divide.
  std::int64_t extent(Draw& draw, const char* dim) { return parts[dim] * draw.number(1, 3); }
};

std::uint64_t worlds() { return from_environment("MTF_PROPERTY_CASES", 1000) / 10; }

}  // namespace

TEST_CASE("random layouts are refused if a dim has two rules, an axis is named twice in one or is not there") {
  std::uint64_t refused = 0;
  const std::uint64_t start = first_number();
  for (std::uint64_t number = start; number < start + 4 * worlds(); ++number) {
    Draw draw(0x72756c65 + number);
    const DrawnMesh mesh = draw_mesh(draw);
    std::vector<Split> rules;
    const std::int64_t count = draw.number(0, 4);
    for (std::int64_t i = 0; i < count; ++i) {
      Split rule{std::string(names[static_cast<std::size_t>(draw.number(0, 5))]), {}};
      const std::int64_t axes = draw.of<std::int64_t>({1, 1, 1, 2});
      for (std::int64_t a = 0; a < axes; ++a)
        rule.axes.emplace_back(1, static_cast<char>('p' + draw.number(0, draw.chance(10) ? 3 : std::ssize(mesh) - 1)));
      rules.push_back(rule);
    }
    bool legal = true;
    for (std::size_t r = 0; r < rules.size(); ++r) {
      for (std::size_t other = 0; other < r; ++other) legal = legal && rules[other].dim != rules[r].dim;
      const auto& axes = rules[r].axes;
      legal = legal && std::ranges::all_of(axes, [&](const std::string& axis) {
                return std::ranges::any_of(mesh, [&](const auto& own) { return own.first == axis; });
              });
      legal = legal && (axes.size() < 2 || axes[0] != axes[1]);
    }
    const std::string axes = text_of_mesh(mesh);
    const std::string layout = text_of_rules(rules);
    CAPTURE(axes);
    CAPTURE(layout);
    const mtf::WorldOptions options{.mesh = axes, .layout = layout, .unused_rules = mtf::UnusedRules::ignore};
    const auto plan = [&] { mtf::DryRun<mtf::dynamic_mesh, mtf::dynamic_layout> dry(options); };
    const auto begin = [&] { World world(MPI_COMM_WORLD, options); };
    refused += legal ? 0U : 1U;
    if (legal) {
      CHECK_NOTHROW(plan());
      if (number % 8 == 0) CHECK_NOTHROW(begin());
    } else {
      CHECK_THROWS_AS(plan(), mtf::plan_error);
      if (number % 8 == 0) CHECK_THROWS_AS(begin(), mtf::plan_error);
    }
  }
  CHECK(3 * refused > worlds());
}

TEST_CASE("one element of a random variable that differs on one rank is found where others have it too") {
  const std::uint64_t start = first_number();
  for (std::uint64_t number = start; number < start + worlds() / 2; ++number) {
    Draw draw(0x7265706c + number);
    DrawnTexts texts(draw);
    CAPTURE(texts.mesh);
    CAPTURE(texts.layout);
    World world(MPI_COMM_WORLD, {.mesh = texts.mesh, .layout = texts.layout, .unused_rules = mtf::UnusedRules::ignore});
    const auto extent = [&](const char* dim) { return texts.extent(draw, dim); };
    const auto first = mtf::variable<double>(world, "first", mtf::init::normal(1), A{extent("a")}, B{extent("b")});
    const auto second = mtf::variable<float>(world, "second", mtf::init::normal(1), C{extent("c")}, A{extent("a")});
    const auto rank = static_cast<int>(draw.number(0, ranks() - 1));
    const auto place = static_cast<std::size_t>(draw.number(0, 1000));
    const auto damage = [&](const auto& variable, auto like) {
      const mtf::Block& block = *variable.state().leaf.value->block;
      std::vector<decltype(like)> elements(static_cast<std::size_t>(block.count()));
      world.engine().read(block, elements.data());
      const std::vector<decltype(like)> before = elements;
      auto& element = elements[place % elements.size()];
      element = std::nextafter(element, decltype(like)(9));
      const bool here = rank_of_process() == rank;
      if (here) world.engine().write(*variable.state().leaf.value->block, elements.data());
      const bool equal = world.verify_replicas();
      if (here) world.engine().write(*variable.state().leaf.value->block, before.data());
      return equal;
    };
    CHECK(world.verify_replicas());
    CHECK(damage(first, double{}) == (texts.parts["a"] * texts.parts["b"] == ranks()));
    CHECK(damage(second, float{}) == (texts.parts["a"] * texts.parts["c"] == ranks()));
    CHECK(world.verify_replicas());
  }
}

namespace {

/// Elements for dims a, b, c; some rows along b are zeros.
struct Case {
  std::int64_t a, b, c;
  Host x, weights;
  [[nodiscard]] std::size_t at(std::int64_t i, std::int64_t j, std::int64_t k) const {
    return static_cast<std::size_t>((i * b + j) * c + k);
  }
  template <class F>
  void for_each(const F& f) const {
    for (std::int64_t i = 0; i < a; ++i) {
      for (std::int64_t j = 0; j < b; ++j) {
        for (std::int64_t k = 0; k < c; ++k) f(i, j, k, at(i, j, k));
      }
    }
  }
};

template <class Reduced>
Host mean_along(const Case& drawn, const Reduced& kept_index, std::int64_t kept) {
  Host sums(static_cast<std::size_t>(kept));
  drawn.for_each([&](auto i, auto j, auto k, std::size_t at) {
    sums[static_cast<std::size_t>(kept_index(i, j, k))] += drawn.x[at];
  });
  for (double& sum : sums) sum *= static_cast<double>(kept) / static_cast<double>(drawn.x.size());
  return sums;
}

}  // namespace

TEST_CASE("means, norms and causal masks in random worlds give what naive loops give") {
  const std::uint64_t start = first_number();
  for (std::uint64_t number = start; number < start + worlds() / 2; ++number) {
    Draw draw(0x74797065 + number);
    DrawnTexts texts(draw);
    CAPTURE(texts.mesh);
    CAPTURE(texts.layout);
    World world(MPI_COMM_WORLD, {.mesh = texts.mesh, .layout = texts.layout, .unused_rules = mtf::UnusedRules::ignore});
    Case drawn;
    const auto extent = [&](const char* dim) { return texts.extent(draw, dim); };
    drawn.a = extent("a");
    drawn.b = extent("b");
    drawn.c = extent("c");
    drawn.x.resize(static_cast<std::size_t>(drawn.a * drawn.b * drawn.c));
    drawn.weights.resize(drawn.x.size());
    std::vector<bool> zero(static_cast<std::size_t>(drawn.a * drawn.c));
    for (std::size_t row = 0; row < zero.size(); ++row) zero[row] = draw.chance(25);
    drawn.for_each([&](auto i, auto, auto k, std::size_t at) {
      const double number_here = draw.normal();
      drawn.x[at] = zero[static_cast<std::size_t>(i * drawn.c + k)] ? 0 : number_here;
      drawn.weights[at] = draw.normal();
    });
    const A a_dim{drawn.a};
    const B b_dim{drawn.b};
    const C c_dim{drawn.c};
    const auto x = mtf::watch(mtf::from_global(world, drawn.x, a_dim, b_dim, c_dim));
    const auto weights = mtf::from_global(world, drawn.weights, a_dim, b_dim, c_dim);
    const auto check = [&](const char* name, const Host& got, const Host& expected) {
      CHECK_MESSAGE(agree(got, expected, [&](std::size_t) { return 1e-12 * (1 + largest(expected)); }), name, ": ",
                    support::difference(got, expected));
    };
    // Means over one, two and all dims, and the gradient of one.
    const auto mean = mtf::reduce_mean<B>(x);
    const auto kept = [&](auto i, auto, auto k) { return i * drawn.c + k; };
    check("mean over b", host(mean), mean_along(drawn, kept, drawn.a * drawn.c));
    check("mean over a and c", host(mtf::reduce_mean<A, C>(x)),
          mean_along(drawn, [](auto, auto j, auto) { return j; }, drawn.b));
    check("mean", host(mtf::reduce_mean(x)), mean_along(drawn, [](auto, auto, auto) { return 0; }, 1));
    Host of_mean(drawn.x.size());
    drawn.for_each([&](auto i, auto, auto k, std::size_t at) {
      double sum = 0;
      for (std::int64_t j = 0; j < drawn.b; ++j) sum += drawn.weights[drawn.at(i, j, k)];
      of_mean[at] = sum / static_cast<double>(drawn.b);
    });
    check("gradient of a mean", host(std::get<0>(mtf::gradients(mtf::reduce_sum(mean * weights), x))), of_mean);
    // x / sqrt(mean of x^2 + epsilon), also of rows of zeros; d y_j / d x_l = (r - x_j x_l r^3 / n), r = 1 / sqrt(...).
    const mtf::RmsNorm<World, double, B> norm(world, "norm", b_dim);
    const auto y = norm(x);
    Host normed(drawn.x.size()), of_norm(drawn.x.size());
    drawn.for_each([&](auto i, auto, auto k, std::size_t at) {
      double squares = 0, dot = 0;
      for (std::int64_t j = 0; j < drawn.b; ++j) {
        const std::size_t other = drawn.at(i, j, k);
        squares += drawn.x[other] * drawn.x[other];
        dot += drawn.x[other] * drawn.weights[other];
      }
      const double r = 1 / std::sqrt(squares / static_cast<double>(drawn.b) + 1e-6);
      normed[at] = drawn.x[at] * r;
      of_norm[at] = r * drawn.weights[at] - drawn.x[at] * r * r * r * dot / static_cast<double>(drawn.b);
    });
    check("norm", host(y), normed);
    // What position i of a sequence sees: those up to itself.
    Host seen;
    for (std::int64_t i = 0; i < drawn.a; ++i) {
      for (std::int64_t j = 0; j < drawn.b; ++j) seen.push_back(j <= i ? 0 : -1e9);
    }
    check("causal mask", host(mtf::causal_mask<double>(world, a_dim, b_dim)), seen);
    check("gradient of the norm", host(std::get<0>(mtf::gradients(mtf::reduce_sum(y * weights), x))), of_norm);
    CHECK(world.verify_replicas());
  }
}
