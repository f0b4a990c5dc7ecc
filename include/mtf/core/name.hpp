// Names of dims and axes: as template arguments (FixedString) and as values (Name).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>

#include <mtf/core/config.hpp>

namespace mtf {
inline namespace v0 {

/// A string literal as a template argument: `Dim<"batch", 64>`.
template <std::size_t N>
struct FixedString {
  char text[N]{};

  consteval FixedString(const char (&literal)[N]) {
    for (std::size_t i = 0; i < N; ++i) text[i] = literal[i];
  }
  [[nodiscard]] constexpr std::string_view view() const { return {text, N - 1}; }
};

/// 64-bit FNV-1a hash of a text (http://www.isthe.com/chongo/tech/comp/fnv/).
inline constexpr std::uint64_t hash_of_nothing = 14695981039346656037ULL;
inline constexpr std::uint64_t hash_factor = 1099511628211ULL;
[[nodiscard]] constexpr std::uint64_t hash_text(std::string_view text, std::uint64_t seed = hash_of_nothing) {
  std::uint64_t hash = seed;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * hash_factor;
  return hash;
}

/// Characters that someone else owns: a std::string_view that is trivial. Arrays of names start out empty at no cost,
/// which counts in constant expressions.
struct Text {
  const char* characters;
  std::size_t length;

  [[nodiscard]] constexpr const char* data() const { return characters; }
  [[nodiscard]] constexpr std::size_t size() const { return length; }
  [[nodiscard]] constexpr bool empty() const { return length == 0; }
  [[nodiscard]] constexpr const char* begin() const { return characters; }
  [[nodiscard]] constexpr const char* end() const { return characters + length; }
  constexpr const char& operator[](std::size_t i) const { return characters[i]; }
  constexpr operator std::string_view() const { return {characters, length}; }

  friend constexpr bool operator==(const Text& a, const Text& b) { return std::string_view(a) == std::string_view(b); }
  friend constexpr bool operator==(const Text& a, std::string_view b) { return std::string_view(a) == b; }
  friend constexpr bool operator<(const Text& a, const Text& b) { return std::string_view(a) < std::string_view(b); }
};

/// A dim's or an axis's name as a value. It does not own its text: the text is a template argument or lives in the
/// World that read it from a string. Names are compared by hash, then text.
struct Name {
  Text text;
  std::uint64_t hash;  ///< `hash_text`; 0 of the empty name

#if defined(__CUDACC__)
  constexpr Name() : text{}, hash(0) {}  // nvcc takes no member in a constant expression that is not initialised
#else
  Name() = default;  // trivial: `Name{}` is empty, and a local without braces is not initialised
#endif
  constexpr Name(std::string_view t) : text{t.data(), t.size()}, hash(t.empty() ? 0 : hash_text(t)) {}
  constexpr Name(const char* t) : Name(std::string_view(t)) {}

  friend constexpr bool operator==(const Name& a, const Name& b) {
    // In constant expressions every character would cost a step of the compiler's budget; the program compares the
    // texts again.
    return a.hash == b.hash && a.text.length == b.text.length && (MTF_CONSTANT_EVALUATED || a.text == b.text);
  }
};

}  // namespace v0
}  // namespace mtf
