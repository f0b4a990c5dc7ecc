// The last meeting: ranks whose errors end the job tell each other, so that what several have is said once.
#pragma once

#include <chrono>
#include <ctime>
#include <string>
#include <utility>
#include <vector>

#include <mtf/runtime/mpi.hpp>

namespace mtf {
inline namespace v0 {

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

#if MTF_HAS_DEFINITIONS

inline void pause(std::time_t seconds, long milliseconds) {
  const std::timespec span{seconds, milliseconds * 1000000};
  nanosleep(&span, nullptr);
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
      if (leads && (all || (seconds() > 2 && seconds() > last_heard + 0.5))) break;
      if (!leads && is_hushed()) return {};
      if (seconds() > (leads ? 4 : 5)) break;
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

#endif

}  // namespace detail

}  // namespace v0
}  // namespace mtf
