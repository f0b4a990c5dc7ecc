// What check_gradients found.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <fmt/core.h>

#include <mtf/testing/check_failure.hpp>

namespace mtf {
inline namespace v0 {

struct GradientCheck {
  double tolerance = 0;         ///< relative; 0: 1e-6 if all elements are double, 1e-2 if some are float
  double step = 0;              ///< of the differences, times the root mean square of x; 0: by element type
  std::int64_t elements = 64;   ///< that are moved one by one in each x; drawn if x has more
  std::int64_t directions = 4;  ///< random ones through all elements of each x
  std::uint64_t seed = 0;       ///< of elements, directions and weights
};

/// What a comparison of one derivative gave.
enum class DerivativeOutcome : std::uint8_t {
  equal,
  different,
  kink  ///< there is none: the slopes of the two sides differ, or f has no value on a side
};

/// A derivative, found in two ways.
struct ComparedDerivative {
  int x = 0;                  ///< which of the xs
  std::int64_t element = -1;  ///< row-major index in the global array of x; -1: along a random direction
  std::int64_t direction = -1;
  double analytic = 0;    ///< from the gradient
  double numeric = 0;     ///< central difference
  double forward = 0;     ///< one-sided differences
  double backward = 0;    ///<
  double step = 0;        ///< at which these were found
  double difference = 0;  ///< relative
  DerivativeOutcome outcome = DerivativeOutcome::equal;
};

/// The same on every rank.
struct GradientReport {
  std::int64_t compared = 0;                 ///< derivatives that are equal or different
  std::int64_t kinks = 0;                    ///< derivatives that do not exist
  std::int64_t failures = 0;                 ///< of those compared
  double tolerance = 0;                      ///< what was asked for
  ComparedDerivative worst;                  ///< the largest relative difference
  std::vector<ComparedDerivative> failed;    ///< the first of the failures, at most 8 of each x
  std::vector<ComparedDerivative> at_kinks;  ///< likewise: what the gradient is where there are two slopes
  std::vector<std::string> xs;               ///< what each x is: "x 0, double [a:8, b:16]"
  std::vector<std::vector<std::int64_t>> extents;
  std::string problem;  ///< why nothing could be compared, if so

  /// Derivatives were compared, and all are equal.
  [[nodiscard]] bool passed() const { return problem.empty() && failures == 0 && compared > 0; }
  explicit operator bool() const { return passed(); }
  /// What was found, in one line, and a line for each failure.
  [[nodiscard]] std::string text() const;
  /// This report, or a check_failure with the text.
  const GradientReport& require() const {
    if (!passed()) throw check_failure("mtf: " + text());
    return *this;
  }

 private:
  [[nodiscard]] std::string line(const ComparedDerivative& d) const;
};

inline std::string GradientReport::line(const ComparedDerivative& d) const {
  std::string where = "direction " + std::to_string(d.direction);
  if (d.element >= 0) {
    where.clear();
    std::int64_t rest = d.element;
    const auto& sizes = extents[static_cast<std::size_t>(d.x)];
    for (auto extent = sizes.rbegin(); extent != sizes.rend(); rest /= *extent++)
      where = std::to_string(rest % *extent) + (where.empty() ? "" : ", ") + where;
    where = "element [" + where + "]";
  }
  return fmt::format(
      "{}, {}: gradient {:.17g}, central difference {:.17g} (from the right {:.9g}, from the left {:.9g}, step "
      "{:.3g}), "
      "relative difference {:.3g}",
      xs[static_cast<std::size_t>(d.x)], where, d.analytic, d.numeric, d.forward, d.backward, d.step, d.difference);
}

inline std::string GradientReport::text() const {
  std::string result = "check_gradients: ";
  if (!problem.empty()) return result + problem;
  if (compared == 0) {
    return result + fmt::format(
                        "nothing could be compared: f has no derivative at any of {} points that were tried; "
                        "choose xs away from kinks and ties",
                        kinks);
  }
  result += fmt::format("{} of {} derivatives differ by more than {:.3g}", failures, compared, tolerance);
  if (kinks > 0) result += fmt::format(", {} do not exist", kinks);
  if (failures == 0) result += "; the worst: " + line(worst);
  for (const ComparedDerivative& d : failed) result += "\n  " + line(d);
  return result;
}

}  // namespace v0
}  // namespace mtf
