// Kernels of the default space on odd strides and on sizes around those of their chunks.
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <mtf/kernels/contract.hpp>
#include <mtf/kernels/elementwise.hpp>
#include <mtf/kernels/reduce.hpp>

namespace {

using Space = Kokkos::DefaultExecutionSpace;
using mtf::Combine;

constexpr std::int64_t sizes[] = {1, 2, 3, 17, 127, 128, 129, 255, 256, 257, 511, 512, 513, 1023, 1025, 1600};

template <class T>
std::vector<T> numbers(std::int64_t count, unsigned seed = 1) {
  std::mt19937 random(seed);
  std::vector<T> result(static_cast<std::size_t>(count));
  for (T& x : result) x = static_cast<T>(static_cast<int>(random() % 2001) - 1000);
  return result;
}

struct Weighted {
  template <class T>
  T operator()(T x, T y) const {
    return static_cast<T>(x + 3 * y);
  }
};

/// A matrix [rows, columns] with free strides; the storage is large enough for them.
struct Strides {
  std::int64_t row, column;
  [[nodiscard]] std::size_t storage(std::int64_t rows, std::int64_t columns) const {
    return static_cast<std::size_t>((rows - 1) * row + (columns - 1) * column + 1);
  }
};

template <class T>
void check_map(std::int64_t rows, std::int64_t columns, Strides x, Strides y) {
  const auto a = numbers<T>(static_cast<std::int64_t>(x.storage(rows, columns)), 1);
  const auto b = numbers<T>(static_cast<std::int64_t>(y.storage(rows, columns)), 2);
  std::vector<T> out(static_cast<std::size_t>(rows * columns + 2), T(77));
  mtf::MapPlan plan;
  plan.loop.operands = 3;
  plan.loop.dims.push_back({rows, {columns, x.row, y.row}});
  plan.loop.dims.push_back({columns, {1, x.column, y.column}});
  mtf::kernels::execute(Space(), plan, Weighted{}, out.data() + 1, a.data(), b.data());
  Space().fence();
  bool right = out.front() == T(77) && out.back() == T(77);  // nothing beside the output is written
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t c = 0; c < columns; ++c) {
      right = right && out[static_cast<std::size_t>(1 + r * columns + c)] ==
                           Weighted{}(a[static_cast<std::size_t>(r * x.row + c * x.column)],
                                      b[static_cast<std::size_t>(r * y.row + c * y.column)]);
    }
  }
  CAPTURE(rows);
  CAPTURE(columns);
  CHECK(right);
}

template <class T>
T combined(Combine how, T a, T b) {
  if (how == Combine::sum) return static_cast<T>(a + b);
  if (a != a || b != b) return std::numeric_limits<T>::quiet_NaN();
  if (how == Combine::max) return a > b ? a : b;
  return a < b ? a : b;
}

/// [outer, middle, inner] reduced over the dims marked, at strides of a larger array.
template <class T>
void check_reduce(std::int64_t outer, std::int64_t middle, std::int64_t inner, unsigned reduced, Combine how,
                  bool nan = false) {
  const std::int64_t extents[3] = {outer, middle, inner};
  const std::int64_t strides[3] = {middle * inner, inner, 1};
  auto in = numbers<T>(outer * middle * inner, 3);
  if constexpr (std::is_floating_point_v<T>) {
    if (nan) in[in.size() / 2] = std::numeric_limits<T>::quiet_NaN();
  }
  const char* names[3] = {"a", "b", "c"};
  mtf::StridedShape from;
  mtf::StridedShape to;
  std::int64_t size = 1;
  for (int d = 2; d >= 0; --d) size *= (reduced >> d & 1U) != 0 ? 1 : extents[d];
  std::int64_t stride = size;
  for (int d = 0; d < 3; ++d) {
    from.push_back({names[d], extents[d], strides[d]});
    if ((reduced >> d & 1U) != 0) continue;
    stride /= extents[d];
    to.push_back({names[d], extents[d], stride});
  }
  std::vector<T> out(static_cast<std::size_t>(size + 1), T(77));
  mtf::kernels::execute(Space(), mtf::plan_reduce(to, from, how), out.data(), in.data());
  Space().fence();
  std::vector<T> expected(static_cast<std::size_t>(size));
  std::vector<bool> seen(static_cast<std::size_t>(size));
  for (std::int64_t i = 0; i < outer * middle * inner; ++i) {
    std::int64_t at = 0;
    for (int d = 0; d < 3; ++d) at += i / strides[d] % extents[d] * mtf::stride_of(to, names[d]);
    const auto n = static_cast<std::size_t>(at);
    expected[n] =
        seen[n] ? combined(how, expected[n], in[static_cast<std::size_t>(i)]) : in[static_cast<std::size_t>(i)];
    seen[n] = true;
  }
  bool right = out.back() == T(77);
  for (std::size_t i = 0; i < expected.size(); ++i)
    right = right && (out[i] == expected[i] || (out[i] != out[i] && expected[i] != expected[i]));
  CAPTURE(outer);
  CAPTURE(middle);
  CAPTURE(inner);
  CAPTURE(reduced);
  CAPTURE(std::string(mtf::name_of(how)));
  CHECK(right);
}

}  // namespace

TEST_CASE("map on sizes around the chunk, and on any strides") {
  for (const std::int64_t n : sizes) {
    check_map<double>(1, n, {0, 1}, {0, 1});
    check_map<float>(3, n, {n + 5, 1}, {2 * n, 2});
    check_map<double>(3, n, {1, 3}, {0, 0});
    check_map<std::int32_t>(2, n, {0, 1}, {1, 2});
    check_map<std::int64_t>(2, n, {7 * n, 7}, {1, 0});
  }
  for (const std::int64_t rows : {513, 1025}) check_map<float>(rows, 2, {1, rows}, {2, 1});
}

TEST_CASE("map of a single element and of no argument") {
  mtf::MapPlan plan;
  plan.loop.operands = 2;
  double out = 0;
  const double in = 3;
  mtf::kernels::execute(Space(), plan, [](double x) { return 2 * x; }, &out, &in);
  Space().fence();
  CHECK(out == 6);
  mtf::MapPlan constant;
  constant.loop.operands = 1;
  constant.loop.dims.push_back({513, {1}});
  std::vector<double> ones(513);
  mtf::kernels::execute(Space(), constant, [] { return 1.0; }, ones.data());
  Space().fence();
  for (const double x : ones) CHECK(x == 1);
}

TEST_CASE("map changes the element type") {
  for (const std::int64_t n : sizes) {
    const auto in = numbers<double>(n);
    mtf::MapPlan plan;
    plan.loop.operands = 2;
    plan.loop.dims.push_back({n, {1, 1}});
    std::vector<std::int32_t> out(static_cast<std::size_t>(n));
    mtf::kernels::execute(Space(), plan, [](double x) { return static_cast<std::int32_t>(x); }, out.data(), in.data());
    Space().fence();
    bool right = true;
    for (std::size_t i = 0; i < out.size(); ++i) right = right && out[i] == static_cast<std::int32_t>(in[i]);
    CHECK(right);
  }
}

TEST_CASE("the gradient of map is dy times the slope in one argument") {
  const auto product = [](auto x, auto y) { return x * y * y; };
  for (const std::int64_t n : {1, 17, 512, 513}) {
    const auto dy = numbers<double>(n, 1);
    const auto x = numbers<double>(n, 2);
    const auto y = numbers<double>(n, 3);
    for (const int which : {0, 1}) {
      mtf::MapGradientPlan plan;
      plan.which = which;
      plan.loop.operands = 4;
      plan.loop.dims.push_back({n, {1, 1, 1, 1}});
      std::vector<double> dx(static_cast<std::size_t>(n));
      mtf::kernels::execute(Space(), plan, product, dx.data(), dy.data(), x.data(), y.data());
      Space().fence();
      bool right = true;
      for (std::size_t i = 0; i < dx.size(); ++i)
        right = right && dx[i] == dy[i] * (which == 0 ? y[i] * y[i] : 2 * x[i] * y[i]);
      CHECK(right);
    }
  }
}

TEST_CASE("reductions over every set of dims, on sizes around the chunks") {
  for (const Combine how : {Combine::sum, Combine::max, Combine::min}) {
    for (unsigned reduced = 0; reduced < 8; ++reduced) {
      for (const std::int64_t n : sizes) {
        check_reduce<double>(2, 3, n, reduced, how);
        check_reduce<std::int32_t>(1, n, 3, reduced, how);
        check_reduce<std::int64_t>(n, 1, 2, reduced, how);
        check_reduce<float>(n, 1, 1, reduced, how);
      }
      check_reduce<double>(1, 1, 1, reduced, how);
      check_reduce<double>(40, 50, 60, reduced, how);
    }
  }
}

TEST_CASE("NaN passes every reduction, and stays in its own output") {
  for (const Combine how : {Combine::sum, Combine::max, Combine::min}) {
    for (unsigned reduced = 0; reduced < 8; ++reduced) {
      for (const std::int64_t n : {1, 16, 129, 513}) {
        check_reduce<double>(2, 3, n, reduced, how, true);
        check_reduce<float>(3, n, 2, reduced, how, true);
        check_reduce<float>(n, 2, 2, reduced, how, true);
      }
    }
  }
}

TEST_CASE("infinities, and numbers all below zero") {
  const double infinity = std::numeric_limits<double>::infinity();
  for (const std::int64_t n : {1, 17, 300, 513}) {
    std::vector<double> in(static_cast<std::size_t>(n), -3);
    mtf::StridedShape from;
    from.push_back({"a", n, 1});
    double out = 0;
    mtf::kernels::execute(Space(), mtf::plan_reduce({}, from, Combine::max), &out, in.data());
    CHECK(out == -3);
    in.back() = -infinity;
    mtf::kernels::execute(Space(), mtf::plan_reduce({}, from, Combine::max), &out, in.data());
    CHECK(out == (n == 1 ? -infinity : -3));
    mtf::kernels::execute(Space(), mtf::plan_reduce({}, from, Combine::min), &out, in.data());
    CHECK(out == -infinity);
    in.back() = 0;
    in.front() = infinity;
    mtf::kernels::execute(Space(), mtf::plan_reduce({}, from, Combine::sum), &out, in.data());
    CHECK(out == (n == 1 ? infinity : infinity));
  }
}

TEST_CASE("numerics: a long sum of floats drifts less than one running sum would") {
  const std::int64_t n = 1 << 20;
  const std::vector<float> in(static_cast<std::size_t>(n), 0.1F);
  mtf::StridedShape from;
  from.push_back({"a", n, 1});
  float out = 0;
  mtf::kernels::execute(Space(), mtf::plan_reduce({}, from, Combine::sum), &out, in.data());
  Space().fence();
  CHECK(std::abs(out / (0.1F * static_cast<float>(n)) - 1) < 1e-3F);  // a running sum is off by 4 %
}

TEST_CASE("fill, range and copy") {
  for (const std::int64_t n : sizes) {
    const auto size = static_cast<std::size_t>(n);
    std::vector<std::int64_t> out(size + 1, -7);
    mtf::kernels::execute(Space(), mtf::FillPlan{n}, out.data(), std::int64_t{5});
    Space().fence();
    CHECK(out == [&] {
      std::vector<std::int64_t> expected(size + 1, 5);
      expected.back() = -7;
      return expected;
    }());
    mtf::kernels::execute(Space(), mtf::RangePlan{n, 100}, out.data());
    Space().fence();
    bool right = out.back() == -7;
    for (std::size_t i = 0; i < size; ++i) right = right && out[i] == 100 + static_cast<std::int64_t>(i);
    // [3, n] transposed to [n, 3], beginning at the second element of each.
    const auto in = numbers<float>(3 * n + 1);
    std::vector<float> moved(3 * size + 1, 77.0F);
    mtf::CopyPlan plan;
    plan.loop.operands = 2;
    plan.loop.dims.push_back({n, {3, 1}});
    plan.loop.dims.push_back({3, {1, n}});
    plan.out_offset = plan.in_offset = 1;
    mtf::kernels::execute(Space(), plan, static_cast<int>(sizeof(float)), moved.data(), in.data());
    Space().fence();
    right = right && moved[0] == 77.0F;
    for (std::size_t i = 0; i < size; ++i) {
      for (std::size_t j = 0; j < 3; ++j) right = right && moved[1 + 3 * i + j] == in[1 + j * size + i];
    }
    CHECK(right);
  }
}

TEST_CASE("contraction: BLAS, loops and integers agree with naive loops") {
  // c[x, m, n] = sum over k, l of a[l, x, m, k] b[k, n, l], with c in either order of m and n.
  for (const bool transposed : {false, true}) {
    for (const std::int64_t m : {1, 2, 17}) {
      for (const std::int64_t n : {1, 3, 16}) {
        for (const std::int64_t k : {1, 5, 33}) {
          for (const std::int64_t l : {1, 3}) {
            for (const std::int64_t x : {1, 2}) {
              const auto shape = [](std::initializer_list<mtf::StridedDim> dims) {
                mtf::StridedShape result;
                for (const auto& dim : dims) result.push_back(dim);
                std::int64_t stride = 1;
                for (int i = result.size() - 1; i >= 0; --i) {
                  result[i].stride = stride;
                  stride *= result[i].extent;
                }
                return result;
              };
              const auto c = transposed ? shape({{"x", x}, {"n", n}, {"m", m}}) : shape({{"x", x}, {"m", m}, {"n", n}});
              const auto a = shape({{"l", l}, {"x", x}, {"m", m}, {"k", k}});
              const auto b = shape({{"k", k}, {"n", n}, {"l", l}});
              const auto check = [&]<class T>(T) {
                auto va = numbers<T>(l * x * m * k, 1);
                auto vb = numbers<T>(k * n * l, 2);
                std::vector<T> vc(static_cast<std::size_t>(x * m * n + 1), T(77));
                // What was in the output before must not matter.
                if constexpr (std::is_floating_point_v<T>)
                  std::fill(vc.begin(), vc.end() - 1, std::numeric_limits<T>::quiet_NaN());
                const auto plan = mtf::plan_contraction(c, a, b);
                mtf::kernels::execute(Space(), plan, vc.data(), va.data(), vb.data());
                Space().fence();
                bool right = vc.back() == T(77);
                for (std::int64_t ix = 0; ix < x; ++ix) {
                  for (std::int64_t im = 0; im < m; ++im) {
                    for (std::int64_t in = 0; in < n; ++in) {
                      T sum = 0;
                      for (std::int64_t ik = 0; ik < k; ++ik) {
                        for (std::int64_t il = 0; il < l; ++il) {
                          sum = static_cast<T>(sum + va[static_cast<std::size_t>(((il * x + ix) * m + im) * k + ik)] *
                                                         vb[static_cast<std::size_t>((ik * n + in) * l + il)]);
                        }
                      }
                      const std::int64_t at = ix * m * n + im * mtf::stride_of(c, "m") + in * mtf::stride_of(c, "n");
                      right = right && vc[static_cast<std::size_t>(at)] == sum;
                    }
                  }
                }
                CAPTURE(m);
                CAPTURE(n);
                CAPTURE(k);
                CAPTURE(l);
                CAPTURE(x);
                CAPTURE(transposed);
                CHECK(right);
              };
              check(double{});
              check(std::int64_t{});
            }
          }
        }
      }
    }
  }
}

namespace {

/// Refuses everything from a limit on, and says what it refused.
struct Refusing {
  double limit;
  double operator()(double x) const {
    if (x >= limit) throw std::domain_error("refused " + std::to_string(static_cast<int>(x)));
    return 2 * x;
  }
};

}  // namespace

TEST_CASE("what a user's function throws arrives after the range, as from a loop, on any number of threads") {
  constexpr std::int64_t rows = 40;
  constexpr std::int64_t columns = 1000;  // two chunks
  std::vector<double> in(static_cast<std::size_t>(rows * columns));
  for (std::size_t i = 0; i < in.size(); ++i) in[i] = static_cast<double>(i);
  std::vector<double> out(in.size());
  mtf::MapPlan plan;
  plan.loop.operands = 2;
  plan.loop.dims.push_back({rows, {columns, columns}});
  plan.loop.dims.push_back({columns, {1, 1}});
  for (const double limit : {0.0, 700.0, 20000.0, 39999.0}) {
    CAPTURE(limit);
    for (int repetition = 0; repetition < 20; ++repetition) {
      std::string what;
      try {
        mtf::kernels::execute(Space(), plan, Refusing{limit}, out.data(), in.data());
      } catch (const std::domain_error& error) {
        what = error.what();
      }
      CHECK(what == "refused " + std::to_string(static_cast<int>(limit)));
      bool right = true;  // what comes before was computed
      for (std::size_t i = 0; i < static_cast<std::size_t>(limit); ++i) right = right && out[i] == 2 * in[i];
      CHECK(right);
    }
  }
  mtf::kernels::execute(Space(), plan, Refusing{1e9}, out.data(), in.data());
  bool right = true;
  for (std::size_t i = 0; i < in.size(); ++i) right = right && out[i] == 2 * in[i];
  CHECK(right);
}
