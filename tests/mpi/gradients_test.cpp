// The user's side of differentiation: which xs, how often, what stays and what is freed.
#include "support.hpp"

using namespace support;

namespace {

/// Runs the body in a world alone and in one of each mesh with a and k split.
template <class Body>
void for_some_worlds(const Body& body) {
  World alone(MPI_COMM_SELF, {.mesh = "rows:1;cols:1"});
  body(alone);
  for (const std::string& mesh : meshes()) {
    World world(MPI_COMM_WORLD, {.mesh = mesh, .layout = "a:rows;k:cols"});
    body(world);
    CHECK(world.verify_replicas());
  }
}

Host times(const Host& x, double factor) {
  Host result = x;
  for (double& r : result) r *= factor;
  return result;
}

}  // namespace

TEST_CASE("gradients of the reference: d sum x^3 at [2, 3] is [12, 27]") {
  World alone(MPI_COMM_SELF, {.mesh = "rows:1;cols:1"});
  const auto x = mtf::watch(mtf::from_global<double>(alone, Host{2, 3}, A{2}));
  const auto [dx] = mtf::gradients(mtf::reduce_sum(x * x * x), x);
  CHECK(mtf::to_host(dx) == Host{12, 27});
}

TEST_CASE("keep_graph allows another pass; without it a second one is an error") {
  for_some_worlds([](World& w) {
    const auto x = mtf::watch(normal(w, 1, a, k));
    const auto loss = mtf::reduce_sum(mtf::square(mtf::tanh(x)));
    const mtf::GradientOptions keep{.keep = mtf::keep_graph::yes};
    const auto [first] = mtf::gradients(keep, loss, x);
    const auto [second] = mtf::gradients(keep, loss, x);
    const auto [third] = mtf::gradients(loss, x);
    CHECK(host(first) == host(second));
    CHECK(host(first) == host(third));
    CHECK_THROWS_WITH_AS(mtf::gradients(loss, x), doctest::Contains("keep_graph::yes"), mtf::plan_error);
    const mtf::GradientOptions zeros{.when_unused = mtf::unused::zeros};
    CHECK_THROWS_WITH_AS(mtf::gradients(zeros, loss, x), doctest::Contains("keep_graph::yes"), mtf::plan_error);
    CHECK(std::isfinite(mtf::item(loss)));  // values outlive the graph
  });
}

TEST_CASE("a part of the graph that was freed is an error, never a wrong gradient") {
  for_some_worlds([](World& w) {
    const auto x = mtf::watch(normal(w, 1, a, k));
    const auto shared = mtf::square(x);
    const auto first = mtf::reduce_sum(shared);
    const auto second = mtf::reduce_sum(shared * x);
    (void)mtf::gradients(first, x);
    CHECK_THROWS_WITH_AS(mtf::gradients(second, x), doctest::Contains("keep_graph::yes"), mtf::plan_error);
    // What does not touch the freed part is usable.
    const auto [dx] = mtf::gradients(mtf::reduce_sum(mtf::square(x)), x);
    check_close(host(dx), times(host(x), 2), 1e-14, "after the error");
  });
}

TEST_CASE("a second pass for the optimizer is an error, not zeros") {
  for_some_worlds([](World& w) {
    const auto weights = mtf::variable<double>(w, "weights", mtf::init::normal(1), a, k);
    const auto loss = mtf::reduce_sum(mtf::square(weights));
    const auto gradients = mtf::gradients_of_variables(w, loss);
    CHECK(gradients.values.size() == 1);
    CHECK_THROWS_WITH_AS(mtf::gradients_of_variables(w, loss), doctest::Contains("keep_graph::yes"), mtf::plan_error);
  });
}

TEST_CASE("an x without influence is an error by name, or zeros if asked for") {
  for_some_worlds([](World& w) {
    const auto used = mtf::variable<double>(w, "module/used", mtf::init::normal(1), a);
    const auto unused = mtf::variable<double>(w, "module/unused", mtf::init::normal(1), a, k);
    const auto stranger = normal(w, 3, k);
    const auto loss = mtf::reduce_sum(mtf::square(used));
    CHECK_THROWS_WITH_AS(mtf::gradients(loss, used, unused), doctest::Contains("\"module/unused\""), mtf::plan_error);
    CHECK_THROWS_AS(mtf::gradients(loss, stranger), mtf::plan_error);
    const mtf::GradientOptions options{.when_unused = mtf::unused::zeros};
    const auto [du, dn, ds] =
        mtf::gradients(options, loss, used, unused, stranger);  // the errors left the graph as it was
    check_close(host(du), times(host(used), 2), 1e-14, "used");
    CHECK(host(dn) == Host(static_cast<std::size_t>(a.extent() * k.extent()), 0));
    CHECK(host(ds) == Host(static_cast<std::size_t>(k.extent()), 0));
    CHECK_THROWS_AS(mtf::gradients(mtf::reduce_sum(stranger), stranger), mtf::plan_error);
    const auto all = mtf::gradients_of_variables(w, mtf::reduce_sum(mtf::square(used)));
    CHECK(all.variables.size() == 2);
    CHECK(all.variables[1]->path.view() == "module/unused");
    CHECK(mtf::detail::gather_to_host<double>(w.engine(), *all.value(1)) ==
          Host(static_cast<std::size_t>(a.extent() * k.extent()), 0));
  });
}

TEST_CASE("zeros for an x of another element type have that type") {
  World alone(MPI_COMM_SELF, {.mesh = "rows:1;cols:1"});
  const auto x = mtf::watch(normal(alone, 1, a));
  const auto single = mtf::random_normal_of<float>(alone, mtf::seed{1}, 0, 1, a);
  const auto [dx, ds] = mtf::gradients({.when_unused = mtf::unused::zeros}, mtf::reduce_sum(x), x, single);
  CHECK(ds.array().value->type() == mtf::ElementType::float32);
  CHECK(dx.array().value->type() == mtf::ElementType::float64);
}

TEST_CASE("the same x twice, an intermediate x, the loss itself") {
  for_some_worlds([](World& w) {
    const auto x = mtf::watch(normal(w, 1, a, k));
    const auto h = mtf::sin(x);
    const auto loss = mtf::reduce_sum(h * h);
    const auto [dx, again, dh, one] = mtf::gradients(loss, x, x, h, loss);
    CHECK(host(dx) == host(again));
    check_close(host(dh), times(host(h), 2), 1e-14, "intermediate");
    check_close(host(dx), host(h * mtf::cos(x) * 2.0), 1e-14, "through it");
    CHECK(mtf::item(one) == 1);
    // An intermediate that is pending, used twice.
    const auto y = mtf::watch(normal(w, 2, a, k));
    const auto z = mtf::watch(normal(w, 3, k));
    const auto product = mtf::einsum<A>(y, z);
    const auto [dp, dy] = mtf::gradients(mtf::reduce_sum(product * product + product * 3.0), product, y);
    check_close(host(dp), host(product * 2.0 + 3.0), 1e-12, "pending intermediate");
    check_close(host(dy), host((product * 2.0 + 3.0) * z), 1e-12, "behind it");
  });
}

TEST_CASE("diamonds add up, however they are built") {
  for_some_worlds([](World& w) {
    const auto x = mtf::watch(normal(w, 1, a, k));
    const auto y = mtf::sin(x);
    const auto left = y * 2.0;
    const auto right = mtf::square(y);
    const auto back = right + left + y;
    const auto [dx] = mtf::gradients(mtf::reduce_sum(back * x + x - x * 0.5), x);
    const auto expected = (mtf::square(y) + y * 3.0) + (y * 2.0 + 3.0) * mtf::cos(x) * x + 0.5;
    check_close(host(dx), host(expected), 1e-13, "diamond");
    const auto [ds] = mtf::gradients(mtf::reduce_sum(x + x), x);
    CHECK(host(ds) == Host(static_cast<std::size_t>(a.extent() * k.extent()), 2));
    // The gradient that several branches share is not written to: both results are still whole.
    const auto u = mtf::watch(normal(w, 2, a, k));
    const auto v2 = mtf::watch(normal(w, 3, a, k));
    const auto sum = u + v2;
    const auto [du, dv, dsum] = mtf::gradients(mtf::reduce_sum(sum) + mtf::reduce_sum(u * 2.0), u, v2, sum);
    CHECK(host(du) == Host(static_cast<std::size_t>(a.extent() * k.extent()), 3));
    CHECK(host(dv) == Host(static_cast<std::size_t>(a.extent() * k.extent()), 1));
    CHECK(host(dsum) == Host(static_cast<std::size_t>(a.extent() * k.extent()), 1));
  });
}

TEST_CASE("long chains are differentiated and released without recursion") {
  World alone(MPI_COMM_SELF, {.mesh = "rows:1;cols:1"});
  const auto x = mtf::watch(mtf::from_global<double>(alone, Host{1, 2}, A{2}));
  const auto chain = [&](int length) {
    Tensor<A> y = x;
    for (int i = 0; i < length; ++i) y = y + (y * 1e-9);
    return y;
  };
  {
    const auto [dx] = mtf::gradients(mtf::reduce_sum(chain(2000)), x);
    CHECK(mtf::to_host(dx)[0] == doctest::Approx(std::pow(1 + 1e-9, 2000)));
  }
  {
    const auto forgotten = chain(200000);
  }  // never differentiated
  {
    const auto kept = chain(100000);
    const auto [dx] = mtf::gradients({.keep = mtf::keep_graph::yes}, mtf::reduce_sum(kept), x);
    CHECK(mtf::to_host(dx)[1] == doctest::Approx(std::pow(1 + 1e-9, 100000)));
  }
}

TEST_CASE("stop_gradient, plain tensors and inference record nothing") {
  for_some_worlds([](World& w) {
    const auto x = mtf::watch(normal(w, 1, a, k));
    const auto [dx] = mtf::gradients(mtf::reduce_sum(mtf::stop_gradient(mtf::square(x)) * x), x);
    check_close(host(dx), host(mtf::square(x)), 1e-15, "stop_gradient");
    CHECK_THROWS_AS(mtf::gradients(mtf::reduce_sum(mtf::stop_gradient(x)), x), mtf::plan_error);
    CHECK(!mtf::square(normal(w, 1, a)).array().node);
    const auto weights = mtf::variable<double>(w, "weights", mtf::init::normal(1), a);
    {
      const mtf::inference off(w);
      const auto y = mtf::square(weights);
      CHECK(!y.array().node);
      {
        const mtf::inference nested(w);
        CHECK(!mtf::square(x).array().node);
      }
      CHECK(!mtf::square(x).array().node);
      CHECK_THROWS_AS(mtf::gradients(mtf::reduce_sum(y), weights), mtf::plan_error);
    }
    CHECK(mtf::square(weights).array().node);
    // Integers end a path.
    const auto cut = mtf::cast<double>(mtf::cast<std::int32_t>(x));
    CHECK(!cut.array().node);
  });
}

TEST_CASE("reads of a variable are snapshots; a gradient belongs to one version") {
  for_some_worlds([](World& w) {
    const auto weights = mtf::variable<double>(w, "weights", mtf::init::normal(1), a, k);
    const auto before = weights.read();
    const Host old = host(before);
    const auto loss = mtf::reduce_sum(mtf::square(weights));
    weights.assign(before * 2.0);
    CHECK(host(before) == old);
    CHECK(host(weights) == times(old, 2));
    const auto [db] = mtf::gradients(loss, before);
    check_close(host(db), times(old, 2), 1e-15, "the version that was read");
    CHECK_THROWS_AS(mtf::gradients(mtf::reduce_sum(mtf::square(before)), weights), mtf::plan_error);
    // An optimizer writes in place only if nobody holds the version.
    const auto held = weights.read();
    const Host held_elements = host(held);
    mtf::Sgd<World, double> sgd(w);
    sgd.apply(mtf::gradients_of_variables(w, mtf::reduce_sum(weights * 3.0)), 0.5);
    CHECK(host(held) == held_elements);
    CHECK(host(weights)[0] == doctest::Approx(held_elements[0] - 1.5));
  });
}

TEST_CASE("a variable keeps its shape") {
  World alone(MPI_COMM_SELF, {.mesh = "rows:1;cols:1"});
  const auto weights = mtf::variable<double>(alone, "weights", mtf::init::normal(1), a);
  CHECK_THROWS_AS(weights.assign(normal(alone, 1, A{4})), mtf::plan_error);
  CHECK(weights.shape()[0].extent == 8);
  World other(MPI_COMM_SELF, {.mesh = "rows:1;cols:1"});
  CHECK_THROWS_AS(weights.assign(normal(other, 1, a)), mtf::plan_error);
}

TEST_CASE("an error in an operation leaves world and graph usable") {
  for_some_worlds([](World& w) {
    const auto x = mtf::watch(normal(w, 1, a, k));
    const auto y = mtf::watch(normal(w, 2, K{48}));
    CHECK_THROWS_WITH_AS(x * y, doctest::Contains("\"k\""), mtf::plan_error);
    CHECK_THROWS_AS(mtf::einsum<A>(x, y), mtf::plan_error);
    CHECK_THROWS_AS(mtf::reshape(x, A{5}), mtf::plan_error);
    CHECK_THROWS_AS(mtf::from_global<double>(w, Host{1, 2, 3}, a), mtf::plan_error);
    const auto [dx] = mtf::gradients(mtf::reduce_sum(mtf::square(x)), x);
    check_close(host(dx), times(host(x), 2), 1e-15, "after errors");
  });
}
