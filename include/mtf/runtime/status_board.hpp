// What every rank of a host is waiting for, in memory that the ranks share: read while they wait, without MPI.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <new>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <sys/mman.h>
#include <unistd.h>

#include <mtf/plan/collective.hpp>
#include <mtf/runtime/mpi.hpp>

namespace mtf {
inline namespace v0 {

/// Something a rank does together with others, and waits for them in.
struct CollectiveCall {
  std::string_view operation;  ///< "reduce_sum", "World"
  std::string_view kind{};     ///< of the collective, "allreduce"
  AxisSet axes;                ///< that the group spans
  std::int64_t count = 0;      ///< elements, 0 if it has none
  ElementType type{};
};

namespace detail {

enum class Presence : std::uint32_t {
  unknown,  ///< on another host, or not there yet
  working,  ///< in the program, after its last call
  waiting,  ///< in a call
  unwound,  ///< its world was destroyed by an exception
  ended     ///< has ended its world
};

/// The status of one rank. Written by that rank alone; read by any at any time, so that a reader may see a mixture of two
/// meetings when one just begins. It reads again before it says anything.
struct alignas(64) RankStatus {
  std::atomic<std::uint32_t> changes;  ///< of this status; odd while it is written
  std::atomic<Presence> presence;
  std::atomic<std::int64_t> since;  ///< nanoseconds of the steady clock, which all processes of a host share
  std::uint32_t axes;
  ElementType type;
  std::int64_t count;
  char operation[40];
  char kind[24];
};
static_assert(std::atomic<std::uint32_t>::is_always_lock_free && std::atomic<std::int64_t>::is_always_lock_free,
              "processes share atomics only if these take no lock");

/// A RankStatus as it was at one time.
struct StatusCopy {
  Presence presence = Presence::unknown;
  std::int64_t since = 0;
  AxisSet axes;
  ElementType type{};
  std::int64_t count = 0;
  std::string operation, kind;
};

[[nodiscard]] inline std::int64_t steady_nanoseconds() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

/// The statuses of the ranks of a communicator that are on this host.
class StatusBoard {
 public:
  /// Collective over `comm`. Where memory cannot be shared each rank has a board of its own, and knows of no other.
  MTF_COLD explicit StatusBoard(MPI_Comm comm) {
    check_mpi(MPI_Comm_rank(comm, &rank_), "MPI_Comm_rank");
    check_mpi(MPI_Comm_size(comm, &size_), "MPI_Comm_size");
    MPI_Comm host = MPI_COMM_NULL;
    check_mpi(MPI_Comm_split_type(comm, MPI_COMM_TYPE_SHARED, rank_, MPI_INFO_NULL, &host), "MPI_Comm_split_type");
    map(host);
    MPI_Comm_free(&host);
    mine().presence.store(Presence::working);
  }
  StatusBoard(const StatusBoard&) = delete;
  StatusBoard& operator=(const StatusBoard&) = delete;
  ~StatusBoard() { munmap(memory_, bytes()); }

  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] int size() const { return size_; }

  /// This rank arrives at a call. About 0.1 microseconds.
  void begin(const CollectiveCall& call) {
    RankStatus& status = mine();
    const std::uint32_t changes = status.changes.load(std::memory_order_relaxed);
    status.changes.store(changes + 1, std::memory_order_relaxed);
    std::atomic_thread_fence(std::memory_order_release);
    status.axes = call.axes.bits;
    status.type = call.type;
    status.count = call.count;
    copy(status.operation, call.operation);
    copy(status.kind, call.kind);
    status.since.store(steady_nanoseconds(), std::memory_order_relaxed);
    status.presence.store(Presence::waiting, std::memory_order_relaxed);
    status.changes.store(changes + 2, std::memory_order_release);
  }
  void end() { set(Presence::working); }
  void set(Presence presence) {
    mine().since.store(steady_nanoseconds(), std::memory_order_relaxed);
    mine().presence.store(presence, std::memory_order_release);
  }

  [[nodiscard]] StatusCopy read(int rank) const {
    const RankStatus& status = statuses()[rank];
    for (;;) {
      StatusCopy copy;
      const std::uint32_t before = status.changes.load(std::memory_order_acquire);
      copy.presence = status.presence.load(std::memory_order_relaxed);
      copy.since = status.since.load(std::memory_order_relaxed);
      copy.axes = AxisSet{status.axes};
      copy.type = status.type;
      copy.count = status.count;
      copy.operation.assign(status.operation, strnlen(status.operation, sizeof status.operation));
      copy.kind.assign(status.kind, strnlen(status.kind, sizeof status.kind));
      std::atomic_thread_fence(std::memory_order_acquire);
      if (before % 2 == 0 && status.changes.load(std::memory_order_relaxed) == before) return copy;
    }
  }
  /// Whether this rank is the one that speaks of the present wait: the first that asks.
  [[nodiscard]] bool claim() {
    std::int32_t nobody = 0;
    return speaker().compare_exchange_strong(nobody, rank_ + 1) || nobody == rank_ + 1;
  }
  /// The wait it spoke of is over.
  void release() {
    std::int32_t me = rank_ + 1;
    speaker().compare_exchange_strong(me, 0);
  }

 private:
  [[nodiscard]] std::size_t bytes() const { return 64 + static_cast<std::size_t>(size_) * sizeof(RankStatus); }
  [[nodiscard]] std::atomic<std::int32_t>& speaker() const { return *static_cast<std::atomic<std::int32_t>*>(memory_); }
  [[nodiscard]] RankStatus* statuses() const { return reinterpret_cast<RankStatus*>(static_cast<char*>(memory_) + 64); }
  [[nodiscard]] RankStatus& mine() const { return statuses()[rank_]; }
  template <std::size_t N>
  static void copy(char (&to)[N], std::string_view text) {
    const std::size_t length = text.size() < N ? text.size() : N;
    std::memcpy(to, text.data(), length);
    if (length < N) to[length] = '\0';
  }

  /// Memory without a name in the file system: the first rank of the host makes it, the others open it by name, and then
  /// the name goes, so that nothing is left behind however the job ends.
  MTF_COLD void map(MPI_Comm host) {
    int member = 0;
    MPI_Comm_rank(host, &member);
    char name[64]{};
    int file = -1;
    if (member == 0) {
      std::snprintf(name, sizeof name, "/mtf-%ld-%lld", static_cast<long>(getpid()),
                    static_cast<long long>(steady_nanoseconds()));
      file = shm_open(name, O_RDWR | O_CREAT | O_EXCL, 0600);
      if (file >= 0 && ftruncate(file, static_cast<off_t>(bytes())) != 0) {
        close(file);
        file = -1;
      }
    }
    check_mpi(MPI_Bcast(name, sizeof name, MPI_CHAR, 0, host), "MPI_Bcast");
    if (member != 0) file = shm_open(name, O_RDWR, 0600);
    int good = file >= 0 ? 1 : 0;
    check_mpi(MPI_Allreduce(MPI_IN_PLACE, &good, 1, MPI_INT, MPI_MIN, host), "MPI_Allreduce");
    if (member == 0) shm_unlink(name);
    memory_ = mmap(nullptr, bytes(), PROT_READ | PROT_WRITE, good != 0 ? MAP_SHARED : MAP_SHARED | MAP_ANONYMOUS,
                   good != 0 ? file : -1, 0);
    if (file >= 0) close(file);
    if (memory_ == MAP_FAILED) throw std::bad_alloc();
  }

  int rank_ = 0;
  int size_ = 1;
  void* memory_ = nullptr;
};

/// While it lives, this rank is in a call. Nothing without a board, which a world of one rank has not.
class Attendance {
 public:
  Attendance(StatusBoard* board, const CollectiveCall& call) : board_(board) {
    if (board_ != nullptr) board_->begin(call);
  }
  Attendance(const Attendance&) = delete;
  Attendance& operator=(const Attendance&) = delete;
  ~Attendance() {
    if (board_ != nullptr) board_->end();
  }

 private:
  StatusBoard* board_;
};

}  // namespace detail

}  // namespace v0
}  // namespace mtf
