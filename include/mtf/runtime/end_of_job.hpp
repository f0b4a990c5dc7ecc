// The end of a job by an error: ranks that have the same error say it once, and then nobody is left waiting.
#pragma once

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <exception>
#include <fcntl.h>
#include <stdexcept>
#include <string>

#include <sys/stat.h>
#include <unistd.h>

#include <mtf/core/name.hpp>
#include <mtf/runtime/last_meeting.hpp>

namespace mtf {
inline namespace v0 {

namespace detail {
/// From now on, a session_error that nobody catches ends the job by `end_job`, instead of by the runtime's own words.
MTF_RARE MTF_RUN_TIME void speak_at_terminate();
}  // namespace detail

/// What is asked for at the wrong time: a world before MPI or Kokkos begins or after one of them has ended, `run` after
/// its end, a world driven by a second thread. Nothing has been done; the caller may catch it and go on.
class session_error : public std::logic_error {
 public:
  explicit session_error(const std::string& what) : std::logic_error("mtf: " + what) { detail::speak_at_terminate(); }
};

namespace detail {

/// Prints `mtf: rank 3 (rows=1, cols=1): what` and ends the whole job. If other ranks end it at the same time, those
/// who say the same say it together. Within ten seconds this rank is gone, whatever MPI does.
MTF_RARE [[noreturn]] MTF_RUN_TIME void end_job(const std::string& place, const char* what);

#if MTF_HAS_DEFINITIONS

[[nodiscard]] inline bool mpi_runs() {
  int initialized = 0;
  int finalized = 0;
  MPI_Initialized(&initialized);
  MPI_Finalized(&finalized);
  return initialized != 0 && finalized == 0;
}
/// Whether this thread may call MPI now.
[[nodiscard]] inline bool may_call_mpi() {
  if (!mpi_runs()) return false;
  int level = MPI_THREAD_SINGLE;
  int is_main = 0;
  MPI_Query_thread(&level);
  MPI_Is_thread_main(&is_main);
  return is_main != 0 || level >= MPI_THREAD_SERIALIZED;
}

/// Whether a launcher started this process: a hint where MPI cannot be asked.
[[nodiscard]] inline bool has_launcher() {
  for (const char* variable : {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID"}) {
    if (std::getenv(variable) != nullptr) return true;
  }
  return false;
}
/// A file that the first process of a launcher with these words makes, where MPI cannot tell who is there. The others
/// of the host find it and are silent.
class Marker {
 public:
  explicit Marker(const std::string& words)
      : path_("/tmp/mtf-" + std::to_string(getuid()) + "-" + std::to_string(getppid()) + "-" +
              std::to_string(hash_text(words))) {
    const int file = open(path_.c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);
    made_ = file >= 0;
    if (made_) close(file);
    struct stat status{};
    const bool found = !made_ && lstat(path_.c_str(), &status) == 0;
    is_first_ = !found || status.st_uid != getuid() || std::time(nullptr) - status.st_mtime > 10;  // left by a crash
  }
  Marker(const Marker&) = delete;
  Marker& operator=(const Marker&) = delete;
  ~Marker() {
    if (made_) unlink(path_.c_str());
  }
  [[nodiscard]] bool is_first() const { return is_first_; }

 private:
  std::string path_;
  bool made_ = false;
  bool is_first_ = true;
};

/// What is printed if MPI does not come back from telling the others.
inline std::string& last_words() {
  static std::string words;
  return words;
}
extern "C" inline void mtf_say_last_words(int) {
  const std::string& words = last_words();
  [[maybe_unused]] const auto written = write(STDERR_FILENO, words.data(), words.size());
  _exit(1);
}
/// The process ends in so many seconds, by this handler.
inline void end_in(unsigned seconds, void (*handler)(int)) {
  std::signal(SIGALRM, handler);
  sigset_t alarms;
  sigemptyset(&alarms);
  sigaddset(&alarms, SIGALRM);
  sigprocmask(SIG_UNBLOCK, &alarms, nullptr);
  alarm(seconds);
}

/// Says the last words, if no other process of this host does, and goes.
[[noreturn]] inline void end_without_mpi(const std::string& message) {
  if (!has_launcher()) {
    std::fputs(last_words().c_str(), stderr);
    std::_Exit(1);
  }
  {
    const Marker marker(message);
    if (marker.is_first()) std::fputs(last_words().c_str(), stderr);
    std::fflush(stderr);
    pause(1, 500);  // so that the others find it
  }
  // Not every launcher ends the other processes when one exits that is not in MPI; when it is killed, more of them do.
  std::signal(SIGTERM, SIG_DFL);
  std::raise(SIGTERM);
  std::_Exit(1);
}

void end_job(const std::string& place, const char* what) {
  const std::string text = what;
  const std::string message = text.rfind("mtf: ", 0) == 0 ? text.substr(5) : text;
  std::fflush(stdout);
  const bool may_call = may_call_mpi();
  int rank = 0;
  if (mpi_runs()) MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  const std::string where = !place.empty() ? place : mpi_runs() ? "rank " + std::to_string(rank) : std::string();
  std::string lines = "mtf: " + where + (where.empty() ? "" : ": ") + message + "\n";
  last_words() = lines;
  end_in(6, mtf_say_last_words);
  if (!may_call) end_without_mpi(message);
  lines = LastMeeting({.rank = rank, .place = where, .text = message}).lines();
  // MPI_Abort may run exit handlers, and those may wait for what never comes. A rank that is gone, however it went, ends
  // the job.
  end_in(4, SIG_DFL);
  if (lines.empty()) pause(3, 0);  // another rank speaks, and ends this one
  std::fputs(lines.c_str(), stderr);
  std::fflush(stderr);
  pause(0, 200);  // launchers kill at once, and then drop what they have not read yet: the lines above
  MPI_Abort(MPI_COMM_WORLD, 1);
  std::_Exit(1);  // MPI_Abort may return in theory
}

void speak_at_terminate() {
  static std::terminate_handler before = nullptr;
  static const bool set = [] {
    before = std::set_terminate([] {
      if (const std::exception_ptr error = std::current_exception()) {
        try {
          std::rethrow_exception(error);
        } catch (const session_error& known) {
          end_job({}, known.what());
        } catch (...) {
        }
      }
      before();
    });
    return true;
  }();
  (void)set;
}

#endif

}  // namespace detail

}  // namespace v0
}  // namespace mtf
