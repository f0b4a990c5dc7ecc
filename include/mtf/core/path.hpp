// Path: the hierarchical name of a variable, and Key: the name of a stream of random numbers.
#pragma once

#include <concepts>
#include <cstdint>
#include <string_view>
#include <type_traits>

#include <mtf/core/inline_vector.hpp>
#include <mtf/core/name.hpp>

namespace mtf {
inline namespace v0 {

/// A path such as "decoder/layer_0/wi", built with `/` and passed by value: the constructor of a module takes its scope
/// and names its variables `scope / "wi"`. At most 159 characters; longer ones are cut, which a second use of the cut
/// path then reports.
class Scope {
 public:
  constexpr Scope() = default;
  constexpr Scope(std::string_view text) { append(text); }
  constexpr Scope(const char* text) { append(text); }

  [[nodiscard]] constexpr std::string_view view() const {
    return {text_.items, static_cast<std::size_t>(text_.size())};
  }
  [[nodiscard]] constexpr const char* c_str() const { return text_.items; }  ///< ends in '\0'
  /// `hash_text(view())`
  [[nodiscard]] constexpr std::uint64_t hash() const { return hash_; }

  friend constexpr bool operator==(const Scope& a, const Scope& b) {
    return a.hash_ == b.hash_ && a.text_.count == b.text_.count && (MTF_CONSTANT_EVALUATED || a.view() == b.view());
  }

  friend constexpr Scope operator/(Scope scope, std::string_view part) {
    if (!scope.text_.empty()) scope.append('/');
    scope.append(part);
    return scope;
  }
  friend constexpr Scope operator/(Scope scope, const char* part) {
    if (!scope.text_.empty()) scope.append('/');
    scope.append(part);
    return scope;
  }
  friend constexpr Scope operator/(Scope scope, std::integral auto number) {
    InlineVector<char, 24> digits;
    auto rest = number;
    do {
      const int digit = static_cast<int>(rest % 10);
      digits.push_back(static_cast<char>('0' + (digit < 0 ? -digit : digit)));
      rest /= 10;
    } while (rest != 0);
    if (!scope.text_.empty()) scope.append('/');
    if (number < 0) scope.append('-');
    for (int i = digits.size() - 1; i >= 0; --i) scope.append(digits[i]);
    return scope;
  }

 private:
  constexpr void append(char next) {
    if (text_.count + 1 < text_.capacity)
      hash_ = (hash_ ^ static_cast<unsigned char>(text_.items[text_.count++] = next)) * hash_factor;
  }
  constexpr void append(std::string_view part) {
    for (const char next : part) append(next);
  }
  constexpr void append(const char* part) {
    for (; *part != '\0' && text_.count + 1 < text_.capacity; ++part) {
      hash_ = (hash_ ^ static_cast<unsigned char>(text_.items[text_.count++] = *part)) * hash_factor;
    }
  }
  InlineVector<char, 160> text_;  // ends with a NUL
  std::uint64_t hash_ = hash_of_nothing;
};

/// Names a stream of random numbers. Values depend on (seed, stream, global element index) only, so a key is a value
/// that the program builds - `key / "dropout" / layer / step` - and never a counter of calls.
struct Key {
  std::uint64_t seed = 0;
  std::uint64_t stream = hash_text({});

  friend constexpr Key operator/(Key key, std::string_view part) {
    key.append('/');
    for (const char next : part) key.append(next);
    return key;
  }
  friend constexpr Key operator/(Key key, const char* part) {
    for (key.append('/'); *part != '\0'; ++part)
      key.stream = (key.stream ^ static_cast<unsigned char>(*part)) * hash_factor;
    return key;
  }
  friend constexpr Key operator/(Key key, std::integral auto number) {
    key.append('#');
    for (int i = 0; i < 8; ++i) key.append(static_cast<char>(static_cast<std::uint64_t>(number) >> (8 * i) & 0xFFU));
    return key;
  }

 private:
  constexpr void append(char next) { stream = (stream ^ static_cast<unsigned char>(next)) * hash_factor; }
};

/// The root of all streams of a seed: `mtf::seed{1}`.
struct seed : Key {
  constexpr explicit seed(std::uint64_t value) : Key{.seed = value} {}
};

}  // namespace v0
}  // namespace mtf
