// The search of layouts: its legality against what a dry run refuses, its answer against plain enumeration, and against
// the known costs of two fully-connected layers and of the Transformer's layouts.
#include <algorithm>
#include <array>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <mtf/io/layout_report.hpp>
#include <mtf/model.hpp>

namespace {

using mtf::Name;
using Choices = std::vector<std::vector<mtf::AxisSet>>;

struct B : mtf::Dim<"b"> {};
struct I : mtf::Dim<"i"> {};
struct H : mtf::Dim<"h"> {};
struct O : mtf::Dim<"o"> {};
struct K : mtf::Dim<"k"> {};
struct J : mtf::Dim<"j"> {};
struct W : mtf::Dim<"w"> {};
struct S : mtf::Dim<"s"> {};
struct P : mtf::Dim<"p"> {};
struct M : mtf::Dim<"m"> {};

mtf::MeshValue mesh_of(std::initializer_list<std::int64_t> sizes) {
  constexpr std::string_view names[]{"rows", "cols", "planes"};
  mtf::MeshValue mesh;
  for (const std::int64_t size : sizes) mesh.axes.push_back({Name(names[mesh.axes.size()]), size});
  return mesh;
}

/// Every assignment of a set of axes to each dim, in no clever order.
void each_assignment(const std::vector<Name>& dims, const mtf::MeshValue& mesh, bool several,
                     const std::function<void(const mtf::LayoutValue&)>& visit) {
  std::vector<mtf::AxisSet> sets{{}};
  for (std::uint32_t bits = 1; bits < 1U << mesh.rank(); ++bits) {
    if (several || (bits & (bits - 1)) == 0) sets.push_back({bits});
  }
  std::size_t total = 1;
  for (std::size_t i = 0; i < dims.size(); ++i) total *= sets.size();
  for (std::size_t number = 0; number < total; ++number) {
    mtf::LayoutValue layout;
    std::size_t rest = number;
    for (const Name& dim : dims) {
      const mtf::AxisSet set = sets[rest % sets.size()];
      rest /= sets.size();
      mtf::Rule rule;
      rule.dim = dim;
      for (int axis = 0; axis < mesh.rank(); ++axis) {
        if (set.has(axis)) rule.axes.push_back(mesh.axes[axis].name);
      }
      if (!rule.axes.empty()) layout.rules.push_back(rule);
    }
    visit(layout);
  }
}

/// The cost of a step under a layout, or nothing if it is refused.
template <class Step>
bool cost_of(const Step& step, const mtf::MeshValue& mesh, const mtf::LayoutValue& layout, mtf::Cost& cost) {
  mtf::Violations violations;
  const mtf::PlacementRules rules = mtf::resolve(layout, mesh, violations);
  REQUIRE(violations.empty());
  try {
    cost = mtf::cost(rules, step);
  } catch (const mtf::plan_error&) {
    return false;
  }
  return true;
}

std::vector<Name> dims_of(const mtf::Survey& survey) {
  std::vector<Name> names;
  for (const mtf::SurveyedDim& dim : survey.dims) names.push_back(dim.name);
  return names;
}

std::string text(const mtf::LayoutValue& layout) { return mtf::detail::text_of(layout); }

/// The search against enumeration by dry runs: the number of legal layouts, and the best four up to mirror images.
template <class Step>
void check_against_enumeration(const Step& step, const mtf::MeshValue& mesh, const mtf::SearchOptions& options) {
  const mtf::LayoutSearch found = mtf::search_layout(step, mesh, options);
  CHECK(found.counts.refused == 0);  // legality was decided before
  std::vector<double> objectives;
  double legal = 0;
  double candidates = 0;
  each_assignment(dims_of(mtf::survey_step(step, mesh)), mesh, options.several_axes,
                  [&](const mtf::LayoutValue& layout) {
                    ++candidates;
                    mtf::Cost cost;
                    if (!cost_of(step, mesh, layout, cost)) return;
                    ++legal;
                    if (cost.peak_memory() <= options.memory_cap)
                      objectives.push_back(mtf::value_of(cost, options.objective, options.machine));
                  });
  std::sort(objectives.begin(), objectives.end());
  CHECK(found.counts.candidates == candidates);
  CHECK(found.counts.legal == legal);
  CHECK(found.best().value.objective == objectives.front());
  CHECK(found.best().value.objective == mtf::value_of(found.best().cost, options.objective, options.machine));
  CHECK(found.best().cost.peak_memory() <= options.memory_cap);

  mtf::SearchOptions everything = options;
  everything.exhaustive = true;
  const mtf::LayoutSearch all = mtf::search_layout(step, mesh, everything);
  CHECK(all.counts.evaluated == static_cast<std::int64_t>(legal));
  REQUIRE(all.layouts.size() == found.layouts.size());
  for (std::size_t i = 0; i < all.layouts.size(); ++i) {
    CHECK(text(all.layouts[i].layout) == text(found.layouts[i].layout));
    CHECK(all.layouts[i].value.objective == found.layouts[i].value.objective);
  }
}

/// y = relu(x w) v and its training, all operands variables so that x's gradient is made too.
struct TwoLayers {
  std::int64_t batch, io, hidden;

  void operator()(auto& world) const {
    const B b{batch};
    const I i{io};
    const H h{hidden};
    auto x = mtf::variable<float>(world, "x", mtf::init::zeros, b, i);
    auto w = mtf::variable<float>(world, "w", mtf::init::zeros, i, h);
    auto v = mtf::variable<float>(world, "v", mtf::init::zeros, h, i);
    auto y = mtf::einsum<B, I>(mtf::relu(mtf::einsum<B, H>(x, w)), v);
    mtf::Sgd<std::remove_reference_t<decltype(world)>, float> sgd(world);
    sgd.apply(mtf::gradients_of_variables(world, mtf::reduce_mean(mtf::square(y))), 0.1);
  }
};

/// A program put together at random: each bit adds operations.
struct Random {
  unsigned pieces;
  std::int64_t batch, inputs, hidden, outputs;

  void operator()(auto& world) const {
    using World = std::remove_reference_t<decltype(world)>;
    const B b{batch};
    const I i{inputs};
    const H h{hidden};
    const O o{outputs};
    auto x = mtf::variable<float>(world, "x", mtf::init::zeros, b, i);
    auto w = mtf::variable<float>(world, "w", mtf::init::zeros, i, h);
    auto u = mtf::variable<float>(world, "u", mtf::init::zeros, h, o);
    mtf::Tensor<World, float, B, H> y = mtf::einsum<B, H>(x, w);
    mtf::Tensor<World, float> loss = mtf::reduce_mean(mtf::square(y));
    if ((pieces & 1U) != 0) loss = loss + mtf::reduce_mean(mtf::square(mtf::einsum<B, O>(mtf::relu(y), u)));
    if ((pieces & 2U) != 0) loss = loss + mtf::reduce_mean(mtf::softmax<H>(y) * y);
    if ((pieces & 4U) != 0) loss = loss + mtf::reduce_mean(mtf::einsum<I, O>(x, y, u));
    if ((pieces & 8U) != 0) loss = loss + mtf::reduce_max(mtf::reduce_sum<B>(x));
    if ((pieces & 16U) != 0)
      loss = loss + mtf::reduce_mean(
                        mtf::square(mtf::reshape(y, K{batch * hidden}) + mtf::ones<float>(world, K{batch * hidden})));
    if ((pieces & 32U) != 0)
      loss = loss + mtf::reduce_mean(mtf::square(mtf::rename<H, J>(y) + mtf::ones<float>(world, J{hidden})));
    if ((pieces & 64U) != 0) loss = loss + mtf::reduce_mean(mtf::square(mtf::einsum<I, H>(x, y) + w));
    auto [dw, dx] = mtf::gradients(loss, w, x);
    w.assign_sub(dw);
    x.assign_sub(dx);
  }
};

/// Einsums of three to five operands, whose best order depends on what is split: equal products of unsplit dims.
struct Chains {
  std::int64_t batch, inputs, hidden, outputs;

  void operator()(auto& world) const {
    const B b{batch};
    const I i{inputs};
    const H h{hidden};
    const O o{outputs};
    auto x = mtf::variable<float>(world, "x", mtf::init::zeros, b, i);
    auto w = mtf::variable<float>(world, "w", mtf::init::zeros, i, h);
    auto u = mtf::variable<float>(world, "u", mtf::init::zeros, h, o);
    auto scale = mtf::variable<float>(world, "scale", mtf::init::zeros, h);
    auto loss = mtf::reduce_mean(mtf::square(mtf::einsum<B, O>(x, w, u))) +
                mtf::reduce_mean(mtf::einsum<B, O>(x, w, scale, u, scale)) +
                mtf::reduce_mean(mtf::einsum<B>(mtf::einsum_order::as_written, x, w, scale));
    mtf::Sgd<std::remove_reference_t<decltype(world)>, float> sgd(world);
    sgd.apply(mtf::gradients_of_variables(world, loss), 0.1);
  }
};

struct N : mtf::Dim<"n"> {};

/// Microbatches, gathers and selections.
struct Selecting {
  std::int64_t batch, words, units;

  void operator()(auto& world) const {
    const B b{batch};
    const N n{words};
    const M m{units};
    auto table = mtf::variable<float>(world, "table", mtf::init::zeros, n, m);
    auto ids = mtf::placeholder<std::int32_t>(world, b);
    mtf::Sgd<std::remove_reference_t<decltype(world)>, float> sgd(world);
    const auto part = [&](mtf::Microbatch microbatch, const auto& some_ids) {
      return mtf::reduce_mean(mtf::square(mtf::cumsum<M>(mtf::gather<N>(table, some_ids)))) / microbatch.count;
    };
    auto [gradients, loss] = mtf::serialize_training_step(world, B{batch / 2}, part, mtf::unused::error, ids);
    (void)loss;
    sgd.apply(gradients, 0.1);
    auto hot = mtf::one_hot<float>(ids, n);
    (void)mtf::sort<N>(hot);
    (void)mtf::top_k<N>(hot, K{2});
    (void)mtf::concat<N>(N{2 * words + 1}, hot, mtf::zeros<float>(world, b, N{words + 1}));
  }
};

/// Operations with a legality of their own: windows, halos, reshapes, microbatches, selections.
struct Many {
  std::int64_t batch, space, channels;

  void operator()(auto& world) const {
    const B b{batch};
    const S s{space};
    const I i{channels};
    auto x = mtf::placeholder<float>(world, b, s, i);
    auto filter = mtf::variable<float>(world, "filter", mtf::init::zeros, W{3}, i, O{4});
    auto y = mtf::convolution<mtf::Spatial<S, W, P>>(x, filter);
    auto z = mtf::softmax<O>(mtf::reduce_sum<P>(y));
    auto loss = mtf::reduce_mean(mtf::square(z));
    mtf::Sgd<std::remove_reference_t<decltype(world)>, float> sgd(world);
    sgd.apply(mtf::gradients_of_variables(world, loss), 0.1);
    auto wide = mtf::reshape(x, K{space * channels}, b);
    auto half = mtf::slice<K>(wide, 0, K{space * channels / 2});
    (void)mtf::argmax<K>(half);
    (void)mtf::halo_exchange<B, J>(mtf::reshape(wide, b, J{space * channels}), 1);
  }
};

}  // namespace

TEST_CASE("the legality that one run without rules tells is that of every layout") {
  // Every assignment of axes to dims is legal by the survey if and only if the dry run takes it.
  const auto check = [](const auto& step, const mtf::MeshValue& mesh, bool several) {
    const mtf::Survey survey = mtf::survey_step(step, mesh);
    mtf::SpaceOptions options;
    options.several_axes = several;
    const mtf::LayoutSpace space(survey, mesh, options);
    std::vector<std::string> legal;
    struct Collect {
      const mtf::LayoutSpace& space;
      std::vector<std::string>& texts;
      bool enter(const mtf::Splits&) const { return true; }
      void leaf(const mtf::Splits& splits) { texts.push_back(text(space.layout(splits))); }
    } collect{space, legal};
    mtf::Splits splits;
    mtf::walk(space, survey, splits, collect);
    std::vector<std::string> taken;
    each_assignment(dims_of(survey), mesh, several, [&](const mtf::LayoutValue& layout) {
      mtf::Cost cost;
      if (cost_of(step, mesh, layout, cost)) taken.push_back(text(layout));
    });
    std::sort(legal.begin(), legal.end());
    std::sort(taken.begin(), taken.end());
    CHECK(legal == taken);
    CHECK(legal.size() > 1);
  };
  for (const bool several : {false, true}) {
    check(TwoLayers{8, 12, 24}, mesh_of({2, 4}), several);
    check(TwoLayers{6, 4, 9}, mesh_of({2, 3}), several);
  }
  check(Selecting{12, 8, 6}, mesh_of({2, 3}), false);
  check(Selecting{12, 9, 6}, mesh_of({3, 2}), true);
  check(Many{8, 16, 4}, mesh_of({2}), false);
  check(Many{4, 12, 8}, mesh_of({4, 2}), false);
  check(Many{6, 10, 4}, mesh_of({3, 2}), false);
}

TEST_CASE("no layout of a step undercuts its lower bound") {
  const auto check = [](const auto& step, const mtf::MeshValue& mesh, bool is_exact) {
    const mtf::Survey survey = mtf::survey_step(step, mesh);
    mtf::SpaceOptions options;
    options.several_axes = true;
    const mtf::LayoutSpace space(survey, mesh, options);
    struct Compare {
      const mtf::LayoutSpace& space;
      const mtf::Survey& survey;
      const decltype(step)& run;
      bool is_exact = false;
      int met = 0;
      bool enter(const mtf::Splits&) const { return true; }
      void leaf(const mtf::Splits& splits) {
        const mtf::LowerBound least = space.bound(survey, splits);
        const mtf::Cost bound = mtf::cost_at_least(space.mesh, least);
        const mtf::Cost cost = mtf::cost(space.rules(splits), run);
        CHECK(bound.multiply_adds() <= cost.multiply_adds());
        if (is_exact) CHECK(bound.multiply_adds() == cost.multiply_adds());  // as all dims are decided
        REQUIRE(!bound.contraction_costs.empty());
        CHECK(bound.contraction_costs[0].count == cost.contraction_costs[0].count);
        const auto& work = cost.work_costs[mtf::detail::find_work(cost, "contract")];
        CHECK(bound.work_costs[0].bytes <= work.bytes);
        CHECK(least.persistent == cost.persistent_memory());
        CHECK(least.persistent <= cost.peak_memory());
        CHECK(mtf::estimate(bound, {}).at_most() <= mtf::estimate(cost, {}).at_most());
        ++met;
      }
    } compare{space, survey, step, is_exact};
    mtf::Splits splits;
    mtf::walk(space, survey, splits, compare);
    CHECK(compare.met > 5);
  };
  check(TwoLayers{8, 12, 24}, mesh_of({2, 2, 3}), true);
  check(TwoLayers{6, 4, 9}, mesh_of({2, 3}), true);
  // The order in which three or more operands are multiplied depends on the layout.
  check(Chains{8, 8, 8, 8}, mesh_of({2, 4}), false);
  check(Chains{12, 6, 9, 12}, mesh_of({2, 3}), false);
}

TEST_CASE("what is illegal is said by name") {
  const mtf::LayoutSearch found = mtf::search_layout(Many{8, 10, 4}, mesh_of({4}));
  const auto says = [&](const std::string& reason) {
    return std::find(found.reasons.begin(), found.reasons.end(), reason) != found.reasons.end();
  };
  CHECK(says("dim \"w\" cannot be split: convolution needs it whole"));
  CHECK(says("dim \"j\" cannot be split: halo_exchange needs it whole"));
  CHECK(says("dim \"s\" has extent 10: axis \"rows\" of size 4 does not divide it"));
  CHECK(says("dim \"o\" and \"s\"") == false);
  CHECK(says("dims \"b\" and \"i\" meet in placeholder: no axis may split both"));
  CHECK(says("dims \"i\" and \"o\" meet in variable: no axis may split both"));
  // k has the extents 40 and 20, of which 8 divides one.
  const mtf::LayoutSearch eight = mtf::search_layout(Many{8, 10, 4}, mesh_of({8}));
  CHECK(std::find(eight.reasons.begin(), eight.reasons.end(),
                  "dim \"k\" has extents 40, 20: axis \"rows\" of size 8 does not divide all of them") !=
        eight.reasons.end());
}

TEST_CASE("what is not split, and why, is said") {
  // No number of the step can be divided by 3, 5 or 7.
  for (const std::int64_t ranks : {3, 5, 7}) {
    const mtf::LayoutSearch found = mtf::search(Many{8, 16, 4}, ranks, {.axis_names = {"rows", "cols"}});
    CAPTURE(ranks);
    CHECK(found.best().layout.rules.empty());
    REQUIRE(found.idle.size() == 2);
    CHECK(found.idle[0] ==
          fmt::format("nothing is split: each of the {} processors holds everything and does all the work", ranks));
    CHECK(found.idle[1].starts_with(
        fmt::format("axis \"rows\" of size {} splits nothing: it does not divide the extents of ", ranks)));
    CHECK(found.idle[1].find("\"s\" (16)") != std::string::npos);
    CHECK(found.idle[1].find("needed whole are ") != std::string::npos);
    const std::string report = mtf::report(found);
    for (const std::string& sentence : found.idle)
      CHECK(report.find("\nnote: " + sentence + "\n") != std::string::npos);
  }
  // One axis of two.
  const mtf::LayoutSearch six =
      mtf::search_layout(Many{8, 16, 4}, mesh_of({2, 3}), {.objective = mtf::Objective::peak_memory});
  CHECK_FALSE(six.best().layout.rules.empty());
  REQUIRE(six.idle.size() == 1);
  CHECK(six.idle[0].starts_with("axis \"cols\" of size 3 splits nothing: it does not divide the extents of "));
  // What could be split, but had better not.
  const mtf::LayoutSearch dear =
      mtf::search_layout(Many{8, 16, 4}, mesh_of({2}), {.objective = mtf::Objective::wire_bytes});
  if (dear.best().layout.rules.empty()) {
    REQUIRE(dear.idle.size() == 2);
    CHECK(dear.idle[1].find("costs more, for ") != std::string::npos);
  }
  // Everything is used; one processor has nothing to split.
  CHECK(mtf::search_layout(Many{8, 16, 4}, mesh_of({2}), {.objective = mtf::Objective::peak_memory}).idle.empty());
  CHECK(mtf::search(Many{8, 16, 4}, 1).idle.empty());
}

TEST_CASE("names of options that the step lacks are met with those that may be meant") {
  CHECK_THROWS_WITH_AS((void)mtf::search_layout(Many{8, 16, 4}, mesh_of({2}), {.axes = {"rosw"}}),
                       doctest::Contains("\"rosw\" (did you mean \"rows\"?)"), mtf::plan_error);
  CHECK_THROWS_WITH_AS((void)mtf::search_layout(Many{8, 16, 4}, mesh_of({2}), {.fixed = "b:rosw"}),
                       doctest::Contains("axis \"rosw\" (did you mean \"rows\"?)"), mtf::plan_error);
}

TEST_CASE("branch and bound finds what an exhaustive search finds, for any values above the bound") {
  std::mt19937 random(7);
  const auto below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  constexpr const char* names[]{"a", "b", "c", "d", "e", "f"};
  for (int round = 0; round < 200; ++round) {
    mtf::Survey survey;
    const int count = 2 + below(5);
    std::vector<std::int64_t> extents;
    for (int i = 0; i < count; ++i) extents.push_back(std::int64_t{1} << below(6));
    const auto draw = [&] {
      mtf::ShapeValue shape;
      for (int i = 0; i < count; ++i) {
        if (below(2) == 0) shape.push_back({Name(names[i]), extents[static_cast<std::size_t>(i)]});
      }
      return shape;
    };
    mtf::PlacementRules none;
    none.mesh = mesh_of({2, 4, 2});
    for (int i = 0; i < 3; ++i) {
      const mtf::ShapeValue a = draw();
      const mtf::ShapeValue b = draw();
      const mtf::ShapeValue c = draw();
      survey.meet("product", mtf::unite(mtf::unite(a, b), c));
      survey.contract(1024 * (1 + below(9)), mtf::ElementType::float32, place(none, c), place(none, a), place(none, b));
      survey.keep(place(none, a), mtf::ElementType::float32);
    }
    mtf::SpaceOptions options;
    options.several_axes = below(2) == 0;
    const mtf::LayoutSpace space(survey, none.mesh, options);
    const double weight = below(3) * 0.2;
    // Products as they are, and something more that the bound does not know, which depends on the layout in no
    // particular way.
    const auto products = [](const mtf::LowerBound& least) {
      return least.products.empty() ? 0.0 : static_cast<double>(least.products[0].multiply_adds);
    };
    const auto bound = [&](const mtf::Splits&, const mtf::LowerBound& least) { return products(least); };
    const auto value = [&](const mtf::Splits& splits) {
      const mtf::LowerBound exact = space.bound(survey, splits);
      std::uint64_t hash = 1;
      for (const mtf::AxisSet axes : splits) hash = hash * 31 + axes.bits;
      const double more = static_cast<double>(hash * 2654435761U % 1000) * weight;
      return mtf::Evaluation{products(exact) + more, exact.persistent + static_cast<std::int64_t>(hash % 64),
                             hash % 11 == 0};
    };
    const std::int64_t cap = below(3) == 0 ? 300 : std::numeric_limits<std::int64_t>::max();
    mtf::Ranking pruned;
    mtf::Ranking full;
    const mtf::SearchCounts fewer = mtf::branch_and_bound(space, survey, cap, false, 0, bound, value, pruned);
    const mtf::SearchCounts all = mtf::branch_and_bound(space, survey, cap, true, 0, bound, value, full);
    CHECK(fewer.evaluated <= all.evaluated);
    CHECK(fewer.legal == all.legal);
    CHECK(all.legal == static_cast<double>(all.evaluated));
    REQUIRE(pruned.layouts.size() == full.layouts.size());
    for (int i = 0; i < full.layouts.size(); ++i) CHECK(pruned.layouts[i].splits == full.layouts[i].splits);

    // The bound of a part of the space is never above the value of a layout in it.
    struct Below {
      const mtf::LayoutSpace& space;
      const mtf::Survey& survey;
      double least;
      std::int64_t memory;
      bool enter(const mtf::Splits&) const { return true; }
      void leaf(const mtf::Splits& splits) const {
        const mtf::LowerBound exact = space.bound(survey, splits);
        CHECK((exact.products.empty() ? 0.0 : static_cast<double>(exact.products[0].multiply_adds)) >= least);
        CHECK(exact.persistent >= memory);
      }
    };
    mtf::Splits first;
    if (!space.dims.empty()) {
      first.push_back(space.dims[0].choices[0]);
      const mtf::LowerBound least = space.bound(survey, first);
      Below visitor{space, survey, products(least), least.persistent};
      mtf::walk(space, survey, first, visitor);
    }
  }
}

TEST_CASE("the search finds what enumeration by dry runs finds, on random machines") {
  std::mt19937 random(11);
  const auto factor = [&] { return std::ldexp(1.0, static_cast<int>(random() % 9) - 4); };
  const auto extent = [&] { return std::int64_t{1} << (1 + random() % 5); };
  for (int round = 0; round < 12; ++round) {
    mtf::SearchOptions options;
    options.machine.float_multiply_adds_per_second *= factor() * 1e-3;
    options.machine.bytes_per_second *= factor();
    options.machine.seconds_per_operation *= factor();
    options.machine.any_axis = mtf::AxisSpeed("", 1e-6 * factor(), 1e9 * factor());
    options.machine.axes.push_back(mtf::AxisSpeed("cols", 1e-6 * factor(), 1e9 * factor()));
    options.several_axes = round % 3 == 0;
    if (round % 4 == 3) options.objective = round % 8 == 3 ? mtf::Objective::wire_bytes : mtf::Objective::peak_memory;
    check_against_enumeration(TwoLayers{extent(), 3 * extent(), extent()}, mesh_of({2, 2}), options);
    check_against_enumeration(TwoLayers{3 * extent(), extent(), extent()}, mesh_of({2, 3, 2}), options);
    if (round < 4) check_against_enumeration(Many{4 * extent(), 2 * extent(), 4}, mesh_of({2, 2}), options);
  }
}

TEST_CASE("the search finds what enumeration finds for random programs") {
  std::mt19937 random(13);
  const auto extent = [&] { return (1 + static_cast<std::int64_t>(random() % 3)) << (random() % 3); };
  for (int round = 0; round < 12; ++round) {
    const Random step{static_cast<unsigned>(random() % 128), extent(), extent(), extent(), extent()};
    CAPTURE(step.pieces);
    mtf::SearchOptions options;
    options.machine.float_multiply_adds_per_second = std::ldexp(1e6, static_cast<int>(random() % 12));
    if (round % 3 == 0) options.objective = mtf::Objective::wire_bytes;
    check_against_enumeration(step, mesh_of({2, 3}), options);
    options.several_axes = true;
    check_against_enumeration(step, mesh_of({2, 2}), options);
  }
}

TEST_CASE("the search finds what enumeration finds where layouts change the order of products") {
  std::mt19937 random(17);
  const auto extent = [&] { return (4 + 4 * static_cast<std::int64_t>(random() % 4)) << (random() % 3); };
  for (int round = 0; round < 8; ++round) {
    mtf::SearchOptions options;
    options.machine.float_multiply_adds_per_second = std::ldexp(1e6, static_cast<int>(random() % 12));
    check_against_enumeration(Chains{extent(), extent(), extent(), extent()}, mesh_of({2, 4}), options);
  }
}

TEST_CASE("two fully-connected layers: the batch or the hidden layer is split, as the slices are large") {
  // Products and wires only. Then comm/comp of batch:all is n/b, of hidden:all n/dh: one multiply-add takes one unit,
  // one float on the wire some more, and everything else nothing. The allreduces move 2 (n-1)/n of their payload.
  mtf::SearchOptions options;
  options.machine.float_multiply_adds_per_second = 1;
  options.machine.bytes_per_second = 1e300;
  options.machine.seconds_per_operation = 0;
  options.machine.any_axis = mtf::AxisSpeed("", 0, 4 / 8.0);  // a float takes as long as 8 multiply-adds
  options.dims = {"b", "h"};
  const auto best = [&](std::int64_t b, std::int64_t h, std::initializer_list<std::int64_t> mesh) {
    return mtf::search_layout(TwoLayers{b, 256, h}, mesh_of(mesh), options).best();
  };
  CHECK(text(best(512, 64, {8}).layout) == "\"b:rows\"");
  CHECK(text(best(64, 512, {8}).layout) == "\"h:rows\"");
  const std::int64_t io = 256;
  for (const std::int64_t b : {64, 512}) {
    const std::int64_t h = 576 - b;
    const mtf::FoundLayout found = best(b, h, {8});
    const double payload = static_cast<double>(2 * io * std::min(b, h));
    CHECK(found.value.objective ==
          doctest::Approx(static_cast<double>(6 * b * io * h / 8) + 8 * payload * 2 * 7 / 8).epsilon(1e-9));
  }

  // In two dims the payloads are 2 b dio / r over cols and 2 dio dh / c over rows. Over all meshes of 64 processors:
  for (const auto& [b, h] :
       {std::pair<std::int64_t, std::int64_t>{256, 4096}, {4096, 256}, {1024, 1024}, {128, 8192}}) {
    const auto seconds = [&](std::int64_t rows, std::int64_t cols) {
      const double over_cols =
          static_cast<double>(2 * b * io / rows) * 2 * static_cast<double>(cols - 1) / static_cast<double>(cols);
      const double over_rows =
          static_cast<double>(2 * io * h / cols) * 2 * static_cast<double>(rows - 1) / static_cast<double>(rows);
      return static_cast<double>(6 * b * io * h / (rows * cols)) + 8 * (over_cols + over_rows);
    };
    std::int64_t best_rows = 1;
    for (std::int64_t rows = 1; rows <= 64; rows *= 2) {
      if (seconds(rows, 64 / rows) < seconds(best_rows, 64 / best_rows)) best_rows = rows;
    }
    const mtf::LayoutSearch found = mtf::search(TwoLayers{b, io, h}, 64, options);
    CHECK(found.best().value.objective == doctest::Approx(seconds(best_rows, 64 / best_rows)).epsilon(1e-9));
    const mtf::PlacementRules rules = found.best().rules();
    CHECK(rules.mesh.size(mtf::set_of(rules.axes_of(Name("b")))) == best_rows);
    CHECK(rules.mesh.size(mtf::set_of(rules.axes_of(Name("h")))) == 64 / best_rows);
    CHECK(found.meshes == 6);  // 64; 32x2, 16x4, 8x8, 4x16, 2x32
  }
}

TEST_CASE("a memory cap chooses among layouts") {
  const TwoLayers step{16, 64, 64};
  mtf::SearchOptions options;
  options.objective = mtf::Objective::wire_bytes;
  const mtf::LayoutSearch free = mtf::search_layout(step, mesh_of({2, 2}), options);
  CHECK(free.best().layout.rules.empty());  // on one rank alone nothing is sent
  CHECK(free.best().value.objective == 0);
  for (std::int64_t cap = free.best().value.memory; cap > 0; cap -= 4096) {
    options.memory_cap = cap;
    options.objective = mtf::Objective::peak_memory;
    bool fits = false;
    try {
      fits = mtf::search_layout(step, mesh_of({2, 2}), options).best().value.memory <= cap;
    } catch (const mtf::plan_error&) {
      break;
    }
    CHECK(fits);
    options.objective = mtf::Objective::wire_bytes;
    check_against_enumeration(step, mesh_of({2, 2}), options);
  }
  CHECK(options.memory_cap < free.best().value.memory / 2);  // the loop got somewhere
}

TEST_CASE("where nothing is legal one exception lists every reason") {
  const TwoLayers step{16, 64, 64};
  const auto message = [&](const mtf::SearchOptions& options) -> std::string {
    try {
      (void)mtf::search_layout(step, mesh_of({2, 3}), options);
    } catch (const mtf::plan_error& error) {
      return error.what();
    }
    return {};
  };
  const std::string capped = message({.memory_cap = 1000});
  CHECK(capped.starts_with("mtf: search_layout on mesh \"rows:2;cols:3\": no layout is legal and fits:"));
  CHECK(capped.find("; the cap is 1000 bytes") != std::string::npos);
  CHECK(capped.find("dim \"b\" has extent 16: axis \"cols\" of size 3 does not divide it") != std::string::npos);
  CHECK(capped.find("dims \"b\" and \"h\" meet in einsum") != std::string::npos);
  // The smallest peak is named, and is one that the search finds as such.
  const mtf::FoundLayout least =
      mtf::search_layout(step, mesh_of({2, 3}), {.objective = mtf::Objective::peak_memory}).best();
  CHECK(capped.find("the smallest peak is " + std::to_string(least.value.memory) + " bytes, under " +
                    text(least.layout)) != std::string::npos);

  const std::string fixed = message({.fixed = "b:rows;h:rows;i:cols;z:cols;b:cols;o:planes"});
  for (const char* part :
       {"dims \"h\" and \"b\" meet in einsum", "dim \"i\" has extent 64", "names a dim that the step does not have",
        "two layout rules name the same dim", "\"planes\""}) {
    CAPTURE(part);
    CHECK(fixed.find(part) != std::string::npos);
  }
  CHECK(message({.dims = {"hiden"}}).find("\"hiden\", a dim that the step does not have") != std::string::npos);
  CHECK(message({.axes = {"planes"}}).find("\"planes\", an axis that the mesh does not have") != std::string::npos);
  CHECK(message({.fixed = "b"}).find("cannot be read") != std::string::npos);
  CHECK_THROWS_WITH_AS((void)mtf::search(step, 0), doctest::Contains("0 processors"), mtf::plan_error);
  // A step that is wrong without any rule says so itself.
  CHECK_THROWS_WITH_AS(
      (void)mtf::search_layout(
          [](auto& world) { (void)(mtf::placeholder<float>(world, B{2}) + mtf::placeholder<float>(world, B{3})); },
          mesh_of({2})),
      doctest::Contains("two extents"), mtf::plan_error);
}

TEST_CASE("fixed rules, dims and axes to consider") {
  const TwoLayers step{16, 64, 64};
  const mtf::LayoutSearch fixed = mtf::search_layout(step, mesh_of({2, 2}), {.fixed = "b:cols"});
  for (const mtf::FoundLayout& found : fixed.layouts) CHECK(text(found.layout).find("b:cols") != std::string::npos);
  // In the order of the rule, also against that of the mesh; an optional rule for an axis that is not there leaves the
  // dim free.
  CHECK(text(mtf::search_layout(step, mesh_of({2, 2}), {.fixed = "b:cols,rows"}).best().layout) == "\"b:cols,rows\"");
  CHECK(text(mtf::search_layout(step, mesh_of({2, 2}), {.dims = {"h"}, .fixed = "h:planes?;b:rows"}).best().layout)
            .find("h:cols") != std::string::npos);
  const mtf::LayoutSearch only = mtf::search_layout(step, mesh_of({2, 2}), {.dims = {"h"}, .axes = {"cols"}});
  CHECK(only.counts.candidates == 2);
  CHECK(text(only.best().layout) == "\"h:cols\"");
}

TEST_CASE("runners-up say what they lose by, in numbers that add up") {
  mtf::SearchOptions options;
  options.machine.seconds_per_operation = 0;
  const mtf::LayoutSearch found = mtf::search_layout(TwoLayers{512, 256, 64}, mesh_of({8}), options);
  REQUIRE(found.layouts.size() == 4);
  for (std::size_t i = 1; i < found.layouts.size(); ++i) {
    const mtf::FoundLayout& loser = found.layouts[i];
    CHECK(loser.loses_by.kind != mtf::CostTerm::Kind::none);
    CHECK(loser.loses_by.difference > 0);
    // The largest term, so at least its share of all that grew.
    CHECK(loser.loses_by.difference * 32 >= loser.value.objective - found.best().value.objective);
  }
  const mtf::FoundLayout& unsplit = *std::find_if(found.layouts.begin(), found.layouts.end(),
                                                  [](const mtf::FoundLayout& l) { return l.layout.rules.empty(); });
  CHECK(unsplit.loses_by.work == "contract");
  CHECK(unsplit.loses_by.amount == 8 * unsplit.loses_by.other_amount);
  const std::string report = mtf::report(found);
  CHECK(report.find("using Layout = " + mtf::type_text(found.best().layout) + ";") == 0);
  CHECK(report.find("contract") != std::string::npos);
  CHECK(mtf::type_text(mtf::Layout<mtf::Split<"b", "rows">, mtf::Split<"h", "cols", "planes">>::value()) ==
        "mtf::Layout<mtf::Split<\"b\", \"rows\">, mtf::Split<\"h\", \"cols\", \"planes\">>");
}
