// The caching pool of slices.
#include <cstring>
#include <set>
#include <vector>

#include <doctest/doctest.h>

#include <mtf/runtime/memory_pool.hpp>

using Pool = mtf::MemoryPool<Kokkos::HostSpace>;

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
