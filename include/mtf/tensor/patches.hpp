// The local work of a convolution, its transpose and its gradients: patches and matrix products, a tile at a time.
#pragma once

#include <mtf/plan/contraction.hpp>
#include <mtf/tensor/halo.hpp>

namespace mtf {
inline namespace v0 {

namespace untyped {

namespace detail {

/// The local work of y[small] = sum over windows and channels of x[big] filter, for both directions: rows of patches
/// times the filter as a matrix, so many rows at a time that the patches fit a small workspace.
struct ConvolutionPlan {
  Placement big;
  Placement small;   ///< batch dims, then spatial ones, then the filter's own: row-major, the matrix [rows, outputs]
  Placement filter;  ///< in an order in which it is a matrix
  WindowedSlice slice;
  PatchesPlan patches;
  std::int64_t rows = 1;
  std::int64_t columns = 1;
  std::int64_t outputs = 1;
  std::int64_t filter_column = 1;  ///< strides of the filter as a matrix
  std::int64_t filter_output = 1;
  std::int64_t tile = 1;  ///< rows at a time

  [[nodiscard]] constexpr std::int64_t workspace() const { return tile * columns; }
  template <class F>
  constexpr void each_tile(const F& f) const {
    for (std::int64_t begin = 0; begin < rows; begin += tile) f(begin, begin + tile < rows ? tile : rows - begin);
  }
  template <class Patches>
  [[nodiscard]] constexpr Patches patches_of(std::int64_t begin, std::int64_t count) const {
    Patches plan{};
    static_cast<PatchesPlan&>(plan) = patches;
    plan.begin = begin;
    plan.count = count;
    return plan;
  }
};

inline constexpr std::int64_t workspace_elements =
    std::int64_t{1} << 18;  ///< of a tile of patches: they stay in the second-level cache

constexpr void join(InlineVector<PatchesPlan::Part, max_union_rank>& parts, const PatchesPlan::Part& part) {
  if (!parts.empty() && part.slides < 0 && parts.back().slides < 0 &&
      parts.back().stride == part.extent * part.stride) {
    parts.back() = {parts.back().extent * part.extent, part.stride};
  } else {
    parts.push_back(part);
  }
}

/// Joins the channels of neighbouring indices, if they are few, to one run of a window.
constexpr void join_runs(PatchesPlan& patches) {
  constexpr std::int64_t few = 32;  // elements; a longer run copies as fast by itself
  auto& columns = patches.columns;
  if (columns.size() < 2 || columns.back().slides >= 0) return;
  PatchesPlan::Part& window = columns[columns.size() - 2];
  const PatchesPlan::Part channels = columns.back();
  if (window.slides < 0 || channels.stride != 1 || channels.extent > few) return;
  const SlidingDim& s = patches.sliding[window.slides];
  if (s.dilation != 1 || s.stride != channels.extent) return;
  window.unit = channels.extent;
  columns.erase(columns.size() - 1);
}

MTF_NOINLINE [[nodiscard]] constexpr ConvolutionPlan plan_convolution(const Backend& backend, const Placement& big,
                                                                      const Placement& small, const Placement& filter,
                                                                      const SpatialDims& spatial) {
  ConvolutionPlan plan;
  plan.big = big;
  plan.slice = plan_slice(backend, big, small, spatial);
  const auto stride = [&](const Name& name) { return stride_of(plan.slice.shape, name); };
  for (int s = 0; s < spatial.size(); ++s) {
    const StridedDim& dim = plan.slice.shape[big.find(spatial[s].big)];
    plan.patches.sliding.push_back(
        {plan.slice.begins[s], spatial[s].window.stride, spatial[s].window.dilation, dim.extent, dim.stride});
  }
  const auto slides = [&](const Name& name, auto member) {
    for (int s = 0; s < spatial.size(); ++s) {
      if (spatial[s].*member == name) return s;
    }
    return -1;
  };
  for (const PlacedDim& dim : big.dims) {  // what both have: the batch
    if (small.find(dim.name) < 0 || slides(dim.name, &SpatialDim::big) >= 0) continue;
    plan.small.dims.push_back(dim);
    join(plan.patches.rows, {dim.local(), stride(dim.name), -1});
  }
  for (const PlacedDim& dim : big.dims) {
    const int s = slides(dim.name, &SpatialDim::big);
    if (s < 0) continue;
    plan.small.dims.push_back(small.dims[small.find(spatial[s].small)]);
    plan.patches.rows.push_back({plan.small.dims.back().local(), 0, s});
  }
  Placement of_output;
  int turns = 0;  // how often the filter's dims change from columns to outputs and back
  for (int i = 0; i < filter.rank(); ++i) {
    const PlacedDim& dim = filter.dims[i];
    const int s = slides(dim.name, &SpatialDim::filter);
    const bool is_output = s < 0 && big.find(dim.name) < 0;
    if (is_output) {
      of_output.dims.push_back(dim);
      plan.small.dims.push_back(dim);
      plan.outputs *= dim.local();
    } else {
      plan.filter.dims.push_back(dim);
      plan.columns *= dim.local();
      join(plan.patches.columns, {dim.local(), s < 0 ? stride(dim.name) : 0, s});
    }
    if (i > 0) {
      const PlacedDim& last = filter.dims[i - 1];
      turns += is_output != (slides(last.name, &SpatialDim::filter) < 0 && big.find(last.name) < 0) ? 1 : 0;
    }
  }
  const bool outputs_first = turns == 1 && of_output.dims[0] == filter.dims[0];
  plan.filter_column = outputs_first ? 1 : plan.outputs;
  plan.filter_output = outputs_first ? plan.columns : 1;
  for (const PlacedDim& dim : of_output.dims) plan.filter.dims.push_back(dim);
  if (turns <= 1) plan.filter = filter;
  join_runs(plan.patches);
  plan.rows = plan.patches.height();
  // Whole images if one fits, so that those of a tile are independent; else equal parts of one.
  const std::int64_t fit = workspace_elements / plan.columns > 1 ? workspace_elements / plan.columns : 1;
  const std::int64_t image = plan.patches.rows_of_image();
  if (fit >= image) {
    plan.tile = fit / image * image < plan.rows ? fit / image * image : plan.rows;
  } else {
    const std::int64_t parts = (image + fit - 1) / fit;
    plan.tile = (image + parts - 1) / parts;
  }
  return plan;
}

[[nodiscard]] constexpr ContractionPlan product(const ConvolutionPlan& convolution, std::int64_t m, std::int64_t n,
                                                std::int64_t k) {
  ContractionPlan plan;
  plan.split_axes = convolution.small.split_axes() | convolution.filter.split_axes();
  plan.batch.operands = plan.summed.operands = 3;
  plan.m = m;
  plan.n = n;
  plan.k = k;
  return plan;
}

/// small = patches of big times filter.
template <class E, class T>
[[nodiscard]] constexpr Ref<Value> convolve(E& engine, const ConvolutionPlan& plan, const Block& slice,
                                            const Block& filter) {
  Ref<Value> small = make_value(engine, plan.small, slice.type);
  const Buffer patches(engine.allocate(slice.type, plan.workspace()));
  plan.each_tile([&](std::int64_t begin, std::int64_t count) {
    engine.run(plan.patches_of<PatchesPlan>(begin, count), Out<T>{*patches}, In<T>{slice});
    ContractionPlan multiply = product(plan, count, plan.outputs, plan.columns);
    multiply.c_m = plan.outputs;
    multiply.a_m = plan.columns;
    multiply.b_k = plan.filter_column;
    multiply.b_n = plan.filter_output;
    engine.run(multiply, Out<T>{*small->block, begin * plan.outputs}, In<T>{*patches}, In<T>{filter});
  });
  return small;
}

/// big = small times filter, added where the windows were. Pending over the axes of what was summed.
template <class E, class T>
[[nodiscard]] constexpr Ref<Value> convolve_back(E& engine, const ConvolutionPlan& plan, const Block& small,
                                                 const Block& filter, const char* name) {
  Buffer slice(engine.allocate(small.type, plan.slice.size()));
  engine.run(FillPlan{plan.slice.size()}, Out<T>{*slice}, T(0));
  const Buffer patches(engine.allocate(small.type, plan.workspace()));
  plan.each_tile([&](std::int64_t begin, std::int64_t count) {
    ContractionPlan multiply = product(plan, count, plan.columns, plan.outputs);
    multiply.c_m = plan.columns;
    multiply.a_m = plan.outputs;
    multiply.b_k = plan.filter_output;
    multiply.b_n = plan.filter_column;
    engine.run(multiply, Out<T>{*patches}, In<T>{small, begin * plan.outputs}, In<T>{filter});
    engine.run(plan.patches_of<AddPatchesPlan>(begin, count), Out<T>{*slice}, In<T>{*patches});
  });
  Ref<Value> big = give_back<E, T>(engine, plan.slice, std::move(slice), plan.big, name);
  big->block->pending = (plan.small.split_axes() | plan.filter.split_axes()) - plan.big.split_axes();
  return big;
}

/// filter = patches of big, transposed, times small. Pending over the axes of batch and outputs.
template <class E, class T>
[[nodiscard]] constexpr Ref<Value> filter_gradient(E& engine, const ConvolutionPlan& plan, const Block& slice,
                                                   const Block& small) {
  Ref<Value> filter = make_value(engine, plan.filter, slice.type);
  const Buffer patches(engine.allocate(slice.type, plan.workspace()));
  plan.each_tile([&](std::int64_t begin, std::int64_t count) {
    engine.run(plan.patches_of<PatchesPlan>(begin, count), Out<T>{*patches}, In<T>{slice});
    ContractionPlan multiply = product(plan, plan.columns, plan.outputs, count);
    multiply.accumulates = begin > 0;
    multiply.c_m = plan.filter_column;
    multiply.c_n = plan.filter_output;
    multiply.a_k = plan.columns;
    multiply.b_k = plan.outputs;
    engine.run(multiply, Out<T>{*filter->block}, In<T>{*patches}, In<T>{small, begin * plan.outputs});
  });
  filter->block->pending = axes_lost(plan.small, plan.filter);
  return filter;
}

}  // namespace detail

}  // namespace untyped

}  // namespace v0
}  // namespace mtf
