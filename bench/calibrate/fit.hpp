// Fits of measured times.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

/// A measurement: `seconds`, of which the model says a * first + b * second.
struct Point {
  double first = 0;
  double second = 0;
  double seconds = 0;
};

struct Fit {
  double a = 0, b = 0;
  [[nodiscard]] double seconds(const Point& point) const { return a * point.first + b * point.second; }
  /// What the model says over what was measured.
  [[nodiscard]] double ratio(const Point& point) const { return seconds(point) / point.seconds; }
};

/// Sum of squares of the relative errors.
inline double squares(const std::vector<Point>& points, const Fit& fit) {
  double sum = 0;
  for (const Point& point : points) sum += (fit.ratio(point) - 1) * (fit.ratio(point) - 1);
  return sum;
}

/// The a, b >= 0 of least squares of relative errors, so that a microsecond counts as much in a short time as a
/// millisecond in a long one. The minimum of a convex function of two variables over a quadrant: the free minimum if
/// that lies inside, else the better one of the two edges'.
inline Fit fit(const std::vector<Point>& points) {
  // Sums over the points of x x, x y, y y, x, y, where the model is a x + b y = 1.
  double xx = 0, xy = 0, yy = 0, x = 0, y = 0;
  for (const Point& point : points) {
    const double px = point.first / point.seconds;
    const double py = point.second / point.seconds;
    xx += px * px;
    xy += px * py;
    yy += py * py;
    x += px;
    y += py;
  }
  const double determinant = xx * yy - xy * xy;
  if (determinant > 1e-12 * xx * yy) {
    const Fit inside{(x * yy - y * xy) / determinant, (y * xx - x * xy) / determinant};
    if (inside.a >= 0 && inside.b >= 0) return inside;
  }
  const Fit only_first{xx > 0 ? std::max(x / xx, 0.0) : 0, 0};
  const Fit only_second{0, yy > 0 ? std::max(y / yy, 0.0) : 0};
  return squares(points, only_first) < squares(points, only_second) ? only_first : only_second;
}

/// The b of least squares of relative errors for an a that is known.
inline Fit fit_second(const std::vector<Point>& points, double a) {
  double yy = 0, y = 0;
  for (const Point& point : points) {
    const double py = point.second / point.seconds;
    yy += py * py;
    y += py * (1 - a * point.first / point.seconds);
  }
  return {a, std::max(y / yy, 0.0)};
}

/// The a that makes the sum of short times right, of which b is no part, then the b that makes the sum of long ones
/// right. For work whose kinds differ so much in speed that squares of relative errors would follow the fastest: a time
/// that is far too short has an error of 1 at most.
inline Fit fit_sums(const std::vector<Point>& short_times, const std::vector<Point>& long_times) {
  Fit found;
  double seconds = 0, first = 0, second = 0;
  for (const Point& point : short_times) {
    seconds += point.seconds;
    first += point.first;
  }
  found.a = seconds / first;
  seconds = 0;
  for (const Point& point : long_times) {
    seconds += point.seconds - found.a * point.first;
    second += point.second;
  }
  found.b = std::max(seconds, 0.0) / second;
  return found;
}

/// Root of the mean square of the relative errors, and the largest.
struct Errors {
  double mean = 0, largest = 0;
};
inline Errors errors(const std::vector<Point>& points, const Fit& fit) {
  Errors result;
  for (const Point& point : points) result.largest = std::max(result.largest, std::abs(fit.ratio(point) - 1));
  result.mean = std::sqrt(squares(points, fit) / static_cast<double>(points.size()));
  return result;
}
