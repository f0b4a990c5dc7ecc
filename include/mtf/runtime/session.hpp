// run: MPI and Kokkos around a program, and the boundary at which errors end the job.
#pragma once

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <exception>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <Kokkos_Core.hpp>
#include <unistd.h>

#include <mtf/runtime/mpi.hpp>

namespace mtf {
inline namespace v0 {

namespace detail {

/// Where the world stood that was destroyed while an exception unwound, for the message at the boundary.
inline thread_local std::string unwound_place;
/// Whether an mtf::run is below on the stack: it ends the job when an exception arrives.
inline thread_local int boundaries = 0;

/// Prints `mtf: rank 3 (rows=1, cols=1): what` and ends the whole job.
MTF_RARE [[noreturn]] MTF_RUN_TIME void end_job(const std::string& place, const char* what);
/// An error that all ranks have alike is printed once: by rank 0, by another only if rank 0 did not end the job.
MTF_RUN_TIME void let_rank_zero_speak();

/// Starts what the host program has not started, and ends just that. Takes the arguments that are MPI's and Kokkos'
/// ("--kokkos-...") out of the program's: of others, such as --help, Kokkos would speak too.
class Session {
 public:
  MTF_RUN_TIME Session(int& argc, char**& argv);
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
  MTF_RUN_TIME ~Session();

 private:
  bool owns_mpi_ = false;
  bool owns_kokkos_ = false;
};

#if MTF_HAS_DEFINITIONS

Session::Session(int& argc, char**& argv) {
  int initialized = 0;
  MPI_Initialized(&initialized);
  if (initialized == 0) {
    int level = MPI_THREAD_SINGLE;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &level);
    owns_mpi_ = true;
  }
  if (!Kokkos::is_initialized()) {
    std::vector<char*> of_kokkos;
    int kept = 0;
    for (int i = 0; i < argc; ++i) {
      const bool is_kokkos = std::string_view(argv[i]).substr(0, 9) == "--kokkos-";
      if (i == 0 || is_kokkos) of_kokkos.push_back(argv[i]);
      if (!is_kokkos) argv[kept++] = argv[i];
    }
    argc = kept;
    int count = static_cast<int>(of_kokkos.size());
    of_kokkos.push_back(nullptr);
    Kokkos::initialize(count, of_kokkos.data());
    owns_kokkos_ = true;
  }
}
Session::~Session() {
  if (owns_kokkos_) Kokkos::finalize();
  if (owns_mpi_) MPI_Finalize();
}

[[nodiscard]] inline int world_rank() {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  return rank;
}
inline void pause(std::time_t seconds, long milliseconds) {
  const std::timespec span{seconds, milliseconds * 1000000};
  nanosleep(&span, nullptr);
}

void end_job(const std::string& place, const char* what) {
  const std::string text = what;
  const std::string message = text.rfind("mtf: ", 0) == 0 ? text.substr(5) : text;
  const std::string where = place.empty() ? "rank " + std::to_string(world_rank()) : place;
  std::fprintf(stderr, "mtf: %s: %s\n", where.c_str(), message.c_str());
  std::fflush(stderr);
  pause(0, 200);  // launchers kill at once, and then drop what they have not read yet: the line above
  // MPI_Abort may run exit handlers, and those may wait for what never comes. A rank that is gone, however it went, ends
  // the job.
  std::signal(SIGALRM, SIG_DFL);
  alarm(10);
  MPI_Abort(MPI_COMM_WORLD, 1);
  std::abort();  // MPI_Abort may return in theory
}

void let_rank_zero_speak() {
  if (world_rank() != 0) pause(2, 0);
}

#endif

}  // namespace detail

/// Runs `program()` between the start and the end of MPI and Kokkos. Either that the host program has already started
/// is adopted and not ended. Returns program's int, or 0.
///
/// An exception that leaves `program` ends the whole job within seconds: one line with rank, coordinates and message on
/// stderr, then MPI_Abort. No rank waits for one that failed.
template <class Program>
int run(int& argc, char**& argv, Program&& program) {
  const detail::Session session(argc, argv);
  ++detail::boundaries;
  int result = 0;
  try {
    if constexpr (std::is_same_v<decltype(program()), void>) {
      std::forward<Program>(program)();
    } else {
      result = std::forward<Program>(program)();
    }
  } catch (const std::invalid_argument& error) {
    detail::let_rank_zero_speak();
    detail::end_job(detail::unwound_place, error.what());
  } catch (const std::exception& error) {
    detail::end_job(detail::unwound_place, error.what());
  } catch (...) {
    detail::end_job(detail::unwound_place, "unknown exception");
  }
  --detail::boundaries;
  return result;
}

}  // namespace v0
}  // namespace mtf
