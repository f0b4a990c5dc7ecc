// shift, reverse, slice, pad, split, concat, stack, unstack: values, gradients and messages under all layouts,
// reference values, errors.
#include <functional>

#include "support.hpp"

using namespace support;

namespace {

struct P : mtf::Dim<"p"> {};
struct Q : mtf::Dim<"q"> {};
struct Three : mtf::Dim<"three", 3> {};
struct Four : mtf::Dim<"p", 4> {};

/// y[outer, t, inner] = x[outer, from(t), inner] for t < extent, 0 where from(t) < 0; x is [outer, old, inner].
Host along(const Host& x, std::int64_t outer, std::int64_t old, std::int64_t inner, std::int64_t extent,
           const std::function<std::int64_t(std::int64_t)>& from) {
  Host y;
  for (std::int64_t o = 0; o < outer; ++o) {
    for (std::int64_t t = 0; t < extent; ++t) {
      for (std::int64_t i = 0; i < inner; ++i) {
        const std::int64_t s = from(t);
        y.push_back(s < 0 ? 0.0 : x[static_cast<std::size_t>((o * old + s) * inner + i)]);
      }
    }
  }
  return y;
}
/// The index that a shift brings to t.
std::int64_t shifted(std::int64_t t, std::int64_t offset, std::int64_t extent, bool wrap) {
  const std::int64_t s = t - offset;
  if (wrap) return ((s % extent) + extent) % extent;
  return s < 0 || s >= extent ? -1 : s;
}

const std::initializer_list<std::string_view> layouts{"",
                                                      "a:rows",
                                                      "b:cols",
                                                      "a:rows;b:cols",
                                                      "a:cols;p:rows",
                                                      "p:rows,cols",
                                                      "a:cols,rows;p:cols,rows",
                                                      "a:rows,cols;p:rows",
                                                      "a:rows;p:rows;b:cols"};
const CheckOptions apart{.unites = false};

auto one(World& w) { return std::tuple(normal(w, 1, a, b)); }

}  // namespace

TEST_CASE("shift and reverse under all layouts") {
  const auto square = [](World& w) { return std::tuple(normal(w, 1, a, B{8})); };
  for_each_layout({"", "a:rows", "b:cols", "a:rows;b:cols", "a:rows,cols", "b:cols,rows", "a:cols"},
                  [&](const Pair& pair) {
                    for (const bool wrap : {false, true}) {
                      for (const std::int64_t offset : {0, 1, -3, 11, -20}) {
                        const std::string name = fmt::format("shift by {}, wrap {}", offset, wrap);
                        check_operation(
                            pair, name + ", first", square,
                            [&](World&, const auto& x) { return mtf::shift<A>(x, offset, {.wrap = wrap}); },
                            [&](const Host& x) {
                              return along(x, 1, 8, 8, 8, [&](std::int64_t t) { return shifted(t, offset, 8, wrap); });
                            });
                        check_operation(
                            pair, name + ", last", square,
                            [&](World&, const auto& x) { return mtf::shift<B>(x, offset, {.wrap = wrap}); },
                            [&](const Host& x) {
                              return along(x, 8, 8, 1, 8, [&](std::int64_t t) { return shifted(t, offset, 8, wrap); });
                            });
                      }
                    }
                    check_operation(
                        pair, "reverse first", one, [](World&, const auto& x) { return mtf::reverse<A>(x); },
                        [](const Host& x) { return along(x, 1, 8, 16, 8, [](std::int64_t t) { return 7 - t; }); });
                    check_operation(
                        pair, "reverse last", one, [](World&, const auto& x) { return mtf::reverse<B>(x); },
                        [](const Host& x) { return along(x, 8, 16, 1, 16, [](std::int64_t t) { return 15 - t; }); });
                  });
}

TEST_CASE("shift has the reference's values") {
  const auto run = [](World& w, std::int64_t offset, bool wrap) {
    return host(mtf::shift<A>(mtf::from_global<double>(w, Host{1, 2, 3, 4, 5, 6, 7, 8}, a), offset, {.wrap = wrap}));
  };
  const auto all = [&](World& w) {
    CHECK(run(w, 1, true) == Host{8, 1, 2, 3, 4, 5, 6, 7});
    CHECK(run(w, 3, true) == Host{6, 7, 8, 1, 2, 3, 4, 5});
    CHECK(run(w, -3, true) == Host{4, 5, 6, 7, 8, 1, 2, 3});
    CHECK(run(w, 9, true) == run(w, 1, true));
    CHECK(run(w, -8, true) == Host{1, 2, 3, 4, 5, 6, 7, 8});
    CHECK(run(w, 1, false) == Host{0, 1, 2, 3, 4, 5, 6, 7});
    CHECK(run(w, -3, false) == Host{4, 5, 6, 7, 8, 0, 0, 0});
    CHECK(run(w, 5, false) == Host{0, 0, 0, 0, 0, 1, 2, 3});
    for (const std::int64_t far : {8, -8, 9, -1000}) CHECK(run(w, far, false) == Host(8, 0.0));
    CHECK(run(w, std::numeric_limits<std::int64_t>::min(), false) == Host(8, 0.0));
    CHECK(run(w, std::numeric_limits<std::int64_t>::min() + 1, true) == Host{8, 1, 2, 3, 4, 5, 6, 7});
  };
  for_each_layout({"", "a:rows", "a:rows,cols"}, [&](const Pair& pair) { all(pair.world); });
}

TEST_CASE("a shift is one exchange of what leaves a slice") {
  for (const std::string& mesh : meshes()) {
    for (const std::string_view layout : {"", "a:rows", "b:cols", "a:rows;b:cols", "a:cols,rows"}) {
      World world(MPI_COMM_WORLD, {.mesh = mesh, .layout = layout});
      const auto x = normal(world, 1, a, b);
      const auto& dim = x.placement().dims[0];
      const std::int64_t rest = x.placement().local_size() / dim.local();
      watch_collectives(world);
      const auto same = mtf::shift<A>(x, 0);
      const auto round = mtf::shift<A>(x, -8, {.wrap = true});
      CHECK(same.array().value->block.get() == x.array().value->block.get());
      CHECK(round.array().value->block.get() == x.array().value->block.get());
      (void)mtf::shift<A>(x, 8);
      CHECK(collectives(world).empty());
      const auto moved = mtf::shift<A>(x, 1, {.wrap = true});
      const auto totals = world.counters().sum([](const auto&) { return true; });
      if (dim.parts == 1) {
        CHECK(collectives(world).empty());
      } else {
        REQUIRE(collectives(world).size() == 1);
        CHECK(totals.collective == mtf::Collective::exchange);
        CHECK(totals.count == 1);
        CHECK(totals.elements == x.placement().local_size());
        CHECK(totals.wire_bytes == static_cast<double>(rest * 8));  // one index times the rest
        CHECK(totals.mpi_calls == 2);
      }
      // Without wrap the last slice sends nothing, the first receives nothing.
      world.counters().reset();
      (void)mtf::shift<A>(x, 1);
      if (dim.parts > 1) {
        const std::int64_t slice = mtf::slice_number(dim, world.mesh(), world.engine().coordinates);
        const auto ends = world.counters().sum([](const auto&) { return true; });
        CHECK(ends.wire_bytes == (slice + 1 == dim.parts ? 0.0 : static_cast<double>(rest * 8)));
        CHECK(ends.mpi_calls == 2 - (slice == 0 ? 1 : 0) - (slice + 1 == dim.parts ? 1 : 0));
      }
      CHECK(world.verify_replicas());
    }
  }
}

TEST_CASE("slice, pad and split under all layouts") {
  for_each_layout(layouts, [](const Pair& pair) {
    for (const std::int64_t begin : {0, 3}) {
      for (const std::int64_t stride : {1, 2}) {
        if (begin + 7 * stride >= 16) continue;
        check_operation(
            pair, fmt::format("slice {} stride {}", begin, stride), one,
            [&](World&, const auto& x) { return mtf::slice<B>(x, begin, P{8}, stride); },
            [&](const Host& x) { return along(x, 8, 16, 1, 8, [&](std::int64_t t) { return begin + t * stride; }); },
            apart);
      }
    }
    check_operation(
        pair, "slice under the same name", one, [](World&, const auto& x) { return mtf::slice<B>(x, 5, B{8}); },
        [](const Host& x) { return along(x, 8, 16, 1, 8, [](std::int64_t t) { return 5 + t; }); }, apart);
    check_operation(
        pair, "slice of the first dim", [](World& w) { return std::tuple(normal(w, 1, b, C{3})); },
        [](World&, const auto& x) { return mtf::slice<B>(x, 7, P{8}); },
        [](const Host& x) { return along(x, 1, 16, 3, 8, [](std::int64_t t) { return 7 + t; }); }, apart);
    check_operation(
        pair, "pad", one, [](World&, const auto& x) { return mtf::pad<B>(x, 3, 5, P{24}); },
        [](const Host& x) {
          return along(x, 8, 16, 1, 24, [](std::int64_t t) { return t >= 3 && t < 19 ? t - 3 : -1; });
        },
        apart);
    check_operation(
        pair, "pad under the same name", one, [](World&, const auto& x) { return mtf::pad<A>(x, 8, 0, A{16}); },
        [](const Host& x) { return along(x, 1, 8, 16, 16, [](std::int64_t t) { return t - 8; }); }, apart);
    check_operation(
        pair, "first part of a split", one,
        [](World&, const auto& x) { return std::get<0>(mtf::split<B>(x, P{8}, Q{5}, Q{3})); },
        [](const Host& x) { return along(x, 8, 16, 1, 8, [](std::int64_t t) { return t; }); }, apart);
    mtf::ShapeValue part;
    part.push_back({"a", 8});
    part.push_back({"p", 8});
    if (!legal(pair.world, part)) return;
    check_operation(
        pair, "all parts of a split", one,
        [](World&, const auto& x) {
          const auto [first, second, third] = mtf::split<B>(x, P{8}, Q{3}, Q{5});
          return mtf::reduce_sum<P>(first) + 2.0 * mtf::reduce_sum<Q>(second) + 3.0 * mtf::reduce_sum<Q>(third);
        },
        [](const Host& x) {
          Host y(8);
          for (std::size_t i = 0; i < x.size(); ++i) y[i / 16] += (i % 16 < 8 ? 1.0 : i % 16 < 11 ? 2.0 : 3.0) * x[i];
          return y;
        },
        apart);
  });
}

TEST_CASE("concat, stack and unstack under all layouts") {
  for_each_layout(layouts, [](const Pair& pair) {
    const auto two = [](World& w) { return std::tuple(normal(w, 1, a, b), normal(w, 2, a, B{8})); };
    const auto join = [](const Host& x, const Host& y) {
      Host z;
      for (std::size_t i = 0; i < 8; ++i) {
        z.insert(z.end(), x.begin() + static_cast<std::ptrdiff_t>(i * 16),
                 x.begin() + static_cast<std::ptrdiff_t>(i * 16 + 16));
        z.insert(z.end(), y.begin() + static_cast<std::ptrdiff_t>(i * 8),
                 y.begin() + static_cast<std::ptrdiff_t>(i * 8 + 8));
      }
      return z;
    };
    check_operation(
        pair, "concat", two, [](World&, const auto& x, const auto& y) { return mtf::concat<B>(P{24}, x, y); }, join,
        apart);
    check_operation(
        pair, "concat under the same name", two,
        [](World&, const auto& x, const auto& y) { return mtf::concat<B>(B{24}, x, y); }, join, apart);
    check_operation(
        pair, "concat of differently named dims in another order",
        [](World& w) { return std::tuple(normal(w, 1, a, b), normal(w, 2, P{8}, a)); },
        [](World&, const auto& x, const auto& y) { return mtf::concat<B, P>(Q{24}, x, y); },
        [&](const Host& x, const Host& y) {
          Host transposed(64);
          for (std::size_t i = 0; i < 64; ++i) transposed[i % 8 * 8 + i / 8] = y[i];
          return join(x, transposed);
        },
        apart);
    check_operation(
        pair, "concat with itself", one, [](World&, const auto& x) { return mtf::concat<A>(P{16}, x, x); },
        [](const Host& x) { return along(x, 1, 8, 16, 16, [](std::int64_t t) { return t % 8; }); }, apart);
    check_operation(
        pair, "stack",
        [](World& w) { return std::tuple(normal(w, 1, C{3}, b), normal(w, 2, C{3}, b), normal(w, 3, b, C{3})); },
        [](World&, const auto& x, const auto& y, const auto& z) { return mtf::stack(P{8}, x, y, x, x, y, z, y, x); },
        [](const Host& x, const Host& y, const Host& z) {
          Host transposed(48);
          for (std::size_t i = 0; i < 48; ++i) transposed[i % 3 * 16 + i / 3] = z[i];
          Host result;
          for (const Host* part : {&x, &y, &x, &x, &y, static_cast<const Host*>(&transposed), &y, &x})
            result.insert(result.end(), part->begin(), part->end());
          return result;
        },
        apart);
    check_operation(
        pair, "unstack", [](World& w) { return std::tuple(normal(w, 1, b, mtf::Dim<"p", 8>{}, C{3})); },
        [](World&, const auto& x) {
          const auto parts = mtf::unstack<P>(x);
          return mtf::square(parts[2]) + parts[7] * 2.0 + parts[0];
        },
        [](const Host& x) {
          Host result;
          for (std::size_t i = 0; i < 16; ++i) {
            for (std::size_t j = 0; j < 3; ++j) {
              const auto at = [&](std::size_t p) { return x[(i * 8 + p) * 3 + j]; };
              result.push_back(at(2) * at(2) + 2 * at(7) + at(0));
            }
          }
          return result;
        },
        apart);
  });
}

TEST_CASE("gradients that are pending over other axes stay so, over the same ones they are completed") {
  for_each_layout({"", "k:rows;b:cols", "k:cols;b:rows", "k:rows;b:rows", "k:cols;q:rows", "k:rows;b:rows,cols",
                   "k:rows;q:cols;b:cols"},
                  [](const Pair& pair) {
                    const auto two = [](World& w) { return std::tuple(normal(w, 1, a, b), normal(w, 2, Q{8}, K{8})); };
                    check_operation(
                        pair, "slice before a contraction", two,
                        [](World&, const auto& x, const auto& y) {
                          return mtf::square(mtf::einsum<A, K>(mtf::slice<B>(x, 3, Q{8}), y));
                        },
                        [](const Host& x, const Host& y) {
                          Host z;
                          for (std::size_t i = 0; i < 8; ++i) {
                            for (std::size_t j = 0; j < 8; ++j) {
                              double sum = 0;
                              for (std::size_t l = 0; l < 8; ++l) sum += x[i * 16 + 3 + l] * y[l * 8 + j];
                              z.push_back(sum * sum);
                            }
                          }
                          return z;
                        },
                        {.difference = 1e-5, .unites = false});
                    if (pair.place.find("k:rows;b:cols") == std::string::npos) return;
                    // d shift is pending over rows, and its shift back is an exchange over cols of the pending part.
                    const auto x = mtf::watch(normal(pair.world, 1, a, b));
                    const auto loss =
                        mtf::reduce_sum(mtf::einsum<A, K>(mtf::shift<B>(x, 1), normal(pair.world, 2, b, k)));
                    watch_collectives(pair.world);
                    const auto [dx] = mtf::gradients(loss, x);
                    const bool split = pair.world.mesh().axes[1].size > 1;
                    CHECK(std::ssize(collectives(pair.world)) == (split ? 1 : 0));
                    CHECK(!dx.array().value->pending().empty());
                  });
}

TEST_CASE("a variable is an operand") {
  World world(MPI_COMM_WORLD, {.mesh = mesh_text(ranks(), 1), .layout = "a:rows"});
  const auto weights = mtf::variable<double>(world, "v", mtf::init::normal(1), a, b);
  const auto y = mtf::concat<A>(P{16}, mtf::shift<A>(weights, 1), mtf::reverse<A>(weights));
  const auto [dv] = mtf::gradients(mtf::reduce_sum(y), weights);
  const Host gradient = host(dv);
  for (std::size_t i = 0; i < gradient.size(); ++i) CHECK(gradient[i] == (i / 16 == 7 ? 1.0 : 2.0));
}

TEST_CASE("one exchange at most, none where it can be") {
  for (const std::string& mesh : meshes()) {
    World world(MPI_COMM_WORLD, {.mesh = mesh, .layout = "a:rows;p:rows;b:cols"});
    const bool moves = world.mesh().axes[0].size > 1;
    const bool other_moves = world.mesh().axes[1].size > 1;
    const auto sent = [&](const auto& f) {
      watch_collectives(world);
      f();
      return joined(collectives(world));
    };
    const A long_a{24};
    const auto x = normal(world, 1, A{16}, b);
    const auto y = normal(world, 2, a, b);
    const std::int64_t width = x.placement().dims[1].local();
    const std::int64_t rows = world.mesh().axes[0].size;
    CHECK(sent([&] { (void)mtf::concat<A>(long_a, x, y); }) ==
          (moves ? fmt::format("exchange over rows of {}", 24 / rows * width) : ""));
    CHECK(sent([&] { (void)mtf::split<A>(x, A{8}, P{8}); }) ==
          (moves ? fmt::format("exchange over rows of {}", 16 / rows * width) : ""));
    CHECK(sent([&] { (void)mtf::pad<A>(x, 0, 8, long_a); }) ==
          (moves ? fmt::format("exchange over rows of {}", 24 / rows * width) : ""));
    // The strided rows of every slice are in its slice of the result, and so are the operands of a stack.
    for (const std::int64_t begin : {0, 1}) CHECK(sent([&] { (void)mtf::slice<A>(x, begin, A{8}, 2); }).empty());
    const auto z = normal(world, 3, C{3}, b);
    CHECK(sent([&] { (void)mtf::stack(P{8}, z, z, z, z, z, z, z, z); }).empty());
    CHECK(sent([&] { (void)mtf::slice<C>(normal(world, 3, c, b), 0, C{5}); }).empty());
    // From split to whole each rank receives what it lacks.
    CHECK(sent([&] { (void)mtf::slice<A>(x, 3, C{5}); }) ==
          (moves ? fmt::format("exchange over rows of {}", 5 * width) : ""));
    CHECK(sent([&] { (void)mtf::unstack<P>(normal(world, 3, mtf::Dim<"p", 8>{}, b)); }) ==
          (moves ? fmt::format("exchange over rows of {}", 8 * width) : ""));
    // From one axis to another: what splits the rest stays.
    const auto table = normal(world, 4, b, C{3});
    CHECK(sent([&] { (void)mtf::slice<B>(table, 4, P{8}); }) ==
          (other_moves ? fmt::format("exchange over rows,cols of {}", 8 / rows * 3) : ""));
    // A sum stays outstanding: the shift sends its part of it, and the allreduce comes when the value is read.
    const auto partial = mtf::einsum<B, C>(normal(world, 5, a, b), normal(world, 6, a, c));
    CHECK(sent([&] { (void)mtf::shift<C>(partial, 1); }).empty());
    const auto shifted_sum = mtf::shift<B>(partial, 1);
    CHECK(shifted_sum.array().value->pending() == partial.array().value->pending());
    CHECK(!partial.array().value->pending().empty());
    CHECK(host(shifted_sum) ==
          host(mtf::shift<B>(
              mtf::einsum<B, C>(normal(world, 5, a, b), normal(world, 6, a, c)) + mtf::zeros<double>(world, b, c), 1)));
    // Unless the new dim is split over the axes of the sum.
    const auto across = mtf::slice<C>(mtf::einsum<B, C>(normal(world, 5, a, b), normal(world, 6, a, c)), 0, P{8});
    CHECK(across.array().value->pending().empty());
    CHECK(world.verify_replicas());
  }
}

namespace {

template <class T>
std::vector<Host> moved(World& w) {
  const auto x =
      mtf::cast<T>(integers(w, 1, std::is_same_v<T, bool> ? 0 : -50, std::is_same_v<T, bool> ? 1 : 50, a, b));
  const auto [left, right] = mtf::split<B>(x, P{8}, B{8});
  return {host(mtf::shift<A>(x, 3)),
          host(mtf::shift<B>(x, -5, {.wrap = true})),
          host(mtf::reverse<A>(x)),
          host(mtf::slice<B>(x, 1, Q{7}, 2)),
          host(mtf::pad<A>(x, 4, 4, A{16})),
          host(left),
          host(right),
          host(mtf::concat<A>(P{16}, x, x)),
          host(mtf::stack(P{8}, x, x, x, x, x, x, x, x)),
          host(mtf::unstack<Q>(mtf::rename<A, mtf::Dim<"q", 8>>(x))[3]),
          host(mtf::dynamic_shift<B>(x, integers(w, 2, -20, 20, a)))};
}

}  // namespace

TEST_CASE("all element types") {
  for_each_layout({"", "a:rows", "b:cols", "a:cols,rows", "b:rows"}, [](const Pair& pair) {
    CHECK(moved<float>(pair.world) == moved<float>(pair.alone));
    CHECK(moved<std::int32_t>(pair.world) == moved<std::int32_t>(pair.alone));
    CHECK(moved<std::int64_t>(pair.world) == moved<std::int64_t>(pair.alone));
    CHECK(moved<bool>(pair.world) == moved<bool>(pair.alone));
    CHECK(moved<double>(pair.alone) == moved<std::int64_t>(pair.alone));
  });
}

TEST_CASE("dynamic_shift under all layouts") {
  for_each_layout(
      {"", "a:rows", "b:cols", "b:rows", "a:rows;b:cols", "b:cols,rows", "c:rows", "c:cols;b:rows"},
      [](const Pair& pair) {
        for (const bool wrap : {false, true}) {
          const auto naive = [&](const Host& x, const mtf::World<mtf::dynamic_mesh, mtf::dynamic_layout>&,
                                 const Ids& offsets, std::int64_t per) {
            Host y;
            for (std::int64_t i = 0; i < std::ssize(x); ++i) {  // [a, b, c] along b
              const std::int64_t t = i / 8 % 16;
              const std::int64_t row = per == 1 ? i / 128 : i / 128 * 8 + i % 8;
              const std::int64_t s = shifted(t, offsets[static_cast<std::size_t>(row)], 16, wrap);
              y.push_back(s < 0 ? 0.0 : x[static_cast<std::size_t>(i + (s - t) * 8)]);
            }
            return y;
          };
          const auto three = [](World& w) { return std::tuple(normal(w, 1, A{2 * ranks()}, b, c)); };
          const auto offsets = [](World& w) { return integers(w, 2, -40, 40, A{2 * ranks()}); };
          const auto more = [](World& w) { return integers(w, 3, -18, 18, A{2 * ranks()}, c); };
          check_operation(
              pair, fmt::format("dynamic_shift, wrap {}", wrap), three,
              [&](World& w, const auto& x) { return mtf::dynamic_shift<B>(x, offsets(w), {.wrap = wrap}); },
              [&](const Host& x) { return naive(x, pair.alone, mtf::to_host(offsets(pair.alone)), 1); });
          check_operation(
              pair, fmt::format("dynamic_shift by int64 of two dims, wrap {}", wrap), three,
              [&](World& w, const auto& x) {
                return mtf::dynamic_shift<B>(x, mtf::cast<std::int64_t>(mtf::einsum<C, A>(more(w))), {.wrap = wrap});
              },
              [&](const Host& x) { return naive(x, pair.alone, mtf::to_host(more(pair.alone)), 8); });
        }
        const auto x = normal(pair.world, 1, a, b);
        watch_collectives(pair.world);
        const auto scalar = mtf::dynamic_shift<B>(x, mtf::constant<std::int32_t>(pair.world, 3));
        int splitting = 0;
        for (const std::int8_t axis : x.placement().dims[1].axes)
          splitting += pair.world.mesh().axes[axis].size > 1 ? 1 : 0;
        CHECK(std::ssize(collectives(pair.world)) == splitting);
        CHECK(host(scalar) == host(mtf::shift<B>(x, 3)));
        const auto extreme = [&](std::int64_t offset, bool wrap) {
          return host(mtf::dynamic_shift<B>(x, mtf::constant<std::int64_t>(pair.world, offset), {.wrap = wrap}));
        };
        CHECK(extreme(std::numeric_limits<std::int64_t>::min(), false) == Host(128, 0.0));
        CHECK(extreme(std::numeric_limits<std::int64_t>::max(), false) == Host(128, 0.0));
        CHECK(extreme(std::numeric_limits<std::int64_t>::max(), true) == host(mtf::shift<B>(x, -1, {.wrap = true})));
      });
}

TEST_CASE("operations on static dims have static dims") {
  World alone(MPI_COMM_SELF, {.mesh = "rows:1;cols:1"});
  struct Eight : mtf::Dim<"a", 8> {};
  const auto x = normal(alone, 1, Eight{}, b);
  const auto sliced = mtf::slice<Eight, Three>(x, 2);
  static_assert(std::is_same_v<mtf::dims_of<decltype(sliced)>, mtf::DimList<Three, B>>);
  CHECK(host(sliced) == host(mtf::slice<Eight, 2>(x, Three{})));
  CHECK(host(sliced) == host(mtf::slice<A>(x, 2, A{3})));
  const auto padded = mtf::pad<Three, 0, 1>(sliced, Four{});
  static_assert(std::is_same_v<mtf::dims_of<decltype(padded)>, mtf::DimList<Four, B>>);
  CHECK(host(padded) == host(mtf::pad<Three>(sliced, 0, 1, P{4})));
  const auto parts = mtf::unstack<Three>(sliced);
  static_assert(std::tuple_size_v<std::remove_cvref_t<decltype(parts)>> == 3);
  CHECK(host(mtf::stack(Three{}, parts[0], parts[1], parts[2])) == host(sliced));
}

TEST_CASE("errors name the operation, dims and sizes") {
  World world(MPI_COMM_WORLD, {.mesh = mesh_text(1, ranks()), .layout = "q:cols"});
  const auto x = normal(world, 1, a, b);
  const auto says = [&](const auto& f, std::string_view words) {
    watch_collectives(world);
    std::string what;
    try {
      f();
    } catch (const mtf::plan_error& error) {
      what = error.what();
    }
    CHECK_MESSAGE(what.find(words) != std::string::npos, what, " has not: ", std::string(words));
    CHECK(collectives(world).empty());
  };
  says([&] { (void)mtf::slice<A>(x, 6, P{4}); },
       "mtf: slice: dim \"p\" of extent 4, begin 6 and stride 1 from dim \"a\" of extent 8");
  says([&] { (void)mtf::slice<A>(x, -1, P{4}); }, "begin -1");
  says([&] { (void)mtf::slice<A>(x, 0, P{4}, 0); }, "stride 0");
  says([&] { (void)mtf::slice<A>(x, 1, P{4}, std::numeric_limits<std::int64_t>::max()); },
       "stride 9223372036854775807");
  says([&] { (void)mtf::slice<A>(x, 0, P{4}, 3); }, "stride 3");
  says([&] { (void)mtf::pad<A>(x, 1, 1, P{11}); },
       "mtf: pad: dim \"a\" of extent 8 with 1 before and 1 after is not dim \"p\" of extent 11");
  says([&] { (void)mtf::pad<A>(x, -1, 1, P{8}); }, "with -1 before");
  says([&] { (void)mtf::split<A>(x, P{4}, P{5}); }, "mtf: split: dim \"a\" of extent 8: the parts add up to 9");
  says([&] { (void)mtf::concat<A>(P{17}, x, x); },
       "mtf: concat: dim \"p\" of extent 17: the extents of the operands add up to 16");
  says([&] { (void)mtf::concat<A>(P{16}, x, normal(world, 1, a, B{4})); },
       "dim \"b\" of extent 16 has extent 4 in another operand");
  says([&] { (void)mtf::stack(P{3}, x, x); },
       "mtf: stack: dim \"p\" of extent 3: the extents of the operands add up to 2");
  if (ranks() > 1) says([&] { (void)mtf::slice<A>(x, 0, Q{1}); }, "dim \"q\" has extent 1");
  says([&] { (void)mtf::dynamic_shift<B>(x, mtf::zeros<std::int32_t>(world, A{4})); }, "dim \"a\" has extents 8 and 4");
  World other(MPI_COMM_SELF, {.mesh = "rows:1;cols:1"});
  says([&] { (void)mtf::concat<A>(P{16}, x, normal(other, 1, a, b)); }, "different worlds");
}
