// The end of a job by an error: ranks that have the same error say it once, and then nobody is left waiting.
#pragma once

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <exception>
#include <stdexcept>
#include <string>
#include <vector>

#include <unistd.h>

#include <mtf/runtime/mpi.hpp>

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

/// One rank's error, or that of several.
struct RankError {
  int rank = 0;
  std::string place;  ///< "rank 3 (rows=1, cols=1)"
  std::string text;
};

/// "rank 3", "ranks 0-2, 5".
MTF_RARE [[nodiscard]] MTF_RUN_TIME std::string list_ranks(const std::vector<int>& ranks);

/// A line for each different text, in the order of the ranks that have it: "mtf: on all ranks: disk full". `errors` are
/// of different ranks, of `size` in all.
MTF_RARE [[nodiscard]] MTF_RUN_TIME std::string lines_of(std::vector<RankError> errors, int size);

/// Prints `mtf: rank 3 (rows=1, cols=1): what` and ends the whole job. If other ranks end it at the same time, those
/// who say the same say it together. Within ten seconds this rank is gone, whatever MPI does.
MTF_RARE [[noreturn]] MTF_RUN_TIME void end_job(const std::string& place, const char* what);

#if MTF_HAS_DEFINITIONS

inline void pause(std::time_t seconds, long milliseconds) {
  const std::timespec span{seconds, milliseconds * 1000000};
  nanosleep(&span, nullptr);
}

/// Whether this thread may call MPI now.
[[nodiscard]] inline bool may_call_mpi() {
  int initialized = 0;
  int finalized = 0;
  MPI_Initialized(&initialized);
  MPI_Finalized(&finalized);
  if (initialized == 0 || finalized != 0) return false;
  int level = MPI_THREAD_SINGLE;
  int is_main = 0;
  MPI_Query_thread(&level);
  MPI_Is_thread_main(&is_main);
  return is_main != 0 || level >= MPI_THREAD_SERIALIZED;
}

/// This process' rank in the job as far as it was seen while MPI could be asked; -1 before.
inline int& rank_in_job() {
  static int rank = -1;
  return rank;
}
inline void note_rank_in_job() { MPI_Comm_rank(MPI_COMM_WORLD, &rank_in_job()); }
/// Whether the launcher says that this is not the first process: a hint where MPI cannot be asked, and no more.
[[nodiscard]] inline bool is_a_later_process() {
  if (rank_in_job() >= 0) return rank_in_job() > 0;
  for (const char* variable : {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID"}) {
    if (const char* rank = std::getenv(variable)) return std::atoi(rank) > 0;
  }
  return false;
}

std::string list_ranks(const std::vector<int>& ranks) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (std::size_t i = 0; i < ranks.size();) {
    std::size_t last = i;
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1) ++last;
    if (i > 0) text += ", ";
    text += std::to_string(ranks[i]);
    if (last > i) text += (last == i + 1 ? ", " : "-") + std::to_string(ranks[last]);
    i = last + 1;
  }
  return text;
}

std::string lines_of(std::vector<RankError> errors, int size) {
  std::string lines;
  for (std::size_t done = 0; done < errors.size();) {
    // The lowest rank not told yet, then all with the same words.
    std::size_t first = done;
    for (std::size_t i = done; i < errors.size(); ++i) first = errors[i].rank < errors[first].rank ? i : first;
    std::swap(errors[done], errors[first]);
    const std::size_t begin = done++;
    std::vector<int> ranks{errors[begin].rank};
    for (std::size_t i = done; i < errors.size(); ++i) {
      if (errors[i].text != errors[begin].text) continue;
      std::size_t at = ranks.size();
      ranks.push_back(errors[i].rank);
      for (; at > 1 && ranks[at - 1] > ranks[at]; --at) std::swap(ranks[at - 1], ranks[at]);
      std::swap(errors[i], errors[done++]);
    }
    const bool all = size > 1 && ranks.size() == static_cast<std::size_t>(size);
    lines += "mtf: " +
             (all                 ? "on all ranks"
              : ranks.size() == 1 ? errors[begin].place
                                  : list_ranks(ranks)) +
             ": " + errors[begin].text + "\n";
  }
  return lines;
}

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

/// Ranks that end the job at the same time, by messages that nobody has to wait for: each tells its error to the first
/// 64 ranks, any of which may be the only one with an error. The lowest that has one speaks for all it hears of.
/// Nothing here is collective, for the other ranks may be anywhere; all waits are bounded.
class LastMeeting {
 public:
  explicit LastMeeting(const RankError& mine) : errors_{mine}, lowest_(mine.rank) {
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_size(MPI_COMM_WORLD, &size_);
    // Small enough to leave at once in any MPI.
    const std::string place = mine.place.substr(0, 200);
    const auto place_bytes = static_cast<char>(static_cast<unsigned char>(place.size()));
    told() = place_bytes + place + mine.text.substr(0, 3000);
  }

  /// The lines to print; nothing if another rank prints them.
  [[nodiscard]] std::string lines() {
    const int mine = errors_.front().rank;
    for (int to = 0; to < size_ && to < leaders; ++to) {
      if (to != mine) send(told(), to, error_tag);
    }
    double last_heard = 0;
    for (;;) {
      if (receive_errors()) last_heard = seconds();
      const bool leads = lowest_ == mine && mine < leaders;
      const bool all = errors_.size() == static_cast<std::size_t>(size_);
      if (leads && (all || (seconds() > 1 && seconds() > last_heard + 0.5))) break;
      if (!leads && is_hushed()) return {};
      if (seconds() > (leads ? 3 : 4)) break;
      pause(0, 1);
    }
    if (lowest_ != mine) errors_.resize(1);  // the one that was to speak is gone
    for (const RankError& other : errors_) {
      if (other.rank != mine) send(std::string(), other.rank, hush_tag);
    }
    return lines_of(errors_, size_);
  }

 private:
  static constexpr int leaders = 64;
  static constexpr int error_tag = 32701;  // of those that every MPI has; below are the ones that programs choose
  static constexpr int hush_tag = 32702;

  /// Lives until the process ends, for messages that are still on their way.
  static std::string& told() {
    static std::string text;
    return text;
  }
  static void send(const std::string& text, int to, int tag) {
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Isend(text.data(), static_cast<int>(text.size()), MPI_CHAR, to, tag, MPI_COMM_WORLD, &request);
  }
  bool receive_errors() {
    bool heard = false;
    for (;;) {
      int there = 0;
      MPI_Status status;
      if (MPI_Iprobe(MPI_ANY_SOURCE, error_tag, MPI_COMM_WORLD, &there, &status) != MPI_SUCCESS || there == 0)
        return heard;
      int length = 0;
      MPI_Get_count(&status, MPI_CHAR, &length);
      std::string text(static_cast<std::size_t>(length), ' ');
      const int from = status.MPI_SOURCE;
      if (MPI_Recv(text.data(), length, MPI_CHAR, from, error_tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE) != MPI_SUCCESS)
        return heard;
      const std::size_t place = text.empty() ? 0 : static_cast<unsigned char>(text[0]);
      if (text.size() < 1 + place) continue;
      heard = true;
      lowest_ = from < lowest_ ? from : lowest_;
      errors_.push_back({.rank = from, .place = text.substr(1, place), .text = text.substr(1 + place)});
      // What was cut to be sent is the same as what begins so here.
      const std::string& mine = errors_.front().text;
      if (mine.compare(0, 3000, errors_.back().text) == 0) errors_.back().text = mine;
    }
  }
  [[nodiscard]] static bool is_hushed() {
    int there = 0;
    return MPI_Iprobe(MPI_ANY_SOURCE, hush_tag, MPI_COMM_WORLD, &there, MPI_STATUS_IGNORE) == MPI_SUCCESS && there != 0;
  }
  [[nodiscard]] double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
  }

  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  std::vector<RankError> errors_;  ///< this rank's first
  int lowest_;
  int size_ = 1;
};

void end_job(const std::string& place, const char* what) {
  const std::string text = what;
  const std::string message = text.rfind("mtf: ", 0) == 0 ? text.substr(5) : text;
  std::fflush(stdout);
  const bool may_call = may_call_mpi();
  if (may_call) note_rank_in_job();
  const int rank = rank_in_job();
  const std::string where = !place.empty() ? place : "rank " + std::to_string(rank);
  std::string lines = "mtf: " + (rank < 0 ? std::string() : where + ": ") + message + "\n";
  last_words() = lines;
  end_in(5, mtf_say_last_words);
  if (may_call) {
    lines = LastMeeting({.rank = rank, .place = where, .text = message}).lines();
  } else if (is_a_later_process()) {
    // Most errors where MPI cannot be asked are everybody's; the launcher ends those that wait when the first has gone.
    pause(2, 0);
  }
  // MPI_Abort may run exit handlers, and those may wait for what never comes. A rank that is gone, however it went, ends
  // the job.
  end_in(5, SIG_DFL);
  if (lines.empty()) pause(4, 0);  // another rank speaks, and ends this one
  std::fputs(lines.c_str(), stderr);
  std::fflush(stderr);
  pause(0, 200);  // launchers kill at once, and then drop what they have not read yet: the lines above
  if (may_call) MPI_Abort(MPI_COMM_WORLD, 1);
  std::_Exit(1);
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
