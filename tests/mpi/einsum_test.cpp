// einsum, element-wise operations and reductions under all layouts: values against naive loops, gradients against
// finite differences, everything against one rank.
#include "support.hpp"

using namespace support;

namespace {

std::int64_t extent_of(char dim) {
  switch (dim) {
    case 'a': return a.extent();
    case 'b': return b.extent();
    case 'c': return c.extent();
    case 'k': return k.extent();
    default: return v.extent();
  }
}

/// "ak,kb->ab" on row-major arrays, one loop over all dims.
template <class T>
std::vector<T> naive_einsum(std::string_view formula, const std::vector<const std::vector<T>*>& operands) {
  const auto arrow = formula.find("->");
  const std::string_view output = formula.substr(arrow + 2);
  std::vector<std::string> inputs(1);
  std::string dims;
  for (const char letter : formula.substr(0, arrow)) {
    if (letter == ',') {
      inputs.emplace_back();
      continue;
    }
    inputs.back() += letter;
    if (dims.find(letter) == std::string::npos) dims += letter;
  }
  std::int64_t total = 1;
  for (const char dim : dims) total *= extent_of(dim);
  const auto position = [&](std::string_view names, std::int64_t step) {
    std::int64_t index[128]{};
    for (std::size_t d = dims.size(); d-- > 0;) {
      index[static_cast<unsigned>(dims[d])] = step % extent_of(dims[d]);
      step /= extent_of(dims[d]);
    }
    std::int64_t at = 0;
    for (const char name : names) at = at * extent_of(name) + index[static_cast<unsigned>(name)];
    return static_cast<std::size_t>(at);
  };
  std::int64_t size = 1;
  for (const char dim : output) size *= extent_of(dim);
  std::vector<T> result(static_cast<std::size_t>(size));
  for (std::int64_t step = 0; step < total; ++step) {
    T product = 1;
    for (std::size_t i = 0; i < inputs.size(); ++i)
      product = static_cast<T>(product * (*operands[i])[position(inputs[i], step)]);
    T& sum = result[position(output, step)];
    sum = static_cast<T>(sum + product);
  }
  return result;
}
auto naive(std::string_view formula) {
  return [formula](const auto&... operands) { return naive_einsum<double>(formula, {&operands...}); };
}

/// Element by element on arrays of equal dims.
template <class F>
auto each(const F& f) {
  return [f](const Host& first, const auto&... rest) {
    Host result(first.size());
    for (std::size_t i = 0; i < first.size(); ++i) result[i] = f(first[i], rest[i]...);
    return result;
  };
}

struct Swish {
  template <class X>
  X operator()(const X& x) const {
    return x / (X(1) + exp(-x));
  }
};

}  // namespace

TEST_CASE("names and einsum: einsum has the values and gradients of a naive loop under all layouts") {
  for_each_layout(
      {"", "a:rows", "b:cols", "k:rows", "k:rows,cols", "k:cols,rows", "a:rows;b:cols", "a:rows;k:cols",
       "b:rows;k:rows", "a:rows;c:cols", "a:cols;b:rows;c:cols"},
      [](const Pair& pair) {
        const auto two = [](World& w) { return std::tuple(normal(w, 1, a, k), normal(w, 2, k, b)); };
        const auto product = [](World&, const auto& x, const auto& y) { return mtf::einsum<A, B>(x, y); };
        check_operation(pair, "ak,kb->ab", two, product, naive("ak,kb->ab"));
        check_operation(
            pair, "ak,kb->ba", two, [](World&, const auto& x, const auto& y) { return mtf::einsum<B, A>(x, y); },
            naive("ak,kb->ba"));
        check_operation(
            pair, "default output", two, [](World&, const auto& x, const auto& y) { return mtf::einsum(x, y); },
            naive("ak,kb->ab"));
        check_operation(
            pair, "ak,kb->b, k and a summed", two,
            [](World&, const auto& x, const auto& y) { return mtf::einsum<B>(x, y); }, naive("ak,kb->b"));
        check_operation(
            pair, "scalar output", two,
            [](World&, const auto& x, const auto& y) { return mtf::einsum<mtf::Shape<>>(x, y); }, naive("ak,kb->"));
        check_operation(
            pair, "dims that occur once are summed",
            [](World& w) { return std::tuple(normal(w, 3, a, k, c), normal(w, 4, b, a)); },
            [](World&, const auto& x, const auto& y) { return mtf::einsum<A>(x, y); }, naive("akc,ba->a"));
        check_operation(
            pair, "three operands",
            [](World& w) { return std::tuple(normal(w, 5, a, k), normal(w, 6, c, k), normal(w, 7, c, b)); },
            [](World&, const auto& x, const auto& y, const auto& z) { return mtf::einsum<B, A>(x, y, z); },
            naive("ak,ck,cb->ba"));
        check_operation(
            pair, "three operands, a dim in all",
            [](World& w) { return std::tuple(normal(w, 8, a, c), normal(w, 9, c, b), normal(w, 10, c)); },
            [](World&, const auto& x, const auto& y, const auto& z) { return mtf::einsum<A, B>(x, y, z); },
            naive("ac,cb,c->ab"));
        check_operation(
            pair, "four operands to a scalar",
            [](World& w) {
              return std::tuple(normal(w, 11, a, c), normal(w, 12, c, b), normal(w, 13, b), normal(w, 14, b, a));
            },
            [](World&, const auto& x, const auto& y, const auto& z, const auto& u) {
              return mtf::einsum<mtf::Shape<>>(x, y, z, u);
            },
            naive("ac,cb,b,ba->"));
        check_operation(
            pair, "batch dim", [](World& w) { return std::tuple(normal(w, 15, c, a), normal(w, 16, b, c)); },
            [](World&, const auto& x, const auto& y) { return mtf::einsum<C, A, B>(x, y); }, naive("ca,bc->cab"));
        check_operation(
            pair, "order that needs packing",
            [](World& w) { return std::tuple(normal(w, 17, k, c, a), normal(w, 18, b, c)); },
            [](World&, const auto& x, const auto& y) { return mtf::einsum<B, A, K>(x, y); }, naive("kca,bc->bak"),
            {.difference = 1e-5});
        check_operation(
            pair, "one operand transposed", [](World& w) { return std::tuple(normal(w, 19, a, b, c)); },
            [](World&, const auto& x) { return mtf::einsum<C, A, B>(x); }, naive("abc->cab"));
        check_operation(
            pair, "one operand summed", [](World& w) { return std::tuple(normal(w, 20, a, b, c)); },
            [](World&, const auto& x) { return mtf::einsum<C, A>(x); }, naive("abc->ca"));
        check_operation(
            pair, "one operand three times", [](World& w) { return std::tuple(normal(w, 21, a, c)); },
            [](World&, const auto& x) { return mtf::einsum<A>(x, x, x); },
            [](const Host& x) { return naive_einsum<double>("ac,ac,ac->a", {&x, &x, &x}); });
      });
}

TEST_CASE("names and einsum: three to eight operands in either order, values and gradients, planned as they are run") {
  constexpr mtf::einsum_order fastest = mtf::einsum_order::fastest;
  for_each_layout(
      {"", "a:rows", "b:cols", "k:rows", "k:rows,cols", "a:rows;k:cols", "a:cols;b:rows", "c:rows;k:cols"},
      [&](const Pair& pair) {
        for (const mtf::einsum_order order : {fastest, mtf::einsum_order::as_written}) {
          const std::string name = order == fastest ? ", fastest" : ", as written";
          check_operation(
              pair, "chain of three" + name,
              [](World& w) { return std::tuple(normal(w, 1, a, k), normal(w, 2, k, b), normal(w, 3, b, c)); },
              [=](World&, const auto& x, const auto& y, const auto& z) { return mtf::einsum<A, C>(order, x, y, z); },
              naive("ak,kb,bc->ac"));
          check_operation(
              pair, "the default output" + name,
              [](World& w) { return std::tuple(normal(w, 1, a, k), normal(w, 2, k, b), normal(w, 3, b, c)); },
              [=](World&, const auto& x, const auto& y, const auto& z) { return mtf::einsum(order, x, y, z); },
              naive("ak,kb,bc->ac"));
          check_operation(
              pair, "an outer product that is not made" + name,
              [](World& w) { return std::tuple(normal(w, 4, a), normal(w, 5, k), normal(w, 6, k)); },
              [=](World&, const auto& x, const auto& y, const auto& z) { return mtf::einsum<A>(order, x, y, z); },
              naive("a,k,k->a"));
          check_operation(
              pair, "five, a dim alone and one in all" + name,
              [](World& w) {
                return std::tuple(normal(w, 7, a, c), normal(w, 8, c, k), normal(w, 9, c, b), normal(w, 10, b, c),
                                  normal(w, 11, c));
              },
              [=](World&, const auto& x, const auto& y, const auto& z, const auto& u, const auto& t) {
                return mtf::einsum<C, A>(order, x, y, z, u, t);
              },
              naive("ac,ck,cb,bc,c->ca"), {.tolerance = 1e-11, .difference = 1e-5});
          check_operation(
              pair, "eight" + name,
              [](World& w) {
                return std::tuple(normal(w, 12, a), normal(w, 13, a, c), normal(w, 14, c), normal(w, 15, b, c),
                                  normal(w, 16, b));
              },
              [=](World&, const auto& x, const auto& y, const auto& z, const auto& u, const auto& t) {
                return mtf::einsum<B>(order, x, y, z, u, t, y, x, z);
              },
              [](const Host& x, const Host& y, const Host& z, const Host& u, const Host& t) {
                return naive_einsum<double>("a,ac,c,bc,b,ac,a,c->b", {&x, &y, &z, &u, &t, &y, &x, &z});
              },
              {.tolerance = 1e-11, .difference = 1e-5});
        }
      });
}

namespace {

/// Einsums of three and six operands with their gradients.
struct Chains {
  mtf::einsum_order order;

  void operator()(auto& world) const {
    using W = std::remove_reference_t<decltype(world)>;
    const auto x = mtf::variable<float>(world, "x", mtf::init::normal(1), a, k);
    const auto y = mtf::variable<float>(world, "y", mtf::init::normal(1), k, b);
    const auto z = mtf::variable<mtf::bfloat16>(world, "z", mtf::init::normal(1), b, c);
    const auto u = mtf::variable<float>(world, "u", mtf::init::normal(1), c);
    const mtf::Tensor<W, float, B, C> wide = mtf::cast<float>(z);
    const auto one = mtf::einsum<A, C>(order, x, y, wide);
    const auto two = mtf::einsum<C>(order, x, y, wide, u, x, y);
    const auto narrow = mtf::einsum<B>(order, z, z, z);
    const auto loss = mtf::reduce_mean(mtf::square(one)) + mtf::reduce_mean(mtf::square(two)) +
                      mtf::reduce_mean(mtf::square(mtf::cast<float>(narrow)));
    const auto [dx, dy, dz, du] = mtf::gradients(loss, x, y, z, u);
    for (const mtf::Value* value :
         {dx.array().value.get(), dy.array().value.get(), dz.array().value.get(), du.array().value.get()})
      mtf::complete(*value, "test");
  }
};

}  // namespace

TEST_CASE("einsums of three and more run as a dry run of the layout has them, in the same order") {
  for (const std::string& mesh : meshes()) {
    for (const std::string_view layout : {"", "a:rows", "k:rows,cols", "a:rows;k:cols", "b:cols;k:rows", "c:rows"}) {
      for (const mtf::einsum_order order : {mtf::einsum_order::fastest, mtf::einsum_order::as_written}) {
        World world(MPI_COMM_WORLD, {.mesh = mesh, .layout = layout});
        mtf::DryRun<mtf::dynamic_mesh, mtf::dynamic_layout> dry({.mesh = mesh, .layout = layout});
        const auto trace = [&](auto& traced) {
          traced.start_tracing();
          Chains{order}(traced);
          traced.stop_tracing();
        };
        trace(world);
        trace(dry);
        check_same_work(world.records(), dry.records(), fmt::format("mesh {}, layout {}", mesh, layout));
        CHECK(world.verify_replicas());
      }
    }
  }
}

TEST_CASE("einsum of integers is exact under all layouts") {
  for_each_layout({"", "a:rows", "k:rows,cols", "a:rows;k:cols", "a:cols;b:rows"}, [](const Pair& pair) {
    const auto run = [](World& w) {
      const auto x = integers(w, 1, -1000, 1000, a, k);
      const auto y = integers(w, 2, -1000, 1000, k, b);
      const auto large =
          mtf::einsum<B, A>(mtf::cast<std::int64_t>(x) * std::int64_t{1000000}, mtf::cast<std::int64_t>(y));
      return std::tuple(mtf::to_host(mtf::einsum<A, B>(x, y)), mtf::to_host(large), mtf::to_host(x), mtf::to_host(y));
    };
    const auto [small, large, x, y] = run(pair.world);
    const std::vector<std::int64_t> x64(x.begin(), x.end());
    const std::vector<std::int64_t> y64(y.begin(), y.end());
    CHECK_MESSAGE(small == naive_einsum<std::int32_t>("ak,kb->ab", {&x, &y}), pair.place);
    std::vector<std::int64_t> expected = naive_einsum<std::int64_t>("ak,kb->ba", {&x64, &y64});
    for (std::int64_t& e : expected) e *= 1000000;
    CHECK_MESSAGE(large == expected, pair.place);
  });
}

TEST_CASE("float contractions are near those in double") {
  for_each_layout({"", "a:rows;k:cols", "k:rows"}, [](const Pair& pair) {
    const auto x = normal(pair.world, 1, a, k);
    const auto y = normal(pair.world, 2, k, b);
    check_close(host(mtf::einsum<A, B>(mtf::cast<float>(x), mtf::cast<float>(y))), host(mtf::einsum<A, B>(x, y)), 1e-5,
                pair.place);
  });
}

TEST_CASE("uneven, empty, one: dims of extent 1 are ordinary") {
  const mtf::Dim<"one"> one{1};
  for_each_layout({"", "a:rows", "k:cols", "a:cols;k:rows"}, [&](const Pair& pair) {
    check_operation(
        pair, "extent 1 kept and summed",
        [&](World& w) { return std::tuple(normal(w, 1, a, one, k), normal(w, 2, k, one)); },
        [](World&, const auto& x, const auto& y) {
          return mtf::einsum<mtf::Dim<"one">, A>(x, y) + mtf::einsum<A>(x, y);
        },
        [](const Host& x, const Host& y) {
          Host result = naive_einsum<double>("ak,k->a", {&x, &y});
          for (double& r : result) r *= 2;
          return result;
        });
    check_operation(
        pair, "extremes over extent 1", [&](World& w) { return std::tuple(normal(w, 1, a, one)); },
        [](World&, const auto& x) { return mtf::reduce_max<mtf::Dim<"one">>(x) + mtf::softmax<mtf::Dim<"one">>(x); },
        each([](double x) { return x + 1; }));
    World& w = pair.world;
    CHECK(legal(w, normal(pair.alone, 1, one).shape()));
  });
  if (ranks() > 1) {
    World w(MPI_COMM_WORLD, {.mesh = mesh_text(ranks(), 1), .layout = "one:rows"});
    CHECK_THROWS_WITH_AS(normal(w, 1, a, one), doctest::Contains("\"one\" has extent 1"), mtf::plan_error);
  }
}

TEST_CASE("meshes of three axes, and sums over axes that are not neighbours") {
  if (ranks() < 4) return;
  World alone(MPI_COMM_SELF, {.mesh = "x:1;y:1;z:1"});
  const std::string mesh = ranks() == 4 ? "x:2;y:1;z:2" : "x:2;y:" + std::to_string(ranks() / 4) + ";z:2";
  std::map<std::string, Expected> expected;
  for (const std::string_view layout :
       {"k:x,z", "k:z,x", "a:y;k:z,x", "a:x;b:z;k:y", "b:z,y,x", "a:z,x;b:y", "k:y;a:x,z"}) {
    World world(MPI_COMM_WORLD, {.mesh = mesh, .layout = layout});
    const Pair pair{world, alone, expected, mesh + ", layout " + std::string(layout)};
    check_operation(
        pair, "einsum", [](World& w) { return std::tuple(normal(w, 1, a, k), normal(w, 2, k, b)); },
        [](World&, const auto& x, const auto& y) { return mtf::einsum<B, A>(x, y); }, naive("ak,kb->ba"));
    check_operation(
        pair, "softmax of a maximum", [](World& w) { return std::tuple(normal(w, 1, a, k), normal(w, 2, k, b)); },
        [](World&, const auto& x, const auto& y) {
          return mtf::reduce_max<B>(mtf::softmax<K>(mtf::reduce_max<A>(x) + y));
        },
        [](const Host&, const Host&) { return Host(); });
    const Host values = host(normal(alone, 3, a, b));
    CHECK(host(mtf::from_global<double>(world, values, a, b)) == values);
    CHECK(world.verify_replicas());
  }
}

TEST_CASE("element-wise functions and their gradients under all layouts") {
  for_each_layout({"", "a:rows", "b:rows,cols", "a:cols;b:rows"}, [](const Pair& pair) {
    const auto one = [](World& w) { return std::tuple(normal(w, 1, a, b)); };
    const auto positive = [](World& w) {
      return std::tuple(mtf::random_uniform_of<double>(w, mtf::seed{2}, 0.5, 2, a, b));
    };
    const auto two = [](World& w) {
      return std::tuple(normal(w, 3, a, b), mtf::random_uniform_of<double>(w, mtf::seed{4}, 0.5, 2, a, b));
    };
    const auto unary = [&](const char* name, const auto& inputs, const auto& f, auto reference) {
      check_operation(pair, name, inputs, [&](World&, const auto& x) { return f(x); }, each(reference));
    };
    unary("square", one, [](const auto& x) { return mtf::square(x); }, [](double x) { return x * x; });
    unary("exp", one, [](const auto& x) { return mtf::exp(x); }, [](double x) { return std::exp(x); });
    unary("tanh", one, [](const auto& x) { return mtf::tanh(x); }, [](double x) { return std::tanh(x); });
    unary(
        "sigmoid", one, [](const auto& x) { return mtf::sigmoid(x); }, [](double x) { return 1 / (1 + std::exp(-x)); });
    unary("sin", one, [](const auto& x) { return mtf::sin(x); }, [](double x) { return std::sin(x); });
    unary("cos", one, [](const auto& x) { return mtf::cos(x); }, [](double x) { return std::cos(x); });
    unary("relu", one, [](const auto& x) { return mtf::relu(x); }, [](double x) { return x > 0 ? x : 0.0; });
    unary("abs", one, [](const auto& x) { return mtf::abs(x); }, [](double x) { return std::abs(x); });
    unary("negative", one, [](const auto& x) { return -x; }, [](double x) { return -x; });
    unary("log", positive, [](const auto& x) { return mtf::log(x); }, [](double x) { return std::log(x); });
    unary("sqrt", positive, [](const auto& x) { return mtf::sqrt(x); }, [](double x) { return std::sqrt(x); });
    unary("rsqrt", positive, [](const auto& x) { return mtf::rsqrt(x); }, [](double x) { return 1 / std::sqrt(x); });
    unary(
        "numbers", positive, [](const auto& x) { return (3.0 - 2 * x) / 4 + 1.5 / x - 1; },
        [](double x) { return (3 - 2 * x) / 4 + 1.5 / x - 1; });
    unary(
        "function object", one, [](const auto& x) { return mtf::map(Swish{}, x); },
        [](double x) { return x / (1 + std::exp(-x)); });
    const auto cube = [](const auto& x) { return x * x * x; };
    unary("lambda", one, [&](const auto& x) { return mtf::map(cube, x); }, [](double x) { return x * x * x; });
    const auto binary = [&](const char* name, const auto& f, auto reference) {
      check_operation(pair, name, two, [&](World&, const auto& x, const auto& y) { return f(x, y); }, each(reference));
    };
    binary(
        "add and subtract", [](const auto& x, const auto& y) { return x + y - (y - x); },
        [](double x, double y) { return x + y - (y - x); });
    binary("multiply", [](const auto& x, const auto& y) { return x * y; }, [](double x, double y) { return x * y; });
    binary("divide", [](const auto& x, const auto& y) { return x / y; }, [](double x, double y) { return x / y; });
    binary(
        "maximum", [](const auto& x, const auto& y) { return mtf::maximum(x, y); },
        [](double x, double y) { return std::max(x, y); });
    binary(
        "minimum", [](const auto& x, const auto& y) { return mtf::minimum(x, y); },
        [](double x, double y) { return std::min(x, y); });
    check_operation(
        pair, "map of three",
        [](World& w) { return std::tuple(normal(w, 5, a, b), normal(w, 6, a, b), normal(w, 7, a, b)); },
        [](World&, const auto& x, const auto& y, const auto& z) {
          return mtf::map([](const auto& p, const auto& q, const auto& r) { return p * q + sin(r) * p; }, x, y, z);
        },
        each([](double p, double q, double r) { return p * q + std::sin(r) * p; }));
  });
}

TEST_CASE("gradients under a layout: operands broadcast by name") {
  for_each_layout({"", "a:rows", "b:rows", "a:rows;b:cols", "a:cols;c:rows", "c:rows,cols", "b:cols;c:cols"},
                  [](const Pair& pair) {
                    check_operation(
                        pair, "ab * b", [](World& w) { return std::tuple(normal(w, 1, a, b), normal(w, 2, b)); },
                        [](World&, const auto& x, const auto& y) { return x * y; }, naive("ab,b->ab"));
                    check_operation(
                        pair, "b * ab takes the longer list",
                        [](World& w) { return std::tuple(normal(w, 1, b), normal(w, 2, a, b)); },
                        [](World&, const auto& x, const auto& y) { return x * y; }, naive("b,ab->ab"));
                    check_operation(
                        pair, "ab * ba takes the first order",
                        [](World& w) { return std::tuple(normal(w, 1, a, b), normal(w, 2, b, a)); },
                        [](World&, const auto& x, const auto& y) { return x * y; }, naive("ab,ba->ab"));
                    check_operation(
                        pair, "ac * ba appends what is new",
                        [](World& w) { return std::tuple(normal(w, 1, a, c), normal(w, 2, b, a)); },
                        [](World&, const auto& x, const auto& y) { return x * y; }, naive("ac,ba->acb"));
                    check_operation(
                        pair, "outer product", [](World& w) { return std::tuple(normal(w, 1, c), normal(w, 2, a)); },
                        [](World&, const auto& x, const auto& y) { return x * y; }, naive("c,a->ca"));
                    check_operation(
                        pair, "scalar tensor", [](World& w) { return std::tuple(normal(w, 1), normal(w, 2, a, b)); },
                        [](World&, const auto& x, const auto& y) { return x * y; }, naive(",ab->ab"));
                    check_operation(
                        pair, "sum and difference",
                        [](World& w) { return std::tuple(normal(w, 1, a, b), normal(w, 2, b), normal(w, 3, a)); },
                        [](World&, const auto& x, const auto& y, const auto& z) { return x - y + z; },
                        [](const Host& x, const Host& y, const Host& z) {
                          Host result(x.size());
                          for (std::size_t i = 0; i < x.size(); ++i)
                            result[i] = x[i] - y[i % y.size()] + z[i / y.size()];
                          return result;
                        });
                    check_operation(
                        pair, "maximum with a broadcast operand",
                        [](World& w) { return std::tuple(normal(w, 1, a, b), normal(w, 2, b)); },
                        [](World&, const auto& x, const auto& y) { return mtf::maximum(x, y); },
                        [](const Host& x, const Host& y) {
                          Host result(x.size());
                          for (std::size_t i = 0; i < x.size(); ++i) result[i] = std::max(x[i], y[i % y.size()]);
                          return result;
                        });
                    check_operation(
                        pair, "broadcast", [](World& w) { return std::tuple(normal(w, 1, a)); },
                        [](World&, const auto& x) { return mtf::broadcast(x, c, b); },
                        [](const Host& x) {
                          Host result;
                          for (std::int64_t i = 0; i < b.extent() * c.extent(); ++i)
                            result.insert(result.end(), x.begin(), x.end());
                          return result;
                        });
                  });
}

TEST_CASE("ties, zeros and NaN follow the conventions") {
  const A four{4};
  World alone(MPI_COMM_SELF, {.mesh = "rows:1;cols:1"});
  const auto x = mtf::watch(mtf::from_global<double>(alone, Host{1, 5, 5, 2}, four));
  const auto y = mtf::watch(mtf::from_global<double>(alone, Host{3, 5, 1, 2}, four));
  {
    const auto [dx, dy] = mtf::gradients(mtf::reduce_sum(mtf::maximum(x, y)), x, y);
    CHECK(mtf::to_host(dx) == Host{0, 1, 1, 1});
    CHECK(mtf::to_host(dy) == Host{1, 1, 0, 1});
    const auto [ex, ey] = mtf::gradients(mtf::reduce_sum(mtf::minimum(x, y)), x, y);
    CHECK(mtf::to_host(ex) == Host{1, 1, 0, 1});
    CHECK(mtf::to_host(ey) == Host{0, 1, 1, 1});
  }
  const auto z = mtf::watch(mtf::from_global<double>(alone, Host{-1, 0, -0.0, 2}, four));
  const auto [relu] = mtf::gradients(mtf::reduce_sum(mtf::relu(z)), z);
  CHECK(mtf::to_host(relu) == Host{0, 0, 0, 1});
  const auto [absolute] = mtf::gradients(mtf::reduce_sum(mtf::abs(z)), z);
  CHECK(mtf::to_host(absolute) == Host{-1, 0, 0, 1});
  const auto nan = mtf::from_global<double>(alone, Host{NAN, 1, -1, NAN}, four);
  CHECK(std::isnan(mtf::to_host(mtf::maximum(x, nan))[0]));
  CHECK(std::isnan(mtf::to_host(mtf::maximum(nan, x))[0]));
  CHECK(std::isnan(mtf::to_host(mtf::minimum(x, nan))[3]));
  CHECK(std::isnan(mtf::to_host(mtf::minimum(nan, x))[3]));
  CHECK(std::isnan(mtf::to_host(mtf::relu(nan))[0]));
}

TEST_CASE("reductions under all layouts") {
  const auto reduced = [](const auto& start, const auto& combine, const auto& finish) {
    return [=](const Host& x) {  // of x[a, b, c] over a and c
      Host result(static_cast<std::size_t>(b.extent()), start);
      for (std::int64_t i = 0; i < std::ssize(x); ++i) {
        double& r = result[static_cast<std::size_t>(i / c.extent() % b.extent())];
        r = combine(r, x[static_cast<std::size_t>(i)]);
      }
      for (double& r : result) r = finish(r);
      return result;
    };
  };
  for_each_layout(
      {"", "a:rows", "b:cols", "c:cols", "a:rows;c:cols", "a:rows;b:cols", "a:cols,rows", "b:rows,cols"},
      [&](const Pair& pair) {
        const auto one = [](World& w) { return std::tuple(normal(w, 1, a, b, c)); };
        const auto same = [](double x) { return x; };
        const auto add = [](double x, double y) { return x + y; };
        check_operation(
            pair, "reduce_sum", one, [](World&, const auto& x) { return mtf::reduce_sum<A, C>(x); },
            reduced(0.0, add, same));
        check_operation(
            pair, "reduce_mean", one, [](World&, const auto& x) { return mtf::reduce_mean<C, A>(x); },
            reduced(0.0, add, [](double x) { return x / static_cast<double>(a.extent() * c.extent()); }));
        check_operation(
            pair, "reduce_max", one, [](World&, const auto& x) { return mtf::reduce_max<A, C>(x); },
            reduced(-HUGE_VAL, [](double x, double y) { return std::max(x, y); }, same));
        check_operation(
            pair, "reduce_min", one, [](World&, const auto& x) { return mtf::reduce_min<A, C>(x); },
            reduced(HUGE_VAL, [](double x, double y) { return std::min(x, y); }, same));
        const auto whole = [&](const Host& x) {
          double sum = 0;
          for (const double e : x) sum += e;
          return Host{sum};
        };
        check_operation(pair, "sum of all", one, [](World&, const auto& x) { return mtf::reduce_sum(x); }, whole);
        check_operation(
            pair, "mean of all", one, [](World&, const auto& x) { return mtf::reduce_mean(x) * 1024.0; }, whole);
        check_operation(
            pair, "sum of a sum", one, [](World&, const auto& x) { return mtf::reduce_sum<C>(mtf::reduce_sum<A>(x)); },
            reduced(0.0, add, same));
        check_operation(
            pair, "first dim", one, [](World&, const auto& x) { return mtf::reduce_sum<A>(x); }, naive("abc->bc"));
        check_operation(
            pair, "last dim", one, [](World&, const auto& x) { return mtf::reduce_sum<C>(x); }, naive("abc->ab"));
      });
}

TEST_CASE("extremes pass NaN, infinities, ties and integers across ranks") {
  for_each_layout({"", "a:rows", "b:cols", "a:rows;b:cols", "a:rows,cols", "b:cols,rows"}, [](const Pair& pair) {
    Host values = host(normal(pair.alone, 1, a, b));
    const auto at = [](std::int64_t i, std::int64_t j) { return static_cast<std::size_t>(i * b.extent() + j); };
    values[at(5, 3)] = NAN;
    for (std::int64_t j = 0; j < b.extent(); ++j) values[at(2, j)] = -HUGE_VAL;
    values[at(1, 4)] = HUGE_VAL;
    values[at(0, 7)] = 9;
    values[at(6, 7)] = 9;
    const auto run = [&](World& w) {
      const auto x = mtf::watch(mtf::from_global<double>(w, values, a, b));
      const auto largest = mtf::reduce_max<A>(x);
      const auto [dx] = mtf::gradients(weighted_sum(largest), x);
      const auto numbers = integers(w, 2, -100000, 100000, a, b);
      return std::vector<Host>{host(largest),
                               host(mtf::reduce_max<B>(x)),
                               host(mtf::reduce_min<A>(x)),
                               host(mtf::reduce_min<B>(x)),
                               host(dx),
                               host(mtf::reduce_max<A>(numbers)),
                               host(mtf::reduce_min(numbers)),
                               host(mtf::reduce_sum<B>(numbers))};
    };
    const std::vector<Host> results = run(pair.world);
    const std::vector<Host> expected = run(pair.alone);
    for (std::size_t i = 0; i < results.size(); ++i)
      check_close(results[i], expected[i], 0, pair.place + ", result " + std::to_string(i));
    CHECK(std::isnan(results[0][3]));
    CHECK(results[0][4] == HUGE_VAL);
    CHECK(std::isnan(results[1][5]));
    CHECK(results[1][2] == -HUGE_VAL);
    CHECK(std::isnan(results[2][3]));
    CHECK(std::isnan(results[3][5]));
    CHECK(results[4][at(0, 7)] != 0);  // both of a tie have the full gradient
    CHECK(results[4][at(0, 7)] == results[4][at(6, 7)]);
  });
}
