// Strided loops over local slices: the common form of element-wise work, copies and reductions.
#pragma once

#include <mtf/core/element.hpp>
#include <mtf/core/placement.hpp>

namespace mtf {
inline namespace v0 {

/// To a multiple of 2^bits.
[[nodiscard]] constexpr std::int64_t round_up(std::int64_t number, int bits) {
  return (((number - 1) >> bits) + 1) << bits;
}
/// Bytes that an array takes in the memory pool: rounded up by at most an eighth, so that slightly different sizes
/// share memory.
[[nodiscard]] constexpr std::int64_t pooled_bytes(std::int64_t bytes) {
  // Beyond 1024, to a multiple of an eighth of the largest power of two in it.
  return bytes < 1024 ? (bytes <= 64 ? 64 : (bytes + 63) / 64 * 64)
                      : round_up(bytes, 60 - __builtin_clzll(static_cast<unsigned long long>(bytes)));
}

inline constexpr int max_operands = 8;  ///< arrays that one loop walks through, the output included

/// One dim of a loop: how often, and how far each operand moves. A stride of 0 broadcasts.
struct LoopDim {
  std::int64_t extent = 1;
  std::int64_t strides[max_operands]{};
};

/// A nest of loops, outermost first, over `operands` arrays.
struct Loop {
  InlineVector<LoopDim, max_union_rank> dims;
  int operands = 0;

  [[nodiscard]] constexpr std::int64_t size() const {
    std::int64_t product = 1;
    for (int i = 0; i < dims.count; ++i) product *= dims.items[i].extent;
    return product;
  }
};

/// Dims of a local slice in memory.
struct StridedDim {
  Name name;
  std::int64_t extent = 1;
  std::int64_t stride = 1;
};
using StridedShape = InlineVector<StridedDim, max_union_rank>;

/// The local slice of a placement, row-major.
MTF_NOINLINE [[nodiscard]] constexpr StridedShape row_major(const Placement& placement) {
  StridedShape result;
  result.count = placement.dims.count;
  std::int64_t stride = 1;
  for (int i = result.count - 1; i >= 0; --i) {
    const PlacedDim& dim = placement.dims.items[i];
    result.items[i] = {dim.name, dim.extent / dim.parts, stride};
    stride *= result.items[i].extent;
  }
  return result;
}

MTF_NOINLINE [[nodiscard]] constexpr std::int64_t stride_of(const StridedShape& shape, const Name& name) {
  for (int i = 0; i < shape.count; ++i) {
    if (shape.items[i].name.hash == name.hash && shape.items[i].name == name) return shape.items[i].stride;
  }
  return 0;
}

/// Joins neighbouring dims that all operands walk through as one, and drops dims of extent 1: fewer and longer loops.
MTF_NOINLINE [[nodiscard]] constexpr Loop collapse(const Loop& loop) {
  if (loop.dims.count == 0) return loop;
  Loop result;
  result.operands = loop.operands;
  for (int i = 0; i < loop.dims.count; ++i) {
    const LoopDim& dim = loop.dims.items[i];
    if (dim.extent == 1) continue;
    if (result.dims.count != 0) {
      LoopDim& outer = result.dims.items[result.dims.count - 1];
      int o = 0;
      while (o < loop.operands && outer.strides[o] == dim.strides[o] * dim.extent) ++o;
      if (o == loop.operands) {
        outer.extent *= dim.extent;
        while (o-- > 0) outer.strides[o] = dim.strides[o];
        continue;
      }
    }
    result.dims.items[result.dims.count++] = dim;
  }
  return result;
}

/// A loop over the dims of `over`, in its order, for operands that have some of them (0 stride where a dim is missing).
template <class... Shapes>
[[nodiscard]] constexpr Loop loop_over(const StridedShape& over, const Shapes&... operands) {
  static_assert(sizeof...(Shapes) <= max_operands);
  Loop loop;
  loop.operands = static_cast<int>(sizeof...(Shapes));
  loop.dims.count = over.count;
  for (int i = 0; i < over.count; ++i) {
    int o = 0;
    loop.dims.items[i].extent = over.items[i].extent;
    ((loop.dims.items[i].strides[o++] = stride_of(operands, over.items[i].name)), ...);
  }
  return loop;
}

/// Moves elements without changing them: transposition, broadcast, slice, packing for a collective. Operands: output,
/// input.
struct CopyPlan {
  static constexpr const char* name = "copy";
  Loop loop;
  std::int64_t out_offset = 0;
  std::int64_t in_offset = 0;

  [[nodiscard]] constexpr std::int64_t work() const { return 0; }
};

MTF_NOINLINE [[nodiscard]] constexpr CopyPlan plan_copy(const StridedShape& out, const StridedShape& in) {
  return {.loop = collapse(loop_over(out, out, in))};
}

namespace detail {
MTF_NOINLINE [[nodiscard]] constexpr CopyPlan swap_outer(std::int64_t first, std::int64_t second, std::int64_t inner) {
  // out[first, second, inner] = in[second, first, inner]
  CopyPlan plan;
  plan.loop.operands = 2;
  plan.loop.dims.push_back({first, {second * inner, inner}});
  plan.loop.dims.push_back({second, {inner, first * inner}});
  plan.loop.dims.push_back({inner, {1, 1}});
  plan.loop = collapse(plan.loop);
  return plan;
}
}  // namespace detail

/// [outer, parts, inner] to [parts, outer, inner]: one contiguous piece for each member of a group.
[[nodiscard]] constexpr CopyPlan plan_pack(std::int64_t outer, std::int64_t parts, std::int64_t inner) {
  return detail::swap_outer(parts, outer, inner);
}
/// The inverse of plan_pack.
[[nodiscard]] constexpr CopyPlan plan_unpack(std::int64_t outer, std::int64_t parts, std::int64_t inner) {
  return detail::swap_outer(outer, parts, inner);
}

/// Combines over `reduced`, for every element of `kept`. Operands: output, input; the input's strides in both.
struct ReducePlan {
  static constexpr const char* name = "reduce";
  Loop kept;
  Loop reduced;
  Combine combine = Combine::sum;

  [[nodiscard]] constexpr std::int64_t work() const { return kept.size() * reduced.size(); }
};

MTF_NOINLINE [[nodiscard]] constexpr ReducePlan plan_reduce(const StridedShape& out, const StridedShape& in,
                                                            Combine combine) {
  ReducePlan plan;
  plan.combine = combine;
  StridedShape reduced;
  for (const StridedDim& dim : in) {
    bool kept = false;
    for (const StridedDim& other : out) kept = kept || other.name == dim.name;
    if (!kept) reduced.push_back(dim);
  }
  plan.kept = collapse(loop_over(out, out, in));
  plan.reduced = collapse(loop_over(reduced, out, in));
  return plan;
}

}  // namespace v0
}  // namespace mtf
