// Kernels that choose elements and that scan, on every small length and count and on sizes around those of their
// chunks.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

#include <doctest/doctest.h>

#include <mtf/kernels/scan.hpp>
#include <mtf/kernels/selection.hpp>

namespace {

using Space = Kokkos::DefaultExecutionSpace;

/// Few different numbers, so that there are ties, and some NaN.
std::vector<float> elements(std::int64_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<float> result(static_cast<std::size_t>(count));
  for (float& x : result) {
    const auto number = static_cast<int>(random() % 24);
    x = number == 0 ? std::numeric_limits<float>::quiet_NaN() : static_cast<float>(number / 2 - 6);
  }
  return result;
}

std::vector<std::int32_t> in_order(const std::vector<float>& x, bool largest) {
  std::vector<std::int32_t> order(x.size());
  std::iota(order.begin(), order.end(), 0);
  const auto key = [&](std::int32_t i) {
    const float e = x[static_cast<std::size_t>(i)];
    return std::isnan(e) ? std::pair(1, 0.0F) : std::pair(0, e);
  };
  std::sort(order.begin(), order.end(), [&](std::int32_t p, std::int32_t q) {
    if (key(p) == key(q)) return p < q;
    return largest ? key(q) < key(p) : key(p) < key(q);
  });
  return order;
}

}  // namespace

TEST_CASE("select: every count of every short row, and long ones") {
  std::vector<std::pair<std::int64_t, std::int64_t>> cases;
  for (std::int64_t length = 1; length <= 24; ++length) {
    for (std::int64_t count = 1; count <= length; ++count) cases.emplace_back(length, count);
  }
  for (const std::int64_t count : {1, 2, 3, 100, 5000}) cases.emplace_back(5000, count);
  unsigned seed = 0;
  for (const auto& [length, count] : cases) {
    for (const bool largest : {true, false}) {
      const std::vector<float> x = elements(length, ++seed);
      // A row with gaps in input and output.
      std::vector<float> in(static_cast<std::size_t>(3 * length), 99);
      for (std::size_t i = 0; i < x.size(); ++i) in[3 * i] = x[i];
      std::vector<float> values(static_cast<std::size_t>(2 * count), 77);
      std::vector<std::int32_t> indices(values.size(), 77);
      mtf::SelectPlan plan;
      plan.rows.operands = 2;
      plan.begin = 10;
      plan.length = length;
      plan.stride = 3;
      plan.count = count;
      plan.out_stride = 2;
      plan.largest = largest;
      mtf::kernels::execute(Space(), plan, values.data(), indices.data(), static_cast<const float*>(in.data()));
      Space().fence();
      const std::vector<std::int32_t> order = in_order(x, largest);
      bool right = true;
      for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) {
        const float expected = x[static_cast<std::size_t>(order[i])];
        right = right && indices[2 * i] == order[i] + 10 &&
                (values[2 * i] == expected || (std::isnan(expected) && std::isnan(values[2 * i])));
        right = right && values[2 * i + 1] == 77 && indices[2 * i + 1] == 77;
      }
      CHECK_MESSAGE(right, "length ", length, ", count ", count);
    }
  }
}

TEST_CASE("argmax and argmin of rows and of columns") {
  for (const std::int64_t rows : {1, 2, 63, 64, 65, 130}) {
    for (const std::int64_t length : {1, 2, 7, 50}) {
      for (const bool columns : {false, true}) {
        const std::vector<float> x = elements(rows * length, static_cast<unsigned>(rows * length));
        for (const bool largest : {true, false}) {
          std::vector<float> values(static_cast<std::size_t>(rows));
          std::vector<std::int32_t> indices(values.size());
          mtf::ArgExtremePlan plan;
          plan.rows.operands = 2;
          plan.rows.dims.push_back({rows, {1, columns ? 1 : length}});
          plan.begin = 5;
          plan.length = length;
          plan.stride = columns ? rows : 1;
          plan.largest = largest;
          mtf::kernels::execute(Space(), plan, values.data(), indices.data(), x.data());
          Space().fence();
          bool right = true;
          for (std::int64_t r = 0; r < rows; ++r) {
            std::vector<float> row;
            for (std::int64_t j = 0; j < length; ++j)
              row.push_back(x[static_cast<std::size_t>(columns ? j * rows + r : r * length + j)]);
            std::size_t best = 0;
            for (std::size_t j = 1; j < row.size(); ++j) {
              if (std::isnan(row[best])) break;
              if (std::isnan(row[j]) || (largest ? row[j] > row[best] : row[j] < row[best])) best = j;
            }
            right = right && indices[static_cast<std::size_t>(r)] == static_cast<std::int32_t>(best) + 5;
          }
          CHECK_MESSAGE(right, rows, " rows of ", length);
        }
      }
    }
  }
}

TEST_CASE("cumsum of rows and of columns, with totals of earlier parts") {
  std::mt19937 random(3);
  for (const std::int64_t rows : {1, 2, 31, 32, 33, 100}) {
    for (const std::int64_t length : {1, 2, 9}) {
      for (const bool columns : {false, true}) {
        std::vector<std::int64_t> x(static_cast<std::size_t>(rows * length));
        std::vector<std::int64_t> totals(static_cast<std::size_t>(3 * rows));
        for (std::int64_t& e : x) e = static_cast<int>(random() % 201) - 100;
        for (std::int64_t& e : totals) e = static_cast<int>(random() % 201) - 100;
        for (const bool exclusive : {false, true}) {
          for (const bool reverse : {false, true}) {
            std::vector<std::int64_t> out(x.size());
            mtf::CumulativeSumPlan plan;
            const std::int64_t step = columns ? 1 : length;
            plan.rows.operands = 3;
            plan.rows.dims.push_back({rows, {step, step, 1}});
            plan.length = length;
            plan.stride = columns ? rows : 1;
            plan.exclusive = exclusive;
            plan.reverse = reverse;
            plan.first_part = 1;
            plan.end_part = 3;
            plan.part_stride = rows;
            mtf::kernels::execute(Space(), plan, out.data(), static_cast<const std::int64_t*>(x.data()),
                                  static_cast<const std::int64_t*>(totals.data()));
            Space().fence();
            bool right = true;
            for (std::int64_t r = 0; r < rows; ++r) {
              const auto at = [&](std::int64_t j) {
                return static_cast<std::size_t>(columns ? j * rows + r : r * length + j);
              };
              for (std::int64_t j = 0; j < length; ++j) {
                std::int64_t sum =
                    totals[static_cast<std::size_t>(rows + r)] + totals[static_cast<std::size_t>(2 * rows + r)];
                for (std::int64_t m = 0; m < length; ++m) {
                  if ((reverse ? m > j : m < j) || (m == j && !exclusive)) sum += x[at(m)];
                }
                right = right && out[at(j)] == sum;
              }
            }
            CHECK_MESSAGE(right, rows, " rows of ", length);
          }
        }
      }
    }
  }
}
