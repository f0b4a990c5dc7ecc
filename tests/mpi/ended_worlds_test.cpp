// What outlives its world: tensors, variables, gradients, optimizers, views and guards. Each can be copied and
// destroyed; everything else is one error.
#include <cstdlib>
#include <malloc.h>
#include <memory>
#include <optional>
#include <thread>

#include "support.hpp"

using namespace support;
using mtf::Spatial;

namespace {

struct P : mtf::Dim<"p"> {};
struct Q : mtf::Dim<"q"> {};
struct N : mtf::Dim<"n", 8> {};
struct H : mtf::Dim<"h", 8> {};
struct KH : mtf::Dim<"kh", 3> {};
struct In : mtf::Dim<"in", 4> {};
struct Out : mtf::Dim<"out", 4> {};
struct Half : mtf::Dim<"half", 4> {};

std::unique_ptr<World> make_world(bool check_lent = false) {
  return std::make_unique<World>(
      MPI_COMM_WORLD,
      mtf::WorldOptions{.mesh = mesh_text(ranks(), 1), .layout = "a:rows;n:rows", .check_lent = check_lent});
}

template <class F>
void refused(const char* what, const F& f) {
  bool thrown = false;
  try {
    f();
  } catch (const mtf::plan_error& error) {
    thrown = std::string(error.what()).find("has ended") != std::string::npos;
    CHECK_MESSAGE(thrown, std::string(what), ": ", std::string(error.what()));
    return;
  }
  CHECK_MESSAGE(thrown, std::string(what), " was not refused");
}

/// Every operation that makes a tensor of others, on what f makes of a world that has ended.
#define REFUSED(...) refused(#__VA_ARGS__, [&] { (void)(__VA_ARGS__); })
template <class X, class Y>
void operations_are_refused(const X& x, const Y& y) {  // [a, b], [b, k]
  REFUSED(x + x);
  REFUSED(x - x);
  REFUSED(x * x);
  REFUSED(x / x);
  REFUSED(-x);
  REFUSED(2.0 * x);
  REFUSED(x + 1.0);
  REFUSED(mtf::relu(x));
  REFUSED(mtf::gelu(x));
  REFUSED(mtf::exp(x));
  REFUSED(mtf::square(x));
  REFUSED(mtf::pow(x, 2));
  REFUSED(mtf::clip(x, -1, 1));
  REFUSED(mtf::add_n(x, x));
  REFUSED(mtf::maximum(x, x));
  REFUSED(mtf::squared_difference(x, x));
  REFUSED(mtf::map([](double u) { return u + 1; }, x));
  REFUSED(mtf::less(x, x));
  REFUSED(mtf::where(mtf::less(x, x), x, x));
  REFUSED(mtf::cast<float>(x));
  REFUSED(mtf::zeros_like(x));
  REFUSED(mtf::ones_like(x));
  REFUSED(mtf::einsum<A, K>(x, y));
  REFUSED(mtf::einsum<A>(x));
  REFUSED(mtf::reduce_sum(x));
  REFUSED(mtf::reduce_sum<A>(x));
  REFUSED(mtf::reduce_mean<B>(x));
  REFUSED(mtf::reduce_max<B>(x));
  REFUSED(mtf::reduce_min(x));
  REFUSED(mtf::reduce_first<B>(x));
  REFUSED(mtf::argmax<B>(x));
  REFUSED(mtf::top_1<B>(x));
  REFUSED(mtf::sort<B>(x));
  REFUSED(mtf::nth_largest_element<B>(x, 1));
  REFUSED(mtf::cumsum<B>(x));
  REFUSED(mtf::softmax<B>(x));
  REFUSED(mtf::log_softmax<B>(x));
  REFUSED(mtf::logsumexp<B>(x));
  REFUSED(mtf::sample_with_temperature<B>(x, 1.0, mtf::seed{1}));
  REFUSED(mtf::dropout(x, 0.5, mtf::seed{1}));
  REFUSED(mtf::broadcast(x, P{2}));
  REFUSED(mtf::rename<B, Q>(x));
  REFUSED(mtf::reshape(x, P{4 * x.shape()[0].extent}, Q{4}));
  REFUSED(mtf::transpose<B, A>(x));
  REFUSED(mtf::slice<B>(x, 1, P{2}));
  REFUSED(mtf::pad<B>(x, 1, 1, P{18}));
  REFUSED(mtf::split<B>(x, P{8}, Q{8}));
  REFUSED(mtf::concat<B>(P{32}, x, x));
  REFUSED(mtf::stack(P{2}, x, x));
  REFUSED(mtf::shift<B>(x, 1));
  REFUSED(mtf::reverse<B>(x));
  REFUSED(mtf::left_halo_exchange<Q, P, Half>(mtf::reshape(x, A{x.shape()[0].extent}, Q{4}, P{4}), 1));
  REFUSED(mtf::pool_tensor_1d<B>(x));
  REFUSED(mtf::stride_tensor_1d<B>(x));
  REFUSED(mtf::recompute([](const auto& u) { return u * u; }, x));
  REFUSED(mtf::clip_activation_gradient(x));
  REFUSED(mtf::to_host(x));
  REFUSED(mtf::local_view(x));
  REFUSED(mtf::gradients(mtf::GradientOptions{}, mtf::reduce_sum(mtf::square(x)), x));
}

}  // namespace

TEST_CASE("a tensor or a variable whose world has ended is refused by every operation") {
  auto world = make_world();
  const auto w = mtf::variable<double>(*world, "w", mtf::init::ones, A{ranks()}, b);
  const auto w2 = mtf::variable<double>(*world, "w2", mtf::init::ones, b, k);
  const auto x = mtf::watch(mtf::ones<double>(*world, A{ranks()}, b));
  const auto y = normal(*world, 1, b, k);
  const auto loss = mtf::reduce_sum(mtf::square(w) * x);
  const auto ids = mtf::zeros<std::int32_t>(*world, A{ranks()});
  const auto flags = mtf::less(x, x);
  const auto images = mtf::ones<double>(*world, N{}, H{}, In{});
  const auto filter = mtf::ones<double>(*world, KH{}, In{}, Out{});
  const auto count = mtf::zeros<std::int64_t>(*world, b);
  world.reset();

  operations_are_refused(x, y);
  operations_are_refused(w, w2);
  REFUSED(mtf::gather<B>(y, ids));
  REFUSED(mtf::one_hot<double>(ids, v));
  REFUSED(mtf::cross_entropy<B>(x, ids));
  REFUSED(mtf::dynamic_shift<B>(x, ids));
  REFUSED(mtf::reduce_all(flags));
  REFUSED(mtf::reduce_any<B>(flags));
  REFUSED(mtf::logical_and(flags, flags));
  REFUSED(mtf::logical_not(flags));
  REFUSED(mtf::floor_divide(count, count));
  REFUSED(mtf::mod(count, count));
  REFUSED(mtf::unstack<In>(images));
  REFUSED(mtf::convolution<Spatial<H, KH, H>>(images, filter));
  REFUSED(mtf::max_pool<Spatial<H, Half>>(images, {.window = 2}));
  REFUSED(mtf::item(loss));
  REFUSED(mtf::gradients(loss, w));
  REFUSED(mtf::gradients(loss, x));
  refused("assign", [&] { w.assign(x); });
  refused("assign of a variable", [&] { w.assign(w); });
  refused("assign_add", [&] { w.assign_add(x); });
  refused("assign_sub", [&] { w.assign_sub(x); });
  // What needs no memory and no world may be asked.
  CHECK(w.path() == "w");
  CHECK(w.shape()[1].extent == 16);
  CHECK(w.read().size() == 16 * ranks());
  const auto copy = w;
  CHECK(&copy.state() == &w.state());
  CHECK(mtf::stop_gradient(w).size() == 16 * ranks());
  // And a new world is not concerned.
  const auto next = make_world();
  const auto again = mtf::variable<double>(*next, "w", mtf::init::ones, A{ranks()}, b);
  CHECK(mtf::item(mtf::reduce_sum(again)) == 16 * ranks());
  CHECK_THROWS_AS((void)(again + w), mtf::plan_error);
  CHECK_THROWS_AS(again.assign(w), mtf::plan_error);
}

TEST_CASE("gradients, optimizers, guards and views whose world has ended") {
  auto world = make_world(true);
  const auto w = mtf::variable<double>(*world, "w", mtf::init::ones, A{ranks()}, b);
  const auto w32 = mtf::variable<mtf::ElementTypes<float, float, mtf::bfloat16>>(*world, "half", mtf::init::ones, b);
  const auto loss = mtf::reduce_sum(mtf::square(w)) + mtf::cast<double>(mtf::reduce_sum(w32));
  auto gradients = mtf::gradients_of_variables(*world, loss);
  const auto others = gradients;
  mtf::Sgd<World, double> sgd(*world, 0.9);
  mtf::Adam<World, double> adam(*world);
  auto inference = std::make_unique<mtf::inference>(*world);
  const Kokkos::View<double*, Kokkos::HostSpace> memory("memory", 5);
  const auto lent = mtf::from_local(*world, memory, A{5 * ranks()});
  const auto view = mtf::local_view(w);
  world.reset();
  refused("sgd", [&] { sgd.apply(gradients, 0.1); });
  refused("adam", [&] { adam.apply(gradients, 0.1); });
  refused("+=", [&] { gradients += others; });
  refused("a variable of three types", [&] { w32.assign(w32); });
  refused("a variable of three types, read", [&] { (void)(w32 + w32); });
  refused("lent", [&] { (void)(lent.tensor() + lent.tensor()); });
  CHECK(view.view(0, 0) == 1);  // keeps its slice alive
  inference.reset();

  const auto next = make_world();
  const auto again = mtf::variable<double>(*next, "w", mtf::init::ones, A{ranks()}, b);
  const auto living = mtf::gradients_of_variables(*next, mtf::reduce_sum(mtf::square(again)));
  refused("sgd with gradients of another world", [&] { sgd.apply(living, 0.1); });
  mtf::Sgd<World, double> sgd_next(*next);
  CHECK_THROWS_WITH_AS(sgd_next.apply(others, 0.1), doctest::Contains("different worlds"), mtf::plan_error);
  auto mixed = living;
  CHECK_THROWS_WITH_AS(mixed += others, doctest::Contains("different worlds"), mtf::plan_error);
  sgd_next.apply(living, 0.25);
  CHECK(mtf::item(mtf::reduce_sum(again)) == 8 * ranks());
  CHECK(next->verify_replicas());
}

TEST_CASE("a dry run that has ended refuses its variables") {
  auto dry = std::make_unique<mtf::DryRun<mtf::dynamic_mesh, mtf::dynamic_layout>>(
      mtf::WorldOptions{.mesh = "rows:2", .layout = "a:rows"});
  const auto w = mtf::variable<double>(*dry, "w", mtf::init::ones, A{4});
  dry.reset();
  REFUSED(w + w);
  refused("assign", [&] { w.assign(w); });
  CHECK(w.path() == "w");
}

TEST_CASE("tensors destroyed on a thread that ends leave nothing behind") {
  World world(MPI_COMM_SELF, {.mesh = "rows:1;cols:1"});
  const auto w = mtf::variable<double>(world, "w", mtf::init::ones, A{4});
  const auto round = [&] {
    auto loss = std::make_unique<mtf::Tensor<World, double>>(mtf::reduce_sum(mtf::square(w) * 2.0));
    std::thread([&] { loss.reset(); }).join();
  };
  for (int i = 0; i < 100; ++i) round();
  const auto before = mallinfo2().uordblks;
  for (int i = 0; i < 2000; ++i) round();
  const auto after = mallinfo2().uordblks;
  CHECK(static_cast<double>(after) - static_cast<double>(before) < 100.0 * 2000);
  CHECK(mtf::item(mtf::reduce_sum(w)) == 4);
}

TEST_CASE("steps whose extents grow keep a bounded amount, and their values are right") {
  const auto world = make_world();
  const auto w = mtf::variable<double>(*world, "w", mtf::init::ones, b);
  for (std::int64_t rows = 1; rows < 400; ++rows) {
    const auto x = mtf::ones<double>(*world, A{rows * ranks()}, b);
    const auto [dw] = mtf::gradients(mtf::reduce_sum(mtf::square(x * w)), w);
    CHECK(host(dw)[3] == 2.0 * static_cast<double>(rows * ranks()));
  }
  const auto& pool = world->engine().pool();
  CHECK(pool.cached_bytes() + pool.live_bytes() <= 2 * pool.peak_bytes() + pool.peak_bytes() / 2);
}
