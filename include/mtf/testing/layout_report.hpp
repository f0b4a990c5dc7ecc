// What check_layouts found.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <fmt/core.h>

#include <mtf/testing/check_failure.hpp>

namespace mtf {
inline namespace v0 {

/// How a program under one layout differs from the program on one rank.
struct LayoutDifference {
  std::string layout;  ///< "mesh "rows:2;cols:2", layout "batch:rows""
  std::string what;    ///< "result 1, element [3, 0] is 4.5, on one rank 4.25, seen by rank 2 (rows=1, cols=0)"
};

/// The same on every rank.
struct LayoutReport {
  std::int64_t compared = 0;                  ///< layouts under which the program ran
  double worst = 0;                           ///< largest relative difference of floating-point results
  std::vector<LayoutDifference> differences;  ///< the first of each layout that has one
  std::vector<std::string> refused;           ///< layouts that are illegal, and why, if those are left out

  /// Layouts were compared, and there is no difference.
  [[nodiscard]] bool passed() const { return differences.empty() && compared > 0; }
  explicit operator bool() const { return passed(); }
  [[nodiscard]] std::string text() const {
    std::string result = "check_layouts: ";
    if (compared == 0) {
      result += fmt::format("nothing was compared, {} layouts are illegal", refused.size());
      for (const std::string& each : refused) result += "\n  " + each;
      return result;
    }
    result += fmt::format("{} of {} layouts give other results than one rank", differences.size(), compared);
    if (differences.empty()) result += fmt::format("; the largest relative difference is {:.3g}", worst);
    for (const LayoutDifference& each : differences) result += "\n  " + each.layout + ": " + each.what;
    return result;
  }
  /// This report, or a check_failure with the text.
  const LayoutReport& require() const {
    if (!passed()) throw check_failure("mtf: " + text());
    return *this;
  }
};

}  // namespace v0
}  // namespace mtf
