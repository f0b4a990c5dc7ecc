// Names as files may have them: names are any bytes, but JSON and HTML are UTF-8.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

namespace mtf {
inline namespace v0 {

namespace detail {

/// Bytes of the UTF-8 character at the beginning of `text`; 0 if there is none.
[[nodiscard]] inline std::size_t character_length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0U; };
  const auto continues = [&](std::size_t from, std::size_t to) {
    bool all = true;
    for (std::size_t i = from; i < to; ++i) all = all && (byte(i) & 0xc0U) == 0x80U;
    return all;
  };
  const unsigned first = byte(0);
  const unsigned second = byte(1);
  if (first < 0x80) return text.empty() ? 0 : 1;
  if (first < 0xc2) return 0;
  if (first < 0xe0) return continues(1, 2) ? 2 : 0;
  if (first < 0xf0) {
    const bool is_short_enough = first != 0xe0 || second >= 0xa0;
    const bool is_surrogate = first == 0xed && second >= 0xa0;
    return is_short_enough && !is_surrogate && continues(1, 3) ? 3 : 0;
  }
  const bool is_in_range = first < 0xf4 ? first != 0xf0 || second >= 0x90 : first == 0xf4 && second < 0x90;
  return is_in_range && continues(1, 4) ? 4 : 0;
}

/// The text with U+FFFD in place of every byte that is no part of UTF-8.
[[nodiscard]] inline std::string valid_utf8(std::string_view text) {
  std::string result;
  while (!text.empty()) {
    const std::size_t length = character_length(text);
    result += length > 0 ? text.substr(0, length) : "\xef\xbf\xbd";
    text.remove_prefix(length > 0 ? length : 1);
  }
  return result;
}

/// The same for every text in it, so that it can be written.
[[nodiscard]] inline nlohmann::json with_valid_texts(nlohmann::json json) {
  if (json.is_string()) return valid_utf8(std::string_view(json.get_ref<const std::string&>()));
  if (json.is_array()) {
    for (nlohmann::json& each : json) each = with_valid_texts(std::move(each));
  }
  if (json.is_object()) {
    nlohmann::json result = nlohmann::json::object();
    for (auto& [key, value] : json.items()) result[valid_utf8(std::string_view(key))] = with_valid_texts(value);
    return result;
  }
  return json;
}

}  // namespace detail

}  // namespace v0
}  // namespace mtf
