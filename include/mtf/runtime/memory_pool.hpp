// A caching pool of slices, one for each world and memory space.
#pragma once

#include <algorithm>
#include <cstdint>
#include <mutex>
#include <utility>

#if defined(__linux__)
#include <sys/mman.h>
#endif

#include <Kokkos_Core.hpp>

#include <mtf/core/recycled.hpp>
#include <mtf/plan/loop.hpp>

namespace mtf {
inline namespace v0 {

namespace detail {

/// The pools of the process, so that a finalize hook can return their memory before Kokkos ends.
class PoolList {
 public:
  using Release = void (*)(void*);
  static PoolList& instance() {
    static PoolList list;
    return list;
  }
  void add(void* pool, Release release) {
    const std::lock_guard lock(mutex_);
    if (!hooked_) {
      Kokkos::push_finalize_hook([] { PoolList::instance().release_all(); });
      hooked_ = true;
    }
    pools_.push_back({pool, release});
  }
  void remove(void* pool) {
    const std::lock_guard lock(mutex_);
    for (Entry& entry : pools_) {
      if (entry.pool != pool) continue;
      entry = pools_.back();
      return pools_.pop_back();
    }
  }

 private:
  struct Entry {
    void* pool;
    Release release;
  };
  void release_all() {
    const std::lock_guard lock(mutex_);
    for (const Entry& entry : pools_) entry.release(entry.pool);
    pools_.clear();
    hooked_ = false;
  }
  std::mutex mutex_;
  RecycledVector<Entry> pools_;
  bool hooked_ = false;
};

}  // namespace detail

/// Freed memory is kept by size and handed out again: a warmed-up training step allocates nothing. Memory goes back to
/// Kokkos when the pool or Kokkos ends, whichever comes first.
template <class MemorySpace>
class MemoryPool {
 public:
  MemoryPool() {
    detail::PoolList::instance().add(this, [](void* self) { static_cast<MemoryPool*>(self)->end(); });
  }
  MemoryPool(const MemoryPool&) = delete;
  MemoryPool& operator=(const MemoryPool&) = delete;
  ~MemoryPool() {
    detail::PoolList::instance().remove(this);
    end();
  }

  [[nodiscard]] void* take(std::int64_t bytes) {
    const std::int64_t size = pooled_bytes(bytes);
    live_ += size;
    peak_ = std::max(peak_, live_);
    RecycledVector<void*>& list = free_list(size);
    if (!list.empty()) {
      void* memory = list.back();
      list.pop_back();
      return memory;
    }
    ++allocations_;
    if constexpr (Kokkos::SpaceAccessibility<Kokkos::HostSpace, MemorySpace>::accessible) {
      if (size >= huge_page) return take_huge(size);
    }
    owned_.push_back(Kokkos::kokkos_malloc<MemorySpace>("mtf", static_cast<std::size_t>(size)));
    return owned_.back();
  }
  void give(void* memory, std::int64_t bytes) {
    const std::int64_t size = pooled_bytes(bytes);
    live_ -= size;
    if (!ended_) free_list(size).push_back(memory);
  }

  [[nodiscard]] std::int64_t live_bytes() const { return live_; }
  [[nodiscard]] std::int64_t peak_bytes() const { return peak_; }
  /// How often memory was asked of Kokkos.
  [[nodiscard]] std::int64_t allocations() const { return allocations_; }
  void reset_peak() { peak_ = live_; }

 private:
  struct FreeList {
    std::int64_t size;
    RecycledVector<void*> memory;
  };
  static constexpr std::int64_t huge_page = std::int64_t{1} << 21;

  /// Large slices on large pages where the system has them: matrix products miss the translation buffer less.
  [[nodiscard]] void* take_huge(std::int64_t size) {
    owned_.push_back(Kokkos::kokkos_malloc<MemorySpace>("mtf", static_cast<std::size_t>(size + huge_page)));
    const auto address = (reinterpret_cast<std::uintptr_t>(owned_.back()) + huge_page - 1) / huge_page * huge_page;
    void* memory = reinterpret_cast<void*>(address);
#if defined(MADV_HUGEPAGE)
    (void)madvise(memory, static_cast<std::size_t>(size), MADV_HUGEPAGE);  // advice: nothing is lost without it
#endif
    return memory;
  }

  RecycledVector<void*>& free_list(std::int64_t size) {
    for (FreeList& list : free_) {
      if (list.size == size) return list.memory;
    }
    return free_.emplace_back(FreeList{size, {}}).memory;
  }
  void end() {
    if (ended_) return;
    ended_ = true;
    for (void* memory : owned_) Kokkos::kokkos_free<MemorySpace>(memory);
    owned_.clear();
    free_.clear();
  }

  RecycledVector<FreeList> free_;  ///< few: a step uses few sizes
  RecycledVector<void*> owned_;
  std::int64_t live_ = 0;
  std::int64_t peak_ = 0;
  std::int64_t allocations_ = 0;
  bool ended_ = false;
};

}  // namespace v0
}  // namespace mtf
