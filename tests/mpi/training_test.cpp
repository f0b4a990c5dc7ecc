// Optimizers, and the language model: reference values, equal training under every mesh and layout, what a step sends.
#include <algorithm>

#include "support.hpp"

using namespace support;

namespace {

using ModelDims = mtf::LanguageModelDims;

struct TypedMesh : mtf::Mesh<mtf::Axis<"rows">, mtf::Axis<"cols">> {};
struct Grid : mtf::Layout<mtf::Split<"batch", "rows">, mtf::Split<"heads", "cols">, mtf::Split<"d_ff", "cols">,
                          mtf::Split<"vocab", "cols">> {};
using TypedWorld = mtf::World<TypedMesh, Grid>;
constexpr std::string_view grid = "batch:rows;heads:cols;d_ff:cols;vocab:cols";
constexpr std::string_view data = "batch:rows,cols";
constexpr std::string_view model_parallel = "heads:rows,cols;d_ff:cols,rows;vocab:rows,cols";

const ModelDims small{{16}, {8}, {8}, {12}, {8}, {2}, {16}, {24}};

/// Token ids that can be learned in part: mostly 5 x + 3 of the one before.
Ids tokens_of_step(std::int64_t step, std::int64_t count, std::int64_t vocab) {
  Ids ids;
  std::uint64_t state = 12345U + 7919U * static_cast<std::uint64_t>(step);
  std::int64_t last = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    const auto noise = static_cast<std::int64_t>(state >> 40U);
    last = noise % 4 == 0 ? noise / 4 % vocab : (5 * last + 3) % vocab;
    ids.push_back(static_cast<std::int32_t>(last));
  }
  return ids;
}

template <class W, class T>
mtf::LanguageModel<W, T, ModelDims> small_model(W& world, double dropout) {
  return {world, small, {.layers = 2, .dropout = dropout}};
}
template <class W, class T>
auto loss_of_step(W& world, const mtf::LanguageModel<W, T, ModelDims>& model, std::int64_t step) {
  const std::int64_t count = small.batch.extent() * small.length.extent();
  const auto inputs =
      mtf::from_global(world, tokens_of_step(2 * step, count, small.vocab.extent()), small.batch, small.length);
  const auto targets =
      mtf::from_global(world, tokens_of_step(2 * step + 1, count, small.vocab.extent()), small.batch, small.length);
  return model.loss(inputs, targets, true, mtf::seed{3} / step);
}

struct Trained {
  std::vector<std::string> paths;
  std::vector<Host> first_gradients;
  std::vector<Host> variables;
  Host losses;
};

template <class T, class W>
Host host_of(W& world, const mtf::Value& value) {
  const std::vector<T> elements = mtf::detail::gather_to_host<T>(world.engine(), value);
  return {elements.begin(), elements.end()};
}

template <class T, class W, class Optimizer>
Trained train(W& world, Optimizer& optimizer, double rate, int steps) {
  const auto model = small_model<W, T>(world, 0.1);
  Trained result;
  for (int step = 0; step < steps; ++step) {
    const auto loss = loss_of_step<W, T>(world, model, step);
    const mtf::VariableGradients gradients = mtf::gradients_of_variables(world, loss);
    if (step == 0) {
      for (std::size_t i = 0; i < gradients.values.size(); ++i) {
        result.paths.emplace_back(gradients.variables[i]->path.view());
        result.first_gradients.push_back(host_of<T>(world, *gradients.value(i)));
      }
    }
    optimizer.apply(gradients, rate);
    result.losses.push_back(static_cast<double>(mtf::item(loss)));
  }
  for (const auto& state : world.registry().all()) {
    if (state->trainable) result.variables.push_back(host_of<T>(world, *state->leaf.value));
  }
  return result;
}

struct Tolerance {
  double gradient, variable;
};
void check_equal_training(const Trained& got, const Trained& expected, const Tolerance& tolerance,
                          const std::string& place) {
  REQUIRE(got.paths == expected.paths);
  for (std::size_t i = 0; i < got.paths.size(); ++i) {
    check_close(got.first_gradients[i], expected.first_gradients[i], tolerance.gradient,
                place + ", first gradient of " + got.paths[i]);
    check_close(got.variables[i], expected.variables[i], tolerance.variable,
                place + ", " + got.paths[i] + " after training");
  }
  check_close(got.losses, expected.losses, tolerance.variable, place + ", losses");
}

/// The meshes 1x1, 2x1, 1x2, 2x2, 4x2, as far as this number of ranks has them.
std::vector<std::string> training_meshes() {
  switch (ranks()) {
    case 1: return {mesh_text(1, 1)};
    case 2: return {mesh_text(2, 1), mesh_text(1, 2)};
    case 4: return {mesh_text(2, 2)};
    case 8: return {mesh_text(4, 2)};
    default: return {};
  }
}

template <class T, class MakeOptimizer>
void compare_training(const MakeOptimizer& make, double rate, const Tolerance& tolerance) {
  constexpr int steps = 50;
  World alone(MPI_COMM_SELF, {.mesh = "rows:1;cols:1", .seed = 11});
  auto reference = make(alone);
  const Trained expected = train<T>(alone, reference, rate, steps);
  CHECK(expected.losses.back() < expected.losses.front() - 0.1);
  for (const std::string& mesh : training_meshes()) {
    for (const std::string_view layout : {data, model_parallel, grid}) {
      World world(MPI_COMM_WORLD, {.mesh = mesh, .layout = layout, .seed = 11});
      auto optimizer = make(world);
      check_equal_training(train<T>(world, optimizer, rate, steps), expected, tolerance,
                           fmt::format("mesh {}, layout {}", mesh, layout));
      CHECK(world.verify_replicas());
      CHECK(world.agree(world.counters().sequence()) == world.counters().sequence());
    }
  }
}

/// A 2 x 3 variable, two steps on given gradients.
const Host start{1, -2, 3, .5, 0, -1};
const Host first_gradient{.1, -.2, .3, 0, .5, -.6};
const Host second_gradient{-.3, .1, .2, .4, 0, .1};

template <class Optimizer>
void check_two_steps(World& world, const mtf::Variable<World, double, A, B>& w, Optimizer& optimizer, double rate,
                     const Host& after_first, const Host& after_second) {
  const A two{2};
  const B three{3};
  w.assign(mtf::from_global<double>(world, start, two, three));
  const auto step = [&](const Host& gradient) {
    optimizer.apply(
        mtf::gradients_of_variables(world, mtf::reduce_sum(w * mtf::from_global<double>(world, gradient, two, three))),
        rate);
  };
  step(first_gradient);
  check_close(host(w), after_first, 1e-10, "after the first step");
  step(second_gradient);
  check_close(host(w), after_second, 1e-10, "after the second step");
}

void check_descent(World& world) {
  const auto w = mtf::variable<double>(world, "descent", mtf::init::zeros, A{2}, B{3});
  mtf::Sgd<World, double> sgd(world);
  check_two_steps(world, w, sgd, .1, {.99, -1.98, 2.97, .5, -.05, -.94}, {1.02, -1.99, 2.95, .46, -.05, -.95});
  CHECK(world.registry().all().size() == 1);
}
void check_momentum(World& world) {
  const auto w = mtf::variable<double>(world, "momentum", mtf::init::zeros, A{2}, B{3});
  mtf::Sgd<World, double> sgd(world, .9);
  Host first(6);
  Host second(6);
  for (std::size_t i = 0; i < 6; ++i) {
    const double velocity = .1 * first_gradient[i];
    first[i] = start[i] - velocity;
    second[i] = first[i] - (.9 * velocity + .1 * second_gradient[i]);
  }
  check_two_steps(world, w, sgd, .1, first, second);
  const mtf::VariableState* velocity = world.registry().find("momentum/momentum_v");
  CHECK((velocity != nullptr && !velocity->trainable));
}
void check_adam(World& world) {
  const auto w = mtf::variable<double>(world, "adam", mtf::init::zeros, A{2}, B{3});
  mtf::Adam<World, double> adam(world, {.weight_decay = .1});
  check_two_steps(world, w, adam, .01, {.9673872202, -1.9663822226, 2.9653805564, .4995, -.0316207767, -.96737889},
                  {.9874187831, -1.9530992047, 2.92118279, .4673802232, -.0600620941, -.9435270543});
  for (const char* path : {"adam/adam_m", "adam/adam_v"}) {
    const mtf::VariableState* slot = world.registry().find(path);
    CHECK((slot != nullptr && !slot->trainable));
    CHECK((slot != nullptr && slot->placement() == w.state().placement()));
  }
  CHECK(mtf::gradients_of_variables(world, mtf::reduce_sum(w)).variables.size() == 1);
  CHECK(world.verify_replicas());
}

/// The deterministic weights of the reference values.
double reference_weight(std::int64_t i) { return static_cast<double>((7 * i + 3) % 11 - 5) / 10; }

struct ReferenceCase {
  const char* name;
  mtf::LanguageModelOptions options;
  bool training;
  double loss, squares;
  Host logits;
};

void check_reference(World& world, const ReferenceCase& example) {
  const ModelDims dims{{2}, {6}, {6}, {4}, {2}, {2}, {8}, {8}};
  const mtf::LanguageModel<World, double, ModelDims> model(world, dims, example.options);
  for (const auto& state : world.registry().all()) {
    if (state->path.view().find("norm") != std::string_view::npos) continue;
    state->assign(mtf::untyped::initial<World::engine_type, double>(world.engine(), state->placement(),
                                                                    mtf::init::function(reference_weight), {}));
  }
  const auto targets = mtf::from_global(world, Ids{2, 5, 3, 1, 0, 0, 4, 7, 6, 2, 5, 1}, dims.batch, dims.length);
  const auto inputs = mtf::from_global(world, Ids{0, 2, 5, 3, 1, 0, 0, 4, 7, 6, 2, 5}, dims.batch, dims.length);
  const auto loss = model.loss(inputs, targets, example.training, mtf::seed{1});
  const mtf::VariableGradients gradients = mtf::gradients_of_variables(world, loss);
  double squares = 0;
  for (const auto& value : gradients.values) {
    for (const double g : host_of<double>(world, *value)) squares += g * g;
  }
  CHECK_MESSAGE(std::abs(mtf::item(loss) - example.loss) < 5e-9, example.name);
  CHECK_MESSAGE(std::abs(squares - example.squares) < 5e-9, example.name);
  const Host logits = host(model.logits(inputs, example.training, mtf::seed{1}));
  for (std::size_t i = 0; i < 8; ++i)
    CHECK_MESSAGE(std::abs(logits[(6 + 2) * 8 + i] - example.logits[i]) < 6e-8, example.name);
}

/// What one training step sends, in order.
template <class W>
std::vector<std::string> step_of(W& world) {
  const auto model = small_model<W, double>(world, 0.1);
  mtf::Sgd<W, double> sgd(world, 0.9);
  std::vector<std::string> sent;
  for (int step = 0; step < 2; ++step) {  // the second step is like the first
    watch_collectives(world);
    const auto loss = loss_of_step<W, double>(world, model, step);
    sgd.apply(mtf::gradients_of_variables(world, loss), 0.1);
    (void)mtf::item(loss);
    if (step == 1) CHECK(collectives(world) == sent);
    sent = collectives(world);
  }
  return sent;
}

}  // namespace

TEST_CASE("optimizers have the reference's numbers, on one rank and split") {
  const auto check = [](MPI_Comm comm, const std::string& mesh, std::string_view layout) {
    World descent(comm, {.mesh = mesh, .layout = layout});
    check_descent(descent);
    World momentum(comm, {.mesh = mesh, .layout = layout});
    check_momentum(momentum);
    World adam(comm, {.mesh = mesh, .layout = layout});
    check_adam(adam);
  };
  check(MPI_COMM_SELF, mesh_text(1, 1), "");
  if (ranks() >= 2) check(MPI_COMM_WORLD, mesh_text(2, ranks() / 2), "a:rows");
  if (ranks() >= 3) {  // the reference's own split: a part of the ranks
    MPI_Comm three = MPI_COMM_NULL;
    MPI_Comm_split(MPI_COMM_WORLD, rank_of_process() < 3 ? 0 : MPI_UNDEFINED, 0, &three);
    if (three != MPI_COMM_NULL) {
      check(three, "p:3", "b:p");
      MPI_Comm_free(&three);
    }
  }
}

TEST_CASE("gradients under a layout: the language model has the reference's loss, gradient and logits") {
  const Host one_block{.1474404, .0417983, -.5400288, .3765969, -.7192254, -.3108724, .6057533, .4145293};
  const Host two_blocks{.1664162, -.0054122, -.4182873, .3613174, -.9310438, -.2233861, .5562186, .3847308};
  const std::vector<ReferenceCase> examples{
      {"base", {.layers = 1, .zero_is_padding = true}, true, 1.817368214, .457470336, one_block},
      {"evaluation", {.layers = 1, .zero_is_padding = true}, false, 1.816962935, .457413739, one_block},
      {"label smoothing",
       {.layers = 1, .label_smoothing = .1, .zero_is_padding = true},
       true,
       1.820635781,
       .381297956,
       one_block},
      {"two blocks", {.layers = 2, .zero_is_padding = true}, true, 1.833387873, .439293465, two_blocks},
  };
  for (const ReferenceCase& example : examples) {
    World alone(MPI_COMM_SELF, {.mesh = "p:1;q:1"});
    check_reference(alone, example);
    if (ranks() == 2) {
      for (const char* mesh : {"p:2;q:1", "p:1;q:2"}) {
        World world(MPI_COMM_WORLD, {.mesh = mesh, .layout = "batch:p;heads:q;d_ff:q;vocab:q"});
        check_reference(world, example);
      }
    }
    if (ranks() == 4) {
      World world(MPI_COMM_WORLD, {.mesh = "p:2;q:2", .layout = "batch:p;heads:q;d_ff:q;vocab:q"});
      check_reference(world, example);
      CHECK(world.verify_replicas());
      World other(MPI_COMM_WORLD, {.mesh = "p:2;q:2", .layout = "batch:p;d_model:q"});
      check_reference(other, example);
    }
    if (ranks() == 8) {
      World world(MPI_COMM_WORLD, {.mesh = "p:2;q:4", .layout = "batch:p;d_ff:q;vocab:q"});
      check_reference(world, example);
    }
  }
}

TEST_CASE("gradients under a layout: training is equal under every mesh and layout: momentum and dropout in double") {
  compare_training<double>([](World& w) { return mtf::Sgd<World, double>(w, 0.9); }, 0.1,
                           {.gradient = 1e-12, .variable = 1e-10});
}
TEST_CASE("training is equal under every mesh and layout: momentum and dropout in float") {
  compare_training<float>([](World& w) { return mtf::Sgd<World, float>(w, 0.9); }, 0.1,
                          {.gradient = 1e-5, .variable = 1e-4});
}
TEST_CASE("training is equal under every mesh and layout: Adam in float") {
  compare_training<float>([](World& w) { return mtf::Adam<World, float>(w, {.weight_decay = 0.01}); }, 0.002,
                          {.gradient = 1e-5, .variable = 1e-3});
}

TEST_CASE("a layout as a type and as a value send the same") {
  for (const std::string& mesh : training_meshes()) {
    TypedWorld typed(MPI_COMM_WORLD, {.mesh = mesh, .seed = 11});
    World world(MPI_COMM_WORLD, {.mesh = mesh, .layout = grid, .seed = 11});
    CHECK(step_of(typed) == step_of(world));
    CHECK(typed.counters().sequence() == world.counters().sequence());
    for (const auto& state : typed.registry().all()) {
      const mtf::VariableState* other = world.registry().find(state->path.view());
      CHECK(other != nullptr);
      if (other != nullptr)
        CHECK(host_of<double>(typed, *state->leaf.value) == host_of<double>(world, *other->leaf.value));
    }
    CHECK(typed.verify_replicas());
  }
}

TEST_CASE("a step of the language model sends what the closed form says") {
  constexpr std::int64_t layers = 2;
  for (const std::string& mesh : meshes()) {
    World world(MPI_COMM_WORLD, {.mesh = mesh, .layout = grid});
    (void)step_of(world);
    const std::int64_t rows = world.mesh().axes[0].size;
    const std::int64_t tokens = small.batch.extent() * small.length.extent();
    const mtf::AxisSet over_rows = mtf::AxisSet::of(0);
    const mtf::AxisSet over_cols = mtf::AxisSet::of(1);
    std::int64_t activations = 0;
    std::int64_t scalars_per_token = 0;
    std::int64_t row_elements = 0;
    std::int64_t row_count = 0;
    for (const mtf::Record& plan : world.records()) {
      if (!plan.is_collective) continue;
      CHECK(plan.collective == mtf::Collective::all_reduce);
      CHECK((plan.axes == over_rows || plan.axes == over_cols));
      if (plan.axes == over_rows) {
        ++row_count;
        row_elements += plan.count;
      } else if (plan.count == tokens / rows * small.d_model.extent()) {
        ++activations;
      } else {
        CHECK(plan.count == tokens / rows);
        ++scalars_per_token;
      }
    }
    CHECK(activations == 4 * layers + 2);
    CHECK(scalars_per_token == 3);
    std::int64_t variables = 0;
    std::int64_t parameters = 0;
    for (const auto& state : world.registry().all()) {
      if (!state->trainable) continue;
      ++variables;
      parameters += state->placement().local_size();
    }
    CHECK(row_count == variables + 1);
    CHECK(row_elements == parameters + 1);
    // The totals say the same as the trace.
    CHECK(world.totals("rows").count == variables + 1);
    CHECK(world.totals("rows").elements == parameters + 1);
    CHECK(world.totals("rows").bytes == 8 * (parameters + 1));
    CHECK(world.totals("cols").count == 4 * layers + 5);
    CHECK(world.totals("cols").elements == tokens / rows * ((4 * layers + 2) * small.d_model.extent() + 3));
    CHECK(world.totals("rows", "cols").count == 0);
    const double share = 2.0 * static_cast<double>(rows - 1) / static_cast<double>(rows);
    CHECK(world.totals("rows").wire_bytes == doctest::Approx(share * 8 * static_cast<double>(parameters + 1)));
  }
}

TEST_CASE("a dry run does and sends what the world does and sends, in the same order, and needs as much memory") {
  for (const std::string& mesh : meshes()) {
    for (const std::string_view layout :
         {std::string_view{}, grid, data, model_parallel, std::string_view{"batch:rows;vocab:cols"}}) {
      const auto step = [&](auto& world, const auto& inputs, const auto& targets) {
        using W = std::remove_reference_t<decltype(world)>;
        const mtf::LanguageModel<W, float, ModelDims> model = small_model<W, float>(world, 0.2);
        mtf::Adam<W, float> adam(world);
        for (int i = 0; i < 2; ++i)
          adam.apply(mtf::gradients_of_variables(world, model.loss(inputs, targets, true, mtf::seed{3})), 0.01);
      };
      mtf::DryRun<mtf::dynamic_mesh, mtf::dynamic_layout> dry({.mesh = mesh, .layout = layout});
      dry.start_tracing();
      step(dry, mtf::placeholder<std::int32_t>(dry, small.batch, small.length),
           mtf::placeholder<std::int32_t>(dry, small.batch, small.length));

      World world(MPI_COMM_WORLD, {.mesh = mesh, .layout = layout});
      const std::int64_t count = small.batch.extent() * small.length.extent();
      watch_collectives(world);
      step(world, mtf::from_global(world, tokens_of_step(0, count, small.vocab.extent()), small.batch, small.length),
           mtf::from_global(world, tokens_of_step(1, count, small.vocab.extent()), small.batch, small.length));

      check_same_work(world.records(), dry.records(), fmt::format("mesh {}, layout {}", mesh, layout));
      const auto measured = static_cast<double>(world.engine().pool().peak_bytes());
      CHECK_MESSAGE(std::abs(static_cast<double>(dry.cost().peak_bytes) / measured - 1) < 0.05, mesh, ", ",
                    std::string(layout), ": planned ", dry.cost().peak_bytes, ", measured ", measured);
    }
  }
}

TEST_CASE("a data-parallel step sends the gradients and the loss only; evaluation sends the loss") {
  for (const std::string& mesh : meshes()) {
    World world(MPI_COMM_WORLD, {.mesh = mesh, .layout = data});
    const std::vector<std::string> sent = step_of(world);
    std::int64_t variables = 0;
    for (const auto& state : world.registry().all()) variables += state->trainable ? 1 : 0;
    CHECK(std::ssize(sent) == variables + 1);
    for (const std::string& line : sent) CHECK(line.find("allreduce over rows,cols of ") == 0);
    CHECK(sent.back() == "allreduce over rows,cols of 1");
  }
}

TEST_CASE("a replica that differs in one bit is found") {
  if (ranks() == 1) return;
  World world(MPI_COMM_WORLD, {.mesh = mesh_text(ranks(), 1), .layout = "a:rows"});
  (void)mtf::variable<double>(world, "split", mtf::init::normal(1), a);
  const auto replicated = mtf::variable<double>(world, "replicated", mtf::init::normal(1), b);
  CHECK(world.verify_replicas());
  if (rank_of_process() == 1) {
    Host elements(16);
    world.engine().read(*replicated.state().leaf.value->block, elements.data());
    elements[5] = std::nextafter(elements[5], 1e9);
    world.engine().write(*replicated.state().leaf.value->block, elements.data());
  }
  CHECK(!world.verify_replicas());
}
