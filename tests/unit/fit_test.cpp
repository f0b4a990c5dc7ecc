// The fits of bench/calibrate: exact where the model holds, least where it does not, never negative.
#include "../../bench/calibrate/fit.hpp"

#include <random>

#include <doctest/doctest.h>

namespace {

std::vector<Point> random_points(std::mt19937_64& generator, double a, double b, double noise) {
  std::uniform_real_distribution<double> exponent(0, 16);
  std::uniform_real_distribution<double> error(-noise, noise);
  std::vector<Point> points;
  for (int i = 0; i < 12; ++i) {
    Point point{1.0 + i % 3, std::exp(exponent(generator)), 0};
    point.seconds = (a * point.first + b * point.second) * (1 + error(generator));
    points.push_back(point);
  }
  return points;
}

}  // namespace

TEST_CASE("a model that holds is found") {
  std::mt19937_64 generator(1);
  std::uniform_real_distribution<double> exponent(-9, 0);
  for (int i = 0; i < 50; ++i) {
    const double a = std::exp(exponent(generator));
    const double b = a * 1e-3 * std::exp(exponent(generator));
    const std::vector<Point> points = random_points(generator, a, b, 0);
    const Fit found = fit(points);
    CHECK(found.a == doctest::Approx(a));
    CHECK(found.b == doctest::Approx(b));
    CHECK(errors(points, found).largest < 1e-9);
    CHECK(fit_second(points, a).b == doctest::Approx(b));
  }
}

TEST_CASE("of a model that does not hold, no neighbour in the quadrant is better") {
  std::mt19937_64 generator(2);
  int edges = 0;
  for (int i = 0; i < 200; ++i) {
    // With a negative term in truth the best of the quadrant lies on its edge.
    std::vector<Point> points = random_points(generator, i % 4 == 1 ? -0.2 : 0.5, 1, 0.4);
    for (Point& point : points) point.seconds = std::max(point.seconds, 0.1);
    const Fit found = fit(points);
    CHECK(found.a >= 0);
    CHECK(found.b >= 0);
    edges += found.a == 0 || found.b == 0 ? 1 : 0;
    const double best = squares(points, found);
    for (const double da : {-1e-3, 0.0, 1e-3}) {
      for (const double db : {-1e-3, 0.0, 1e-3}) {
        const Fit other{std::max(found.a * (1 + da) + (found.a == 0 ? da : 0), 0.0),
                        std::max(found.b * (1 + db) + (found.b == 0 ? db : 0), 0.0)};
        CHECK(squares(points, other) >= best * (1 - 1e-12));
      }
    }
    const Fit one{found.a, fit_second(points, found.a).b};
    CHECK(squares(points, one) <= best * (1 + 1e-9));
  }
  CHECK(edges > 10);
  CHECK(edges < 150);
}

TEST_CASE("fits of sums make the sums right, however far apart the points are") {
  std::mt19937_64 generator(3);
  const std::vector<Point> some = random_points(generator, 2, 0, 0.9);
  const std::vector<Point> others = random_points(generator, 2, 1, 0.9);
  const Fit found = fit_sums(some, others);
  double model = 0, measured = 0;
  for (const Point& point : some) {
    model += found.a * point.first;
    measured += point.seconds;
  }
  CHECK(model == doctest::Approx(measured));
  model = measured = 0;
  for (const Point& point : others) {
    model += found.seconds(point);
    measured += point.seconds;
  }
  CHECK(model == doctest::Approx(measured));
  CHECK(fit_sums({{2, 5, 1}}, {{1, 5, 0.1}}).b == 0);
}

TEST_CASE("errors are relative: their largest, and the root of the mean of their squares") {
  const std::vector<Point> points{{1, 0, 2}, {2, 0, 2}, {3, 0, 2}};
  const Errors found = errors(points, {1, 0});
  CHECK(found.largest == doctest::Approx(0.5));
  CHECK(found.mean == doctest::Approx(std::sqrt((0.25 + 0 + 0.25) / 3)));
}
