// MPI, Kokkos and worlds begun and ended in any order, errors of several ranks, and memory that runs out: one case,
// chosen by the first argument. See ends.py for what each must do.
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <sys/resource.h>

#include <mtf/mtf.hpp>

namespace {

using World = mtf::World<mtf::dynamic_mesh, mtf::dynamic_layout>;
struct A : mtf::Dim<"a"> {};
struct B : mtf::Dim<"b"> {};

int argument_count = 0;
char** arguments = nullptr;

int ranks() {
  int size = 1;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  return size;
}
int rank() {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  return rank;
}
/// Over all ranks, and a tensor's dim a is split.
std::unique_ptr<World> world_of_all(bool check_lent = false) {
  return std::make_unique<World>(
      MPI_COMM_WORLD,
      mtf::WorldOptions{.mesh = "rows:" + std::to_string(ranks()), .layout = "a:rows", .check_lent = check_lent});
}
bool works(World& world) { return mtf::item(mtf::reduce_sum(mtf::ones<double>(world, A{3 * ranks()}))) == 3 * ranks(); }
/// f throws an Error whose text contains `part`.
template <class Error, class F>
bool throws(const std::string& part, const F& f) {
  try {
    f();
  } catch (const Error& error) {
    if (std::string(error.what()).find(part) != std::string::npos) return true;
    std::printf("thrown: %s\n", error.what());
  }
  return false;
}
int verdict(bool good) { return good ? 0 : 9; }

void start_mpi() {
  int level = 0;
  MPI_Init_thread(&argument_count, &arguments, MPI_THREAD_FUNNELED, &level);
}
int run(const std::function<int()>& program) { return mtf::run(argument_count, arguments, program); }
/// In a world of all ranks which has done something.
int in_world(const std::function<int(World&)>& program, bool check_lent = false) {
  return run([&] {
    const auto world = world_of_all(check_lent);
    return works(*world) ? program(*world) : 8;
  });
}

/// The address space may grow by so many megabytes from now on.
void limit_memory(std::int64_t megabytes) {
  std::int64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  rlimit limit{};
  getrlimit(RLIMIT_AS, &limit);
  limit.rlim_cur = static_cast<rlim_t>(pages * sysconf(_SC_PAGESIZE) + (megabytes << 20));
  setrlimit(RLIMIT_AS, &limit);
}
/// A tensor of whose slices each has so many megabytes.
auto large(World& world, std::int64_t megabytes) { return mtf::ones<double>(world, A{ranks()}, B{megabytes << 17}); }

const std::map<std::string, std::function<int()>> cases{
    {"no_kokkos",
     [] {
       start_mpi();
       (void)world_of_all();
       return 0;
     }},
    {"no_kokkos_caught",
     [] {
       start_mpi();
       const bool good = throws<mtf::session_error>("Kokkos has not been initialized", [] { (void)world_of_all(); });
       MPI_Finalize();
       return verdict(good);
     }},
    {"before_mpi",
     [] {
       Kokkos::initialize();
       World world(MPI_COMM_WORLD, {.mesh = "rows:1"});
       return 0;
     }},
    {"after_mpi",
     [] {
       start_mpi();
       Kokkos::initialize();
       MPI_Finalize();
       World world(MPI_COMM_WORLD, {.mesh = "rows:1"});
       return 0;
     }},
    {"after_mpi_in_run",
     [] {
       return run([] {
         MPI_Finalize();
         World world(MPI_COMM_WORLD, {.mesh = "rows:1"});
         return 0;
       });
     }},
    {"null_communicator",
     [] {
       return run([] {
         World world(MPI_COMM_NULL, {.mesh = "rows:1"});
         return 0;
       });
     }},
    {"run_twice",
     [] {
       (void)in_world([](World&) { return 0; });
       return in_world([](World&) { return 0; });
     }},
    {"run_twice_caught",
     [] {
       const int first = in_world([](World&) { return 0; });
       return verdict(first == 0 && throws<mtf::session_error>("MPI has ended", [] { (void)run([] { return 0; }); }));
     }},
    {"run_twice_adopted",
     [] {
       start_mpi();
       Kokkos::initialize();
       int status = 0;
       for (int i = 0; i < 2; ++i) status += in_world([](World& world) { return verdict(works(world)); });
       Kokkos::finalize();
       MPI_Finalize();
       return status;
     }},
    {"run_nested",
     [] {
       return in_world([](World& outer) {
         const int inner = in_world([](World& world) { return works(world) ? 5 : 9; });
         return verdict(inner == 5 && works(outer));
       });
     }},
    {"run_nested_error",
     [] {
       return in_world([](World&) { return in_world([](World&) -> int { throw std::runtime_error("disk full"); }); });
     }},
    {"finalized_in_run",
     [] {
       return run([] {
         const bool good = works(*world_of_all());
         Kokkos::finalize();
         MPI_Finalize();
         return verdict(good);
       });
     }},
    {"mpi_ends_first",
     [] {
       start_mpi();
       Kokkos::initialize();
       bool good = true;
       {
         const auto world = world_of_all();
         const auto w = mtf::variable<double>(*world, "w", mtf::init::ones, A{4 * ranks()});
         const auto sum = mtf::reduce_sum(w);
         MPI_Finalize();
         const auto refused = [&](const auto& f) { good = throws<mtf::plan_error>("MPI was finalized", f) && good; };
         refused([&] { (void)mtf::item(sum); });
         refused([&] { (void)(w * 2.0); });
         refused([&] { (void)mtf::zeros<double>(*world, B{2}); });
         refused([&] { (void)world->agree(1); });
         refused([&] { (void)world->verify_replicas(); });
         refused([&] { (void)world->axis_comm("rows"); });
         refused([&] { (void)world->describe_processes(); });
         refused([&] { world->start_tracing(); });
         refused([&] { (void)mtf::from_root<double>(*world, std::vector<double>(4), B{4}); });
         refused([&] { mtf::print(*world, "{}", sum); });
       }
       Kokkos::finalize();
       return verdict(good);
     }},
    {"kokkos_ends_first",
     [] {
       start_mpi();
       Kokkos::initialize();
       bool good = true;
       {
         const auto world = world_of_all();
         const auto w = mtf::variable<double>(*world, "w", mtf::init::ones, A{4 * ranks()});
         const auto loss = mtf::reduce_sum(mtf::square(w));
         Kokkos::finalize();
         const auto refused = [&](const auto& f) { good = throws<mtf::plan_error>("Kokkos was finalized", f) && good; };
         refused([&] { (void)mtf::item(loss); });
         refused([&] { (void)mtf::gradients(loss, w); });
         refused([&] { w.assign(w); });
         refused([&] { (void)mtf::local_view(w); });
         refused([&] { (void)mtf::random_normal_of<double>(*world, mtf::seed{1}, 0, 1, B{2}); });
         refused([&] { (void)world->describe_processes(); });
         refused([&] { (void)world->verify_replicas(); });
         good = world->size() == ranks() && good;
       }
       MPI_Finalize();
       return verdict(good);
     }},
    {"static_world",
     [] {
       // Ends after main, so after MPI and Kokkos.
       static std::optional<World> world;
       return run([] {
         world.emplace(MPI_COMM_WORLD,
                       mtf::WorldOptions{.mesh = "rows:" + std::to_string(ranks()), .layout = "a:rows"});
         return verdict(works(*world));
       });
     }},
    {"other_thread",
     [] {
       return in_world([](World& world) {
         const auto x = mtf::ones<double>(world, A{ranks()});
         bool good = true;
         std::thread([&] {
           const auto refused = [&](const auto& f) { good = throws<mtf::session_error>("another thread", f) && good; };
           refused([&] { (void)(x + x); });
           refused([&] { (void)mtf::to_host(x); });
           refused([&] { (void)mtf::zeros<double>(world, A{ranks()}); });
           refused([&] { (void)world.agree(1); });
           good =
               throws<mtf::session_error>("only the thread", [] { World second(MPI_COMM_SELF, {.mesh = "rows:1"}); }) &&
               good;
         }).join();
         return verdict(good && works(world));
       });
     }},
    {"other_thread_uncaught",
     [] {
       return in_world([](World& world) {
         if (rank() == 0) std::thread([&] { (void)mtf::zeros<double>(world, A{ranks()}); }).join();
         return verdict(works(world));
       });
     }},
    {"same_on_all", [] { return in_world([](World&) -> int { throw std::runtime_error("disk full"); }); }},
    {"same_on_some",
     [] {
       return in_world([](World& world) {
         if (rank() % 2 == 1) throw std::runtime_error("disk full");
         return verdict(works(world));
       });
     }},
    {"different",
     [] {
       return in_world([](World&) -> int {
         throw std::runtime_error(rank() == 0 ? "no file" : "no file\n  and " + std::to_string(rank() % 2));
       });
     }},
    {"long_text", [] { return in_world([](World&) -> int { throw std::runtime_error(std::string(20000, 'x')); }); }},
    {"no_boundary_on_all",
     [] {
       start_mpi();
       Kokkos::initialize();
       try {
         const auto world = world_of_all();
         throw std::runtime_error("disk full");
       } catch (const std::exception&) {
       }
       return 0;
     }},
    {"others_are_done",
     [] {
       return run([] {
         if (rank() == ranks() - 1) throw std::runtime_error("disk full");
         return 0;  // and waits in MPI_Finalize
       });
     }},
    {"lent_written",
     [] {
       return in_world(
           [](World& world) {
             const Kokkos::View<double*, Kokkos::HostSpace> view("view", 1000);
             const auto lent = mtf::from_local(world, view, A{1000 * ranks()});
             const bool good = works(world);
             if (rank() == 0) view(7) = 1;
             return verdict(good);
           },
           true);
     }},
    {"lent_kept",
     [] {
       return in_world(
           [](World& world) {
             const Kokkos::View<double*, Kokkos::HostSpace> view("view", 1000);
             const auto lent = mtf::from_local(world, view, A{1000 * ranks()});
             return verdict(mtf::item(mtf::reduce_sum(lent.tensor())) == 0);
           },
           true);
     }},
    {"lent_unchecked",
     [] {
       return in_world([](World& world) {
         const Kokkos::View<double*, Kokkos::HostSpace> view("view", 1000);
         const auto lent = mtf::from_local(world, view, A{1000 * ranks()});
         view(7) = 1;
         return 0;
       });
     }},
    {"memory",
     [] {
       return in_world([](World& world) {
         limit_memory(300);
         const auto x = large(world, 100);
         (void)(x + large(world, 900));
         return 0;
       });
     }},
    {"memory_alone",
     [] {
       return in_world([](World& world) {
         if (rank() == ranks() - 1) limit_memory(300);
         (void)mtf::relu(large(world, 400));
         return verdict(works(world));
       });
     }},
    {"memory_caught",
     [] {
       return in_world([](World& world) {
         limit_memory(400);
         bool good = true;
         for (int round = 0; round < 3; ++round) {
           const auto x = large(world, 40);
           good =
               throws<mtf::out_of_memory>("[a:" + std::to_string(ranks()) + ", b:", [&] { (void)large(world, 900); }) &&
               good;
           good = mtf::item(mtf::reduce_max(x)) == 1 && works(world) && good;
         }
         return verdict(good);
       });
     }},
    {"memory_given_back",
     [] {
       return in_world([](World& world) {
         limit_memory(360);  // of which malloc takes 64 for another arena, once it has failed
         bool good = true;
         // One after the other they fit; if the pool kept them, they would not.
         for (const std::int64_t size : {100, 150, 200, 230, 250, 200, 100, 250})
           good = mtf::item(mtf::reduce_max(large(world, size))) == 1 && good;
         return verdict(good);
       });
     }},
    {"memory_overflow",
     [] {
       return in_world([](World& world) {
         (void)mtf::zeros<double>(world, A{ranks()}, B{(std::int64_t{1} << 59) / ranks()});
         return 0;
       });
     }},
    {"memory_on_host",
     [] {
       return in_world([](World& world) {
         const auto x = large(world, 110);
         limit_memory(100);
         (void)mtf::to_host(x);
         return 0;
       });
     }},
    {"memory_of_the_program",
     [] {
       return in_world([](World&) {
         limit_memory(100);
         return static_cast<int>(std::vector<double>(std::size_t{1} << 30).size());
       });
     }},
};

}  // namespace

int main(int argc, char** argv) {
  argument_count = argc;
  arguments = argv;
  const auto found = cases.find(argc > 1 ? argv[1] : "");
  if (found == cases.end()) return 7;
  const int status = found->second();
  std::fflush(stdout);
  return status;
}
