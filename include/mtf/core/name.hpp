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
[[nodiscard]] constexpr std::uint64_t hash_text(std::string_view text, std::uint64_t seed = hash_of_nothing) {
  std::uint64_t hash = seed;
  for (const char c : text) {
    hash ^= static_cast<unsigned char>(c);
    hash *= 1099511628211ULL;
  }
  return hash;
}

/// A dim's or an axis's name as a value. It does not own its text: the text is a template argument or lives in the
/// World that read it from a string. Names are compared by hash, then text.
struct Name {
  std::string_view text;
  std::uint64_t hash = hash_of_nothing;

  constexpr Name() = default;
  constexpr Name(std::string_view t) : text(t), hash(hash_text(t)) {}
  constexpr Name(const char* t) : Name(std::string_view(t)) {}

  friend constexpr bool operator==(const Name& a, const Name& b) {
    // In constant expressions every character would cost a step of the compiler's budget; the program compares the texts again.
    if (std::is_constant_evaluated()) return a.hash == b.hash && a.text.size() == b.text.size();
    return a.hash == b.hash && a.text == b.text;
  }
};

}  // namespace v0
}  // namespace mtf
