// Ranks that do not do the same, and wait for each other: a script starts each case on four ranks and reads what is said.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>

#include <mtf/mtf.hpp>

namespace {

struct Rows : mtf::Dim<"r"> {};
struct Cols : mtf::Dim<"c"> {};
using World = mtf::World<mtf::dynamic_mesh, mtf::dynamic_layout>;

mtf::WorldOptions options(const std::string& how) {
  mtf::WorldOptions result{.mesh = "rows:2;cols:2", .layout = "r:rows;c:cols", .patience = 0.2};
  // Never, where the job must end without it.
  if (how.rfind("wait_caught", 0) != 0 && how != "wait_late") result.abort_after = 0.4;
  if (how == "wait_told_at_end") result.patience = 60;
  if (how == "wait_never") result.patience = 0;
  return result;
}

/// An allreduce over both axes.
double sum_of_all(World& world) { return mtf::item(mtf::reduce_sum(mtf::ones<double>(world, Rows{8}, Cols{4}))); }

void step(World& world, const std::string& how, bool differs) {
  if (how == "wait_skipped" || how == "wait_told_at_end") {
    if (!differs) (void)sum_of_all(world);
  } else if (how == "wait_group") {
    // Only its neighbour along "cols" misses it.
    if (!differs) (void)mtf::to_host(mtf::reduce_sum<Cols>(mtf::ones<float>(world, Rows{8}, Cols{4})));
  } else if (how == "wait_kinds") {
    if (differs)
      (void)mtf::to_host(mtf::ones<double>(world, Rows{8}, Cols{4}));
    else
      (void)sum_of_all(world);
  } else if (how == "wait_agree") {
    if (!differs) (void)world.agree(1);
  } else if (how == "wait_caught" && differs) {
    throw std::runtime_error("caught");
  } else if (how == "wait_caught_plan_error" && differs) {
    (void)mtf::from_global(world, std::vector<double>(3), Rows{8});
  } else if (how == "wait_late" && differs) {
    const auto begin = std::chrono::steady_clock::now();
    while (std::chrono::steady_clock::now() - begin < std::chrono::seconds(1)) {
    }
  }
  (void)sum_of_all(world);
}

}  // namespace

int main(int argc, char** argv) {
  const std::string how = argv[1];
  return mtf::run(argc, argv, [&] {
    int rank = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    const bool differs = rank == (how == "wait_agree" ? 0 : 3);  // of a broadcast, the root is who is waited for
    mtf::WorldOptions given = options(how);
    if (how == "wait_environment") setenv("MTF_PATIENCE", "soon", 1);
    if (how == "wait_layouts" && differs) given.layout = "r:rows";
    if (how == "wait_seeds") given.seed = static_cast<std::uint64_t>(rank % 2);
    try {
      World world(MPI_COMM_WORLD, given);
      (void)sum_of_all(world);
      (void)mtf::to_host(mtf::reduce_sum<Cols>(mtf::ones<float>(world, Rows{8}, Cols{4})));
      if (how == "wait_returned" && differs) return 0;
      step(world, how, differs);
    } catch (const std::exception&) {
      if (how.rfind("wait_caught", 0) != 0) throw;
    }
    return 0;
  });
}
