// Small memory that every step takes and gives back: recycled instead of freed.
#pragma once

#include <cstddef>
#include <memory>
#include <new>
#include <type_traits>
#include <vector>

#include <mtf/core/config.hpp>

namespace mtf {
inline namespace v0 {

namespace detail {

/// Freed memory of small objects by size, so that a warmed-up training step calls no `operator new`. One host thread
/// drives a world, so the lists are per thread.
class Recycler {
 public:
  static void* take(std::size_t bytes) {
    const std::size_t slot = slot_of(bytes);
    if (slot >= slots) return ::operator new(bytes);
    if (Link* head = lists_[slot]) {
      lists_[slot] = head->next;
      return head;
    }
    return ::operator new((slot + 1) * granularity);
  }
  static void give(void* memory, std::size_t bytes) {
    const std::size_t slot = slot_of(bytes);
    if (slot >= slots) return ::operator delete(memory);
    lists_[slot] = ::new (memory) Link{lists_[slot]};
  }

 private:
  struct Link {
    Link* next;
  };
  static constexpr std::size_t granularity = 64;
  static constexpr std::size_t slots = 1024;
  static constexpr std::size_t slot_of(std::size_t bytes) { return (bytes - 1) / granularity; }
  static inline thread_local Link* lists_[slots]{};
};

}  // namespace detail

/// An allocator on the recycler, for vectors that every step makes anew.
template <class T>
struct Recycled {
  using value_type = T;
  constexpr Recycled() = default;
  template <class U>
  constexpr Recycled(const Recycled<U>&) {}

  [[nodiscard]] constexpr T* allocate(std::size_t count) {
    if (std::is_constant_evaluated()) return std::allocator<T>().allocate(count);
    return static_cast<T*>(detail::Recycler::take(count * sizeof(T)));
  }
  constexpr void deallocate(T* memory, std::size_t count) {
    if (std::is_constant_evaluated()) return std::allocator<T>().deallocate(memory, count);
    detail::Recycler::give(memory, count * sizeof(T));
  }
  friend constexpr bool operator==(const Recycled&, const Recycled&) { return true; }
};
template <class T>
using RecycledVector = std::vector<T, Recycled<T>>;

}  // namespace v0
}  // namespace mtf
