// The same work written by hand with MPI and CBLAS, for one fixed pair of layers and one way to split them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>

#include <cblas.h>
#include <mpi.h>

// Where the library's kernels use OpenMP, so does this: Kokkos then brings the compiler flag along.
#ifdef _OPENMP
#define BY_HAND_PARALLEL_FOR _Pragma("omp parallel for")
#define BY_HAND_PARALLEL_SUM _Pragma("omp parallel for reduction(+ : total)")
#else
#define BY_HAND_PARALLEL_FOR
#define BY_HAND_PARALLEL_SUM
#endif

struct Sizes {
  std::int64_t batch = 1024;
  std::int64_t io = 1024;
  std::int64_t hidden = 4096;
};

/// A row-major matrix in memory of its own, aligned to a cache line.
class Matrix {
 public:
  Matrix(std::int64_t rows, std::int64_t cols)
      : rows_(static_cast<int>(rows)), cols_(static_cast<int>(cols)), data_(allocate(rows * cols)) {
    std::fill_n(data_.get(), size(), 0.0F);
  }
  [[nodiscard]] int rows() const { return rows_; }
  [[nodiscard]] int cols() const { return cols_; }
  [[nodiscard]] std::int64_t size() const { return std::int64_t{rows_} * cols_; }
  [[nodiscard]] float* data() { return data_.get(); }
  [[nodiscard]] const float* data() const { return data_.get(); }

 private:
  struct Free {
    void operator()(float* memory) const { std::free(memory); }
  };
  static std::unique_ptr<float[], Free> allocate(std::int64_t count) {
    constexpr std::size_t line = 64;
    const std::size_t bytes = (static_cast<std::size_t>(count) * sizeof(float) + line - 1) / line * line;
    return std::unique_ptr<float[], Free>(static_cast<float*>(std::aligned_alloc(line, bytes)));
  }
  int rows_;
  int cols_;
  std::unique_ptr<float[], Free> data_;
};

/// y = relu(x w) v, loss = mean((y - t)^2), and the gradients of w, v and x, on a grid of rows x cols processors: the
/// batch is split over the rows, the hidden units over the columns.
///
/// All buffers are allocated once. The six products are one sgemm each, transposed operands are left to BLAS, relu and
/// its mask work in place, and one pass over y gives both the loss and its gradient. What is summed over processors is
/// summed in place in the buffer of the result: y and dx over a row of the grid, dw, dv and the loss over a column.
/// Nothing is sent along an axis of one processor. That is the least that this algorithm takes without overlapping
/// communication and computation.
class TwoLayersByHand {
 public:
  /// Collective. `comm` is numbered row by row.
  TwoLayersByHand(MPI_Comm comm, const Sizes& sizes, std::int64_t grid_rows, std::int64_t grid_cols)
      : x(sizes.batch / grid_rows, sizes.io),
        t(sizes.batch / grid_rows, sizes.io),
        w(sizes.io, sizes.hidden / grid_cols),
        v(sizes.hidden / grid_cols, sizes.io),
        dw(w.rows(), w.cols()),
        dv(v.rows(), v.cols()),
        dx(x.rows(), x.cols()),
        sizes_(sizes),
        sum_over_rows_(grid_rows > 1),
        sum_over_cols_(grid_cols > 1),
        h_(x.rows(), w.cols()),
        dh_(x.rows(), w.cols()),
        y_(x.rows(), v.cols()) {
    int rank = 0;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_split(comm, rank % static_cast<int>(grid_cols), rank, &across_rows_);
    MPI_Comm_split(comm, rank / static_cast<int>(grid_cols), rank, &across_cols_);
  }
  TwoLayersByHand(const TwoLayersByHand&) = delete;
  TwoLayersByHand& operator=(const TwoLayersByHand&) = delete;
  ~TwoLayersByHand() {
    MPI_Comm_free(&across_rows_);
    MPI_Comm_free(&across_cols_);
  }

  Matrix x, t, w, v;  ///< this processor's slices, for the user to fill
  Matrix dw, dv, dx;  ///< the gradients' slices

  /// Forward and backward; leaves the gradients in dw, dv and dx.
  float step() {
    multiply(CblasNoTrans, CblasNoTrans, x, w, h_);  // h = relu(x w)
    relu();
    multiply(CblasNoTrans, CblasNoTrans, h_, v, y_);  // y = h v
    if (sum_over_cols_) sum(y_, across_cols_);
    float loss = loss_and_gradient();                // y becomes dy
    multiply(CblasTrans, CblasNoTrans, h_, y_, dv);  // dv = h' dy
    multiply(CblasNoTrans, CblasTrans, y_, v, dh_);  // dh = dy v', where h > 0
    mask();
    multiply(CblasTrans, CblasNoTrans, x, dh_, dw);  // dw = x' dh
    multiply(CblasNoTrans, CblasTrans, dh_, w, dx);  // dx = dh w'
    if (sum_over_rows_) {
      sum(dw, across_rows_);
      sum(dv, across_rows_);
    }
    if (sum_over_cols_) sum(dx, across_cols_);
    if (sum_over_rows_) MPI_Allreduce(MPI_IN_PLACE, &loss, 1, MPI_FLOAT, MPI_SUM, across_rows_);
    return loss;
  }

 private:
  /// c = a b, each of a and b perhaps transposed.
  static void multiply(CBLAS_TRANSPOSE ta, CBLAS_TRANSPOSE tb, const Matrix& a, const Matrix& b, Matrix& c) {
    cblas_sgemm(CblasRowMajor, ta, tb, c.rows(), c.cols(), ta == CblasNoTrans ? a.cols() : a.rows(), 1.0F, a.data(),
                a.cols(), b.data(), b.cols(), 0.0F, c.data(), c.cols());
  }
  static void sum(Matrix& m, MPI_Comm comm) {
    MPI_Allreduce(MPI_IN_PLACE, m.data(), static_cast<int>(m.size()), MPI_FLOAT, MPI_SUM, comm);
  }

  void relu() {
    float* __restrict h = h_.data();
    const std::int64_t size = h_.size();
    BY_HAND_PARALLEL_FOR
    for (std::int64_t i = 0; i < size; ++i) h[i] = h[i] > 0 ? h[i] : 0;
  }
  void mask() {
    const float* __restrict h = h_.data();
    float* __restrict dh = dh_.data();
    const std::int64_t size = h_.size();
    BY_HAND_PARALLEL_FOR
    for (std::int64_t i = 0; i < size; ++i) dh[i] = h[i] > 0 ? dh[i] : 0;
  }

  /// This processor's part of mean((y - t)^2); y is replaced by the gradient 2 (y - t) / count.
  float loss_and_gradient() {
    constexpr int lanes = 16;  // sums side by side, which a compiler may not introduce by itself
    const double count = static_cast<double>(sizes_.batch) * static_cast<double>(sizes_.io);
    const auto factor = static_cast<float>(2 / count);
    const std::int64_t cols = y_.cols();
    double total = 0;
    BY_HAND_PARALLEL_SUM
    for (std::int64_t row = 0; row < y_.rows(); ++row) {
      float* __restrict y = y_.data() + row * cols;
      const float* __restrict target = t.data() + row * cols;
      float sums[lanes] = {};
      std::int64_t i = 0;
      for (; i + lanes <= cols; i += lanes) {
        for (int lane = 0; lane < lanes; ++lane) {
          const float difference = y[i + lane] - target[i + lane];
          sums[lane] += difference * difference;
          y[i + lane] = factor * difference;
        }
      }
      float rest = 0;
      for (; i < cols; ++i) {
        const float difference = y[i] - target[i];
        rest += difference * difference;
        y[i] = factor * difference;
      }
      for (const float partial : sums) rest += partial;
      total += static_cast<double>(rest);
    }
    return static_cast<float>(total / count);
  }

  Sizes sizes_;
  bool sum_over_rows_;
  bool sum_over_cols_;
  Matrix h_, dh_, y_;
  MPI_Comm across_rows_ = MPI_COMM_NULL;  // the processors that hold other parts of the batch
  MPI_Comm across_cols_ = MPI_COMM_NULL;  // the processors that hold other hidden units
};
