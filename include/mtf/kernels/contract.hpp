// Contraction: matrix products by BLAS where the plan found them, else a loop nest.
#pragma once

#include <type_traits>

#include <cblas.h>

#include <mtf/core/arithmetic.hpp>
#include <mtf/kernels/launch.hpp>
#include <mtf/kernels/sum.hpp>
#include <mtf/plan/contraction.hpp>

namespace mtf {
inline namespace v0 {

namespace kernels {

inline void gemm(CBLAS_TRANSPOSE ta, CBLAS_TRANSPOSE tb, std::int64_t m, std::int64_t n, std::int64_t k, const float* a,
                 std::int64_t lda, const float* b, std::int64_t ldb, float beta, float* c, std::int64_t ldc) {
  cblas_sgemm(CblasRowMajor, ta, tb, static_cast<int>(m), static_cast<int>(n), static_cast<int>(k), 1.0F, a,
              static_cast<int>(lda), b, static_cast<int>(ldb), beta, c, static_cast<int>(ldc));
}
inline void gemm(CBLAS_TRANSPOSE ta, CBLAS_TRANSPOSE tb, std::int64_t m, std::int64_t n, std::int64_t k,
                 const double* a, std::int64_t lda, const double* b, std::int64_t ldb, double beta, double* c,
                 std::int64_t ldc) {
  cblas_dgemm(CblasRowMajor, ta, tb, static_cast<int>(m), static_cast<int>(n), static_cast<int>(k), 1.0, a,
              static_cast<int>(lda), b, static_cast<int>(ldb), beta, c, static_cast<int>(ldc));
}

/// A matrix as BLAS wants it: row-major with a leading dimension, perhaps transposed.
struct BlasMatrix {
  CBLAS_TRANSPOSE transpose;
  std::int64_t leading;

  BlasMatrix(std::int64_t rows, std::int64_t row_stride, std::int64_t cols, std::int64_t col_stride) {
    if (cols == 1 || col_stride == 1) {
      transpose = CblasNoTrans;
      leading = rows > 1 ? row_stride : cols;
    } else {
      transpose = CblasTrans;
      leading = cols > 1 ? col_stride : rows;
    }
  }
};

/// c (+)= a b for one matrix product of the plan.
template <class T>
void multiply(const ContractionPlan& p, T* c, const T* a, const T* b, bool accumulates) {
  const T beta = accumulates ? T(1) : T(0);
  const bool c_row_major = p.n == 1 || p.c_n == 1;
  if (c_row_major) {
    const BlasMatrix ma(p.m, p.a_m, p.k, p.a_k);
    const BlasMatrix mb(p.k, p.b_k, p.n, p.b_n);
    gemm(ma.transpose, mb.transpose, p.m, p.n, p.k, a, ma.leading, b, mb.leading, beta, c, p.m > 1 ? p.c_m : p.n);
  } else {  // the transposed product: c' = b' a'
    const BlasMatrix mb(p.n, p.b_n, p.k, p.b_k);
    const BlasMatrix ma(p.k, p.a_k, p.m, p.a_m);
    gemm(mb.transpose, ma.transpose, p.n, p.m, p.k, b, mb.leading, a, ma.leading, beta, c, p.n > 1 ? p.c_n : p.m);
  }
}

/// The product by loops, rows of c innermost: for integers.
template <class T>
MTF_FUNCTION void multiply_loops(const ContractionPlan& p, T* c, const T* a, const T* b, bool accumulates) {
  for (std::int64_t i = 0; i < p.m; ++i) {
    T* row = c + i * p.c_m;
    if (!accumulates) {
      for (std::int64_t j = 0; j < p.n; ++j) row[j * p.c_n] = T(0);
    }
    for (std::int64_t l = 0; l < p.k; ++l) {
      const T factor = a[i * p.a_m + l * p.a_k];
      const T* from = b + l * p.b_k;
      for (std::int64_t j = 0; j < p.n; ++j) {
        if constexpr (mtf::detail::wraps<T>) {
          row[j * p.c_n] = mtf::detail::sum_of(row[j * p.c_n], mtf::detail::product_of(factor, from[j * p.b_n]));
        } else {
          row[j * p.c_n] = static_cast<T>(row[j * p.c_n] + factor * from[j * p.b_n]);
        }
      }
    }
  }
}

/// The products by loops, and their sum over `summed`: of floating-point numbers, for strides that no BLAS takes and
/// where there is none. Four products meet before they go to a wider sum (see sum.hpp).
template <class T>
MTF_FUNCTION void multiply_and_sum(const ContractionPlan& p, const Outer<3>& summed, T* c, const T* a, const T* b) {
  constexpr int width = 16;
  for (std::int64_t i = 0; i < p.m; ++i) {
    for (std::int64_t begin = 0; begin < p.n; begin += width) {
      const std::int64_t count = p.n - begin < width ? p.n - begin : width;
      T* to = c + i * p.c_m + begin * p.c_n;
      Sums<T, width> sums;
      for (std::int64_t j = 0; j < count; ++j) sums.set(j, p.accumulates ? to[j * p.c_n] : T(0));
      for (std::int64_t s = 0; s < summed.size * summed.inner; ++s) {
        std::int64_t by[3];
        summed.offsets(s / summed.inner, by);
        for (int o = 0; o < 3; ++o) by[o] += s % summed.inner * summed.inner_strides[o];
        const T* x = a + by[1] + i * p.a_m;
        const T* y = b + by[2] + begin * p.b_n;
        std::int64_t l = 0;
        for (; l + 4 <= p.k; l += 4, x += 4 * p.a_k, y += 4 * p.b_k) {
          const T x0 = x[0], x1 = x[p.a_k], x2 = x[2 * p.a_k], x3 = x[3 * p.a_k];
          for (std::int64_t j = 0; j < count; ++j) {
            const T* z = y + j * p.b_n;
            sums.add(j, (x0 * z[0] + x1 * z[p.b_k]) + (x2 * z[2 * p.b_k] + x3 * z[3 * p.b_k]));
          }
        }
        for (; l < p.k; ++l, x += p.a_k, y += p.b_k) {
          for (std::int64_t j = 0; j < count; ++j) sums.add(j, *x * y[j * p.b_n]);
        }
      }
      for (std::int64_t j = 0; j < count; ++j) to[j * p.c_n] = sums.result(j);
    }
  }
}

template <class T, bool Blas>
struct ContractKernel {
  Outer<3> batch;
  Outer<3> summed;
  ContractionPlan plan;
  T* c;
  const T* a;
  const T* b;
  MTF_FUNCTION void operator()(std::int64_t block) const {
    std::int64_t at[3];
    batch.offsets(block / batch.inner, at);
    for (int o = 0; o < 3; ++o) at[o] += block % batch.inner * batch.inner_strides[o];
    if constexpr (!Blas && std::is_floating_point_v<T>) {
      multiply_and_sum(plan, summed, c + at[0], a + at[1], b + at[2]);
    } else {
      loop(at);
    }
  }
  MTF_FUNCTION void loop(const std::int64_t (&at)[3]) const {
    for (std::int64_t s = 0; s < summed.size * summed.inner; ++s) {
      std::int64_t by[3];
      summed.offsets(s / summed.inner, by);
      for (int o = 0; o < 3; ++o) by[o] += s % summed.inner * summed.inner_strides[o];
      if constexpr (Blas) {
        multiply(plan, c + at[0], a + at[1] + by[1], b + at[2] + by[2], s > 0 || plan.accumulates);
      } else {
        multiply_loops(plan, c + at[0], a + at[1] + by[1], b + at[2] + by[2], s > 0 || plan.accumulates);
      }
    }
  }
};

template <class Space, class T>
void execute(const Space& space, const ContractionPlan& plan, T* c, const T* a, const T* b) {
  const Outer<3> batch(plan.batch);
  const Outer<3> summed(plan.summed);
  const std::int64_t blocks = batch.size * batch.inner;
  if constexpr (std::is_floating_point_v<T> && on_host<Space>) {
    if (plan.is_gemm) {
      const ContractKernel<T, true> kernel{batch, summed, plan, c, a, b};
      // One large product is BLAS's to divide among threads; several are ours, and BLAS runs on one thread inside the
      // range.
      if (blocks > 1) return for_blocks(space, "mtf::contract", blocks, kernel);
      wait_for(space);
      return kernel(0);
    }
  }
  for_blocks(space, "mtf::contract", blocks, ContractKernel<T, false>{batch, summed, plan, c, a, b});
}

}  // namespace kernels

}  // namespace v0
}  // namespace mtf
