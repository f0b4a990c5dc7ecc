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
/// drives a world, so the lists are per thread. What lies in them when the thread ends is freed: tensors may be
/// destroyed on another thread than the one that made them.
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
    if (slot >= slots || (state_ != State::used && !begin())) return ::operator delete(memory);
    lists_[slot] = ::new (memory) Link{lists_[slot]};
  }

 private:
  enum class State : unsigned char { unused, used, ended };
  /// Its destructor runs when a thread ends that has recycled something. The lists are apart from it, so that they are
  /// reached without asking whether they have been initialised.
  struct AtEndOfThread {
    AtEndOfThread() { state_ = State::used; }
    AtEndOfThread(const AtEndOfThread&) = delete;
    AtEndOfThread& operator=(const AtEndOfThread&) = delete;
    ~AtEndOfThread() {
      state_ = State::ended;  // what other objects of the thread, or static ones, give later is freed at once
      for (Link*& list : lists_) {
        while (list != nullptr) ::operator delete(std::exchange(list, list->next));
      }
    }
  };
  /// Whether this thread recycles.
  MTF_COLD static bool begin() {
    if (state_ == State::unused) {
      static thread_local const AtEndOfThread at_end;
      (void)at_end;
    }
    return state_ == State::used;
  }

  struct Link {
    Link* next;
  };
  static constexpr std::size_t granularity = 64;
  static constexpr std::size_t slots = 1024;
  static constexpr std::size_t slot_of(std::size_t bytes) { return (bytes - 1) / granularity; }
  static inline thread_local Link* lists_[slots]{};
  static inline thread_local State state_ = State::unused;
};

}  // namespace detail

/// A vector whose memory is recycled, for what every step makes anew. Its iterators are pointers: those of std::vector
/// take ten times the steps in constant expressions.
template <class T>
class RecycledVector {
 public:
  using value_type = T;

  constexpr RecycledVector() = default;
  constexpr explicit RecycledVector(std::size_t count) { resize(count); }
  constexpr RecycledVector(const RecycledVector& other) { append(other); }
  constexpr RecycledVector(RecycledVector&& other) noexcept
      : items_(other.items_), size_(other.size_), capacity_(other.capacity_) {
    other.items_ = nullptr;
    other.size_ = other.capacity_ = 0;
  }
  constexpr RecycledVector& operator=(const RecycledVector& other) {
    if (this == &other) return *this;
    clear();
    append(other);
    return *this;
  }
  constexpr RecycledVector& operator=(RecycledVector&& other) noexcept {
    std::swap(items_, other.items_);
    std::swap(size_, other.size_);
    std::swap(capacity_, other.capacity_);
    return *this;
  }
  constexpr ~RecycledVector() {
    if (items_ != nullptr) release();
  }

  [[nodiscard]] constexpr std::size_t size() const { return size_; }
  [[nodiscard]] constexpr bool empty() const { return size_ == 0; }
  [[nodiscard]] constexpr T* data() { return items_; }
  [[nodiscard]] constexpr const T* data() const { return items_; }
  [[nodiscard]] constexpr T* begin() { return items_; }
  [[nodiscard]] constexpr T* end() { return items_ + size_; }
  [[nodiscard]] constexpr const T* begin() const { return items_; }
  [[nodiscard]] constexpr const T* end() const { return items_ + size_; }
  constexpr T& operator[](std::size_t i) { return items_[i]; }
  constexpr const T& operator[](std::size_t i) const { return items_[i]; }
  [[nodiscard]] constexpr T& back() { return items_[size_ - 1]; }
  [[nodiscard]] constexpr const T& back() const { return items_[size_ - 1]; }

  constexpr void push_back(const T& item) { emplace_back(item); }
  constexpr void push_back(T&& item) { emplace_back(std::move(item)); }
  /// An argument may refer into the vector: it is used before the old memory goes.
  template <class... Arguments>
  constexpr T& emplace_back(Arguments&&... arguments) {
    if (size_ < capacity_) return *std::construct_at(items_ + size_++, std::forward<Arguments>(arguments)...);
    const std::size_t capacity = size_ == 0 ? 4 : 2 * size_;
    T* items = take(capacity);
    T* added = std::construct_at(items + size_, std::forward<Arguments>(arguments)...);
    move_to(items, capacity);
    ++size_;
    return *added;
  }
  constexpr void pop_back() { std::destroy_at(items_ + --size_); }
  constexpr void reserve(std::size_t capacity) {
    if (capacity > capacity_) move_to(take(capacity), capacity);
  }
  constexpr void resize(std::size_t size) {
    reserve(size);
    while (size_ > size) std::destroy_at(items_ + --size_);
    while (size_ < size) std::construct_at(items_ + size_++);
  }
  constexpr void clear() {
    while (size_ > 0) std::destroy_at(items_ + --size_);
  }

 private:
  static constexpr T* take(std::size_t count) {
    if (MTF_CONSTANT_EVALUATED) return std::allocator<T>().allocate(count);
    static_assert(alignof(T) <= __STDCPP_DEFAULT_NEW_ALIGNMENT__);
    return static_cast<T*>(detail::Recycler::take(count * sizeof(T)));
  }
  static constexpr void give(T* items, std::size_t count) {
    if (MTF_CONSTANT_EVALUATED) return std::allocator<T>().deallocate(items, count);
    detail::Recycler::give(items, count * sizeof(T));
  }
  constexpr void release() {
    clear();
    give(items_, capacity_);
  }
  constexpr void append(const RecycledVector& other) {
    reserve(size_ + other.size_);
    for (const T& item : other) emplace_back(item);
  }
  constexpr void move_to(T* items, std::size_t capacity) {
    for (std::size_t i = 0; i < size_; ++i) {
      std::construct_at(items + i, std::move(items_[i]));
      std::destroy_at(items_ + i);
    }
    if (items_ != nullptr) give(items_, capacity_);
    items_ = items;
    capacity_ = capacity;
  }

  T* items_ = nullptr;
  std::size_t size_ = 0;
  std::size_t capacity_ = 0;
};

}  // namespace v0
}  // namespace mtf
