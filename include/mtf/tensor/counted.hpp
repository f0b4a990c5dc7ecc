// Reference-counted objects of the graph, recycled instead of freed.
#pragma once

#include <cstddef>
#include <new>
#include <type_traits>
#include <utility>

#include <mtf/core/recycled.hpp>

namespace mtf {
inline namespace v0 {

/// Base of objects held by `Ref`: a count, and the size of their memory.
struct Counted {
  int references = 0;
  unsigned bytes_of_object = 0;
};

/// A new object, in memory from the recycler (from `new` in constant expressions).
template <class T, class... Arguments>
[[nodiscard]] constexpr T* make(Arguments&&... arguments) {
  if (MTF_CONSTANT_EVALUATED) return new T(std::forward<Arguments>(arguments)...);
  static_assert(alignof(T) <= __STDCPP_DEFAULT_NEW_ALIGNMENT__);
  T* object = ::new (detail::Recycler::take(sizeof(T))) T(std::forward<Arguments>(arguments)...);
  object->bytes_of_object = static_cast<unsigned>(sizeof(T));
  return object;
}
/// Ends an object that `make` made; T may be a base with a virtual destructor.
template <class T>
constexpr void destroy(T* object) {
  if (MTF_CONSTANT_EVALUATED) return delete object;
  const std::size_t bytes = object->bytes_of_object;
  object->~T();
  detail::Recycler::give(object, bytes);
}

/// Owning handle of a counted object. `dispose(T*)`, found by argument-dependent lookup, ends the object.
///
/// In constant expressions g++ 12 destroys too often what a conditional operator chose, and a by-value argument as it
/// was before the call: handles are passed by reference, and chosen by `if`.
template <class T>
class Ref {
 public:
  constexpr Ref() = default;
  constexpr explicit Ref(T* owned) : object(owned) { (void)(object != nullptr && ++object->references); }
  constexpr Ref(const Ref& other) : object(other.object) { (void)(object != nullptr && ++object->references); }
  constexpr Ref(Ref&& other) noexcept : object(other.object) { other.object = nullptr; }
  constexpr Ref& operator=(const Ref& other) {
    T* const before = object;
    object = other.object;
    (void)(object != nullptr && ++object->references);
    if (before != nullptr && --before->references == 0) dispose(before);
    return *this;
  }
  constexpr Ref& operator=(Ref&& other) noexcept {
    T* const before = object;
    object = other.object;
    other.object = before;
    return *this;
  }
  constexpr ~Ref() {
    if (object != nullptr && --object->references == 0) dispose(object);
  }

  [[nodiscard]] constexpr T* get() const { return object; }
  constexpr T* operator->() const { return object; }
  constexpr T& operator*() const { return *object; }
  constexpr explicit operator bool() const { return object != nullptr; }
  friend constexpr bool operator==(const Ref& a, const Ref& b) { return a.object == b.object; }

  /// The object itself. What every operation does to its operands reads it here: a call is two steps of a constant
  /// expression, and of those there are a million.
  T* object = nullptr;
};

}  // namespace v0
}  // namespace mtf
