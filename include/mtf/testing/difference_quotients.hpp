// Difference quotients of a function of split arrays, against gradients: what check_gradients does once types are gone.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <mtf/core/placement.hpp>
#include <mtf/runtime/mpi.hpp>
#include <mtf/testing/gradient_report.hpp>

namespace mtf {
inline namespace v0 {

namespace detail {

/// The ranks of a world, which decide together: a result is that of rank 0, so that no two go different ways, whatever
/// is wrong with what they compare.
struct Together {
  MPI_Comm comm = MPI_COMM_NULL;
  MeshValue mesh{};
  Coordinates at{};

  [[nodiscard]] std::vector<double> combine(const std::vector<double>& mine, MPI_Op op) const {
    std::vector<double> all(mine.size());
    const int count = static_cast<int>(mine.size());
    check_mpi(MPI_Reduce(mine.data(), all.data(), count, MPI_DOUBLE, op, 0, comm), "check_gradients");
    check_mpi(MPI_Bcast(all.data(), count, MPI_DOUBLE, 0, comm), "check_gradients");
    return all;
  }
  [[nodiscard]] double agree(double value) const {
    check_mpi(MPI_Bcast(&value, 1, MPI_DOUBLE, 0, comm), "check_gradients");
    return value;
  }
};

/// One of the xs.
struct MovedArray {
  Placement placement{};
  std::vector<double> values{}, gradient{};                  ///< this rank's slices
  std::function<void(const std::vector<double>&)> assign{};  ///< makes other values the present ones

  /// Whether this rank is the one of its replicas that counts in sums.
  [[nodiscard]] bool counts(const Together& together) const {
    const AxisSet replicated = together.mesh.all() - placement.split_axes();
    return together.mesh.position(together.at, replicated) == 0;
  }
  /// Where this rank holds an element of the global array; -1 if another one does.
  [[nodiscard]] std::int64_t local_index(std::int64_t global, const Together& together) const {
    std::int64_t local = 0, stride = 1;
    for (int d = placement.rank() - 1; d >= 0; --d) {
      const PlacedDim& dim = placement.dims[d];
      const std::int64_t here = global % dim.extent - slice_begin(dim, together.mesh, together.at);
      if (here < 0 || here >= dim.local()) return -1;
      global /= dim.extent;
      local += here * stride;
      stride *= dim.local();
    }
    return local;
  }
  [[nodiscard]] std::int64_t global_index(std::int64_t local, const Together& together) const {
    std::int64_t global = 0, stride = 1;
    for (int d = placement.rank() - 1; d >= 0; --d) {
      const PlacedDim& dim = placement.dims[d];
      global += (slice_begin(dim, together.mesh, together.at) + local % dim.local()) * stride;
      local /= dim.local();
      stride *= dim.extent;
    }
    return global;
  }
};

/// A well-mixed number of an index: SplitMix64 (Steele, Lea and Flood, 2014).
[[nodiscard]] constexpr std::uint64_t mixed(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15U;
  x = (x ^ (x >> 30U)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27U)) * 0x94d049bb133111ebU;
  return x ^ (x >> 31U);
}

/// Which elements are moved one by one: all, or some by the seed.
[[nodiscard]] inline std::vector<std::int64_t> drawn_elements(std::int64_t size, std::int64_t wanted,
                                                              std::uint64_t seed) {
  std::vector<std::int64_t> elements;
  if (size <= wanted) {
    for (std::int64_t i = 0; i < size; ++i) elements.push_back(i);
    return elements;
  }
  std::set<std::int64_t> drawn;
  for (std::uint64_t i = 0; static_cast<std::int64_t>(drawn.size()) < wanted; ++i)
    drawn.insert(static_cast<std::int64_t>(mixed(seed ^ mixed(i)) % static_cast<std::uint64_t>(size)));
  elements.assign(drawn.begin(), drawn.end());
  return elements;
}

class DifferenceQuotients {
 public:
  /// `loss` evaluates f at the present values of the xs, whose sum of squared terms is `magnitude` squared; elements
  /// are rounded to `roundoff`.
  DifferenceQuotients(Together together, std::function<double()> loss, double value, double magnitude, double roundoff)
      : together_(std::move(together)), loss_(std::move(loss)), value_(value), noise_(8 * roundoff * magnitude) {}

  void compare(MovedArray& x, int number, const GradientCheck& options, double step, GradientReport& report) const {
    const std::uint64_t seed = mixed(options.seed ^ mixed(static_cast<std::uint64_t>(number)));
    const std::vector<std::int64_t> elements = drawn_elements(x.placement.size(), options.elements, seed);
    // Sums over all elements: the square of x; the largest finite slope; then the slopes of the drawn elements.
    std::vector<double> sums(1 + elements.size());
    double largest = 0;
    for (const double slope : x.gradient) largest = std::isfinite(slope) ? std::max(largest, std::abs(slope)) : largest;
    if (x.counts(together_)) {
      for (const double value : x.values) sums[0] += value * value;
      for (std::size_t i = 0; i < elements.size(); ++i) {
        const std::int64_t here = x.local_index(elements[i], together_);
        if (here >= 0) sums[1 + i] = x.gradient[static_cast<std::size_t>(here)];
      }
    }
    sums = together_.combine(sums, MPI_SUM);
    largest = together_.combine({largest}, MPI_MAX)[0];
    const double mean_square = sums[0] / static_cast<double>(x.placement.size());
    // A power of two: then x + step loses little.
    const double unit = mean_square > 0 && std::isfinite(mean_square) ? std::sqrt(mean_square) : 1;
    const double moved = std::exp2(std::round(std::log2(step * unit)));
    std::vector<double> direction(x.values.size());
    std::vector<ComparedDerivative> found;
    for (std::size_t i = 0; i < elements.size(); ++i) {
      const std::int64_t here = x.local_index(elements[i], together_);
      if (here >= 0) direction[static_cast<std::size_t>(here)] = 1;
      found.push_back(derivative(x, direction, moved, sums[1 + i], largest, report.tolerance));
      found.back().element = elements[i];
      if (here >= 0) direction[static_cast<std::size_t>(here)] = 0;
    }
    for (std::int64_t number_of = 0; number_of < options.directions; ++number_of) {
      const std::uint64_t key = mixed(seed + 1 + static_cast<std::uint64_t>(number_of));
      std::vector<double> products(2);
      for (std::size_t i = 0; i < direction.size(); ++i) {
        const auto global = static_cast<std::uint64_t>(x.global_index(static_cast<std::int64_t>(i), together_));
        direction[i] = static_cast<double>(mixed(key ^ mixed(global)) >> 11U) * 0x1p-52 - 1;  // in [-1, 1)
        const double product = x.gradient[i] * direction[i];
        products[0] += product;
        products[1] += product * product;
      }
      if (!x.counts(together_)) products = {0, 0};
      products = together_.combine(products, MPI_SUM);
      found.push_back(derivative(x, direction, moved, products[0], std::sqrt(products[1]), report.tolerance));
      found.back().direction = number_of;
    }
    x.assign(x.values);
    int told = 0, bends = 0;
    for (ComparedDerivative& d : found) {
      d.x = number;
      if (d.outcome == DerivativeOutcome::kink) {
        ++report.kinks;
        if (bends++ < 8) report.at_kinks.push_back(d);
        continue;
      }
      if (report.compared++ == 0 || d.difference > report.worst.difference || std::isnan(d.difference))
        report.worst = d;
      if (d.outcome == DerivativeOutcome::equal) continue;
      ++report.failures;
      if (told++ < 8) report.failed.push_back(d);
    }
  }

 private:
  [[nodiscard]] double at(MovedArray& x, const std::vector<double>& direction, double factor) const {
    std::vector<double> values = x.values;
    for (std::size_t i = 0; i < values.size(); ++i) values[i] += factor * direction[i];
    x.assign(values);
    return together_.agree(loss_());
  }

  /// Differences with three to five steps, each a quarter of the one before, or with one where all is well: a kink or
  /// the end of f's domain may be near. What is equal at one of them is equal.
  ///
  /// The slopes of the two sides of a smooth function differ by the step times its curvature: the gap shrinks to a
  /// quarter as the step does. Roundings make one that grows fourfold. Where there is no derivative it stays.
  [[nodiscard]] ComparedDerivative derivative(MovedArray& x, const std::vector<double>& direction, double step,
                                              double analytic, double scale, double tolerance) const {
    ComparedDerivative first, last, bend;
    bool equal = false, ends = false;
    int bends = 0;  // gaps in a row that stayed
    for (int refined = 0; refined < 5; ++refined, step /= 4) {
      const double above = at(x, direction, step);
      const double below = at(x, direction, -step);
      const ComparedDerivative before = last;
      last = {.analytic = analytic,
              .numeric = (above - below) / (2 * step),
              .forward = (above - value_) / step,
              .backward = (value_ - below) / step,
              .step = step};
      // What is small beside other slopes of x carries their rounding errors.
      const double compared_with = std::max({std::abs(analytic), std::abs(last.numeric), 1e-3 * scale});
      const double allowed = tolerance * compared_with + noise_ / step;
      const double apart = std::abs(analytic - last.numeric);
      last.difference = apart == 0 ? 0 : apart / std::max(compared_with, std::numeric_limits<double>::min());
      const bool equal_here = apart <= allowed;
      if (refined == 0 || (equal_here && !equal)) first = last;
      equal = equal || equal_here;

      const double gap = gap_of(last);
      const double gap_before = gap_of(before);
      ends = !std::isfinite(gap);
      const bool is_noise = gap <= 8 * noise_ / step;
      if (equal_here && (is_noise || gap <= std::sqrt(tolerance) * compared_with)) {
        bends = 0;
        break;
      }
      if (refined == 0) continue;
      if (is_noise) {  // smaller steps show nothing
        if (refined >= 2) break;
        continue;
      }
      const bool stays = gap > 4 * allowed && gap > gap_before / 2 && gap < gap_before * 2;
      bends = stays ? bends + 1 : 0;
      if (stays) bend = last;
      if (equal_here && gap <= gap_before / 2) break;
      // If not, the kink is between two steps, or they are too large for the curvature.
      const bool settles = std::abs(last.numeric - before.numeric) <= apart / 4;
      if (refined >= 2 && (ends || bends >= 2 || (settles && bends == 0))) break;
    }
    if (!std::isnan(analytic) && (ends || bends > 0)) {
      ComparedDerivative& kink = ends ? last : bend;
      kink.outcome = DerivativeOutcome::kink;
      return kink;
    }
    first.outcome = equal ? DerivativeOutcome::equal : DerivativeOutcome::different;
    return first;
  }
  [[nodiscard]] static double gap_of(const ComparedDerivative& d) { return std::abs(d.forward - d.backward); }

  Together together_;
  std::function<double()> loss_;
  double value_;
  double noise_;
};

}  // namespace detail

}  // namespace v0
}  // namespace mtf
