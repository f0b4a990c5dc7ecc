// run: MPI and Kokkos around a program, and the boundary at which errors end the job.
#pragma once

#include <exception>
#include <new>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <Kokkos_Core.hpp>

#include <mtf/runtime/end_of_job.hpp>

namespace mtf {
inline namespace v0 {

namespace detail {

/// Where the world stood that was destroyed while an exception unwound, for the message at the boundary.
inline thread_local std::string unwound_place;
/// Whether an mtf::run is below on the stack: it ends the job when an exception arrives.
inline thread_local int boundaries = 0;

/// Starts what the host program has not started, and ends just that. Takes the arguments that are MPI's and Kokkos'
/// ("--kokkos-...") out of the program's: of others, such as --help, Kokkos would speak too. Throws a session_error if
/// MPI or Kokkos has ended already: neither can be started again.
class Session {
 public:
  MTF_RUN_TIME Session(int& argc, char**& argv);
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
  /// What the program has ended itself is left alone.
  MTF_RUN_TIME ~Session();

 private:
  bool owns_mpi_ = false;
  bool owns_kokkos_ = false;
};

/// Throws a session_error unless a world can be made now on this thread: MPI and Kokkos run, and MPI lets the thread
/// call it.
MTF_RARE MTF_RUN_TIME void require_session();

/// The default instance of an execution space, which Kokkos must have started.
template <class Space>
[[nodiscard]] Space started_space() {
  require_session();
  return Space();
}

#if MTF_HAS_DEFINITIONS

[[nodiscard]] inline bool kokkos_has_ended() {
#if KOKKOS_VERSION >= 30700
  return Kokkos::is_finalized();
#else
  return false;  // these start again
#endif
}

Session::Session(int& argc, char**& argv) {
  int initialized = 0;
  int finalized = 0;
  MPI_Initialized(&initialized);
  MPI_Finalized(&finalized);
  if (finalized != 0) {
    throw session_error(
        "run: MPI has ended, with an earlier run or by MPI_Finalize, and cannot be started again in a process; put all "
        "work into one run, or call MPI_Init_thread before the first run and MPI_Finalize after the last");
  }
  if (kokkos_has_ended()) {
    throw session_error(
        "run: Kokkos has ended, with an earlier run or by Kokkos::finalize, and cannot be started again in a process; "
        "put all work into one run, or call Kokkos::initialize before the first run and Kokkos::finalize after the "
        "last");
  }
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
    try {
      Kokkos::initialize(count, of_kokkos.data());
    } catch (const std::exception& error) {
      end_job({}, (std::string("run: Kokkos does not start: ") + error.what()).c_str());
    }
    owns_kokkos_ = true;
  }
}
Session::~Session() {
  int finalized = 0;
  MPI_Finalized(&finalized);
  if (owns_kokkos_ && Kokkos::is_initialized()) Kokkos::finalize();
  if (owns_mpi_ && finalized == 0) MPI_Finalize();
}

void require_session() {
  int initialized = 0;
  int finalized = 0;
  MPI_Initialized(&initialized);
  MPI_Finalized(&finalized);
  if (initialized == 0) {
    throw session_error(
        "World: MPI has not been initialized; make the world inside of mtf::run, or call MPI_Init_thread before");
  }
  if (finalized != 0) {
    throw session_error("World: MPI has been finalized; make the world inside of mtf::run, or before MPI_Finalize");
  }
  if (!Kokkos::is_initialized()) {
    throw session_error(kokkos_has_ended()
                            ? "World: Kokkos has been finalized; make the world inside of mtf::run, or before "
                              "Kokkos::finalize"
                            : "World: Kokkos has not been initialized; make the world inside of mtf::run, or call "
                              "Kokkos::initialize before");
  }
  if (!may_call_mpi()) {
    throw session_error(
        "World: MPI lets only the thread call it that initialized it; make the world there, or ask MPI_Init_thread for "
        "MPI_THREAD_SERIALIZED");
  }
}

#endif

/// The words of an exception that arrives at the boundary.
[[nodiscard]] inline std::string words_of(const std::bad_alloc& error) {
  const std::string words = error.what();
  return words.rfind("mtf: ", 0) == 0 ? words : "no memory is left (" + words + ")";
}

}  // namespace detail

/// Runs `program()` between the start and the end of MPI and Kokkos. Either that the host program has already started
/// is adopted and not ended. Returns program's int, or 0. Calls may nest. A session_error is thrown where MPI or Kokkos
/// has already ended, as it has after a `run` that started it.
///
/// An exception that leaves `program` ends the whole job within seconds: one line with rank, coordinates and message on
/// stderr, then MPI_Abort. No rank waits for one that failed. What several ranks fail with alike is printed once, with
/// their numbers, or "on all ranks".
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
  } catch (const std::bad_alloc& error) {
    detail::end_job(detail::unwound_place, detail::words_of(error).c_str());
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
