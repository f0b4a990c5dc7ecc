// The caching pool of slices, and the small memory that is recycled.
#include <algorithm>
#include <cstring>
#include <fstream>
#include <limits>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <mtf/runtime/memory_pool.hpp>

using Pool = mtf::MemoryPool<Kokkos::HostSpace>;

namespace {

constexpr std::int64_t mega = std::int64_t{1} << 20;

/// While it lives, the address space may grow by so many bytes.
class MemoryLimit {
 public:
  explicit MemoryLimit(std::int64_t bytes) {
    std::int64_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    getrlimit(RLIMIT_AS, &before_);
    rlimit limit = before_;
    limit.rlim_cur = static_cast<rlim_t>(pages * sysconf(_SC_PAGESIZE) + bytes);
    setrlimit(RLIMIT_AS, &limit);
  }
  MemoryLimit(const MemoryLimit&) = delete;
  MemoryLimit& operator=(const MemoryLimit&) = delete;
  ~MemoryLimit() { setrlimit(RLIMIT_AS, &before_); }

 private:
  rlimit before_{};
};

/// A step that works on a few arrays of `size`, as a training step of extents that change would.
std::int64_t run_step(Pool& pool, std::int64_t size) {
  const std::int64_t before = pool.allocations();
  std::vector<std::pair<void*, std::int64_t>> held;
  for (const std::int64_t bytes : {size, 3 * size, size / 2, size, 7 * size})
    held.emplace_back(pool.take(bytes), bytes);
  for (const auto& [memory, bytes] : held) pool.give(memory, bytes);
  return pool.allocations() - before;
}

}  // namespace

TEST_CASE("memory that was given back is handed out again") {
  Pool pool;
  void* first = pool.take(1000);
  CHECK(pool.allocations() == 1);
  pool.give(first, 1000);
  CHECK(pool.take(1000) == first);
  CHECK(pool.allocations() == 1);
  void* second = pool.take(1000);
  CHECK(second != first);
  CHECK(pool.allocations() == 2);
  pool.give(first, 1000);
  pool.give(second, 1000);
  CHECK(pool.live_bytes() == 0);
}

TEST_CASE("blocks in use do not overlap, and hold what was asked for") {
  Pool pool;
  struct Taken {
    unsigned char* memory;
    std::int64_t bytes;
  };
  std::vector<Taken> taken;
  for (std::int64_t bytes = 1; bytes < 20000; bytes += bytes / 3 + 1) {
    taken.push_back({static_cast<unsigned char*>(pool.take(bytes)), bytes});
    std::memset(taken.back().memory, static_cast<int>(taken.size()), static_cast<std::size_t>(bytes));
  }
  bool intact = true;
  for (std::size_t i = 0; i < taken.size(); ++i) {
    for (std::int64_t b = 0; b < taken[i].bytes; ++b)
      intact = intact && taken[i].memory[b] == static_cast<unsigned char>(i + 1);
  }
  CHECK(intact);
  for (const Taken& block : taken) pool.give(block.memory, block.bytes);
  CHECK(pool.live_bytes() == 0);
}

TEST_CASE("sizes share memory, at most an eighth is lost") {
  Pool pool;
  for (std::int64_t bytes = 512; bytes < 1 << 22; bytes += bytes / 7 + 3) {
    const std::int64_t before = pool.live_bytes();
    void* memory = pool.take(bytes);
    const std::int64_t taken = pool.live_bytes() - before;
    CHECK(taken >= bytes);
    CHECK(static_cast<double>(taken) <= 1.126 * static_cast<double>(bytes));
    CHECK(pool.take(taken) != memory);
  }
}

TEST_CASE("no bytes are a block, too") {
  Pool pool;
  void* memory = pool.take(0);
  CHECK(memory != nullptr);
  pool.give(memory, 0);
  CHECK(pool.take(1) == memory);
}

TEST_CASE("live and peak bytes") {
  Pool pool;
  void* a = pool.take(1024);
  void* b = pool.take(2048);
  CHECK(pool.live_bytes() == 3072);
  pool.give(a, 1024);
  CHECK(pool.live_bytes() == 2048);
  CHECK(pool.peak_bytes() == 3072);
  pool.reset_peak();
  CHECK(pool.peak_bytes() == 2048);
  pool.give(b, 2048);
}

TEST_CASE("a steady pattern of requests allocates nothing after its first round") {
  Pool pool;
  std::int64_t after_first = 0;
  for (int round = 0; round < 10; ++round) {
    std::vector<std::pair<void*, std::int64_t>> held;
    for (const std::int64_t bytes : {64, 4096, 100, 4096, 65536, 5000}) held.emplace_back(pool.take(bytes), bytes);
    for (const auto& [memory, bytes] : held) pool.give(memory, bytes);
    if (round == 0) after_first = pool.allocations();
  }
  CHECK(pool.allocations() == after_first);
}

TEST_CASE("sizes that grow and never come again leave a bounded amount behind") {
  Pool pool;
  std::int64_t most = 0;
  for (std::int64_t size = 1000; size < 300000; size += 77) {
    run_step(pool, size);
    most = std::max(most, pool.cached_bytes());
    CHECK(pool.live_bytes() == 0);
  }
  // The largest step has 12.5 sizes, rounded up by an eighth at most.
  CHECK(pool.peak_bytes() >= 12 * 300000);
  CHECK(most <= 2 * pool.peak_bytes());
  CHECK(pool.cached_bytes() <= 2 * pool.peak_bytes());
}

TEST_CASE("phases of other sizes each, many more than are in use at once: a step that repeats finds all it needs") {
  std::mt19937_64 random(20);
  for (int repetition = 0; repetition < 20; ++repetition) {
    Pool pool;
    std::vector<std::vector<std::int64_t>> phases(3 + random() % 20);
    for (std::vector<std::int64_t>& phase : phases) {
      phase.resize(1 + random() % 6);
      const auto scale = static_cast<std::int64_t>(1000 << random() % 9);
      for (std::int64_t& bytes : phase) bytes = scale + static_cast<std::int64_t>(random() % 100000);
    }
    std::int64_t last = 0;
    for (int step = 0; step < 40; ++step) {
      const std::int64_t before = pool.allocations();
      for (const std::vector<std::int64_t>& phase : phases) {
        std::vector<void*> held;
        for (const std::int64_t bytes : phase) held.push_back(pool.take(bytes));
        for (std::size_t i = 0; i < held.size(); ++i) pool.give(held[i], phase[i]);
      }
      last = pool.allocations() - before;
    }
    CHECK(last == 0);
  }
}

TEST_CASE("what the pool keeps can be given back, and goes back before it gives up") {
  Pool pool;
  std::vector<void*> held;
  for (int i = 0; i < 8; ++i) held.push_back(pool.take(16 * mega));
  void* other = pool.take(5000);
  for (void* memory : held) pool.give(memory, 16 * mega);
  CHECK(pool.cached_bytes() == 8 * 16 * mega);
  {
    const MemoryLimit limit(100 * mega);  // of which malloc takes 64 for another arena
    void* large = pool.take(140 * mega);
    CHECK(pool.cached_bytes() == 0);
    pool.give(large, 140 * mega);
  }
  CHECK(pool.cached_bytes() >= 140 * mega);
  pool.release_cached();
  CHECK(pool.cached_bytes() == 0);
  CHECK(pool.live_bytes() == mtf::pooled_bytes(5000));
  std::memset(other, 1, 5000);
  pool.give(other, 5000);
}

TEST_CASE("where the rounded size is too much the exact one is tried, and is never handed out for more") {
  Pool pool;
  const std::int64_t bytes = 1024 * mega + 8;  // 1152 megabytes when rounded
  void* exact = nullptr;
  {
    const MemoryLimit limit(1120 * mega);
    exact = pool.take(bytes);
    CHECK(exact != nullptr);
    CHECK(pool.live_bytes() == mtf::pooled_bytes(bytes));
  }
  static_cast<char*>(exact)[bytes - 1] = 1;
  pool.give(exact, bytes);
  CHECK(pool.live_bytes() == 0);
  CHECK(pool.cached_bytes() == 0);
}

TEST_CASE("memory that the system does not have is refused, and the pool goes on") {
  Pool pool;
  void* before = pool.take(1000);
  const auto refused = [&](std::int64_t bytes) {
    try {
      (void)pool.take(bytes);
    } catch (const mtf::out_of_memory& error) {
      CHECK(std::string(error.what()).find(std::to_string(bytes)) != std::string::npos);
      return true;
    }
    return false;
  };
  {
    const MemoryLimit limit(100 * mega);
    CHECK(refused(400 * mega));
    CHECK(refused(300 * mega));
  }
  CHECK(refused(std::int64_t{1} << 60));
  CHECK(refused(std::numeric_limits<std::int64_t>::max()));
  CHECK(refused(std::numeric_limits<std::int64_t>::max() / 8 * 7));
  CHECK(pool.live_bytes() == mtf::pooled_bytes(1000));
  CHECK(pool.peak_bytes() == mtf::pooled_bytes(1000));
  pool.give(before, 1000);
  CHECK(pool.take(1000) == before);
}

TEST_CASE("a pool may end after Kokkos' hook and after other pools") {
  std::optional<Pool> first(std::in_place);
  Pool second;
  void* memory = second.take(100);
  first.reset();
  second.give(memory, 100);
  CHECK(second.take(100) == memory);
}
