// How little a matrix product can communicate, and what a grid of ranks moves for it.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include <mtf/plan/traced.hpp>

namespace mtf {
inline namespace v0 {

/// Elements that some rank must send or receive in a product of m x k and k x n matrices on `ranks`, each of which
/// holds its share of one copy of the three matrices before and after: the memory-independent bound of Al Daas,
/// Ballard, Grigori, Kumar and Rouse (Tight memory-independent parallel matrix multiplication communication lower
/// bounds, 2022). With m >= n >= k it has three cases, in which the best grid has one, two or three dims. Attained
/// exactly where the best grid is one of integers.
[[nodiscard]] inline double least_product_elements(double m, double n, double k, double ranks) {
  double sides[]{m, n, k};
  std::sort(sides, sides + 3, [](double a, double b) { return a > b; });
  m = sides[0];
  n = sides[1];
  k = sides[2];
  double accessed = 0;
  if (ranks <= m / n) {
    accessed = (m * n + m * k) / ranks + n * k;
  } else if (ranks <= m * n / (k * k)) {
    accessed = 2 * std::sqrt(m * n * k * k / ranks) + m * n / ranks;
  } else {
    accessed = 3 * std::pow(m * n * k / ranks, 2.0 / 3.0);
  }
  return std::max(0.0, accessed - (m * n + m * k + n * k) / ranks);
}

/// The same for a grid of pm x pn x pk ranks, from one copy of each matrix to one: the blocks that a rank uses less its
/// own share of them.
[[nodiscard]] inline double grid_product_elements(double m, double n, double k, double pm, double pn, double pk) {
  return m * k / (pm * pk) * (1 - 1 / pn) + n * k / (pn * pk) * (1 - 1 / pm) + m * n / (pm * pn) * (1 - 1 / pk);
}

/// Both for a product in a program; the dims in both operands and the result make it many independent products.
struct ProductCommunication {
  double least = 0;  ///< elements a rank moves at least, for any grid of as many ranks as work on one product
  double grid = 0;   ///< for the grid of the layout
};
[[nodiscard]] inline ProductCommunication communication_of(const TracedProduct& product) {
  const auto extent = [&](ProductGroup group) { return static_cast<double>(product.extent(group)); };
  const auto parts = [&](ProductGroup group) { return static_cast<double>(product.parts(group)); };
  const double m = extent(ProductGroup::first);
  const double n = extent(ProductGroup::second);
  const double k = extent(ProductGroup::summed);
  const double pm = parts(ProductGroup::first);
  const double pn = parts(ProductGroup::second);
  const double pk = parts(ProductGroup::summed);
  const double products = extent(ProductGroup::batch) / parts(ProductGroup::batch);
  return {products * least_product_elements(m, n, k, pm * pn * pk),
          products * grid_product_elements(m, n, k, pm, pn, pk)};
}

}  // namespace v0
}  // namespace mtf
