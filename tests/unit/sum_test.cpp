// Sums of more numbers than fit into memory, by strides of 0; products by loops; the pieces that sums are made of.
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include <doctest/doctest.h>

#include <mtf/kernels/contract.hpp>
#include <mtf/kernels/gather.hpp>
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

namespace {

/// Terms whose sums round at every addition, by half a unit each way: ones with random last bits.
template <class T>
std::vector<T> rough(std::size_t count, std::mt19937& random) {
  std::vector<T> result(count);
  const double last = std::numeric_limits<T>::epsilon();
  for (T& x : result) x = static_cast<T>(1 + last * static_cast<double>(random() % 4));
  return result;
}
template <class T>
double bound(std::int64_t n) {
  return std::is_same_v<T, float> ? 4 : std::log2(static_cast<double>(n));
}

/// n terms as a row, as elements apart, as columns of every number, and as two runs.
template <class T>
void check_every_form(std::int64_t n, std::mt19937& random) {
  const std::int64_t columns = 1 + static_cast<std::int64_t>(random() % 20);
  const auto terms = rough<T>(static_cast<std::size_t>(n * columns), random);
  std::vector<long double> exact(static_cast<std::size_t>(columns));
  long double of_row = 0;
  for (std::size_t i = 0; i < terms.size(); ++i) exact[i % exact.size()] += static_cast<long double>(terms[i]);
  for (std::size_t i = 0; i < static_cast<std::size_t>(n); ++i) of_row += static_cast<long double>(terms[i]);
  const auto run = [&](const auto& kept, const auto& reduced, std::size_t results) {
    mtf::ReducePlan plan;
    plan.kept.operands = plan.reduced.operands = 2;
    for (const mtf::LoopDim& dim : kept) plan.kept.dims.push_back(dim);
    for (const mtf::LoopDim& dim : reduced) plan.reduced.dims.push_back(dim);
    std::vector<T> out(results);
    mtf::kernels::execute(Space(), plan, out.data(), terms.data());
    Space().fence();
    return out;
  };
  using Dims = std::vector<mtf::LoopDim>;
  CAPTURE(n);
  CAPTURE(columns);
  CHECK(units(run(Dims{}, Dims{{n, {0, 1}}}, 1)[0], of_row, of_row) <= bound<T>(n));
  CHECK(units(run(Dims{}, Dims{{n, {0, columns}}}, 1)[0], exact[0], exact[0]) <= bound<T>(n));
  const auto sums = run(Dims{{columns, {1, 1}}}, Dims{{n, {0, columns}}}, exact.size());
  for (std::size_t i = 0; i < exact.size(); ++i) CHECK(units(sums[i], exact[i], exact[i]) <= bound<T>(n));
  if (n % 2 == 0)
    CHECK(units(run(Dims{}, Dims{{2, {0, n / 2}}, {n / 2, {0, 1}}}, 1)[0], of_row, of_row) <= bound<T>(n));
}

/// Cumulative sums longer than what is added to one number, of two columns or of one row.
template <class T>
void check_long_scan(std::int64_t length, std::int64_t columns) {
  const auto in = positive<T>(static_cast<std::size_t>(length * columns), 9);
  for (const bool exclusive : {false, true}) {
    mtf::CumulativeSumPlan plan;
    plan.rows.operands = 3;
    if (columns > 1) plan.rows.dims.push_back({columns, {1, 1, 1}});
    plan.length = length;
    plan.stride = columns;
    plan.exclusive = exclusive;
    std::vector<T> out(in.size());
    mtf::kernels::execute(Space(), plan, out.data(), in.data());
    Space().fence();
    double most = 0;
    bool turns_back = false;
    std::vector<long double> exact(static_cast<std::size_t>(columns));
    for (std::size_t i = 0; i < in.size(); ++i) {
      long double& sum = exact[i % exact.size()];
      const long double before = sum;
      sum += static_cast<long double>(in[i]);
      const long double expected = exclusive ? before : sum;
      if (expected > 0) most = std::max(most, units(out[i], expected, expected));
      if (i >= exact.size()) turns_back = turns_back || out[i] < out[i - exact.size()];
    }
    CHECK(most <= (std::is_same_v<T, float> ? 0.51 : 3));
    CHECK(!turns_back);
  }
}

/// Rows or single numbers into tables of all densities, twice, against one sum for each element.
template <class T>
void check_scatter(std::int64_t count, std::int64_t table_rows, std::int64_t columns, bool turned,
                   std::mt19937& random) {
  std::vector<std::int32_t> ids(static_cast<std::size_t>(count));
  const std::int64_t used = 1 + static_cast<std::int64_t>(random() % static_cast<unsigned>(table_rows));
  for (std::int32_t& id : ids) id = static_cast<std::int32_t>(random() % static_cast<unsigned>(used + 2)) - 1;
  const auto rows = rough<T>(static_cast<std::size_t>(count * columns), random);
  mtf::ScatterAddPlan plan;
  plan.loop.operands = 3;
  const std::int64_t element = turned ? table_rows : 1;
  if (columns > 1) {
    plan.loop.dims.push_back({count, {columns, 0, 1}});
    plan.loop.dims.push_back({columns, {1, element, 0}});
  } else {
    plan.loop.dims.push_back({count, {1, 0, 1}});
  }
  plan.begin = 0;
  plan.length = table_rows;
  plan.stride = turned || columns == 1 ? 1 : columns;
  plan.table_size = table_rows * columns;
  std::vector<T> table(static_cast<std::size_t>(plan.table_size), T(7));
  mtf::kernels::execute(Space(), plan, table.data(), rows.data(), ids.data());
  Space().fence();
  std::vector<long double> exact(table.size());
  std::vector<std::int64_t> terms(table.size());
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t id = ids[static_cast<std::size_t>(i)];
    if (id < 0 || id >= table_rows) continue;
    for (std::int64_t j = 0; j < columns; ++j) {
      const auto at = static_cast<std::size_t>(id * plan.stride + j * element);
      exact[at] += static_cast<long double>(rows[static_cast<std::size_t>(i * columns + j)]);
      ++terms[at];
    }
  }
  double most = 0;
  for (std::size_t i = 0; i < table.size(); ++i) {
    if (terms[i] == 0) {
      most = std::max(most, table[i] == T(0) ? 0.0 : 1e9);
    } else {
      most = std::max(most, units(table[i], exact[i], exact[i]) - bound<T>(terms[i]));
    }
  }
  CAPTURE(count);
  CAPTURE(table_rows);
  CAPTURE(columns);
  CHECK(most <= 0);
}

}  // namespace

TEST_CASE("sums of any number of terms are within the bound, in every form") {
  std::mt19937 random(31);
  for (std::int64_t n = 1; n < 700; n = n < 300 ? n + 1 : n + 7) {
    check_every_form<float>(n, random);
    check_every_form<double>(n, random);
  }
}

TEST_CASE("cumulative sums begin anew without a step") {
  check_long_scan<float>((std::int64_t{1} << 22) + 1234, 1);
  check_long_scan<float>((std::int64_t{1} << 21) + 77, 2);
  check_long_scan<double>((std::int64_t{1} << 18) + 1233, 1);
  check_long_scan<double>((std::int64_t{1} << 18) + 77, 3);
}

TEST_CASE("rows and numbers are scattered into tables of every density, again and again") {
  std::mt19937 random(33);
  for (int round = 0; round < 3; ++round) {
    for (const std::int64_t count : {1, 30, 500}) {
      for (const std::int64_t table_rows : {1, 7, 300, 20000}) {
        for (const std::int64_t columns : {1, 3, 150}) {
          if (table_rows * columns > 100000) continue;
          check_scatter<float>(count, table_rows, columns, round % 2 == 1, random);
          check_scatter<double>(count, table_rows, columns, round % 2 == 1, random);
        }
      }
    }
  }
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
