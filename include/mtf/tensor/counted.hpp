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
/// In constant expressions g++ 12 destroys too often what a conditional operator chose, and a by-value argument as it was before the call:
/// handles are passed by reference, and chosen by `if`.
template <class T>
class Ref {
 public:
  constexpr Ref() = default;
  constexpr explicit Ref(T* object) : object_(object) { (void)(object_ != nullptr && ++object_->references); }
  constexpr Ref(const Ref& other) : object_(other.object_) { (void)(object_ != nullptr && ++object_->references); }
  constexpr Ref(Ref&& other) noexcept : object_(other.object_) { other.object_ = nullptr; }
  constexpr Ref& operator=(const Ref& other) {
    T* const before = object_;
    object_ = other.object_;
    (void)(object_ != nullptr && ++object_->references);
    if (before != nullptr && --before->references == 0) dispose(before);
    return *this;
  }
  constexpr Ref& operator=(Ref&& other) noexcept {
    T* const before = object_;
    object_ = other.object_;
    other.object_ = before;
    return *this;
  }
  constexpr ~Ref() {
    if (object_ != nullptr && --object_->references == 0) dispose(object_);
  }

  [[nodiscard]] constexpr T* get() const { return object_; }
  constexpr T* operator->() const { return object_; }
  constexpr T& operator*() const { return *object_; }
  constexpr explicit operator bool() const { return object_ != nullptr; }
  friend constexpr bool operator==(const Ref& a, const Ref& b) { return a.object_ == b.object_; }

 private:
  T* object_ = nullptr;
};

}  // namespace v0
}  // namespace mtf
