// One way for a job to end, chosen by the first argument. See ends.py for what each must do.
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

#include <mtf/mtf.hpp>

namespace {

struct A : mtf::Dim<"a"> {};
struct Mesh : mtf::Mesh<mtf::Axis<"rows", 2>, mtf::Axis<"cols", 2>> {};
struct Layout : mtf::Layout<mtf::Split<"a", "rows", "cols">> {};
using World = mtf::World<Mesh, Layout>;

/// What the ranks do that wait for one that does not come.
double meet(World& world) { return mtf::item(mtf::reduce_sum(mtf::ones<double>(world, A{8}))); }

struct Failing {
  bool fails;
  double operator()(double x) const {
    if (fails) throw std::runtime_error("the user's function failed");
    return x + 1;
  }
};

/// Fails only where its slope is asked for.
struct FailingSlope {
  bool fails;
  template <class T>
  T operator()(T x) const {
    if constexpr (!std::is_same_v<T, double>) {
      if (fails) throw std::runtime_error("the user's function failed");
    }
    return x + 1.0;
  }
};

bool fails_at(std::int64_t index, bool here) {
  if (here && index == 5) throw std::runtime_error("the user's data failed");
  return true;
}

/// Destroyed after main, so after MPI and Kokkos.
std::optional<mtf::Tensor<World, double, A>> late;

int inside(const std::string& how) {
  World world(MPI_COMM_WORLD);
  if (how == "late") late = mtf::watch(mtf::ones<double>(world, A{8})) * 2.0;
  if (meet(world) != 8) return 9;
  const int rank = world.rank();
  if (rank == 0) {
    std::puts("met");
    std::fflush(stdout);
  }
  if (meet(world) != 8) return 9;
  if (how == "throw" && rank == 3) throw std::runtime_error("disk full");
  if (how == "throw_prefixed" && rank == 2) throw std::runtime_error("mtf: disk full");
  if (how == "throw_zero" && rank == 0) throw std::runtime_error("disk full");
  if (how == "throw_unknown" && rank == 1) throw 7;
  if (how == "throw_argument" && rank == 1) throw std::invalid_argument("bad argument");
  if (how == "plan_error_alone" && rank == 3) (void)mtf::from_global<double>(world, std::vector<double>(3), A{8});
  if (how == "plan_error") (void)mtf::from_global<double>(world, std::vector<double>(3), A{8});
  if (how == "size_mismatch") mtf::World<mtf::Mesh<mtf::Axis<"rows", 3>>, mtf::Layout<>> other(MPI_COMM_WORLD);
  if (how == "kill" && rank == 1) std::raise(SIGKILL);
  if (how == "exit" && rank == 1) std::_Exit(3);
  if (how == "callback") (void)mtf::map(Failing{rank == 2}, mtf::ones<double>(world, A{8}));
  if (how == "callback_slope") {
    const auto x = mtf::watch(mtf::ones<double>(world, A{8}));
    (void)mtf::gradients(mtf::reduce_sum(mtf::map(FailingSlope{rank == 1}, x)), x);
  }
  if (how == "data" && rank == 2) {
    for (std::int64_t i = 0; i < 8; ++i) (void)fails_at(i, true);
  }
  if (how == "lost_sum" && rank == 2) {
    // The exception is on its way while a tensor with an outstanding sum and a gradient's graph are destroyed.
    const auto x = mtf::watch(mtf::ones<double>(world, A{8}));
    const auto loss = mtf::reduce_sum(x * x);
    throw std::runtime_error("disk full");
  }
  if (how == "caught") {
    try {
      (void)mtf::from_global<double>(world, std::vector<double>(3), A{8});
      return 8;
    } catch (const mtf::plan_error&) {
    }
  }
  if (meet(world) != 8) return 9;
  return how == "status" ? 5 : 0;
}

/// MPI and Kokkos belong to the host program, which goes on using them.
int adopted(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  Kokkos::initialize(argc, argv);
  int status = 0;
  for (int i = 0; i < 3; ++i) status += mtf::run(argc, argv, [] { return inside("none"); });
  int finalized = 1;
  MPI_Finalized(&finalized);
  int sum = 0;
  const int one = 1;
  MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  const Kokkos::View<double*> view("view", 5);
  const bool good = status == 0 && finalized == 0 && Kokkos::is_initialized() && sum == 4 && view.extent(0) == 5;
  return good ? 0 : 6;
}

/// No mtf::run: the program catches everything itself.
int without_boundary(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  Kokkos::initialize(argc, argv);
  try {
    (void)inside("throw");
  } catch (const std::exception&) {
    std::printf("went on\n");
  }
  Kokkos::finalize();
  MPI_Finalize();
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string how = argc > 1 ? argv[1] : "";
  if (how == "adopted") {
    const int status = adopted(argc, argv);
    Kokkos::finalize();
    MPI_Finalize();
    return status;
  }
  if (how == "no_boundary") return without_boundary(argc, argv);
  if (how == "started") {
    // What mtf::run starts it also ends.
    const int status = mtf::run(argc, argv, [] { return inside("none"); });
    int finalized = 0;
    MPI_Finalized(&finalized);
    return status == 0 && finalized == 1 && !Kokkos::is_initialized() ? 0 : 6;
  }
  return mtf::run(argc, argv, [&] { return inside(how); });
}
