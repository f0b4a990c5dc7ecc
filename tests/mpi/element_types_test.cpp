// Variables of several element types, their updates, and the element types bfloat16 and bool.
#include "support.hpp"

using namespace support;

namespace {

using Mixed = mtf::ElementTypes<double, double, float>;
const std::initializer_list<std::string_view> layouts{"", "a:rows", "k:cols", "a:rows;k:cols", "a:rows,cols"};

}  // namespace

TEST_CASE("a variable is read in its activation type and updated in its slice type") {
  for_each_layout(layouts, [&](const Pair& pair) {
    World& world = pair.world;
    if (!legal(world, mtf::Shape(a, k).value())) return;
    World w(MPI_COMM_WORLD,
            {.mesh = fmt::format("rows:{};cols:{}", world.mesh().axes[0].size, world.mesh().axes[1].size),
             .layout = pair.place.substr(pair.place.find("layout ") + 7)});
    const auto kept = mtf::variable<Mixed>(w, "v", mtf::init::normal(1), a, k);
    const auto same = mtf::variable<double>(w, "same", mtf::init::normal(1), a, k);
    static_assert(std::same_as<mtf::element_of<decltype(kept)>, float>);
    CHECK(kept.state().slice()->type() == mtf::ElementType::float64);
    CHECK(kept.state().leaf.value->type() == mtf::ElementType::float32);
    const Host before = mtf::detail::gather_to_host<double>(w.engine(), *kept.state().slice());
    const auto snapshot = kept.read();
    const Host snapshot_elements = host(snapshot);
    for (std::size_t i = 0; i < before.size(); ++i)
      CHECK(snapshot_elements[i] == static_cast<double>(static_cast<float>(before[i])));
    // Below the resolution of the activation type.
    const auto tiny = normal(w, 3, a, k) * 1e-12;
    kept.assign_add(tiny);
    kept.assign_sub(tiny * 3.0);
    const Host after = mtf::detail::gather_to_host<double>(w.engine(), *kept.state().slice());
    const Host step = host(tiny);
    for (std::size_t i = 0; i < before.size(); ++i)
      CHECK(std::abs(after[i] - (before[i] - 2 * step[i])) <= 1e-15 * (1 + std::abs(before[i])));
    CHECK(host(snapshot) == snapshot_elements);
    kept.assign(normal(w, 4, a, k));
    CHECK(mtf::detail::gather_to_host<double>(w.engine(), *kept.state().slice()) == host(normal(w, 4, a, k)));
    CHECK(host(snapshot) == snapshot_elements);
    kept.assign_add(mtf::random_normal_of<float>(w, mtf::seed{1}, 0, 1, a, k));  // another type than the slice's
    kept.assign_add(kept);
    CHECK(kept.state().version == 5);
    // A pending value is completed.
    same.assign(mtf::zeros<double>(w, a, k));
    const auto x = normal(w, 5, a, k, B{16});
    same.assign_sub(mtf::reduce_sum<B>(x));
    check_close(host(same), host(mtf::reduce_sum<B>(x) * -1.0), 1e-13, pair.place);
    CHECK(w.verify_replicas());
  });
}

TEST_CASE("assign_add and assign_sub write in place only if nobody holds the version") {
  World w(MPI_COMM_WORLD, {.mesh = mesh_text(ranks(), 1), .layout = "a:rows"});
  const auto kept = mtf::variable<double>(w, "v", mtf::init::normal(1), a, k);
  const void* memory = kept.state().slice()->block->data;
  kept.assign_add(normal(w, 1, a, k));
  CHECK(kept.state().slice()->block->data == memory);
  const auto held = kept.read();
  const Host elements = host(held);
  kept.assign_sub(normal(w, 1, a, k));
  CHECK(kept.state().slice()->block->data != memory);
  CHECK(host(held) == elements);
  const auto loss = mtf::reduce_sum(mtf::square(kept));  // the graph holds it
  kept.assign_sub(kept);
  const auto [dv] = mtf::gradients({.when_unused = mtf::unused::zeros}, loss, kept);
  CHECK(host(dv) == Host(8 * 24, 0));  // another version than the one in the loss
  CHECK(host(kept) == Host(8 * 24, 0));
  CHECK_THROWS_WITH_AS(kept.assign_add(normal(w, 1, A{16}, k)), doctest::Contains("\"v\" has dims"), mtf::plan_error);
  World other(MPI_COMM_SELF, {.mesh = "rows:1;cols:1"});
  CHECK_THROWS_WITH_AS(kept.assign_sub(normal(other, 1, a, k)), doctest::Contains("worlds"), mtf::plan_error);
}

TEST_CASE("optimizers update the slice type with gradients of the activation type") {
  const auto train = []<class T>(std::type_identity<T>, World& w, bool adam) {
    const auto kept = mtf::variable<T>(w, "v", mtf::init::normal(1), a, k);
    mtf::Sgd<World, double> sgd(w, 0.9);
    mtf::Adam<World, double> other(w);
    for (std::uint64_t step = 0; step < 5; ++step) {
      using Element = mtf::element_of<decltype(kept)>;
      const auto x = mtf::random_normal_of<Element>(w, mtf::seed{step}, 0, 1, a, k);
      const auto gradients = mtf::gradients_of_variables(w, mtf::reduce_mean(mtf::square(kept - x)));
      if (adam) {
        other.apply(gradients, 1e-9);
      } else {
        sgd.apply(gradients, 1e-9);  // float would not move
      }
    }
    if (adam) CHECK(w.registry().find("v/adam_m")->slice()->type() == mtf::ElementType::float64);
    return mtf::detail::gather_to_host<double>(w.engine(), *kept.state().slice());
  };
  for (const bool adam : {false, true}) {
    World alone(MPI_COMM_SELF, {.mesh = "rows:1;cols:1"});
    const Host expected = train(std::type_identity<double>{}, alone, adam);
    const Host start = host(mtf::random_normal_of<double>(alone, mtf::Key{0, mtf::hash_text("v")}, 0, 1, a, k));
    World w(MPI_COMM_WORLD, {.mesh = mesh_text(1, ranks()), .layout = "a:cols"});
    const Host got = train(std::type_identity<Mixed>{}, w, adam);
    Host moved(start.size()), should(start.size());
    for (std::size_t i = 0; i < start.size(); ++i) {
      moved[i] = got[i] - start[i];
      should[i] = expected[i] - start[i];
    }
    check_close(moved, should, 1e-4, "steps that float cannot hold");
    CHECK(w.verify_replicas());
  }
  World w(MPI_COMM_SELF, {.mesh = "rows:1;cols:1"});
  const auto kept = mtf::variable<Mixed>(w, "v", mtf::init::normal(1), a);
  mtf::Sgd<World, float> wrong(w);
  CHECK_THROWS_WITH_AS(wrong.apply(mtf::gradients_of_variables(w, mtf::reduce_sum(kept)), 0.1),
                       doctest::Contains("kept as double"), mtf::plan_error);
}
