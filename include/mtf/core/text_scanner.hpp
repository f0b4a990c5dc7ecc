// How the texts of layouts and meshes are cut into names and separators.
#pragma once

#include <cstddef>
#include <string_view>

#include <mtf/core/violation.hpp>

namespace mtf {
inline namespace v0 {

namespace detail {

[[nodiscard]] constexpr bool is_white_space(char c) {
  return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\v' || c == '\f';
}
/// Whether a name in a text may have this character. What is no part of one is most likely a mistake of who wrote the
/// text (a quote that the shell left, the equals sign of another notation), and would make a rule for a dim that no
/// tensor has.
[[nodiscard]] constexpr bool is_of_name(char c) {
  if (static_cast<unsigned char>(c) <= ' ' || c == '\x7f') return false;
  return std::string_view(":;,?=\"'`()[]{}<>").find(c) == std::string_view::npos;
}
[[nodiscard]] constexpr std::string_view trim(std::string_view text) {
  while (!text.empty() && is_white_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_white_space(text.back())) text.remove_suffix(1);
  return text;
}

/// A place in a text.
struct TextScanner {
  std::string_view text;
  std::size_t at = 0;

  [[nodiscard]] constexpr bool done() const { return at == text.size(); }
  [[nodiscard]] constexpr char next() const { return text[at]; }
  [[nodiscard]] constexpr bool is_at(char c) const { return !done() && next() == c; }
  constexpr bool take(char c) {
    if (!is_at(c)) return false;
    ++at;
    return true;
  }
  /// Whether there was any.
  constexpr bool skip_white_space() {
    const std::size_t begin = at;
    while (!done() && is_white_space(next())) ++at;
    return at > begin;
  }
  /// A name, empty if none begins here.
  constexpr std::string_view word() {
    const std::size_t begin = at;
    while (!done() && is_of_name(next())) ++at;
    return text.substr(begin, at - begin);
  }
  /// Whether what follows is this separator and then the beginning of a rule, "name:".
  [[nodiscard]] constexpr bool is_before_rule(char separator) const {
    TextScanner ahead = *this;
    if (!ahead.take(separator)) return false;
    ahead.skip_white_space();
    if (ahead.word().empty()) return false;
    ahead.skip_white_space();
    return ahead.is_at(':');
  }
};

/// The parts of a text between semicolons, without the white space around them and without empty ones.
struct TextParts {
  std::string_view text;
  std::string_view part{};
  std::size_t begin = 0;  ///< of the part, in the text
  std::size_t rest = 0;   ///< where the part after it begins

  constexpr explicit TextParts(std::string_view whole) : text(whole) {}

  constexpr bool next() {
    while (rest < text.size()) {
      begin = rest;
      std::size_t end = text.find(';', begin);
      if (end == std::string_view::npos) end = text.size();
      rest = end + 1;
      part = trim(text.substr(begin, end - begin));
      while (begin < end && is_white_space(text[begin])) ++begin;
      if (!part.empty()) return true;
    }
    return false;
  }
  /// Adds that the part cannot be read beyond the place of `scanner`.
  constexpr void add_malformed(Violations& violations, const TextScanner& scanner) const {
    add(violations, {.fault = Fault::malformed_layout,
                     .dim = Name(part),
                     .extent = scanner.done() ? -1 : static_cast<unsigned char>(scanner.next()),
                     .position = static_cast<int>(begin + scanner.at)});
  }
};

}  // namespace detail

}  // namespace v0
}  // namespace mtf
