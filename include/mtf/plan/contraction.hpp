// The local part of an einsum of two operands, mapped to (batched, strided) matrix products without copies.
#pragma once

#include <span>

#include <mtf/plan/loop.hpp>
#include <mtf/plan/record.hpp>

namespace mtf {
inline namespace v0 {

/// c[batch, m, n] = sum over k of a[batch, m, k] b[batch, k, n], on strided local slices.
///
/// Every dim of the einsum belongs to one group: `batch` (in both operands and the output), m (in a and the output),
/// n (in b and the output) or k (in both operands only). One dim of each of m, n, k, after joining those that memory
/// allows, forms the matrix product; the rest are loops around it: `batch` writes a new c, `summed` adds to c.
/// Strides are those of c, a, b in this order.
struct ContractionPlan {
  static constexpr const char* name = contraction_name;
  Loop batch;
  Loop summed;
  std::int64_t m = 1, n = 1, k = 1;
  std::int64_t c_m = 1, c_n = 1;
  std::int64_t a_m = 1, a_k = 1;
  std::int64_t b_k = 1, b_n = 1;
  bool accumulates = false;  ///< adds to what c holds
  AxisSet split_axes;   ///< that split some dim of the operands: along all others every rank repeats the same product
  bool is_gemm = true;  ///< false: no choice of m, n, k gives each matrix a unit stride

  /// Multiply-adds.
  [[nodiscard]] constexpr std::int64_t work() const { return batch.size() * summed.size() * m * n * k; }
};

namespace detail {

/// A matrix that BLAS can walk through: one of its strides is 1, or does not matter, and it counts in 32 bits.
[[nodiscard]] constexpr bool is_matrix(std::int64_t rows, std::int64_t row_stride, std::int64_t cols,
                                       std::int64_t col_stride) {
  return ((cols == 1 || col_stride == 1) || (rows == 1 || row_stride == 1)) &&
         (rows | row_stride | cols | col_stride) >> 31 == 0;
}

}  // namespace detail

/// Plans the contraction of local slices. Every dim of a and b that the output lacks must be in both (dims that occur
/// in one operand only are summed before).
MTF_NOINLINE [[nodiscard]] constexpr ContractionPlan plan_contraction(const StridedShape& c, const StridedShape& a,
                                                                      const StridedShape& b) {
  enum { batch, m, n, k, groups };
  Loop group[groups];
  for (Loop& loop : group) loop.operands = 3;
  // The strides of a slice's dims are never 0.
  for (int i = 0; i < c.count; ++i) {
    const StridedDim& dim = c.items[i];
    const std::int64_t in_a = stride_of(a, dim.name);
    const std::int64_t in_b = stride_of(b, dim.name);
    auto& dims = group[in_a != 0 && in_b != 0 ? batch : in_a != 0 ? m : n].dims;
    dims.items[dims.count++] = {dim.extent, {dim.stride, in_a, in_b}};
  }
  for (int i = 0; i < a.count; ++i) {
    const StridedDim& dim = a.items[i];
    if (stride_of(c, dim.name) == 0)
      group[k].dims.items[group[k].dims.count++] = {dim.extent, {0, dim.stride, stride_of(b, dim.name)}};
  }
  for (Loop& loop : group) loop = collapse(loop);

  // The largest product whose three matrices have a unit stride each.
  ContractionPlan best;
  best.is_gemm = false;
  int chosen[groups] = {-1, -1, -1, -1};
  std::int64_t best_work = -1;
  const LoopDim single;
  const auto at = [&](int g, int i) -> const LoopDim& { return i < 0 ? single : group[g].dims[i]; };
  for (int i = group[m].dims.size() - 1; i >= (group[m].dims.empty() ? -1 : 0); --i) {
    for (int j = group[n].dims.size() - 1; j >= (group[n].dims.empty() ? -1 : 0); --j) {
      for (int l = group[k].dims.size() - 1; l >= (group[k].dims.empty() ? -1 : 0); --l) {
        const LoopDim& dm = at(m, i);
        const LoopDim& dn = at(n, j);
        const LoopDim& dk = at(k, l);
        const bool gemm = detail::is_matrix(dm.extent, dm.strides[0], dn.extent, dn.strides[0]) &&
                          detail::is_matrix(dm.extent, dm.strides[1], dk.extent, dk.strides[1]) &&
                          detail::is_matrix(dk.extent, dk.strides[2], dn.extent, dn.strides[2]);
        const std::int64_t work = dm.extent * dn.extent * dk.extent;
        if (gemm < best.is_gemm || (gemm == best.is_gemm && work <= best_work)) continue;
        best_work = work;
        best.is_gemm = gemm;
        chosen[m] = i;
        chosen[n] = j;
        chosen[k] = l;
        best.m = dm.extent;
        best.n = dn.extent;
        best.k = dk.extent;
        best.c_m = dm.strides[0];
        best.c_n = dn.strides[0];
        best.a_m = dm.strides[1];
        best.a_k = dk.strides[1];
        best.b_k = dk.strides[2];
        best.b_n = dn.strides[2];
      }
    }
  }
  best.batch.operands = best.summed.operands = 3;
  for (const int g : {batch, m, n, k}) {
    for (int i = 0; i < group[g].dims.size(); ++i) {
      if (g != batch && i == chosen[g]) continue;
      (g == k ? best.summed : best.batch).dims.push_back(group[g].dims[i]);
    }
  }
  return best;
}

namespace detail {

/// Dims of the placements that `wanted` also has, first come first.
MTF_NOINLINE [[nodiscard]] constexpr Placement kept_dims(const Placement& a, const Placement& b,
                                                         const ShapeValue& wanted) {
  Placement result;
  for (const Placement* placement : {&a, &b}) {
    for (const PlacedDim& dim : placement->dims) {
      if (contains(wanted, dim.name) && result.find(dim.name) < 0) result.dims.push_back(dim);
    }
  }
  return result;
}

/// Operands that are multiplied pairwise from the left keep the dims that later ones or the result need: the first
/// product of more dims than a tensor may have; no dims if there is none.
MTF_NOINLINE [[nodiscard]] constexpr ShapeValue oversized_intermediate(std::span<const ShapeValue> xs,
                                                                       const ShapeValue& to) {
  ShapeValue product;
  for (std::size_t i = 0; i + 1 < xs.size(); ++i) {
    ShapeValue wanted = to;
    for (std::size_t j = i + 1; j < xs.size(); ++j) wanted = unite(wanted, xs[j]);
    ShapeValue kept;
    for (const DimValue& dim : unite(product, xs[i])) {
      if (contains(wanted, dim.name)) kept.push_back(dim);
    }
    if (kept.size() > max_rank) return kept;
    product = kept;
  }
  return {};
}

/// The same dims in the order batch, first, second: what BLAS takes whatever the order of the operand.
MTF_NOINLINE [[nodiscard]] constexpr Placement ordered(const Placement& x, const Placement& partner, const Placement& c,
                                                       bool summed_last) {
  Placement result;
  for (int pass = 0; pass < 3; ++pass) {
    for (const PlacedDim& dim : x.dims) {
      const bool kept = c.find(dim.name) >= 0;
      const bool shared = partner.find(dim.name) >= 0;
      const int group = kept && shared ? 0 : (kept == summed_last ? 1 : 2);
      if (group == pass) result.dims.push_back(dim);
    }
  }
  return result;
}

}  // namespace detail

}  // namespace v0
}  // namespace mtf
