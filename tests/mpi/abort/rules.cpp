// What a world says of layout rules that split nothing, by the first argument. See ends.py for what each must do.
#include <cstdio>
#include <string>
#include <vector>

#include <mtf/mtf.hpp>

namespace {

struct Batch : mtf::Dim<"batch", 8> {};
struct Hidden : mtf::Dim<"hidden", 4> {};
struct Mesh : mtf::Mesh<mtf::Axis<"rows", 2>, mtf::Axis<"cols", 2>> {};
struct Misspelt : mtf::Layout<mtf::Split<"bacth", "rows">, mtf::Split<"hidden", "cols">> {};
using World = mtf::World<mtf::dynamic_mesh, mtf::dynamic_layout>;
constexpr const char* misspelt = "bacth:rows;hidden:cols";

/// Steps of an optimizer; what the variable holds afterwards.
template <class W>
double train(W& world, int steps) {
  const auto w = mtf::variable<double, Hidden>(world, "w", mtf::init::ones);
  mtf::Sgd<W, double> sgd(world);
  for (int i = 0; i < steps; ++i) {
    const auto loss = mtf::reduce_sum(mtf::square(mtf::ones<double>(world, Batch{}, Hidden{}) * w));
    sgd.apply(mtf::gradients_of_variables(world, loss), 0.01);
  }
  return mtf::item(mtf::reduce_sum(w));
}

template <class W>
void say_met(W& world) {
  if (world.rank() == 0) {
    std::puts("met");
    std::fflush(stdout);
  }
}

int inside(const std::string& how) {
  const auto options = [](const char* layout, mtf::UnusedRules unused) {
    return mtf::WorldOptions{.mesh = "rows:2;cols:2", .layout = layout, .unused_rules = unused};
  };
  if (how == "rules_types") {
    mtf::World<Mesh, Misspelt> world(MPI_COMM_WORLD);
    (void)train(world, 2);
    say_met(world);
  } else if (how == "rules_step") {
    World world(MPI_COMM_WORLD, {.mesh = "rows:2;cols:2", .layout = misspelt});
    (void)train(world, 3);
    say_met(world);
  } else if (how == "rules_end") {
    World world(MPI_COMM_WORLD, {.mesh = "rows:2;cols:2", .layout = "batch:rows;hiden:cols;planes:cols"});
    if (mtf::item(mtf::reduce_sum(mtf::ones<double>(world, Batch{}, Hidden{}))) != 32) return 9;
    say_met(world);
  } else if (how == "rules_none") {
    {  // ignored
      World world(MPI_COMM_WORLD, options(misspelt, mtf::UnusedRules::ignore));
      (void)train(world, 1);
    }
    {  // no tensor at all
      World world(MPI_COMM_WORLD, options(misspelt, mtf::UnusedRules::error));
    }
    {  // an optional rule whose axis is absent
      World world(MPI_COMM_WORLD, options("bacth:planes?;hidden:cols", mtf::UnusedRules::error));
      (void)train(world, 2);
    }
    {  // all are used
      World world(MPI_COMM_WORLD, options("batch:rows;hidden:cols", mtf::UnusedRules::error));
      (void)train(world, 1);
      say_met(world);
    }
  } else if (how == "rules_caught") {
    World world(MPI_COMM_WORLD, options(misspelt, mtf::UnusedRules::error));
    int caught = 0;
    try {
      (void)train(world, 1);
    } catch (const mtf::plan_error& error) {
      caught = std::string(error.what()).find("\"bacth\" (did you mean \"batch\"?)") != std::string::npos ? 1 : 0;
    }
    int all = 0;
    MPI_Allreduce(&caught, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (all != world.size()) return 9;
    // Nothing was changed, and the world goes on.
    const auto& variables = world.registry().all();
    if (variables.size() != 1) return 9;
    const auto values = mtf::detail::gather_to_host<double>(world.engine(), *variables[0]->slice());
    if (values != std::vector<double>(4, 1.0) || !world.verify_replicas()) return 9;
    say_met(world);
  } else if (how == "rules_error") {
    World world(MPI_COMM_WORLD, options(misspelt, mtf::UnusedRules::error));
    say_met(world);
    (void)train(world, 1);
    std::puts("went on");
  } else if (how == "rules_error_end") {
    {
      World world(MPI_COMM_WORLD, options(misspelt, mtf::UnusedRules::error));
      (void)mtf::item(mtf::reduce_sum(mtf::ones<double>(world, Batch{}, Hidden{})));
      say_met(world);
    }
    std::puts("went on");
  } else if (how == "rules_unwinding") {
    World world(MPI_COMM_WORLD, options(misspelt, mtf::UnusedRules::warn));
    (void)mtf::item(mtf::reduce_sum(mtf::ones<double>(world, Batch{}, Hidden{})));
    say_met(world);
    (void)mtf::from_global<double>(world, std::vector<double>(3), Batch{});
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string how = argc > 1 ? argv[1] : "";
  return mtf::run(argc, argv, [&] { return inside(how); });
}
