// A caching pool of slices, one for each world and memory space.
#pragma once

#include <algorithm>
#include <cstdint>
#include <exception>
#include <new>
#include <stdexcept>
#include <string>
#include <utility>

#if defined(__linux__)
#include <sys/mman.h>
#endif

#include <Kokkos_Core.hpp>

#include <mtf/core/recycled.hpp>
#include <mtf/plan/loop.hpp>
#include <mtf/runtime/lifetime.hpp>

namespace mtf {
inline namespace v0 {

/// Memory that the system does not give. It concerns the ranks that throw it, so `mtf::run` ends the job; caught on all
/// ranks alike, the world stays usable.
class out_of_memory : public std::bad_alloc {
 public:
  explicit out_of_memory(const std::string& what) : text_("mtf: " + what) {}
  [[nodiscard]] const char* what() const noexcept override { return text_.what(); }

 private:
  std::runtime_error text_;  // whose copies do not throw
};

/// Freed memory is kept by size and handed out again, in constant time: a warmed-up training step allocates nothing.
///
/// What is kept for sizes that do not come again is bounded: before more memory is asked of Kokkos, that which lay
/// longest goes back until the pool holds at most twice what was ever in use at once. Sizes that do come again soon
/// after are thereby found, and raise that bound by themselves, so that a step that repeats finds everything it needs,
/// however its sizes are spread. Memory goes back to Kokkos when the pool or Kokkos ends, whichever comes first.
template <class MemorySpace>
class MemoryPool {
 public:
  MemoryPool() {
    detail::Listeners::of_kokkos().add(this, [](void* self) { static_cast<MemoryPool*>(self)->end(); });
  }
  MemoryPool(const MemoryPool&) = delete;
  MemoryPool& operator=(const MemoryPool&) = delete;
  ~MemoryPool() {
    detail::Listeners::of_kokkos().remove(this);
    end();
  }

  /// Throws out_of_memory if the system gives none, also after all that was kept has gone back.
  [[nodiscard]] void* take(std::int64_t bytes) {
    if (bytes > most_bytes) fail(bytes);
    const std::int64_t size = pooled_bytes(bytes);
    RecycledVector<Kept>& kept = classes_[class_of(size)].kept;
    void* memory = nullptr;
    if (kept.empty()) {
      memory = allocate(bytes, size);
    } else {
      memory = kept.back().memory;
      kept.pop_back();
      cached_ -= size;
    }
    ++clock_;
    live_ += size;
    peak_ = std::max(peak_, live_);
    return memory;
  }
  void give(void* memory, std::int64_t bytes) {
    const std::int64_t size = pooled_bytes(bytes);
    live_ -= size;
    if (has_exact_ && give_exact(memory)) return;
    if (ended_) return;
    classes_[class_of(size)].kept.push_back({memory, clock_});
    cached_ += size;
  }

  [[nodiscard]] std::int64_t live_bytes() const { return live_; }
  [[nodiscard]] std::int64_t peak_bytes() const { return peak_; }
  /// Given back to the pool and kept for the next request of that size.
  [[nodiscard]] std::int64_t cached_bytes() const { return cached_; }
  /// How often memory was asked of Kokkos.
  [[nodiscard]] std::int64_t allocations() const { return allocations_; }
  void reset_peak() {
    highest_ = std::max(highest_, peak_);
    peak_ = live_;
  }
  /// Gives all that is kept back to Kokkos.
  void release_cached() {
    for (Class& sizes : classes_) {
      for (const Kept& block : sizes.kept) free(block.memory);
      sizes.kept.clear();
    }
    cached_ = 0;
  }

 private:
  struct Kept {
    void* memory;
    std::uint64_t given;  ///< when, by the clock
  };
  /// Memory of one size, the longest kept first.
  struct Class {
    RecycledVector<Kept> kept;
    std::int64_t released = 0;      ///< blocks that went back to Kokkos and have not been asked for since
    std::uint64_t released_at = 0;  ///< when one last did
  };
  struct Owned {
    void* memory;
    void* allocated;  ///< what Kokkos gave, at or before `memory`
  };
  static constexpr std::int64_t huge_page = std::int64_t{1} << 21;
  static constexpr std::int64_t most_bytes = std::int64_t{1} << 62;
  static constexpr int classes = 448;

  /// The position of a pooled size among all: 16 steps of 64 bytes, then 8 for each power of two.
  [[nodiscard]] static int class_of(std::int64_t size) {
    if (size < 1024) return static_cast<int>(size / 64) - 1;
    const int power = 63 - __builtin_clzll(static_cast<unsigned long long>(size));
    return 15 + (power - 10) * 8 + static_cast<int>(static_cast<unsigned long long>(size) >> (power - 3) & 7U);
  }

  MTF_COLD void* allocate(std::int64_t bytes, std::int64_t size) {
    ++allocations_;
    make_room(size);
    void* memory = ask(size, true);
    if (memory == nullptr && cached_ > 0) {
      release_cached();
      memory = ask(size, true);
    }
    if (memory == nullptr) {
      memory = ask(bytes, false);
      has_exact_ = has_exact_ || memory != nullptr;
      if (memory != nullptr) exact_.push_back(memory);
    }
    if (memory == nullptr) fail(bytes);
    return memory;
  }
  [[noreturn]] MTF_COLD void fail(std::int64_t bytes) const {
    throw out_of_memory("memory pool: no memory for " + std::to_string(bytes) + " bytes; " + std::to_string(live_) +
                        " are in use");
  }
  /// Memory of Kokkos, on large pages if wished and if the system has them: matrix products miss the translation buffer
  /// less. Null if there is none.
  void* ask(std::int64_t size, bool may_be_huge) {
    constexpr bool on_host = Kokkos::SpaceAccessibility<Kokkos::HostSpace, MemorySpace>::accessible;
    const bool huge = on_host && may_be_huge && size >= huge_page;
    try {
      owned_.push_back({});  // before there is something to lose
      void* allocated =
          Kokkos::kokkos_malloc<MemorySpace>("mtf", static_cast<std::size_t>(huge ? size + huge_page : size));
      owned_.back() = {allocated, allocated};
    } catch (const std::exception&) {  // of a type that differs between versions of Kokkos
      if (!owned_.empty() && owned_.back().memory == nullptr) owned_.pop_back();
      return nullptr;
    }
    if (huge) {
      const auto address = reinterpret_cast<std::uintptr_t>(owned_.back().allocated);
      owned_.back().memory = reinterpret_cast<void*>((address + huge_page - 1) / huge_page * huge_page);
#if defined(MADV_HUGEPAGE)
      // Advice: nothing is lost without it.
      (void)madvise(owned_.back().memory, static_cast<std::size_t>(size), MADV_HUGEPAGE);
#endif
    }
    return owned_.back().memory;
  }
  void free(void* memory) {
    for (Owned& block : owned_) {
      if (block.memory != memory) continue;
      Kokkos::kokkos_free<MemorySpace>(block.allocated);
      block = owned_.back();
      return owned_.pop_back();
    }
  }

  /// Gives back what was kept longest until there is room for `size` more bytes within the bound.
  void make_room(std::int64_t size) {
    highest_ = std::max({highest_, peak_, live_ + size});
    Class& asked = classes_[class_of(size)];
    if (asked.released > 0) {
      --asked.released;
      if (clock_ - asked.released_at < clock_ / 4) allowance_ += size;
    }
    while (cached_ > 0 && live_ + cached_ + size > 2 * highest_ + allowance_) release_oldest();
  }
  void release_oldest() {
    Class* oldest = nullptr;
    for (Class& sizes : classes_) {
      if (!sizes.kept.empty() && (oldest == nullptr || sizes.kept[0].given < oldest->kept[0].given)) oldest = &sizes;
    }
    if (oldest == nullptr) return;
    RecycledVector<Kept>& kept = oldest->kept;
    free(kept[0].memory);
    for (std::size_t i = 1; i < kept.size(); ++i) kept[i - 1] = kept[i];
    kept.pop_back();
    ++oldest->released;
    oldest->released_at = clock_;
    const auto position = static_cast<int>(oldest - classes_);
    cached_ -= size_of_class(position);
  }
  [[nodiscard]] static std::int64_t size_of_class(int position) {
    if (position < 15) return 64 * (position + 1);
    return std::int64_t{8 + (position - 15) % 8} << ((position - 15) / 8 + 7);
  }
  /// Memory of less than a class' size is never handed out again.
  MTF_COLD bool give_exact(void* memory) {
    for (void*& exact : exact_) {
      if (exact != memory) continue;
      exact = exact_.back();
      exact_.pop_back();
      has_exact_ = !exact_.empty();
      if (!ended_) free(memory);
      return true;
    }
    return false;
  }
  void end() {
    if (ended_) return;
    ended_ = true;
    for (const Owned& block : owned_) Kokkos::kokkos_free<MemorySpace>(block.allocated);
    owned_.clear();
    for (Class& sizes : classes_) sizes.kept.clear();
    cached_ = 0;
  }

  Class classes_[classes];
  RecycledVector<Owned> owned_;
  RecycledVector<void*> exact_;  ///< blocks of just the bytes asked for, taken when there were no more
  std::int64_t live_ = 0;
  std::int64_t cached_ = 0;
  std::int64_t peak_ = 0;
  std::int64_t highest_ = 0;    ///< the most that was ever in use
  std::int64_t allowance_ = 0;  ///< what may be kept beyond the bound, because it was missed
  std::uint64_t clock_ = 0;     ///< requests so far
  std::int64_t allocations_ = 0;
  bool has_exact_ = false;
  bool ended_ = false;
};

}  // namespace v0
}  // namespace mtf
