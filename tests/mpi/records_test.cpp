// Records: a dry run keeps those of a world, operation by operation, also where ranks exchange parts or functions run
// again.
#include "support.hpp"

using namespace support;

namespace {

struct Half : mtf::Dim<"half"> {};
inline const Half half{4};

/// A tensor that a World and a DryRun make alike, by no operation that has records.
template <class T, class W, class... Dims>
auto given(W& world, const Dims&... dims) {
  if constexpr (requires { world.comm(); }) {
    const std::vector<T> elements(static_cast<std::size_t>((dims.extent() * ...)), T(1));
    return mtf::from_global(world, elements, dims...);
  } else {
    return mtf::placeholder<T>(world, dims...);
  }
}

constexpr auto moves = [](auto& world) {
  const auto x = mtf::watch(given<float>(world, a, b));
  const auto shifted = mtf::shift<B>(mtf::reverse<A>(x), 3, {.wrap = true});
  const auto reshaped = mtf::reshape(shifted, b, a);
  const auto renamed = mtf::rename<A, C>(reshaped);
  const auto parts = mtf::slice<A>(shifted, 2, half);
  (void)mtf::gradients(mtf::reduce_sum(mtf::square(renamed)) + mtf::reduce_sum(mtf::square(parts)), x);
};
constexpr auto selections = [](auto& world) {
  const auto x = mtf::watch(given<double>(world, a, b));
  const auto sums = mtf::cumsum<B>(mtf::sort<A>(x).values);
  (void)mtf::argmax<B>(x);
  (void)mtf::reduce_any<A>(mtf::greater(x, 0.5));
  const auto chosen = mtf::where(mtf::greater(x, 0.0), x, mtf::dropout(x, 0.3, mtf::seed{1}));
  (void)mtf::gradients(mtf::reduce_sum(mtf::square(sums)) + mtf::reduce_sum(mtf::log_softmax<B>(chosen)), x);
};
/// Partial sums of bfloat16 that stay in float, and are rounded.
constexpr auto halves = [](auto& world) {
  const auto x = mtf::watch(given<mtf::bfloat16>(world, a, b));
  const auto y = mtf::watch(given<mtf::bfloat16>(world, b, c));
  const auto product = mtf::einsum<A, C>(x, y);
  const auto twice = product + product;
  (void)mtf::gradients(mtf::reduce_sum(mtf::tanh(twice)), x, y);
};
constexpr auto replays = [](auto& world) {
  using W = std::remove_reference_t<decltype(world)>;
  const auto w = mtf::variable<float>(world, "w", mtf::init::normal(1), b, c);
  const auto x = given<float>(world, a, b);
  mtf::Sgd<W, float> sgd(world, 0.9);
  auto [gradients, loss] = mtf::serialize_training_step(
      world, A{4},
      [&](mtf::Microbatch part, const auto& rows) {
        const auto y = mtf::recompute(
            [](const auto& in, const auto& weights) { return mtf::relu(mtf::einsum<A, C>(in, weights)); }, rows,
            w.read());
        return mtf::reduce_mean(mtf::softmax<C>(y) * mtf::softmax<C>(y)) / part.count;
      },
      x);
  sgd.apply(gradients, 0.1);
};

template <class F>
void compare(const char* name, const F& program, std::initializer_list<const char*> layouts) {
  for (const std::string& mesh : meshes()) {
    for (const char* layout : layouts) {
      const std::string place = fmt::format("{}, mesh {}, layout {}", name, mesh, layout);
      mtf::DryRun<mtf::dynamic_mesh, mtf::dynamic_layout> dry({.mesh = mesh, .layout = layout});
      World world(MPI_COMM_WORLD, {.mesh = mesh, .layout = layout});
      dry.start_tracing();
      world.start_tracing();
      bool refused = false;
      try {
        program(dry);
      } catch (const mtf::plan_error&) {
        refused = true;
      }
      if (refused) {
        CHECK_THROWS_AS(program(world), mtf::plan_error);
        continue;
      }
      program(world);
      // A dry run is that of rank 0; others may send and keep other parts of an exchange.
      if (rank_of_process() == 0) check_same_work(world.records(), dry.records(), place);
    }
  }
}

}  // namespace

TEST_CASE("a dry run keeps the records of a world: indices that move") {
  compare("moves", moves, {"", "a:rows;b:cols", "b:rows", "b:rows,cols"});
}
TEST_CASE("a dry run keeps the records of a world: selection and scans") {
  compare("selections", selections, {"", "a:rows;b:cols", "a:cols", "b:cols,rows"});
}
TEST_CASE("a dry run keeps the records of a world: bfloat16") {
  compare("halves", halves, {"", "a:rows;b:cols", "b:rows", "a:rows;c:cols", "b:rows,cols"});
}
TEST_CASE("a dry run keeps the records of a world: functions run again, batches in parts") {
  compare("replays", replays, {"", "a:rows;b:cols", "a:rows;c:cols", "b:rows"});
}

TEST_CASE("records cost nothing while nobody asks for them") {
  World world(MPI_COMM_WORLD, {.mesh = mesh_text(ranks(), 1), .layout = "a:rows"});
  moves(world);
  CHECK(world.records().empty());
  CHECK(world.records().data() == nullptr);
}
