// Sums that are outstanding: what is sent for them, when, and how often.
#include "support.hpp"

using namespace support;

namespace {

/// Only the collectives of what the body does. The mesh has rows and cols of more than one processor on 4 and 8 ranks.
template <class Body>
std::vector<std::string> sent_by(World& world, const Body& body) {
  watch_collectives(world);
  body();
  std::vector<std::string> lines = collectives(world);
  world.stop_tracing();
  return lines;
}
using Lines = std::vector<std::string>;

template <class Body>
void for_worlds(std::string_view layout, const Body& body) {
  World alone(MPI_COMM_SELF, {.mesh = "rows:1;cols:1"});
  for (const std::string& mesh : meshes()) {
    World world(MPI_COMM_WORLD, {.mesh = mesh, .layout = layout});
    body(world, alone);
    CHECK(world.verify_replicas());
  }
}
std::int64_t rows(const World& world) { return world.mesh().axes[0].size; }
std::int64_t cols(const World& world) { return world.mesh().axes[1].size; }
std::string all_reduce(const char* axes, std::int64_t count) {
  return fmt::format("allreduce over {} of {}", axes, count);
}

}  // namespace

TEST_CASE("two sums over the same axes cost one allreduce together") {
  for_worlds("a:rows;k:cols", [](World& w, World& alone) {
    const auto run = [](World& world) {
      const auto x = normal(world, 1, a, k);
      const auto y = normal(world, 2, k, b);
      return mtf::einsum<A, B>(x, y) + mtf::einsum<A, B>(x * 2.0, y) - mtf::einsum<A, B>(x, y * y);
    };
    const auto sum = run(w);
    CHECK(sent_by(w, [&] { mtf::complete(*sum.array().value, "test"); }) == Lines{all_reduce("cols", 128 / rows(w))});
    check_close(host(sum), host(run(alone)), 1e-13, "sum");
    CHECK(sent_by(w, [&] { (void)run(w); }).empty());
  });
}

TEST_CASE("the reference's lazy sums") {
  if (ranks() != 2) return;
  World w(MPI_COMM_WORLD, {.mesh = "p:2", .layout = "k:p"});
  Host elements(8);
  for (std::size_t i = 0; i < 8; ++i) elements[i] = static_cast<double>(i);
  const auto x = mtf::from_global<double>(w, elements, B{2}, K{4});
  CHECK(sent_by(w, [&] { CHECK(host(mtf::reduce_sum<K>(x) + mtf::reduce_sum<K>(x * 2.0)) == Host{18, 66}); }) ==
        Lines{"allreduce over p of 2"});
  CHECK(sent_by(w, [&] { CHECK(host(mtf::reduce_sum<K>(x) * mtf::reduce_sum<K>(x * 2.0)) == Host{72, 968}); }).size() ==
        2);
  Host weights(24);
  for (std::size_t i = 0; i < 24; ++i) weights[i] = static_cast<double>(i);
  const auto y = mtf::from_global<double>(w, weights, K{4}, V{6});
  CHECK(host(mtf::einsum<B, V>(x, y)) == Host{84, 90, 96, 102, 108, 114, 228, 250, 272, 294, 316, 338});
}

TEST_CASE("sums over different axes are completed one by one") {
  for_worlds("k:cols;c:rows", [](World& w, World& alone) {
    const auto run = [](World& world) {
      return mtf::reduce_sum<K>(normal(world, 1, a, k)) + mtf::reduce_sum<C>(normal(world, 2, a, c));
    };
    CHECK(sent_by(w, [&] { (void)run(w); }) == Lines{all_reduce("cols", 8), all_reduce("rows", 8)});
    check_close(host(run(w)), host(run(alone)), 1e-13, "sum");
    // A sum over both at once is one allreduce.
    const auto both = mtf::reduce_sum<K, C>(normal(w, 3, k, c, a));
    CHECK(sent_by(w, [&] { (void)host(both); }) == Lines{all_reduce("rows,cols", 8)});
    CHECK(sent_by(w, [&] { (void)host(both); }).empty());
  });
}

TEST_CASE("scaling, dropout, reductions, broadcasts and free reshapes keep a sum pending") {
  for_worlds("a:rows;k:cols;v:rows", [](World& w, World& alone) {
    const auto run = [](World& world) {
      const auto product = mtf::einsum<A, B>(normal(world, 1, a, k), normal(world, 2, k, b));
      const auto scaled = -(product * 3.0) / 7;
      const auto dropped = mtf::dropout<B>(scaled, 0.3, mtf::seed{1});
      const auto renamed = mtf::rename<B, C>(mtf::einsum<A, B>(normal(world, 1, a, k), normal(world, 2, k, b)));
      const auto reshaped = mtf::reshape(renamed, A{8}, B{4}, C{4});
      const auto spread = mtf::broadcast(mtf::reduce_sum<B>(dropped), C{3});
      return std::tuple(mtf::reduce_mean(dropped), mtf::reduce_sum<B>(reshaped), spread);
    };
    std::tuple<Tensor<>, Tensor<A, C>, Tensor<C, A>> results = run(alone);
    const Host mean = host(std::get<0>(results));
    const Host sum = host(std::get<1>(results));
    const Host spread = host(std::get<2>(results));
    CHECK(sent_by(w, [&] { results = run(w); }).empty());
    // The mean is over a, too, which rows split.
    CHECK(sent_by(w, [&] { check_close(host(std::get<0>(results)), mean, 1e-13, "mean"); }) ==
          Lines{all_reduce("rows,cols", 1)});
    const Lines of_sum = sent_by(w, [&] { check_close(host(std::get<1>(results)), sum, 1e-13, "sum"); });
    CHECK(of_sum == Lines{all_reduce("cols", 32 / rows(w)), "allgather over rows of 32"});
    check_close(host(std::get<2>(results)), spread, 1e-13, "broadcast");
  });
}

TEST_CASE("what is not linear completes a sum, once for all who hold it") {
  for_worlds("k:cols", [](World& w, World& alone) {
    const auto run = [](World& world) {
      const auto product = mtf::einsum<A, B>(normal(world, 1, a, k), normal(world, 2, k, b));
      const auto same_data = mtf::rename<B, C>(product);
      const auto squares = mtf::square(product);
      const auto more = mtf::exp(same_data);
      const auto shifted = product + 1.0;
      return std::vector<Host>{host(squares), host(more), host(shifted),
                               host(mtf::einsum<A>(product, normal(world, 3, b))), host(product)};
    };
    std::vector<Host> results;
    CHECK(sent_by(w, [&] { results = run(w); }) == Lines{all_reduce("cols", 128)});
    const std::vector<Host> expected = run(alone);
    for (std::size_t i = 0; i < results.size(); ++i)
      check_close(results[i], expected[i], 1e-13, "result " + std::to_string(i));
    // A narrowing cast rounds the sum, not the parts.
    const auto narrow = mtf::cast<float>(mtf::einsum<A>(normal(w, 1, a, k), normal(w, 2, k)));
    CHECK(narrow.array().value->pending().empty());
    // Multiplying two sums completes both.
    const auto one = mtf::reduce_sum<K>(normal(w, 1, a, k));
    const auto other = mtf::reduce_sum<K>(normal(w, 2, a, k));
    CHECK(sent_by(w, [&] { (void)(one * other); }).size() == 2);
    // Maxima are never pending.
    CHECK(sent_by(w, [&] { (void)mtf::reduce_max<K>(normal(w, 1, a, k)); }) == Lines{all_reduce("cols", 8)});
  });
}

TEST_CASE("a state that is a sum is completed before it is used again") {
  // The reference: s = sum over b of x s, three times from 1 with x = 1, 2, 3, 4, is 1000.
  if (ranks() > 4) return;
  for (const std::string& mesh : meshes()) {
    World w(MPI_COMM_WORLD, {.mesh = mesh, .layout = "b:rows,cols"});
    const auto x = mtf::from_global<double>(w, Host{1, 2, 3, 4}, B{4});
    auto s = mtf::constant(w, 1.0);
    for (int i = 0; i < 3; ++i) s = mtf::reduce_sum<B>(x * s);
    CHECK(mtf::item(s) == 1000);
    auto e = mtf::constant(w, 1.0);
    for (int i = 0; i < 3; ++i) e = mtf::einsum<mtf::Shape<>>(x, e);
    CHECK(mtf::item(e) == 1000);
  }
}

TEST_CASE("a sum of which a slice is used is reduce-scattered, and the whole is gathered later, never summed again") {
  for_worlds("k:cols;v:cols", [](World& w, World& alone) {
    if (cols(w) == 1) return;
    const auto sum_of = [](World& world) { return mtf::einsum<A, B>(normal(world, 1, a, k), normal(world, 2, k, b)); };
    const Host expected = host(sum_of(alone));
    const auto sum = sum_of(w);
    Tensor<A, V> slice = mtf::zeros<double>(w, a, v);
    CHECK(sent_by(w, [&] { slice = mtf::rename<B, V>(sum); }) == Lines{"reduce-scatter over cols of 128"});
    check_close(host(slice), expected, 1e-13, "slice");
    CHECK(sent_by(w, [&] { (void)mtf::square(sum); }) == Lines{"allgather over cols of 128"});
    CHECK(sent_by(w, [&] { (void)mtf::square(sum); }).empty());
    check_close(host(sum), expected, 1e-13, "whole");
    check_close(host(slice), expected, 1e-13, "slice after");
    // In the other order the slice is free.
    const auto again = sum_of(w);
    CHECK(sent_by(w, [&] { (void)mtf::square(again); }) == Lines{all_reduce("cols", 128)});
    CHECK(sent_by(w, [&] { slice = mtf::rename<B, V>(again); }).empty());
    check_close(host(slice), expected, 1e-13, "slice of a complete sum");
    // Linear operations on a scattered sum see the whole.
    const auto third = sum_of(w);
    slice = mtf::rename<B, V>(third);
    check_close(host(third * 2.0 + third), host(sum_of(alone) * 3.0), 1e-13, "linear");
    const auto fourth = sum_of(w);
    slice = mtf::rename<B, V>(fourth);
    check_close(host(mtf::reduce_sum<A>(fourth)), host(mtf::reduce_sum<A>(sum_of(alone))), 1e-13, "reduced");
    const auto fifth = sum_of(w);
    slice = mtf::rename<B, V>(fifth);
    check_close(host(mtf::dropout(fifth, 0.5, mtf::seed{1})), host(mtf::dropout(sum_of(alone), 0.5, mtf::seed{1})),
                1e-13, "dropout");
    const auto sixth = sum_of(w);
    slice = mtf::rename<B, V>(sixth);
    check_close(host(mtf::broadcast(sixth, C{2})), host(mtf::broadcast(sum_of(alone), C{2})), 1e-13, "broadcast");
    const auto seventh = sum_of(w);
    slice = mtf::rename<B, V>(seventh);
    check_close(host(mtf::rename<A, C>(seventh)), expected, 1e-13, "renamed");
    const auto eighth = mtf::reduce_mean(sum_of(w));
    check_close(host(eighth), host(mtf::reduce_mean(sum_of(alone))), 1e-13, "mean");
  });
}

TEST_CASE("gradients under a layout: the input's gradient of q, k and v costs one allreduce") {
  for_worlds("a:rows;c:cols", [](World& w, World& alone) {
    const auto run = [](World& world) {
      const auto x = mtf::watch(normal(world, 1, a, b));
      const auto q = mtf::einsum<A, C>(x, normal(world, 2, b, c));
      const auto key = mtf::einsum<A, C>(x, normal(world, 3, b, c));
      const auto value = mtf::einsum<A, C>(x, normal(world, 4, b, c));
      return std::tuple(x, mtf::reduce_sum(q * key * value));
    };
    const auto [x, loss] = run(w);
    CHECK(sent_by(w, [&] {
            const auto [dx] = mtf::gradients(loss, x);
            mtf::complete(*dx.array().value, "test");
          }) == Lines{all_reduce("cols", 128 / rows(w))});
    const auto [y, other] = run(w);
    const auto [dy] = mtf::gradients(other, y);
    const auto [z, expected] = run(alone);
    const auto [dz] = mtf::gradients(expected, z);
    check_close(host(dy), host(dz), 1e-12, "gradient");
  });
}

TEST_CASE("four branches and a residual cost one allreduce") {
  for_worlds("a:rows;c:cols", [](World& w, World& alone) {
    const auto run = [](World& world) {
      const auto x = mtf::watch(normal(world, 1, a, b));
      auto sum = x * 0.5;
      for (std::uint64_t i = 0; i < 4; ++i) {
        const auto hidden = mtf::tanh(mtf::einsum<A, C>(x, normal(world, 2 + i, b, c)));
        sum = sum + mtf::einsum<A, B>(hidden, normal(world, 7 + i, c, b));
      }
      return std::tuple(x, mtf::reduce_sum(mtf::square(sum)));
    };
    const auto [x, loss] = run(w);
    CHECK(sent_by(w, [&] {
            const auto [dx] = mtf::gradients(loss, x);
            mtf::complete(*dx.array().value, "test");
          }) == Lines{all_reduce("cols", 128 / rows(w))});
    const auto [y, other] = run(w);
    const auto [dy] = mtf::gradients(other, y);
    const auto [z, expected] = run(alone);
    const auto [dz] = mtf::gradients(expected, z);
    check_close(host(dy), host(dz), 1e-12, "gradient");
  });
}

TEST_CASE("gradients under a layout: gradients of variables are pending until they are used") {
  for_worlds("a:rows", [](World& w, World&) {
    const auto weights = mtf::variable<double>(w, "weights", mtf::init::normal(1), k, b);
    const auto loss = mtf::reduce_mean(mtf::square(mtf::einsum<A, B>(normal(w, 1, a, k), weights)));
    mtf::VariableGradients gradients;
    CHECK(sent_by(w, [&] { gradients = mtf::gradients_of_variables(w, loss); }).empty());
    mtf::Sgd<World, double> sgd(w);
    CHECK(sent_by(w, [&] { sgd.apply(gradients, 0.1); }) == Lines{all_reduce("rows", 24 * 16)});
  });
}

TEST_CASE("ten microbatches cost one allreduce for each variable, and give the gradient of the whole") {
  for_worlds("a:rows;c:cols", [](World& w, World&) {
    World alone(MPI_COMM_SELF, {.mesh = "rows:1;cols:1"});
    const auto run = [](World& world) {
      const auto wi = mtf::variable<double>(world, "wi", mtf::init::normal(0.3), b, c);
      const auto wo = mtf::variable<double>(world, "wo", mtf::init::normal(0.3), c, b);
      mtf::VariableGradients sum;
      for (std::uint64_t i = 0; i < 10; ++i) {
        const auto x = normal(world, i, a, b);
        const auto y = mtf::einsum<A, B>(mtf::tanh(mtf::einsum<A, C>(x, wi)), wo);
        sum += mtf::gradients_of_variables(world, mtf::reduce_mean(mtf::square(y - x)) * 0.1);
      }
      return sum;
    };
    mtf::VariableGradients sum;
    // Forward, y is completed for the square: one allreduce over cols each time. Over rows nothing is sent yet.
    const Lines forward = sent_by(w, [&] { sum = run(w); });
    CHECK(std::count(forward.begin(), forward.end(), all_reduce("cols", 128 / rows(w))) == 10);
    CHECK(forward.size() == 10);
    mtf::Sgd<World, double> sgd(w, 0.9);
    CHECK(sent_by(w, [&] { sgd.apply(sum, 0.1); }) ==
          Lines{all_reduce("rows", 128 / cols(w)), all_reduce("rows", 128 / cols(w))});
    const mtf::VariableGradients expected = run(alone);
    mtf::Sgd<World, double>(alone, 0.9).apply(expected, 0.1);
    for (std::size_t i = 0; i < 2; ++i) {
      check_close(mtf::detail::gather_to_host<double>(w.engine(), *sum.variables[i]->leaf.value),
                  mtf::detail::gather_to_host<double>(alone.engine(), *expected.variables[i]->leaf.value), 1e-12,
                  "variable after the step");
    }
    for (const auto& state : alone.registry().all()) CHECK(w.registry().find(state->path.view()) != nullptr);
  });
}

TEST_CASE("a microbatch that does not use a variable leaves its sum pending") {
  for_worlds("a:rows", [](World& w, World&) {
    const auto always = mtf::variable<double>(w, "always", mtf::init::normal(1), b);
    const auto sometimes = mtf::variable<double>(w, "sometimes", mtf::init::normal(1), b);
    mtf::VariableGradients sum;
    const Lines lines = sent_by(w, [&] {
      for (std::uint64_t i = 0; i < 4; ++i) {
        const auto x = normal(w, i, a, b);
        auto loss = mtf::reduce_sum(x * always);
        if (i % 2 == 1) loss = loss + mtf::reduce_sum(x * sometimes);
        sum += mtf::gradients_of_variables(w, loss);
      }
      for (const auto& value : sum.values) mtf::complete(*value, "test");
    });
    CHECK(lines == Lines{all_reduce("rows", 16), all_reduce("rows", 16)});
  });
}

TEST_CASE("an operand that is used twice in one operation, and a sum beside itself") {
  for_worlds("k:cols;a:rows", [](World& w, World& alone) {
    const auto run = [](World& world) {
      const auto x = mtf::watch(normal(world, 1, a, k));
      const auto s = mtf::reduce_sum<K>(x);
      const auto twice = s + s;
      const auto mixed = mtf::map([](const auto& p, const auto& q) { return p * q; }, s, twice);
      const auto [dx] = mtf::gradients(mtf::reduce_sum(mixed + s), x);
      return std::vector<Host>{host(twice), host(mixed), host(dx)};
    };
    const std::vector<Host> results = run(w);
    const std::vector<Host> expected = run(alone);
    for (std::size_t i = 0; i < results.size(); ++i)
      check_close(results[i], expected[i], 1e-12, "result " + std::to_string(i));
  });
}

TEST_CASE("hangs: the sequence of collectives is the same on all ranks, whatever the order of function arguments") {
  for_worlds("a:rows;k:cols", [](World& w, World&) {
    const auto x = normal(w, 1, a, k);
    const auto product = mtf::square(mtf::reduce_sum<K>(x)) * mtf::square(mtf::reduce_sum<A>(x));
    (void)mtf::item(mtf::reduce_mean(product));
    CHECK(w.agree(w.counters().sequence()) == w.counters().sequence());
  });
}

TEST_CASE("a sum that meets a dim split over its own axis is completed") {
  for_worlds("a:rows;k:rows;c:cols", [](World& w, World& alone) {
    const auto run = [](World& world) {
      const auto x = mtf::watch(normal(world, 1, a, b));
      const auto y = mtf::reduce_mean<A>(x);                                      // pending over rows
      const auto z = mtf::broadcast(mtf::reduce_sum<K>(normal(world, 2, k)), a);  // and here a is split over them
      const auto loss = mtf::reduce_sum(mtf::square(mtf::einsum<K>(y, normal(world, 3, b, k)))) +
                        mtf::reduce_sum(z * mtf::reduce_sum<B>(x));
      const auto [dx] = mtf::gradients(loss, x);  // y's gradient is pending over rows, x is split over them
      return std::vector<Host>{host(dx), host(z), host(y), host(loss)};
    };
    const std::vector<Host> results = run(w);
    const std::vector<Host> expected = run(alone);
    for (std::size_t i = 0; i < results.size(); ++i)
      check_close(results[i], expected[i], 1e-12, "result " + std::to_string(i));
  });
}

TEST_CASE("MPI: collectives in many pieces give the same") {
  const std::int64_t limit = mtf::detail::mpi_count_limit;
  for_worlds("k:cols;v:cols;a:rows", [&](World& w, World& alone) {
    const auto run = [](World& world) {
      const auto sum = mtf::einsum<C, B>(normal(world, 1, c, k), normal(world, 2, k, b));
      const auto slice = mtf::rename<B, V>(sum);
      return std::vector<Host>{host(slice), host(sum),
                               host(mtf::square(mtf::einsum<A>(normal(world, 3, a, k), normal(world, 4, k)))),
                               host(mtf::reduce_max<K>(normal(world, 5, a, k)))};
    };
    const std::vector<Host> expected = run(alone);
    mtf::detail::mpi_count_limit = 5;
    const std::vector<Host> results = run(w);
    mtf::detail::mpi_count_limit = limit;
    for (std::size_t i = 0; i < results.size(); ++i)
      check_close(results[i], expected[i], 1e-12, "result " + std::to_string(i));
  });
}
