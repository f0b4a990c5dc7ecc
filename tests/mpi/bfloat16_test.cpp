// Element types bfloat16 and bool in operations and collectives.
#include <limits>

#include "support.hpp"

using namespace support;

namespace {

using Bf = mtf::bfloat16;  // cblas.h has a bfloat16 of its own
using Wide = mtf::ElementTypes<float, float, mtf::bfloat16>;
const std::initializer_list<std::string_view> layouts{
    "", "a:rows", "k:cols", "a:rows;k:cols", "a:rows,cols", "k:rows,cols", "b:rows;a:cols", "a:cols;k:rows"};
constexpr double ulp = 1.0 / 256;  // half the distance of neighbours, relative

template <class... Dims>
auto numbers(World& world, std::uint64_t number, const Dims&... dims) {
  return mtf::random_normal_of<Bf>(world, mtf::seed{number} / "test", 0, 1, dims...);
}
float as_float(Bf x) { return x; }

/// Every rank's own numbers.
std::vector<Bf> own_numbers(std::size_t count, int rank) {
  std::vector<Bf> result(count);
  std::uint64_t state = 77U + static_cast<std::uint64_t>(rank) * 1000003U;
  for (Bf& x : result) {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    x = Bf(static_cast<double>(static_cast<std::int64_t>(state)) * 1e-18);
  }
  return result;
}

}  // namespace

TEST_CASE("MPI: allreduce and reduce-scatter of bfloat16: summed in float in the order of the ranks, rounded once") {
  World w(MPI_COMM_WORLD, {.mesh = mesh_text(1, ranks())});
  const mtf::Group& group = w.engine().communicators().along(mtf::AxisSet::of(1));
  for (const std::size_t count : {1U, 3U, 64U, 1000U}) {
    std::vector<std::vector<Bf>> all;
    for (int rank = 0; rank < ranks(); ++rank)
      all.push_back(own_numbers(count * static_cast<std::size_t>(ranks()), rank));
    const auto sum = [&](std::size_t i) {
      float total = 0;
      for (const auto& of_rank : all) total += of_rank[i];
      return Bf(total);
    };
    std::vector<Bf> data(all[static_cast<std::size_t>(w.rank())].begin(),
                         all[static_cast<std::size_t>(w.rank())].begin() + static_cast<std::ptrdiff_t>(count));
    (void)mtf::collectives::all_reduce(group, data.data(), static_cast<std::int64_t>(count), mtf::ElementType::bfloat16,
                                       mtf::Combine::sum);
    bool equal = true;
    for (std::size_t i = 0; i < count; ++i) equal = equal && data[i].bits == sum(i).bits;
    CHECK(equal);
    if (ranks() == 1) continue;
    std::vector<Bf> part(count);
    (void)mtf::collectives::reduce_scatter(group, all[static_cast<std::size_t>(w.rank())].data(), part.data(),
                                           static_cast<std::int64_t>(count), mtf::ElementType::bfloat16,
                                           mtf::Combine::sum);
    equal = true;
    for (std::size_t i = 0; i < count; ++i)
      equal = equal && part[i].bits == sum(static_cast<std::size_t>(w.rank()) * count + i).bits;
    CHECK(equal);
  }
}

TEST_CASE("maxima and minima of bfloat16 over ranks keep NaN and infinities") {
  for_each_layout(layouts, [&](const Pair& pair) {
    World& w = pair.world;
    if (!legal(w, mtf::Shape(a, k).value())) return;
    const float nan = std::numeric_limits<float>::quiet_NaN();
    const float infinity = std::numeric_limits<float>::infinity();
    std::vector<Bf> elements(8 * 24);
    for (std::size_t i = 0; i < elements.size(); ++i) elements[i] = Bf(static_cast<float>(i * 37 % 101) - 50.0F);
    elements[24 + 5] = Bf(nan);
    elements[48 + 23] = Bf(infinity);
    elements[72] = Bf(-infinity);
    elements[96 + 11] = Bf(1e-40F);  // a denormal among what follows
    for (std::size_t j = 0; j < 24; ++j) elements[120 + j] = j == 11 ? Bf(9.2e-41F) : Bf(0.0F);
    const auto x = mtf::from_global(w, elements, a, k);
    Host largest, smallest;
    for (std::size_t i = 0; i < 8; ++i) {
      double high = -HUGE_VAL, low = HUGE_VAL;
      for (std::size_t j = 0; j < 24; ++j) {
        const double e = static_cast<double>(as_float(elements[i * 24 + j]));
        high = std::isnan(e) || std::isnan(high) ? std::nan("") : std::max(high, e);
        low = std::isnan(e) || std::isnan(low) ? std::nan("") : std::min(low, e);
      }
      largest.push_back(high);
      smallest.push_back(low);
    }
    CHECK(difference(host(mtf::reduce_max<K>(x)), largest) == 0);
    CHECK(difference(host(mtf::reduce_min<K>(x)), smallest) == 0);
    CHECK(host(mtf::reduce_max<K>(x))[5] > 0);
    CHECK(difference(host(mtf::rename<A, C>(x)), host(x)) == 0);
  });
}

TEST_CASE("arithmetic, sums and products of bfloat16 are those of float, rounded once") {
  for_each_layout(layouts, [&](const Pair& pair) {
    World& w = pair.world;
    if (!legal(w, mtf::Shape(a, k, b).value())) return;
    const auto x = numbers(w, 1, a, k);
    const auto y = numbers(w, 2, k, b);
    const auto dx = mtf::cast<double>(x);
    const auto dy = mtf::cast<double>(y);
    static_assert(std::same_as<mtf::element_of<decltype(mtf::map([](float e) { return e * e; }, x))>, Bf>);
    static_assert(std::same_as<mtf::element_of<decltype(mtf::map([](float e) { return e > 0; }, x))>, bool>);
    const auto rounded = [](const auto& exact) { return host(mtf::cast<Bf>(exact)); };
    CHECK(host(x * x) == rounded(dx * dx));
    CHECK(host(x + x * 0.3) == host(mtf::cast<Bf>(mtf::cast<float>(x) + mtf::cast<float>(x * 0.3))));
    // In one function there is one rounding, however much it does.
    const auto f = [](auto e) { return (e * e + 1.0F) * (e - 0.5F) / (e * e + 2.0F); };
    CHECK(host(mtf::map(f, x)) == host(mtf::cast<Bf>(mtf::map(f, mtf::cast<float>(x)))));
    const bool split = !w.engine().rules.axes_of("k").empty();
    // Parts that travel are rounded too, so the bound is that of the parts.
    const double bound = split ? 4 * ulp : 1.05 * ulp;
    check_close(host(mtf::reduce_sum<K>(x)), host(mtf::reduce_sum<K>(dx)), bound, pair.place + ", sum");
    check_close(host(mtf::reduce_mean(x)), host(mtf::reduce_mean(dx)), 8 * bound, pair.place + ", mean");
    check_close(host(mtf::einsum<A, B>(x, y)), host(mtf::einsum<A, B>(dx, dy)), bound, pair.place + ", product");
    check_close(host(mtf::einsum<B, A>(x, y)), host(mtf::einsum<B, A>(dx, dy)), bound,
                pair.place + ", transposed product");
    const auto z = numbers(w, 3, b);
    check_close(host(mtf::einsum<A>(x, y, z)), host(mtf::einsum<A>(dx, dy, mtf::cast<double>(z))),
                w.engine().rules.axes_of("b").empty() ? bound : 4 * ulp, pair.place + ", three operands");
    const auto ids = integers(w, 4, -1, 24, C{5});
    CHECK(host(mtf::gather<K>(y, ids)) == host(mtf::gather<K>(dy, ids)));
    CHECK(host(mtf::reshape(x, mtf::Dim<"flat">{8 * 24})) == host(x));
  });
}

TEST_CASE("numerics: a sum of many bfloat16 does not stall, on one rank or pending") {
  World w(MPI_COMM_WORLD, {.mesh = mesh_text(1, ranks()), .layout = "k:cols"});
  const auto ones = mtf::constant(w, Bf(1.0F), K{4096});
  CHECK(mtf::item(mtf::reduce_sum(ones)).bits == Bf(4096.0F).bits);  // in bfloat16 it stops at 256
  CHECK(mtf::item(mtf::einsum<mtf::Shape<>>(ones, ones)).bits == Bf(4096.0F).bits);
  watch_collectives(w);
  auto sum = mtf::reduce_sum(mtf::constant(w, Bf(1.0F / 24.0F), k));
  const auto small = mtf::reduce_sum(mtf::constant(w, Bf(0.001F / 24.0F), k));
  CHECK(sum.array().value->block->wide);
  CHECK(sum.array().value->type() == mtf::ElementType::bfloat16);
  for (int i = 0; i < 256; ++i) sum = sum + small;
  const auto twice = mtf::dropout(mtf::broadcast(sum * 2.0, A{8}), 0.5, mtf::seed{1}) * 1.0;
  CHECK(twice.array().value->block->wide);
  CHECK(collectives(w).empty());
  CHECK(static_cast<double>(mtf::item(sum)) == doctest::Approx(1.256).epsilon(2 * ulp));
  CHECK(!sum.array().value->block->wide);
  for (const double e : host(twice)) CHECK((e == 0 || e == doctest::Approx(4 * 1.256).epsilon(3 * ulp)));
  CHECK(joined(collectives(w)) == "allreduce over cols of 1; allreduce over cols of 8");
  CHECK(w.counters().all()[0].bytes == 2 * (1 + 8));
}

TEST_CASE("a reduce-scatter takes a partial sum held in float") {
  if (ranks() == 1) return;
  World w(MPI_COMM_WORLD, {.mesh = mesh_text(1, ranks()), .layout = "k:cols;c:cols"});
  const auto x = numbers(w, 1, a, k);
  watch_collectives(w);
  const auto sum = mtf::reduce_sum<K>(x);
  const auto part = mtf::rename<A, C>(sum);
  CHECK(joined(collectives(w)) == "reduce-scatter over cols of 8");
  check_close(host(part), host(mtf::reduce_sum<K>(mtf::cast<double>(x))), 4 * ulp, "part");
  CHECK(host(sum) == host(part));
}

TEST_CASE("gradients of bfloat16 are near those of double") {
  for_each_layout(layouts, [&](const Pair& pair) {
    World& w = pair.world;
    if (!legal(w, mtf::Shape(a, k, b).value())) return;
    const auto loss_of = [](const auto& x, const auto& y, const auto& table, const auto& ids) {
      const auto h = mtf::tanh(mtf::einsum<A, B>(x, y) * 0.2);
      const auto s = mtf::softmax<B>(h + mtf::reduce_max<B>(h));
      const auto g = mtf::gather<V>(table, ids);
      return mtf::reduce_sum(s * h) + mtf::reduce_mean(mtf::square(g) + mtf::maximum(g, g * 0.5)) +
             mtf::reduce_sum(mtf::logsumexp<K>(x));
    };
    const auto ids = integers(w, 4, 0, 15, C{200});
    const auto gradients_of = [&]<class T>(std::type_identity<T>) {
      const auto x = mtf::watch(mtf::cast<T>(numbers(w, 1, a, k)));
      const auto y = mtf::watch(mtf::cast<T>(numbers(w, 2, k, b)));
      const auto table = mtf::watch(mtf::cast<T>(numbers(w, 3, v)));
      const auto loss = loss_of(x, y, table, ids);
      const auto [dx, dy, dt] = mtf::gradients(loss, x, y, table);
      static_assert(std::same_as<mtf::element_of<decltype(dx)>, T>);
      return std::vector<Host>{host(dx), host(dy), host(dt), host(loss)};
    };
    const auto got = gradients_of(std::type_identity<Bf>{});
    const auto expected = gradients_of(std::type_identity<double>{});
    for (std::size_t i = 0; i < got.size(); ++i)
      check_close(got[i], expected[i], 0.03, pair.place + ", " + std::to_string(i));
  });
}

TEST_CASE("softmax, losses and norms are computed in float") {
  for_each_layout({"", "a:rows", "v:cols", "a:rows;v:cols"}, [&](const Pair& pair) {
    World& w = pair.world;
    const auto logits = numbers(w, 1, a, v) * 4.0;
    const auto targets = integers(w, 2, 0, 15, a);
    const auto loss = mtf::cross_entropy<V>(logits, targets);
    static_assert(std::same_as<mtf::element_of<decltype(loss)>, float>);
    check_close(host(loss), host(mtf::cross_entropy<V>(mtf::cast<double>(logits), targets)), 1e-5,
                pair.place + ", loss");
    const auto expected = host(mtf::cast<Bf>(mtf::softmax<V>(mtf::cast<float>(logits))));
    CHECK(host(mtf::softmax<V>(logits)) == expected);
    const mtf::RmsNorm<World, Bf, V> norm(w, "norm", v);
    const mtf::RmsNorm<World, double, V> exact(w, "exact", v);
    check_close(host(norm(logits)), host(exact(mtf::cast<double>(logits))), 1.05 * ulp, pair.place + ", norm");
  });
}

TEST_CASE("an update below the activation's resolution is kept in the slice, and lost through the activation") {
  World w(MPI_COMM_WORLD, {.mesh = mesh_text(ranks(), 1), .layout = "a:rows"});
  const auto slice = [&](const auto& variable) {
    return mtf::detail::gather_to_host<float>(w.engine(), *variable.state().slice())[0];
  };
  const auto kept = mtf::variable<Wide>(w, "kept", mtf::init::ones, a);
  const auto lost = mtf::variable<Wide>(w, "lost", mtf::init::ones, a);
  const auto u = mtf::constant(w, 0.001F, a);
  for (int i = 0; i < 10; ++i) {
    kept.assign_sub(u);
    lost.assign(lost - mtf::cast<Bf>(u));
  }
  CHECK(slice(kept) == doctest::Approx(0.99));
  CHECK(slice(lost) == 1.0F);
  CHECK(host(kept)[0] == static_cast<double>(as_float(Bf(0.99F))));
  CHECK(kept.state().types.master == mtf::ElementType::float32);
  // The initial value is drawn in the master type: a bfloat16 master rounds it.
  const auto rough = mtf::variable<mtf::ElementTypes<Bf, float, float>>(w, "rough", mtf::init::normal(1), a);
  for (const double e : host(rough)) CHECK(e == static_cast<double>(as_float(Bf(e))));
  // The same by optimizers.
  mtf::Sgd<World, float> sgd(w);
  mtf::Adam<World, float> adam(w);
  const auto gradients = [&] { return mtf::gradients_of_variables(w, mtf::reduce_sum(kept.read())); };
  const float before = slice(kept);
  sgd.apply(gradients(), 0.001);
  CHECK(slice(kept) == doctest::Approx(before - 0.001));
  adam.apply(gradients(), 0.0001);
  CHECK(slice(kept) < before - 0.001F);
  CHECK(w.registry().find("kept/adam_m")->slice()->type() == mtf::ElementType::float32);
  CHECK(w.verify_replicas());
}

TEST_CASE("training with bfloat16 activations goes as in double, under every layout") {
  const auto train = []<class T>(std::type_identity<T>, World& w) {
    const auto v1 = mtf::variable<T>(w, "v", mtf::init::normal(0.2), k, b);
    const auto v2 = mtf::variable<T>(w, "w", mtf::init::normal(0.2), b, k);
    using Element = mtf::element_of<decltype(v1)>;
    using Slice = typename decltype(v1)::types::slice;
    mtf::Sgd<World, Slice> sgd(w, 0.9);
    Host losses;
    for (std::uint64_t step = 0; step < 20; ++step) {
      const auto x = mtf::random_normal_of<Element>(w, mtf::seed{step} / "x", 0, 1, a, k);
      const auto block = [v1, v2](const auto& input) {
        return mtf::einsum<A, K>(mtf::relu(mtf::einsum<A, B>(input, v1)), v2);
      };
      const auto [gradients, loss] = mtf::serialize_training_step(
          w, A{a.extent()},
          [&](mtf::Microbatch, const auto& part) {
            return mtf::reduce_mean(mtf::square(mtf::recompute(block, part) - part));
          },
          x);
      sgd.apply(gradients, 0.5);
      losses.push_back(host(loss)[0]);
    }
    return losses;
  };
  for_each_layout({"", "a:rows", "b:cols", "a:rows;b:cols", "k:cols"}, [&](const Pair& pair) {
    World w(MPI_COMM_WORLD,
            {.mesh = fmt::format("rows:{};cols:{}", pair.world.mesh().axes[0].size, pair.world.mesh().axes[1].size),
             .layout = pair.place.substr(pair.place.find("layout ") + 7)});
    World alone(MPI_COMM_SELF, {.mesh = "rows:1;cols:1"});
    const Host got = train(std::type_identity<Wide>{}, w);
    const Host expected = train(std::type_identity<double>{}, alone);
    check_close(got, expected, 0.02, pair.place);
    CHECK(expected.back() < 0.8 * expected.front());
    CHECK(w.verify_replicas());
  });
}

TEST_CASE("random numbers of bfloat16 are those of double, rounded, and stay in the interval") {
  for_each_layout({"", "a:rows", "a:rows;k:cols"}, [&](const Pair& pair) {
    World& w = pair.world;
    CHECK(host(numbers(w, 1, a, k)) ==
          host(mtf::cast<Bf>(mtf::random_normal_of<double>(w, mtf::seed{1} / "test", 0, 1, a, k))));
    const auto uniform = host(mtf::random_uniform_of<Bf>(w, mtf::seed{2}, 0.0, 1.0, A{64}, K{96}));
    for (const double u : uniform) CHECK((u > 0 && u < 1));
    CHECK(host(mtf::range<Bf>(w, k))[23] == 23);
  });
}

TEST_CASE("MPI: bool: no collective changes it, and it is never counted in bools") {
  for_each_layout(layouts, [&](const Pair& pair) {
    World& w = pair.world;
    if (!legal(w, mtf::Shape(a, k, b).value())) return;
    std::vector<bool> bits(8 * 24);
    for (std::size_t i = 0; i < bits.size(); ++i) bits[i] = i * 2654435761U % 7 == 0 && i / 24 != 3;
    const auto x = mtf::from_global<bool>(w, bits, a, k);
    Host expected, any, all, count;
    for (std::size_t i = 0; i < 8; ++i) {
      double found = 0;
      for (std::size_t j = 0; j < 24; ++j) {
        expected.push_back(bits[i * 24 + j] ? 1 : 0);
        found += expected.back();
      }
      any.push_back(found > 0 ? 1 : 0);
      all.push_back(found == 24 ? 1 : 0);
      count.push_back(found);
    }
    CHECK(host(x) == expected);
    CHECK(host(mtf::reduce_max<K>(x)) == any);
    CHECK(host(mtf::reduce_min<K>(x)) == all);
    CHECK(host(mtf::reduce_min<K>(mtf::map([](bool e) { return !e; }, x)))[3] == 1);
    CHECK(host(mtf::reduce_sum<K>(mtf::cast<std::int32_t>(x))) == count);
    CHECK(host(mtf::rename<A, C>(x)) == expected);
    CHECK(host(mtf::rename<K, V>(x)) == expected);
    const auto ids = integers(w, 4, 0, 23, C{40});
    CHECK(host(mtf::gather<K>(x, ids)) == host(mtf::gather<K>(mtf::cast<std::int32_t>(x), ids)));
    const bool two[2] = {true, false};
    CHECK(host(mtf::from_root<bool>(w, std::span<const bool>(two), mtf::Dim<"two">{2})) == Host{1, 0});
  });
}

TEST_CASE("elements of 1 and 2 bytes survive an all-to-all") {
  for_each_layout({"a:rows;v:rows", "a:rows,cols;v:rows,cols", "a:cols;v:cols"}, [&](const Pair& pair) {
    World& w = pair.world;
    const auto x = numbers(w, 1, a, k);
    watch_collectives(w);
    const auto y = mtf::reshape(x, C{8}, mtf::Dim<"v">{24});
    CHECK(host(y) == host(x));
    const auto bits = mtf::map([](float e) { return e > 0; }, x);
    CHECK(host(mtf::reshape(bits, C{8}, mtf::Dim<"v">{24})) == host(bits));
  });
}

TEST_CASE("halos of a pending gradient of bfloat16") {
  struct Out : mtf::Dim<"out"> {};
  struct Halo : mtf::Dim<"halo"> {};
  const auto gradient = [](World& w, auto like) {
    using T = decltype(like);
    const auto x = mtf::watch(mtf::cast<T>(numbers(w, 1, a, b)));
    const auto y = mtf::halo_exchange<A, B, Halo>(x, 20);  // longer than a block
    const auto wide = mtf::cast<T>(numbers(w, 2, Halo{56}, Out{8}));
    const auto [dx] = mtf::gradients(weighted_sum(mtf::einsum<A, Out>(y, wide)), x);
    return host(dx);
  };
  for_each_layout({"", "out:cols", "a:rows;out:cols", "out:rows", "a:cols;out:rows"}, [&](const Pair& pair) {
    check_close(gradient(pair.world, Bf()), gradient(pair.alone, double()), 8 * ulp, pair.place);
  });
}

TEST_CASE("numerics: samples by logits of bfloat16 follow the probabilities over a large vocabulary") {
  struct Rows : mtf::Dim<"rows_of_samples", 512> {};
  struct Vocab : mtf::Dim<"vocab", 4096> {};
  for (const char* layout : {"", "vocab:cols"}) {
    World w(MPI_COMM_WORLD, {.mesh = mesh_text(1, ranks()), .layout = layout});
    const auto drawn = host(mtf::sample_with_temperature<Vocab>(mtf::zeros<Bf>(w, Rows{}, Vocab{}), 1, mtf::seed{5}));
    double mean = 0;
    for (const double index : drawn) mean += index / 512;
    // Uniform on 0 ... 4095: mean 2047.5, standard deviation of the mean of 512 samples 4096 / sqrt(12 * 512) = 52.
    CHECK(std::abs(mean - 2047.5) < 5 * 52);
  }
}

TEST_CASE("dropout of bfloat16 scales in float and rounds once") {
  World w(MPI_COMM_WORLD, {.mesh = mesh_text(1, ranks()), .layout = "a:cols"});
  const auto x = numbers(w, 1, a, k);
  const Host before = host(x);
  const Host after = host(mtf::dropout(x, 0.1, mtf::seed{2}));
  int kept = 0;
  for (std::size_t i = 0; i < before.size(); ++i) {
    if (after[i] == 0) continue;
    ++kept;
    CHECK(after[i] == static_cast<double>(as_float(Bf(static_cast<float>(before[i]) * static_cast<float>(1 / 0.9)))));
  }
  CHECK(kept > 100);
}
