// Which name was meant by one that does not exist, and names as they are shown in messages.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include <mtf/core/placement.hpp>

namespace mtf {
inline namespace v0 {

/// The name closest to another.
struct NearestName {
  std::string_view name{};  ///< the first of the closest; empty if there are none to choose from
  bool is_similar = false;  ///< at most a third of the longer name differs, or one character of a short one
};

/// Letters to insert, remove, replace or exchange with their neighbours to make one text the other (the optimal string
/// alignment distance). Complexity: the product of the lengths.
MTF_RARE [[nodiscard]] MTF_RUN_TIME std::size_t edit_distance(std::string_view a, std::string_view b);
/// Of `names` the one at the smallest edit distance.
MTF_RARE [[nodiscard]] MTF_RUN_TIME NearestName nearest_name(std::string_view name,
                                                             const std::vector<std::string_view>& names);
/// The text with control characters, those of Unicode among them, written as in C: "\\n", "\\x1b", "\\u009b".
MTF_RARE [[nodiscard]] MTF_RUN_TIME std::string on_one_line(std::string_view text);

#if MTF_HAS_DEFINITIONS

std::size_t edit_distance(std::string_view a, std::string_view b) {
  // Rows of the table of distances between the first i characters of a and the first j of b.
  std::vector<std::size_t> before_last(b.size() + 1);
  std::vector<std::size_t> last(b.size() + 1);
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    before_last.swap(last);
    last.swap(row);
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      const std::size_t removed = (last[j] < row[j - 1] ? last[j] : row[j - 1]) + 1;
      row[j] = replaced < removed ? replaced : removed;
      const bool is_exchanged = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (is_exchanged && before_last[j - 2] + 1 < row[j]) row[j] = before_last[j - 2] + 1;
    }
  }
  return row[b.size()];
}

NearestName nearest_name(std::string_view name, const std::vector<std::string_view>& names) {
  NearestName nearest;
  std::size_t least = 0;
  for (const std::string_view candidate : names) {
    const std::size_t distance = edit_distance(name, candidate);
    if (!nearest.name.empty() && distance >= least) continue;
    least = distance;
    nearest.name = candidate;
  }
  const std::size_t longer = name.size() > nearest.name.size() ? name.size() : nearest.name.size();
  nearest.is_similar = !nearest.name.empty() && longer > 1 && (least <= 1 || 3 * least <= longer);
  return nearest;
}

std::string on_one_line(std::string_view text) {
  constexpr std::string_view digits = "0123456789abcdef";
  const auto code_at = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  std::string result;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    const unsigned char code = code_at(i);
    if (code == 0xc2 && i + 1 < text.size() && code_at(i + 1) >= 0x80 && code_at(i + 1) < 0xa0) {
      result += "\\u00";
      ++i;
      result += digits[code_at(i) >> 4U];
      result += digits[code_at(i) & 15U];
    } else if (code >= 0x20 && code != 0x7f) {
      result += c;
    } else if (c == '\n' || c == '\t' || c == '\r') {
      result += c == '\n' ? "\\n" : c == '\t' ? "\\t" : "\\r";
    } else {
      result += "\\x";
      result += digits[code >> 4U];
      result += digits[code & 15U];
    }
  }
  return result;
}

#endif

}  // namespace v0
}  // namespace mtf
