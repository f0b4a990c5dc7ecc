// Gradients of bfloat16 are added in float, whatever adds them: a sum that is rounded after every term stands still when
// it is 256 times as large as they are.
#include "support.hpp"

using namespace support;

namespace {

using Bf = mtf::bfloat16;  // cblas.h has a bfloat16 of its own
using Mixed = mtf::ElementTypes<float, float, Bf>;
constexpr double rounding = 1.0 / 256;  // of a number to bfloat16, relative: half the distance of neighbours

/// Positive numbers, so that sums grow.
template <class T, class... Dims>
auto positive(World& world, std::uint64_t number, const Dims&... dims) {
  return mtf::cast<T>(mtf::random_uniform_of<Bf>(world, mtf::seed{number} / "positive", 0.5, 1.5, dims...));
}
/// The gradient of variable i as an optimizer of T takes it.
template <class T = float>
Host for_update(World& world, const mtf::VariableGradients& gradients, std::size_t i) {
  const auto value = mtf::untyped::as_slice<World::engine_type, T, Bf>(world.engine(), gradients.value(i));
  const auto elements = mtf::detail::gather_to_host<T>(world.engine(), *value);
  return {elements.begin(), elements.end()};
}
/// Whether the sums over ranks of this world leave a gradient whose terms go with `dim` to be sent.
bool is_split(const World& world, const char* dim) { return !world.engine().rules.axes_of(dim).empty(); }

/// What f gives in double on one rank must be what it gives in bfloat16 here: within the rounding of terms that are made
/// in bfloat16, and of parts and sum where those are sent.
template <class F>
void check_gradient(const char* name, std::initializer_list<std::string_view> layouts, const F& f) {
  for_each_layout(layouts, [&](const Pair& pair) {
    Expected& expected = pair.expected[name];
    if (expected.results.empty()) expected.results.push_back(host(f(pair.alone, std::type_identity<double>{})));
    const auto gradient = f(pair.world, std::type_identity<Bf>{});
    check_close(host(gradient), expected.results[0], 3 * rounding, fmt::format("{}, {}", name, pair.place));
  });
}

}  // namespace

TEST_CASE("bfloat16 gradients: a tensor that is used 300 times, in products, by itself and through broadcasts") {
  check_gradient("used often", {"", "a:rows", "k:cols"}, []<class T>(World& w, std::type_identity<T>) {
    const auto x = mtf::watch(positive<T>(w, 1, a, k));
    const auto one = positive<T>(w, 2, a, k);
    auto sum = mtf::reduce_sum(x * one);
    for (int i = 0; i < 299; ++i) sum = sum + mtf::reduce_sum(x * one);
    return std::get<0>(mtf::gradients(sum, x));
  });
  check_gradient("tied weights", {"", "a:rows", "k:cols", "a:rows;k:cols"},
                 []<class T>(World& w, std::type_identity<T>) {
                   const auto x = positive<T>(w, 1, a, k);
                   const auto weights = mtf::watch(positive<T>(w, 2, k, b));
                   auto sum = mtf::reduce_sum(mtf::einsum<A, B>(x, weights));
                   for (int i = 0; i < 299; ++i) sum = sum + mtf::reduce_sum(mtf::einsum<A, B>(x, weights));
                   return std::get<0>(mtf::gradients(sum, weights));
                 });
}

TEST_CASE("bfloat16 gradients: a lookup of 1000 equal ids, a bias of 100,000 rows, a scalar of all elements") {
  check_gradient("lookup", {"", "c:rows", "v:cols", "c:rows;v:cols"}, []<class T>(World& w, std::type_identity<T>) {
    const auto table = mtf::watch(positive<T>(w, 1, v, b));
    const auto ids = mtf::constant<std::int32_t>(w, 3, C{1000});
    return std::get<0>(
        mtf::gradients(mtf::reduce_sum(mtf::gather<V>(table, ids) * positive<T>(w, 2, C{1000}, b)), table));
  });
  check_gradient("bias", {"", "c:rows", "k:cols"}, []<class T>(World& w, std::type_identity<T>) {
    const C rows{100000 / 8 * 8};
    const auto bias = mtf::watch(positive<T>(w, 1, K{8}));
    const auto x = positive<T>(w, 2, rows, K{8});
    return std::get<0>(mtf::gradients(mtf::reduce_sum((x + bias) * x), bias));
  });
  check_gradient("middle", {"", "c:rows", "k:cols"}, []<class T>(World& w, std::type_identity<T>) {
    const auto bias = mtf::watch(positive<T>(w, 1, B{8}, K{8}));
    const auto x = positive<T>(w, 2, B{8}, C{2000}, K{8});
    return std::get<0>(mtf::gradients(mtf::reduce_sum((x + bias) * x), bias));
  });
}

TEST_CASE("bfloat16 gradients: shares that come back to one element from slices, stacks, casts and functions") {
  check_gradient("slices", {"", "a:rows", "k:cols"}, []<class T>(World& w, std::type_identity<T>) {
    const auto x = mtf::watch(positive<T>(w, 1, a, k));
    const auto weight = positive<T>(w, 2, A{8}, K{16});
    auto sum = mtf::reduce_sum(mtf::slice<K>(x, 0, K{16}) * weight);
    for (int i = 0; i < 299; ++i) sum = sum + mtf::reduce_sum(mtf::slice<K>(x, i % 9, K{16}) * weight);
    return std::get<0>(mtf::gradients(sum, x));
  });
  check_gradient("casts", {"", "a:rows"}, []<class T>(World& w, std::type_identity<T>) {
    const auto x = mtf::watch(positive<T>(w, 1, a, k));
    const auto weight = positive<float>(w, 2, a, k);
    auto sum = mtf::reduce_sum(mtf::cast<float>(x) * weight);
    for (int i = 0; i < 299; ++i) sum = sum + mtf::reduce_sum(mtf::cast<float>(x) * weight);
    const auto same = mtf::reduce_sum(mtf::cast<double>(x) * mtf::cast<double>(weight));
    return std::get<0>(mtf::gradients(mtf::cast<double>(sum) + same, x));
  });
  check_gradient("functions", {"", "a:rows", "k:cols"}, []<class T>(World& w, std::type_identity<T>) {
    const auto x = mtf::watch(positive<T>(w, 1, a, k));
    const auto weight = positive<T>(w, 2, a, k);
    auto sum = mtf::reduce_sum(x * weight);
    for (int i = 0; i < 150; ++i) {
      sum = sum +
            mtf::recompute([](const auto& y, const auto& z) { return mtf::reduce_sum(y * z) + mtf::reduce_sum(y * z); },
                           x, weight);
      sum = sum + mtf::custom_gradient([](const auto& y, const auto& z) { return mtf::reduce_sum(y * z); },
                                       [](const auto& dy, const auto&, const auto&, const auto& z) {
                                         return std::tuple(dy * z, mtf::no_gradient{});
                                       },
                                       x, weight);
    }
    return std::get<0>(mtf::gradients(sum, x));
  });
}

TEST_CASE("bfloat16 gradients: hundreds and thousands of parts of a batch, and outputs that are summed") {
  for (const std::int64_t count : {512, 4096}) {
    for_each_layout({"", "a:rows", "b:cols", "a:rows;b:cols"}, [&](const Pair& pair) {
      World w(MPI_COMM_WORLD,
              {.mesh = fmt::format("rows:{};cols:{}", pair.world.mesh().axes[0].size, pair.world.mesh().axes[1].size),
               .layout = pair.place.substr(pair.place.find("layout ") + 7)});
      const A part{8};
      const A all{8 * count};
      const auto weights = mtf::variable<Mixed>(w, "w", mtf::init::ones, B{8});
      const auto x = positive<Bf>(w, 3, all, B{8});
      const auto [gradients, loss, columns] = mtf::serialize_training_step(
          w, part,
          [&](mtf::Microbatch, const auto& rows) {
            const auto y = rows * weights;
            return std::tuple(mtf::reduce_sum(mtf::cast<float>(y)), mtf::reduce_sum<A>(y));
          },
          x);
      const Host exact = host(mtf::reduce_sum<A>(mtf::cast<double>(x)));
      // The terms are exact here, so that float is, save for its own rounding; parts that are sent are rounded.
      const double bound = is_split(w, "a") && w.mesh().axes[0].size > 1 ? 2 * rounding : 1e-6;
      check_close(for_update(w, gradients, 0), exact, bound, pair.place + ", gradient");
      check_close(host(columns), exact, 3 * rounding, pair.place + ", output");
    });
  }
}

TEST_CASE("bfloat16 gradients: added by the user, pending or not in turns") {
  World w(MPI_COMM_WORLD, {.mesh = mesh_text(ranks(), 1), .layout = "a:rows"});
  const auto weights = mtf::variable<Mixed>(w, "w", mtf::init::ones, B{8});
  const auto wide = mtf::variable<mtf::ElementTypes<double, double, Bf>>(w, "wide", mtf::init::ones, B{8});
  const auto split = positive<Bf>(w, 1, a, B{8});
  const auto whole = positive<Bf>(w, 2, C{5}, B{8});
  mtf::VariableGradients pending, turns;
  for (int i = 0; i < 1000; ++i) {
    const auto of_split = mtf::gradients_of_variables(
        w, mtf::cast<float>(mtf::reduce_sum(split * weights) + mtf::reduce_sum(split * wide)));
    pending += of_split;
    turns += of_split;
    turns += mtf::gradients_of_variables(
        w, mtf::cast<float>(mtf::reduce_sum(whole * weights) + mtf::reduce_sum(whole * wide)));
  }
  Host of_split = host(mtf::reduce_sum<A>(mtf::cast<double>(split)));
  const Host of_whole = host(mtf::reduce_sum<C>(mtf::cast<double>(whole)));
  Host both;
  for (std::size_t i = 0; i < of_split.size(); ++i) {
    of_split[i] *= 1000;
    both.push_back(of_split[i] + 1000 * of_whole[i]);
  }
  check_close(for_update(w, pending, 0), of_split, ranks() > 1 ? 2 * rounding : 1e-6, "pending");
  check_close(for_update(w, turns, 0), both, ranks() > 1 ? 2 * rounding : 1e-6, "in turns");
  check_close(for_update<double>(w, turns, 1), both, ranks() > 1 ? 2 * rounding : 1e-6, "for double");
}

TEST_CASE("bfloat16 gradients: an optimizer takes what was summed in float") {
  World w(MPI_COMM_WORLD, {.mesh = mesh_text(1, ranks()), .layout = "k:cols"});
  const auto weights = mtf::variable<Mixed>(w, "w", mtf::init::zeros, k);
  const auto x = positive<Bf>(w, 5, C{3001}, k);
  const auto gradients = mtf::gradients_of_variables(w, mtf::reduce_sum(x * weights));
  CHECK(gradients.value(0)->block->wide);
  mtf::Sgd<World, float>(w).apply(gradients, 1.0);
  const Host exact = host(mtf::reduce_sum<C>(mtf::cast<double>(x)));
  const auto got = mtf::detail::gather_to_host<float>(w.engine(), *weights.state().slice());
  bool beyond = false;  // what bfloat16 can hold
  for (std::size_t i = 0; i < got.size(); ++i) {
    CHECK(std::abs(static_cast<double>(got[i]) + exact[i]) <= exact[i] * 1e-7);
    beyond = beyond || static_cast<float>(Bf(got[i])) != got[i];
  }
  CHECK(beyond);
  // Momentum and Adam read the same memory.
  const auto again = mtf::gradients_of_variables(w, mtf::reduce_sum(x * weights));
  mtf::Adam<World, float>(w).apply(again, 0.5);
  CHECK(again.value(0)->block->wide);
  // Asked for as a tensor of bfloat16 it is rounded.
  const auto [tensor] = mtf::gradients(mtf::reduce_sum(x * weights), weights);
  check_close(host(tensor), exact, rounding, "tensor");
}

TEST_CASE("bfloat16 gradients: a dry run makes and rounds the same sums in the same memory") {
  const auto program = [](auto& world) {
    using W = std::remove_reference_t<decltype(world)>;
    const auto weights = mtf::variable<Mixed>(world, "w", mtf::init::ones, K{24}, B{16});
    const auto scale = mtf::variable<Mixed>(world, "scale", mtf::init::ones, B{16});
    const auto x = mtf::random_normal_of<Bf>(world, mtf::seed{3} / "x", 0, 1, A{32}, K{24});
    mtf::Adam<W, float> adam(world);
    const auto [gradients, loss] = mtf::serialize_training_step(
        world, A{8},
        [&](mtf::Microbatch part, const auto& rows) {
          const auto h = mtf::einsum<A, B>(rows, weights);
          const auto y = mtf::tanh(h * scale) + h * 0.5;
          return mtf::reduce_sum(mtf::cast<float>(y * y)) / part.count;
        },
        x);
    adam.apply(gradients, 0.1);
  };
  for (const std::string& mesh : meshes()) {
    for (const char* layout : {"", "a:rows", "k:cols", "a:rows;b:cols"}) {
      mtf::DryRun<mtf::dynamic_mesh, mtf::dynamic_layout> dry({.mesh = mesh, .layout = layout});
      World world(MPI_COMM_WORLD, {.mesh = mesh, .layout = layout});
      dry.start_tracing();
      world.start_tracing();
      program(dry);
      program(world);
      check_same_work(world.records(), dry.records(), fmt::format("mesh {}, layout {}", mesh, layout));
    }
  }
}
