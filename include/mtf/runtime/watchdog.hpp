// A sleeping thread that notices when this rank waits too long, and says for whom. It calls no MPI.
#pragma once

#include <limits>
#include <memory>
#include <string>
#include <vector>

#include <mtf/core/mesh.hpp>
#include <mtf/runtime/end_of_job.hpp>
#include <mtf/runtime/status_board.hpp>

#if MTF_HAS_DEFINITIONS
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <utility>
#endif

namespace mtf {
inline namespace v0 {

/// How long ranks wait for each other, in seconds since the wait began.
struct Patience {
  double until_told = 30;                                        ///< then one line says who has not arrived
  double until_ended = std::numeric_limits<double>::infinity();  ///< then the job ends, after that line
};

namespace detail {

/// A time in seconds from the environment, which goes before what the program says; positive, "inf" for never.
MTF_RARE [[nodiscard]] MTF_RUN_TIME double seconds_from_environment(const char* variable, double otherwise);
/// What the ranks of a world are waiting for, in a line: for what, over which axes, how long, who is not there and what
/// those did last. Empty if nobody waits. `names` are those of the mesh's axes.
MTF_RARE [[nodiscard]] MTF_RUN_TIME std::string describe_wait(const StatusBoard& board, const MeshValue& mesh,
                                                              const std::vector<std::string>& names);

/// From now on a thread of this process looks at the board: it prints the line, and ends the job, as `patience` says.
/// It also ends the job some seconds after a rank that is waited for has lost its world to an exception, which somebody
/// caught: that rank will never come.
MTF_RARE MTF_RUN_TIME void watch(const std::shared_ptr<StatusBoard>& board, const MeshValue& mesh,
                                 const Patience& patience);
MTF_RARE MTF_RUN_TIME void stop_watching(const std::shared_ptr<StatusBoard>& board);

#if MTF_HAS_DEFINITIONS

double seconds_from_environment(const char* variable, double otherwise) {
  const char* text = std::getenv(variable);
  if (text == nullptr || *text == '\0') return otherwise;
  char* end = nullptr;
  const double seconds = std::strtod(text, &end);
  if (end == text || *end != '\0' || !(seconds > 0)) {
    throw std::invalid_argument(std::string("mtf: World: ") + variable + " is \"" + text +
                                "\"; it is a time in seconds, a positive number, or inf for never");
  }
  return seconds;
}

namespace watchdog {

inline std::string text_of(double seconds) {
  char text[32];
  std::snprintf(text, sizeof text, seconds < 10 ? "%.1f s" : "%.0f s", seconds);
  return text;
}
inline double seconds_since(std::int64_t begin) { return static_cast<double>(steady_nanoseconds() - begin) * 1e-9; }

/// `allreduce of 8 float in "reduce_sum"`.
inline std::string text_of(const StatusCopy& status) {
  if (status.kind.empty()) return "\"" + status.operation + "\"";
  return status.kind + " of " + std::to_string(status.count) + " " + std::string(name_of(status.type)) + " in \"" +
         status.operation + "\"";
}
inline std::string absence_of(const StatusCopy& status) {
  const std::string since = text_of(seconds_since(status.since));
  const std::string last = status.operation.empty() ? "no operation so far" : text_of(status) + " last";
  switch (status.presence) {
    case Presence::unknown: return "not heard from";
    case Presence::working: return "at work since " + since + ", " + last;
    case Presence::waiting: return "waiting since " + since + " in " + text_of(status);
    case Presence::unwound: return "its World ended by an exception " + since + " ago";
    case Presence::ended: return "its World ended " + since + " ago";
  }
  return {};
}

}  // namespace watchdog

std::string describe_wait(const StatusBoard& board, const MeshValue& mesh, const std::vector<std::string>& names) {
  using namespace watchdog;
  // The wait that began first: later ones most likely follow from it.
  int first = -1;
  StatusCopy wait;
  for (int rank = 0; rank < board.size(); ++rank) {
    StatusCopy status = board.read(rank);
    if (status.presence != Presence::waiting || (first >= 0 && status.since >= wait.since)) continue;
    first = rank;
    wait = std::move(status);
  }
  if (first < 0) return {};

  const Coordinates at = mesh.coordinates(first);
  std::vector<int> there;
  std::string absent;
  for (std::int64_t member = 0; member < mesh.size(wait.axes); ++member) {
    const auto rank = static_cast<int>(mesh.processor(mesh.member(at, wait.axes, member)));
    const StatusCopy status = board.read(rank);
    const bool is_there = status.presence == Presence::waiting && status.axes == wait.axes;
    if (is_there && status.operation == wait.operation && status.kind == wait.kind && status.count == wait.count) {
      there.push_back(rank);
      continue;
    }
    absent += (absent.empty() ? "" : "; ") + list_ranks({rank}) + " (" + absence_of(status) + ")";
  }
  std::string axes;
  for (int i = 0; i < mesh.rank(); ++i) {
    if (wait.axes.has(i)) axes += (axes.empty() ? "\"" : ", \"") + names[static_cast<std::size_t>(i)] + "\"";
  }
  return "waiting for " + text_of(seconds_since(wait.since)) + ": " + text_of(wait) +
         (axes.empty() ? "" : " over " + axes) + ": " + list_ranks(there) + (there.size() == 1 ? " waits" : " wait") +
         (absent.empty() ? ", all that are needed" : "; not there: " + absent);
}

/// Watches the boards of all worlds of this process from one thread, which runs only while there are any.
class Watchdog {
 public:
  static Watchdog& instance() {
    static Watchdog watchdog;
    return watchdog;
  }
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;
  ~Watchdog() {
    {
      const std::lock_guard lock(mutex_);
      stops_ = true;
    }
    changed_.notify_all();
    if (thread_.joinable()) thread_.join();
  }

  void watch(const std::shared_ptr<StatusBoard>& board, const MeshValue& mesh, const Patience& patience);
  void forget(const std::shared_ptr<StatusBoard>& board);

 private:
  struct Watched {
    std::shared_ptr<StatusBoard> board;
    MeshValue mesh;
    std::vector<std::string> names;  ///< of the axes: those of `mesh` refer to memory of the world
    Patience patience;
    std::int64_t told = 0;  ///< beginning of the wait that was spoken of
  };

  Watchdog() = default;
  void run();
  void look(Watched& watched);
  [[noreturn]] static void end_job(const StatusBoard& board, const std::string& why);
  /// Seconds since a rank that this one waits for lost its world to an exception; 0 if none did.
  [[nodiscard]] static double lost_for(const Watched& watched, const StatusCopy& mine);
  [[nodiscard]] double interval() const;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Watched> watched_;
  bool stops_ = false;
  std::thread thread_;
};

inline void Watchdog::watch(const std::shared_ptr<StatusBoard>& board, const MeshValue& mesh,
                            const Patience& patience) {
  const std::lock_guard lock(mutex_);
  Watched watched{.board = board, .mesh = mesh, .names = {}, .patience = patience};
  for (const AxisValue& axis : mesh.axes) watched.names.emplace_back(axis.name.text);
  watched_.push_back(std::move(watched));
  if (!thread_.joinable()) {
    // Signals are for the program's own threads.
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    thread_ = std::thread([this] { run(); });
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }
  changed_.notify_all();
}

inline void Watchdog::forget(const std::shared_ptr<StatusBoard>& board) {
  const std::lock_guard lock(mutex_);
  for (Watched& watched : watched_) {
    if (watched.board != board) continue;
    board->release();
    watched = std::move(watched_.back());
    return watched_.pop_back();
  }
}

inline double Watchdog::interval() const {
  double shortest = 1;
  for (const Watched& watched : watched_) {
    shortest = std::fmin(shortest, std::fmin(watched.patience.until_told, watched.patience.until_ended) / 8);
  }
  return std::fmax(shortest, 0.005);
}

inline void Watchdog::run() {
  std::unique_lock lock(mutex_);
  while (!stops_) {
    if (watched_.empty()) {
      changed_.wait(lock);
    } else {
      changed_.wait_for(lock, std::chrono::duration<double>(interval()));
    }
    for (Watched& watched : watched_) look(watched);
  }
}

inline void Watchdog::look(Watched& watched) {
  StatusBoard& board = *watched.board;
  const StatusCopy mine = board.read(board.rank());
  if (mine.presence != Presence::waiting) {
    if (watched.told != 0) board.release();
    watched.told = 0;
    return;
  }
  const double waited = watchdog::seconds_since(mine.since);
  const Patience& patience = watched.patience;
  // Longer than a rank takes to end the job by itself, with its own words.
  const bool in_vain = lost_for(watched, mine) > 6;
  if (!in_vain && waited < std::fmin(patience.until_told, patience.until_ended)) return;
  if (watched.told != mine.since && board.claim()) {
    const std::string line = describe_wait(board, watched.mesh, watched.names);
    std::fprintf(stderr, "mtf: %s\n", line.c_str());
    std::fflush(stderr);
    watched.told = mine.since;
  }
  if (!in_vain && waited < patience.until_ended) return;
  // The one that spoke ends the job; if it cannot, the others do.
  const bool spoke = watched.told == mine.since;
  if (in_vain && (spoke || lost_for(watched, mine) > 8))
    end_job(board, "a rank that is waited for has lost its World to an exception, and cannot come");
  if (!in_vain && (spoke || waited > patience.until_ended + 2)) {
    end_job(board, "ranks have waited longer than " + watchdog::text_of(patience.until_ended) +
                       " for each other (abort_after)");
  }
}

inline double Watchdog::lost_for(const Watched& watched, const StatusCopy& mine) {
  double longest = 0;
  const Coordinates at = watched.mesh.coordinates(watched.board->rank());
  for (std::int64_t member = 0; member < watched.mesh.size(mine.axes); ++member) {
    const auto rank = static_cast<int>(watched.mesh.processor(watched.mesh.member(at, mine.axes, member)));
    const StatusCopy status = watched.board->read(rank);
    if (status.presence == Presence::unwound) longest = std::fmax(longest, watchdog::seconds_since(status.since));
  }
  return longest;
}

inline void Watchdog::end_job(const StatusBoard& board, const std::string& why) {
  std::fprintf(stderr, "mtf: rank %d: the job ends: %s\n", board.rank(), why.c_str());
  std::fflush(stderr);
  // MPI belongs to the thread that waits in it. Launchers end a job of which a process ends so; they do it at once, and
  // then drop what they have not read yet.
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  std::_Exit(1);
}

void watch(const std::shared_ptr<StatusBoard>& board, const MeshValue& mesh, const Patience& patience) {
  Watchdog::instance().watch(board, mesh, patience);
}
void stop_watching(const std::shared_ptr<StatusBoard>& board) { Watchdog::instance().forget(board); }

#endif

}  // namespace detail

}  // namespace v0
}  // namespace mtf
