// Sums of more numbers than fit into memory, by strides of 0; products by loops; the pieces that sums are made of.
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include <doctest/doctest.h>

#include <mtf/kernels/contract.hpp>
#include <mtf/kernels/reduce.hpp>
#include <mtf/kernels/scan.hpp>

namespace {

using Space = Kokkos::DefaultExecutionSpace;

template <class T>
std::vector<T> positive(std::size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<double> uniform(0.5, 1.5);
  std::vector<T> result(count);
  for (T& x : result) x = static_cast<T>(uniform(random));
  return result;
}
template <class T>
double units(T got, long double exact, long double magnitudes) {
  const int exponent = static_cast<int>(std::ilogb(magnitudes)) - (std::numeric_limits<T>::digits - 1);
  return static_cast<double>(std::ldexp(std::abs(static_cast<long double>(got) - exact), -exponent));
}

/// 2^26 rows of two columns, of which there are 2^14 in memory.
template <class T>
void check_long_columns() {
  const std::int64_t kept = 1 << 14;
  const std::int64_t repeats = 1 << 12;
  const auto in = positive<T>(static_cast<std::size_t>(2 * kept), 5);
  mtf::ReducePlan plan;
  plan.kept.operands = plan.reduced.operands = 2;
  plan.kept.dims.push_back({2, {1, 1}});
  plan.reduced.dims.push_back({repeats, {0, 0}});
  plan.reduced.dims.push_back({kept, {0, 2}});
  std::vector<T> out(2);
  mtf::kernels::execute(Space(), plan, out.data(), in.data());
  // As one row, and with a stride.
  mtf::ReducePlan row;
  row.kept.operands = row.reduced.operands = 2;
  row.reduced.dims.push_back({repeats / 2, {0, 0}});
  row.reduced.dims.push_back({2 * kept, {0, 1}});
  mtf::ReducePlan strided = row;
  strided.reduced.dims[0].extent = repeats;
  strided.reduced.dims[1] = {kept, {0, 2}};
  T of_row = 0, of_stride = 0;
  mtf::kernels::execute(Space(), row, &of_row, in.data());
  mtf::kernels::execute(Space(), strided, &of_stride, in.data());
  Space().fence();
  long double column[2] = {0, 0};
  for (std::size_t i = 0; i < in.size(); ++i) column[i % 2] += static_cast<long double>(in[i]);
  for (std::size_t i = 0; i < 2; ++i) CHECK(units(out[i], column[i] * repeats, column[i] * repeats) <= 3.6);
  const long double all = (column[0] + column[1]) * (repeats / 2);
  CHECK(units(of_row, all, all) <= 3.6);
  CHECK(units(of_stride, column[0] * repeats, column[0] * repeats) <= 3.6);
}

/// Products whose strides no BLAS takes, summed over a dim inside and over one around it.
template <class T>
void check_products(std::int64_t m, std::int64_t n, std::int64_t k, std::int64_t around) {
  const auto a = positive<T>(static_cast<std::size_t>(around * m * k * 2), 6);
  const auto b = positive<T>(static_cast<std::size_t>(around * n * k * 3), 7);
  for (const bool accumulates : {false, true}) {
    mtf::ContractionPlan plan;
    plan.is_gemm = false;
    plan.accumulates = accumulates;
    plan.batch.operands = plan.summed.operands = 3;
    plan.summed.dims.push_back({around, {0, m * k * 2, n * k * 3}});
    plan.m = m;
    plan.n = n;
    plan.k = k;
    plan.c_m = n;
    plan.a_m = 2 * k;
    plan.a_k = 2;
    plan.b_k = 3 * n;
    plan.b_n = 3;
    std::vector<T> c(static_cast<std::size_t>(m * n), T(3));
    mtf::kernels::execute(Space(), plan, c.data(), a.data(), b.data());
    Space().fence();
    double most = 0;
    for (std::int64_t i = 0; i < m; ++i) {
      for (std::int64_t j = 0; j < n; ++j) {
        long double exact = accumulates ? 3 : 0;
        for (std::int64_t s = 0; s < around; ++s) {
          for (std::int64_t l = 0; l < k; ++l) {
            exact += static_cast<long double>(a[static_cast<std::size_t>(s * m * k * 2 + i * 2 * k + l * 2)]) *
                     static_cast<long double>(b[static_cast<std::size_t>(s * n * k * 3 + l * 3 * n + j * 3)]);
          }
        }
        most = std::max(most, units(c[static_cast<std::size_t>(i * n + j)], exact, exact));
      }
    }
    CAPTURE(m);
    CAPTURE(k);
    CAPTURE(around);
    CHECK(most <= 4);
  }
}

}  // namespace

TEST_CASE("sums of 2^26 terms are right, where a running float stops at 2^24") {
  check_long_columns<float>();
  check_long_columns<double>();
}

TEST_CASE("products by loops are summed as sums are") {
  for (const std::int64_t k : {1, 3, 4, 7, 4000}) {
    for (const std::int64_t around : {1, 5}) {
      check_products<float>(2, 19, k, around);
      check_products<double>(3, 1, k, around);
    }
  }
  check_products<float>(1, 2, 3, 30000);
}

TEST_CASE("a pair of doubles keeps what an addition rounds away") {
  mtf::kernels::Sums<double, 1> sum;
  sum.set(0, 1.0);
  for (int i = 0; i < 1 << 20; ++i) sum.add(0, 1e-17);
  CHECK(sum.result(0) == 1.0 + 1e-17 * (1 << 20));
  for (int i = 0; i < 1 << 20; ++i) sum.add(0, -1e-17);
  CHECK(std::abs(sum.result(0) - 1.0) <= std::numeric_limits<double>::epsilon());
}

TEST_CASE("sums do not depend on where in memory their terms are, nor on what else is summed") {
  const std::int64_t n = 777;
  const auto row = positive<float>(static_cast<std::size_t>(n), 8);
  std::vector<float> sums;
  for (const std::int64_t columns : {1, 3, 128, 200}) {
    for (std::int64_t offset = 0; offset < 3; ++offset) {
      std::vector<float> in(static_cast<std::size_t>(offset + n * columns));
      for (std::int64_t i = 0; i < n; ++i) {
        for (std::int64_t j = 0; j < columns; ++j)
          in[static_cast<std::size_t>(offset + i * columns + j)] = row[static_cast<std::size_t>(i)];
      }
      mtf::ReducePlan plan;
      plan.kept.operands = plan.reduced.operands = 2;
      plan.kept.dims.push_back({columns, {1, 1}});
      plan.reduced.dims.push_back({n, {0, columns}});
      std::vector<float> out(static_cast<std::size_t>(columns));
      if (columns == 1) continue;
      mtf::kernels::execute(Space(), plan, out.data(), in.data() + offset);
      Space().fence();
      sums.insert(sums.end(), out.begin(), out.end());
    }
  }
  for (const float sum : sums) CHECK(sum == sums[0]);
}
