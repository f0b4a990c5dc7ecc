// cumsum, one_hot, logical reductions, softmax with an extra logit, truncated normal numbers.
#include <limits>

#include "support.hpp"

using namespace support;

namespace {

const std::initializer_list<std::string_view> layouts = {
    "", "a:rows", "b:cols", "b:rows", "a:rows;b:cols", "c:cols;b:rows", "b:rows,cols", "b:cols,rows", "a:cols;c:rows"};

std::size_t at(std::int64_t i, std::int64_t j, std::int64_t l) {
  return static_cast<std::size_t>((i * b.extent() + j) * c.extent() + l);
}

/// Along the middle of x[a, b, c], from the definition: one sum for each element.
Host naive_cumsum(const Host& x, const mtf::CumsumOptions& options) {
  Host result(x.size());
  for (std::int64_t i = 0; i < a.extent(); ++i) {
    for (std::int64_t j = 0; j < b.extent(); ++j) {
      for (std::int64_t l = 0; l < c.extent(); ++l) {
        double sum = 0;
        for (std::int64_t m = 0; m < b.extent(); ++m) {
          const bool counts = options.reverse ? m > j : m < j;
          if (counts || (m == j && !options.exclusive)) sum += x[at(i, m, l)];
        }
        result[at(i, j, l)] = sum;
      }
    }
  }
  return result;
}

std::string axes_of(const World& world, const mtf::Name& dim) {
  std::string text;
  const mtf::AxisSet set = mtf::set_of(world.engine().rules.axes_of(dim));
  for (int i = 0; i < world.engine().mesh().rank(); ++i) {
    if (set.has(i)) text += (text.empty() ? "" : ",") + std::string(world.engine().mesh().axes[i].name.text);
  }
  return text;
}
mtf::Placement placed(const World& world, std::initializer_list<mtf::DimValue> dims) {
  mtf::ShapeValue shape;
  for (const mtf::DimValue& dim : dims) shape.push_back(dim);
  return mtf::place(world.engine().rules, shape);
}

constexpr mtf::CumsumOptions all_options[] = {
    {}, {.exclusive = true}, {.reverse = true}, {.exclusive = true, .reverse = true}};

}  // namespace

TEST_CASE("cumsum under all layouts, in four directions") {
  for_each_layout(layouts, [](const Pair& pair) {
    for (const mtf::CumsumOptions& options : all_options) {
      const std::string name = fmt::format("cumsum exclusive {} reverse {}", options.exclusive, options.reverse);
      check_operation(
          pair, name, [](World& w) { return std::tuple(normal(w, 1, a, b, c)); },
          [&](World&, const auto& x) { return mtf::cumsum<B>(x, options); },
          [&](const Host& x) { return naive_cumsum(x, options); });
      const auto n = [](World& w) { return mtf::cast<std::int64_t>(integers(w, 2, -50, 50, a, b, c)); };
      const Host expected = naive_cumsum(host(n(pair.alone)), options);
      check_close(host(mtf::cumsum<B>(n(pair.world), options)), expected, 0, name + " of int64, " + pair.place);
      check_close(host(mtf::cumsum<B>(mtf::cast<std::int32_t>(n(pair.world)), options)), expected, 0,
                  name + " of int32, " + pair.place);
      check_close(host(mtf::cumsum<B>(mtf::cast<float>(n(pair.world)), options)), expected, 0,
                  name + " of float, " + pair.place);
    }
    check_operation(
        pair, "first dim", [](World& w) { return std::tuple(normal(w, 1, b, c)); },
        [&](World&, const auto& x) { return mtf::cumsum<B>(x); },
        [](const Host& x) {
          Host result = x;
          for (std::size_t i = static_cast<std::size_t>(c.extent()); i < x.size(); ++i)
            result[i] += result[i - static_cast<std::size_t>(c.extent())];
          return result;
        });
    check_operation(
        pair, "one vector", [](World& w) { return std::tuple(normal(w, 1, b)); },
        [&](World&, const auto& x) { return mtf::cumsum<B>(x, {.exclusive = true}); },
        [](const Host& x) {
          Host result{0};
          for (std::size_t i = 1; i < x.size(); ++i) result.push_back(result[i - 1] + x[i - 1]);
          return result;
        });

    const auto x = mtf::watch(normal(pair.world, 1, a, b, c));
    watch_collectives(pair.world);
    const auto y = mtf::cumsum<B>(x);
    const mtf::Placement whole = placed(pair.world, {{a.name, 8}, {b.name, 16}, {c.name, 8}});
    std::vector<std::string> expected;
    if (whole.dims[1].parts > 1) {
      expected = {fmt::format("allgather over {} of {}", axes_of(pair.world, b.name),
                              whole.local_size() / whole.dims[1].local() * whole.dims[1].parts)};
    }
    CHECK(collectives(pair.world) == expected);
    const auto loss = mtf::reduce_sum(y);
    watch_collectives(pair.world);
    const auto [dx] = mtf::gradients(loss, x);
    CHECK(collectives(pair.world) == expected);
  });
}

TEST_CASE("cumsum has the reference's values") {
  for_each_layout({"", "b:rows", "a:rows;b:cols", "b:rows,cols"}, [](const Pair& pair) {
    if (ranks() > 2) return;
    const auto x = mtf::from_global<float>(pair.world, std::vector<float>{1, 2, 3, 4, 5, 6, 7, 8}, A{2}, B{4});
    CHECK(host(mtf::cumsum<B>(x)) == Host{1, 3, 6, 10, 5, 11, 18, 26});
    CHECK(host(mtf::cumsum<B>(x, {.exclusive = true})) == Host{0, 1, 3, 6, 0, 5, 11, 18});
    CHECK(host(mtf::cumsum<B>(x, {.reverse = true})) == Host{10, 9, 7, 4, 26, 21, 15, 8});
  });
}

TEST_CASE("cumsum keeps a sum pending") {
  for_each_layout({"k:rows", "k:rows;b:cols", "k:cols;b:rows"}, [](const Pair& pair) {
    const auto run = [](World& w) { return mtf::cumsum<B>(mtf::reduce_sum<K>(normal(w, 1, a, k, b))); };
    watch_collectives(pair.world);
    const auto y = run(pair.world);
    for (const std::string& line : collectives(pair.world)) CHECK(line.find("allreduce") == std::string::npos);
    watch_collectives(pair.world);
    const Host got = host(y);
    check_close(got, host(run(pair.alone)), 1e-12, pair.place);
    std::size_t sums = 0;
    for (const std::string& line : collectives(pair.world))
      sums += line.find("allreduce over " + axes_of(pair.world, k.name)) == 0 ? 1U : 0U;
    CHECK(sums == 1);
  });
}

TEST_CASE("one_hot under all layouts, with ids outside") {
  for_each_layout({"", "a:rows", "v:cols", "v:rows", "a:rows;v:cols", "v:rows,cols", "v:cols,rows", "a:cols;c:rows"},
                  [](const Pair& pair) {
                    const auto ids_of = [](World& w) { return integers(w, 3, -3, 18, a, c); };
                    const Ids ids = mtf::to_host(ids_of(pair.alone));
                    const auto run = [&]<class T>(T, double on, double off) {
                      Host expected;
                      for (const std::int32_t id : ids) {
                        for (std::int32_t i = 0; i < v.extent(); ++i) expected.push_back(i == id ? on : off);
                      }
                      watch_collectives(pair.world);
                      const auto y = mtf::one_hot<T>(ids_of(pair.world), v, static_cast<T>(on), static_cast<T>(off));
                      const auto z = mtf::one_hot<T>(mtf::cast<std::int64_t>(ids_of(pair.world)), v, static_cast<T>(on),
                                                     static_cast<T>(off));
                      CHECK(collectives(pair.world).empty());
                      CHECK(y.shape()[2] == mtf::DimValue{v.name, 16});
                      check_close(host(y), expected, 0, pair.place);
                      check_close(host(z), expected, 0, pair.place);
                    };
                    run(float{}, 1, 0);
                    run(double{}, 0.75, -0.25);
                    run(std::int32_t{}, 3, 2);
                    run(bool{}, 1, 0);
                    // The gather of the original: the einsum of a one-hot tensor and a table.
                    const auto table = normal(pair.world, 4, v);
                    const auto looked_up = mtf::einsum<A, C>(mtf::one_hot<double>(ids_of(pair.world), v), table);
                    check_close(host(looked_up), host(mtf::gather<V>(table, ids_of(pair.world))), 1e-14, pair.place);
                  });
  World w(MPI_COMM_WORLD, {.mesh = mesh_text(ranks(), 1), .layout = "a:rows;v:rows"});
  CHECK_THROWS_AS(mtf::one_hot<float>(integers(w, 3, 0, 9, a), v), mtf::plan_error);
  if (ranks() > 1) CHECK_THROWS_AS(mtf::one_hot<float>(integers(w, 3, 0, 9, b), V{15}), mtf::plan_error);
}

TEST_CASE("reduce_all and reduce_any under all layouts") {
  for_each_layout(layouts, [](const Pair& pair) {
    const auto rare = [](World& w) { return mtf::greater(normal(w, 1, a, b, c), 1.5); };  // some rows have none
    const Host x = host(rare(pair.alone));
    Host any(static_cast<std::size_t>(a.extent() * c.extent()));
    for (std::int64_t i = 0; i < a.extent(); ++i) {
      for (std::int64_t j = 0; j < b.extent(); ++j) {
        for (std::int64_t l = 0; l < c.extent(); ++l) {
          double& row = any[static_cast<std::size_t>(i * c.extent() + l)];
          if (x[at(i, j, l)] != 0) row = 1;
        }
      }
    }
    Host all;
    for (const double e : any) all.push_back(1 - e);
    const auto y = rare(pair.world);
    const auto not_y = mtf::logical_not(y);
    watch_collectives(pair.world);
    const auto got_any = mtf::reduce_any<B>(y);
    std::vector<std::string> expected;
    if (!pair.world.engine().rules.axes_of(b.name).empty()) {
      expected = {fmt::format("allreduce over {} of {}", axes_of(pair.world, b.name),
                              placed(pair.world, {{a.name, 8}, {c.name, 8}}).local_size())};
    }
    CHECK(collectives(pair.world) == expected);
    check_close(host(got_any), any, 0, "reduce_any, " + pair.place);
    check_close(host(mtf::reduce_all<B>(not_y)), all, 0, "reduce_all, " + pair.place);
    CHECK(mtf::item(mtf::reduce_any(y)));
    CHECK(!mtf::item(mtf::reduce_all(not_y)));
    CHECK(!mtf::item(mtf::reduce_any(mtf::less(normal(pair.world, 1, a, b), -100))));
    check_close(host(mtf::reduce_any<B, A>(y)), host(mtf::reduce_any<B, A>(rare(pair.alone))), 0, pair.place);
    check_close(host(mtf::reduce_all<C>(not_y)), host(mtf::reduce_all<C>(mtf::logical_not(rare(pair.alone)))), 0,
                pair.place);
  });
}

TEST_CASE("softmax with an extra logit under all layouts") {
  for_each_layout(
      {"", "a:rows", "b:rows", "b:cols", "a:rows;b:cols", "a:cols;b:rows", "b:rows,cols", "b:cols,rows"},
      [](const Pair& pair) {
        const auto one = [](World& w) { return std::tuple(normal(w, 1, a, b) * 2.0); };
        const auto extra_of = [](World& w) { return normal(w, 2, a) * 3.0; };
        const Host extras = host(extra_of(pair.alone));
        const auto sums = [](const Host& x, const Host& extra) {
          Host result;
          for (std::int64_t i = 0; i < a.extent(); ++i) {
            double sum = std::exp(extra[static_cast<std::size_t>(i)]);
            for (std::int64_t j = 0; j < b.extent(); ++j)
              sum += std::exp(x[static_cast<std::size_t>(i * b.extent() + j)]);
            result.push_back(sum);
          }
          return result;
        };
        const auto run = [&](const std::string& name, const auto& extra, const Host& values) {
          check_operation(
              pair, "softmax, " + name, one, [&](World& w, const auto& x) { return mtf::softmax<B>(x, extra(w)); },
              [&](const Host& x) {
                Host result = x;
                for (std::size_t i = 0; i < x.size(); ++i)
                  result[i] = std::exp(x[i]) / sums(x, values)[i / static_cast<std::size_t>(b.extent())];
                return result;
              });
          check_operation(
              pair, "log_softmax, " + name, one,
              [&](World& w, const auto& x) { return mtf::log_softmax<B>(x, extra(w)); },
              [&](const Host& x) {
                Host result = x;
                for (std::size_t i = 0; i < x.size(); ++i)
                  result[i] -= std::log(sums(x, values)[i / static_cast<std::size_t>(b.extent())]);
                return result;
              });
          check_operation(
              pair, "logsumexp, " + name, one, [&](World& w, const auto& x) { return mtf::logsumexp<B>(x, extra(w)); },
              [&](const Host& x) {
                Host result;
                for (const double sum : sums(x, values)) result.push_back(std::log(sum));
                return result;
              });
        };
        run("a number", [](World&) { return 0.5; }, Host(static_cast<std::size_t>(a.extent()), 0.5));
        run("a tensor", extra_of, extras);
        run(
            "a scalar tensor", [](World& w) { return mtf::constant(w, -1.0); },
            Host(static_cast<std::size_t>(a.extent()), -1.0));

        const auto x = normal(pair.world, 1, a, b);
        const auto extra = extra_of(pair.world);
        watch_collectives(pair.world);
        (void)mtf::softmax<B>(x, extra);
        const auto with = collectives(pair.world);
        watch_collectives(pair.world);
        (void)mtf::softmax<B>(x);
        CHECK(with == collectives(pair.world));
        const auto watched = mtf::watch(extra);
        const auto loss = mtf::reduce_sum(mtf::softmax<B>(mtf::watch(x), watched));
        CHECK_THROWS_AS(mtf::gradients(loss, watched), mtf::plan_error);  // no gradient, as in the original
      });
}

TEST_CASE("numerics: softmax with an extra logit has the reference's values, and masked rows stay finite") {
  for_each_layout({"", "b:rows", "b:cols"}, [](const Pair& pair) {
    World& w = pair.world;
    if (ranks() <= 4) {
      const auto x = mtf::from_global<double>(w, Host{1, 2, 3, 4}, B{4});
      check_close(host(mtf::softmax<B>(x, 0)), {.031684921, .086128544, .234121657, .636408647}, 1e-8, pair.place);
      check_close(host(mtf::softmax<B>(x)), {.032058603, .087144319, .236882818, .64391426}, 1e-8, pair.place);
    }
    Host values(16, -HUGE_VAL);
    CHECK(host(mtf::softmax<B>(mtf::from_global<double>(w, values, b), 0)) == Host(16));
    CHECK(host(mtf::logsumexp<B>(mtf::from_global<double>(w, values, b), 2.5)) == Host{2.5});
    values[3] = 1e4;
    values[9] = -1e4;
    const auto x = mtf::from_global<double>(w, values, b);
    CHECK(host(mtf::softmax<B>(x, -1e30))[3] == 1);
    CHECK(host(mtf::softmax<B>(x, 1e30))[3] == 0);
    CHECK(host(mtf::logsumexp<B>(x, 1e30)) == Host{1e30});
  });
}

TEST_CASE("truncated normal numbers are the same on any mesh and stay inside") {
  for_each_layout(layouts, [](const Pair& pair) {
    const auto run = [](World& w) {
      return host(mtf::random_truncated_normal_of<double>(w, mtf::seed{5} / "t", 1, 2, a, b, c));
    };
    const Host got = run(pair.world);
    CHECK(got == run(pair.alone));
    double square = 0;
    for (const double e : got) {
      CHECK(std::abs(e - 1) <= 4);
      square += (e - 1) * (e - 1) / static_cast<double>(got.size());
    }
    CHECK(std::abs(std::sqrt(square) - 2 * 0.8796) < 0.15);  // the standard deviation of the part inside
  });
}
