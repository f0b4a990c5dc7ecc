// A vector of fixed capacity that lives in its owner, usable in constant expressions.
#pragma once

#include <mtf/core/config.hpp>

namespace mtf {
inline namespace v0 {

/// A sequence of at most `Capacity` elements without an allocation. The library's index algebra works on these, so the
/// same code runs in constant expressions and at run time. Pushing beyond the capacity is an error of the caller:
/// limits on ranks and axes are checked where shapes enter (see placement.hpp).
template <class T, int Capacity>
struct InlineVector {
  T items[static_cast<unsigned>(Capacity)]{};
  int count = 0;

  static constexpr int capacity = Capacity;

  [[nodiscard]] constexpr int size() const { return count; }
  [[nodiscard]] constexpr bool empty() const { return count == 0; }
  [[nodiscard]] constexpr bool full() const { return count == Capacity; }

  constexpr void push_back(const T& item) { items[count++] = item; }
  constexpr void clear() { count = 0; }
  constexpr void erase(int position) {
    for (int i = position; i + 1 < count; ++i) items[i] = items[i + 1];
    --count;
  }

  constexpr T& operator[](int i) { return items[i]; }
  constexpr const T& operator[](int i) const { return items[i]; }
  [[nodiscard]] constexpr T& back() { return items[count - 1]; }
  [[nodiscard]] constexpr const T& back() const { return items[count - 1]; }

  [[nodiscard]] constexpr T* begin() { return items; }
  [[nodiscard]] constexpr T* end() { return items + count; }
  [[nodiscard]] constexpr const T* begin() const { return items; }
  [[nodiscard]] constexpr const T* end() const { return items + count; }

  friend constexpr bool operator==(const InlineVector& a, const InlineVector& b) {
    if (a.count != b.count) return false;
    for (int i = 0; i < a.count; ++i) {
      if (!(a.items[i] == b.items[i])) return false;
    }
    return true;
  }
};

}  // namespace v0
}  // namespace mtf
