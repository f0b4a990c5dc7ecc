// Small memory that every step takes and gives back: recycled instead of freed.
#pragma once

#include <cstddef>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>

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

/// A vector of memory that every step takes anew, from the recycler (from `new` in constant expressions). The few members that the library
/// uses: std::vector would do the same, but each type of element costs a user's file 20 to 30 ms of compile time.
template <class T>
class RecycledVector {
 public:
  constexpr RecycledVector() = default;
  constexpr explicit RecycledVector(std::size_t count) {
    reserve(count);
    while (size_ < count) emplace_back(T{});
  }
  constexpr RecycledVector(std::size_t count, const T& item) {
    reserve(count);
    while (size_ < count) push_back(item);
  }
  constexpr RecycledVector(const RecycledVector& other) {
    reserve(other.size_);
    for (const T& item : other) push_back(item);
  }
  constexpr RecycledVector(RecycledVector&& other) noexcept { swap(other); }
  constexpr RecycledVector& operator=(const RecycledVector& other) {
    RecycledVector copy(other);
    swap(copy);
    return *this;
  }
  constexpr RecycledVector& operator=(RecycledVector&& other) noexcept {
    swap(other);
    return *this;
  }
  constexpr ~RecycledVector() {
    clear();
    release(items_, capacity_);
  }

  [[nodiscard]] constexpr std::size_t size() const { return size_; }
  [[nodiscard]] constexpr bool empty() const { return size_ == 0; }
  [[nodiscard]] constexpr T* data() { return items_; }
  [[nodiscard]] constexpr const T* data() const { return items_; }
  [[nodiscard]] constexpr T* begin() { return items_; }
  [[nodiscard]] constexpr T* end() { return items_ + size_; }
  [[nodiscard]] constexpr const T* begin() const { return items_; }
  [[nodiscard]] constexpr const T* end() const { return items_ + size_; }
  [[nodiscard]] constexpr T& operator[](std::size_t i) { return items_[i]; }
  [[nodiscard]] constexpr const T& operator[](std::size_t i) const { return items_[i]; }
  [[nodiscard]] constexpr T& back() { return items_[size_ - 1]; }
  [[nodiscard]] constexpr const T& back() const { return items_[size_ - 1]; }

  template <class... Arguments>
  constexpr T& emplace_back(Arguments&&... arguments) {
    if (size_ == capacity_) reserve(capacity_ == 0 ? 4 : 2 * capacity_);
    std::construct_at(items_ + size_, std::forward<Arguments>(arguments)...);
    return items_[size_++];
  }
  constexpr void push_back(const T& item) {
    T copy(item);  // `item` may be one of this vector's own
    emplace_back(std::move(copy));
  }
  constexpr void push_back(T&& item) { emplace_back(std::move(item)); }
  constexpr void pop_back() { std::destroy_at(items_ + --size_); }
  constexpr void clear() {
    while (size_ > 0) std::destroy_at(items_ + --size_);
  }
  constexpr void reserve(std::size_t capacity) {
    if (capacity <= capacity_) return;
    T* items = acquire(capacity);
    for (std::size_t i = 0; i < size_; ++i) {
      std::construct_at(items + i, std::move(items_[i]));
      std::destroy_at(items_ + i);
    }
    release(items_, capacity_);
    items_ = items;
    capacity_ = capacity;
  }

 private:
  static constexpr T* acquire(std::size_t count) {
    if (std::is_constant_evaluated()) return std::allocator<T>().allocate(count);
    return static_cast<T*>(detail::Recycler::take(count * sizeof(T)));
  }
  static constexpr void release(T* items, std::size_t count) {
    if (count == 0) return;
    if (std::is_constant_evaluated()) return std::allocator<T>().deallocate(items, count);
    detail::Recycler::give(items, count * sizeof(T));
  }
  constexpr void swap(RecycledVector& other) noexcept {
    std::swap(items_, other.items_);
    std::swap(size_, other.size_);
    std::swap(capacity_, other.capacity_);
  }

  T* items_ = nullptr;
  std::size_t size_ = 0;
  std::size_t capacity_ = 0;
};

}  // namespace v0
}  // namespace mtf
