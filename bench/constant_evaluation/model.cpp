// A training step of LAYERS Transformer layers of the paper's model, counted by the compiler; as a program it prints
// the number of planned operations. Without LAYERS nothing is evaluated: what the rest of the file costs.
#include <cstdio>

#include <mtf/model.hpp>

struct Batch : mtf::Dim<"batch", 256> {};
struct Length : mtf::Dim<"length", 256> {};
struct Memory : mtf::Dim<"memory_length", 256> {};
struct Model : mtf::Dim<"d_model", 1024> {};
struct Heads : mtf::Dim<"heads", 256> {};
struct Kv : mtf::Dim<"d_kv", 256> {};
struct Ff : mtf::Dim<"d_ff", 262144> {};
struct Vocab : mtf::Dim<"vocab", 32768> {};
struct Dims {
  Batch batch;
  Length length;
  Memory memory;
  Model d_model;
  Heads heads;
  Kv d_kv;
  Ff d_ff;
  Vocab vocab;
};
struct Mesh : mtf::Mesh<mtf::Axis<"rows", 16>, mtf::Axis<"cols", 32>> {};
struct Layout : mtf::Layout<mtf::Split<"batch", "rows">, mtf::Split<"heads", "cols">, mtf::Split<"d_ff", "cols">,
                            mtf::Split<"vocab", "cols">> {};

struct Step {
  std::int64_t layers;
  constexpr void operator()(auto& world) const {
    using World = std::remove_reference_t<decltype(world)>;
    const mtf::LanguageModel<World, float, Dims> model(world, Dims{}, {.layers = layers});
    const auto inputs = mtf::placeholder<std::int32_t>(world, Batch{}, Length{});
    const auto targets = mtf::placeholder<std::int32_t>(world, Batch{}, Length{});
    mtf::Adam<World, float> adam(world);
    adam.apply(mtf::gradients_of_variables(world, model.loss(inputs, targets, true, mtf::seed{1})), 0.1);
  }
};

int main() {
#ifdef LAYERS
  constexpr mtf::Cost cost = mtf::cost<Mesh, Layout>(Step{LAYERS});
#else
  const mtf::Cost cost = mtf::cost<Mesh, Layout>(Step{1});
#endif
  std::int64_t operations = 0;
  for (const mtf::WorkCost& work : cost.work_costs) operations += work.count;
  for (const mtf::CollectiveCost& collective : cost.collective_costs) operations += collective.count;
  std::printf("%lld\n", static_cast<long long>(operations));
}
