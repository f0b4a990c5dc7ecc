// Plans of contractions: every einsum of two operands over a few dims, executed by naive loops.
#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <mtf/plan/contraction.hpp>

namespace {

const std::vector<std::string> names{"a", "b", "c", "d", "e", "f"};

mtf::StridedShape row_major(std::vector<mtf::StridedDim> dims) {
  mtf::StridedShape shape;
  std::int64_t stride = 1;
  for (const mtf::StridedDim& dim : dims) shape.push_back(dim);
  for (int i = shape.size() - 1; i >= 0; --i) {
    shape[i].stride = stride;
    stride *= shape[i].extent;
  }
  return shape;
}
std::int64_t size_of(const mtf::StridedShape& shape) {
  std::int64_t product = 1;
  for (const mtf::StridedDim& dim : shape) product *= dim.extent;
  return product;
}
std::vector<std::int64_t> numbers(std::mt19937& random, std::int64_t count) {
  std::vector<std::int64_t> result(static_cast<std::size_t>(count));
  for (std::int64_t& x : result) x = static_cast<std::int64_t>(random() % 19) - 9;
  return result;
}

struct At {
  std::int64_t c, a, b;
};
std::vector<At> walk(const mtf::Loop& loop) {
  std::vector<At> result;
  for (std::int64_t i = 0; i < loop.size(); ++i) {
    At at{};
    std::int64_t rest = i;
    for (int d = loop.dims.size() - 1; d >= 0; --d) {
      const std::int64_t index = rest % loop.dims[d].extent;
      at.c += index * loop.dims[d].strides[0];
      at.a += index * loop.dims[d].strides[1];
      at.b += index * loop.dims[d].strides[2];
      rest /= loop.dims[d].extent;
    }
    result.push_back(at);
  }
  return result;
}

std::vector<std::int64_t> execute(const mtf::ContractionPlan& p, std::int64_t c_size,
                                  const std::vector<std::int64_t>& a, const std::vector<std::int64_t>& b) {
  std::vector<std::int64_t> c(static_cast<std::size_t>(c_size), 1000000);
  for (const At& batch : walk(p.batch)) {
    bool first = true;
    for (const At& summed : walk(p.summed)) {
      CHECK(summed.c == 0);
      for (std::int64_t i = 0; i < p.m; ++i) {
        for (std::int64_t j = 0; j < p.n; ++j) {
          std::int64_t sum = 0;
          for (std::int64_t l = 0; l < p.k; ++l) {
            sum += a[static_cast<std::size_t>(batch.a + summed.a + i * p.a_m + l * p.a_k)] *
                   b[static_cast<std::size_t>(batch.b + summed.b + l * p.b_k + j * p.b_n)];
          }
          std::int64_t& to = c[static_cast<std::size_t>(batch.c + i * p.c_m + j * p.c_n)];
          to = first ? sum : to + sum;
        }
      }
      first = false;
    }
  }
  return c;
}

std::vector<std::int64_t> naive(const std::vector<mtf::StridedDim>& dims, const mtf::StridedShape& c,
                                const mtf::StridedShape& a, const mtf::StridedShape& b,
                                const std::vector<std::int64_t>& x, const std::vector<std::int64_t>& y) {
  std::vector<std::int64_t> result(static_cast<std::size_t>(size_of(c)));
  std::int64_t total = 1;
  for (const mtf::StridedDim& dim : dims) total *= dim.extent;
  for (std::int64_t i = 0; i < total; ++i) {
    std::int64_t at[3]{};
    std::int64_t rest = i;
    for (const mtf::StridedDim& dim : dims) {
      const std::int64_t index = rest % dim.extent;
      rest /= dim.extent;
      at[0] += index * mtf::stride_of(c, dim.name);
      at[1] += index * mtf::stride_of(a, dim.name);
      at[2] += index * mtf::stride_of(b, dim.name);
    }
    result[static_cast<std::size_t>(at[0])] += x[static_cast<std::size_t>(at[1])] * y[static_cast<std::size_t>(at[2])];
  }
  return result;
}

/// What BLAS asks of a matrix: a unit stride, and a leading dimension that is no less than the rows it steps over.
bool blas_takes(std::int64_t rows, std::int64_t row_stride, std::int64_t cols, std::int64_t col_stride) {
  const bool by_rows = (cols == 1 || col_stride == 1) && (rows == 1 || row_stride >= cols);
  const bool by_cols = (rows == 1 || row_stride == 1) && (cols == 1 || col_stride >= rows);
  return by_rows || by_cols;
}

constexpr bool plain_product_is_one_gemm() {
  mtf::StridedShape c;
  mtf::StridedShape a;
  mtf::StridedShape b;
  c.push_back({"m", 4, 5});
  c.push_back({"n", 5, 1});
  a.push_back({"m", 4, 6});
  a.push_back({"k", 6, 1});
  b.push_back({"k", 6, 5});
  b.push_back({"n", 5, 1});
  const auto plan = mtf::plan_contraction(c, a, b);
  return plan.is_gemm && plan.m == 4 && plan.n == 5 && plan.k == 6 && plan.batch.dims.empty() &&
         plan.summed.dims.empty() && plan.work() == 120;
}
static_assert(plain_product_is_one_gemm());

}  // namespace

TEST_CASE("a product of matrices is one GEMM") { CHECK(plain_product_is_one_gemm()); }

TEST_CASE("names and einsum: every contraction of two operands over four dims has the value of naive loops") {
  // Each dim is of one kind: in both operands and the output, in a and the output, in b and the output, or summed.
  std::mt19937 random(11);
  int gemms = 0;
  int plans = 0;
  for (int dims = 0; dims <= 5; ++dims) {
    int kinds = 1;
    for (int d = 0; d < dims; ++d) kinds *= 4;
    for (int kind = 0; kind < kinds; ++kind) {
      for (int order = 0; order < (dims < 4 ? 4 : 1); ++order) {
        std::vector<mtf::StridedDim> all, in_c, in_a, in_b;
        int rest = kind;
        for (int d = 0; d < dims; ++d, rest /= 4) {
          const mtf::StridedDim dim{mtf::Name(names[static_cast<std::size_t>(d)]),
                                    1 + static_cast<std::int64_t>(random() % 4), 1};
          all.push_back(dim);
          if (rest % 4 != 3) in_c.push_back(dim);
          if (rest % 4 != 2) in_a.push_back(dim);
          if (rest % 4 != 1) in_b.push_back(dim);
        }
        for (auto* list : {&in_c, &in_a, &in_b}) std::shuffle(list->begin(), list->end(), random);
        const mtf::StridedShape c = row_major(in_c);
        const mtf::StridedShape a = row_major(in_a);
        const mtf::StridedShape b = row_major(in_b);
        const auto plan = mtf::plan_contraction(c, a, b);
        const auto x = numbers(random, size_of(a));
        const auto y = numbers(random, size_of(b));
        CAPTURE(dims);
        CAPTURE(kind);
        CHECK(execute(plan, size_of(c), x, y) == naive(all, c, a, b, x, y));
        std::int64_t work = 1;
        for (const mtf::StridedDim& dim : all) work *= dim.extent;
        CHECK(plan.work() == work);
        ++plans;
        if (!plan.is_gemm) continue;
        ++gemms;
        CHECK(blas_takes(plan.m, plan.c_m, plan.n, plan.c_n));
        CHECK(blas_takes(plan.m, plan.a_m, plan.k, plan.a_k));
        CHECK(blas_takes(plan.k, plan.b_k, plan.n, plan.b_n));
      }
    }
  }
  CHECK(gemms > plans / 2);
  CHECK(gemms < plans);
}

TEST_CASE("products of a Transformer are GEMMs whatever the operand order") {
  const auto d = [](const char* name, std::int64_t extent) { return mtf::StridedDim{name, extent, 1}; };
  const auto x = row_major({d("batch", 2), d("length", 3), d("model", 8)});
  SUBCASE("a dense layer joins batch and length") {
    const auto plan = mtf::plan_contraction(row_major({d("batch", 2), d("length", 3), d("ff", 16)}), x,
                                            row_major({d("model", 8), d("ff", 16)}));
    CHECK(plan.is_gemm);
    CHECK(plan.m == 6);
    CHECK(plan.batch.dims.empty());
  }
  SUBCASE("the gradient of its weights sums over both at once") {
    const auto plan = mtf::plan_contraction(row_major({d("model", 8), d("ff", 16)}), x,
                                            row_major({d("batch", 2), d("length", 3), d("ff", 16)}));
    CHECK(plan.is_gemm);
    CHECK(plan.k == 6);
    CHECK(plan.summed.dims.empty());
  }
  SUBCASE("the logits of attention are one product for each batch and head") {
    const auto plan = mtf::plan_contraction(row_major({d("batch", 2), d("heads", 4), d("length", 3), d("memory", 5)}),
                                            row_major({d("batch", 2), d("heads", 4), d("length", 3), d("kv", 8)}),
                                            row_major({d("batch", 2), d("heads", 4), d("memory", 5), d("kv", 8)}));
    CHECK(plan.is_gemm);
    CHECK(plan.batch.size() == 8);
    CHECK(plan.m == 3);
    CHECK(plan.n == 5);
    CHECK(plan.k == 8);
  }
}

TEST_CASE("a product that BLAS cannot count in 32 bits goes by loops") {
  const auto d = [](const char* name, std::int64_t extent) { return mtf::StridedDim{name, extent, 1}; };
  for (const std::int64_t long_one : {std::int64_t{1} << 31, std::int64_t{3000000000}}) {
    const auto x = row_major({d("a", long_one)});
    CHECK_FALSE(mtf::plan_contraction(row_major({}), x, x).is_gemm);
    CHECK_FALSE(mtf::plan_contraction(row_major({d("a", long_one), d("b", 2)}), x, row_major({d("b", 2)})).is_gemm);
  }
  const auto most = row_major({d("a", (std::int64_t{1} << 31) - 1)});
  CHECK(mtf::plan_contraction(row_major({}), most, most).is_gemm);
}
