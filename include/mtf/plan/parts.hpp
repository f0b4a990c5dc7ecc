// The parts of a split dim: between the order of a group's members and that of the slices.
#pragma once

#include <mtf/plan/loop.hpp>

namespace mtf {
inline namespace v0 {

/// Copies what a group sent, [member, outer, rest], to [outer, slice, rest]. Members are numbered row-major over the
/// mesh, slices by the rule of the dim, which may name its axes in another order.
MTF_NOINLINE [[nodiscard]] constexpr CopyPlan plan_join(const MeshValue& mesh, const PlacedDim& dim, std::int64_t outer,
                                                        std::int64_t rest) {
  CopyPlan plan;
  plan.loop.operands = 2;
  plan.loop.dims.push_back({outer, {dim.parts * rest, rest}});
  const AxisSet axes = set_of(dim.axes);
  std::int64_t slices = dim.parts;
  for (const std::int8_t axis : dim.axes) {
    slices /= mesh.axes[axis].size;
    std::int64_t members = 1;
    for (int minor = axis + 1; minor < mesh.rank(); ++minor) members *= axes.has(minor) ? mesh.axes[minor].size : 1;
    plan.loop.dims.push_back({mesh.axes[axis].size, {slices * rest, members * outer * rest}});
  }
  plan.loop.dims.push_back({rest, {1, 1}});
  plan.loop = collapse(plan.loop);
  return plan;
}

/// The copy that undoes one without offsets.
MTF_NOINLINE [[nodiscard]] constexpr CopyPlan reversed(CopyPlan plan) {
  for (LoopDim& dim : plan.loop.dims) {
    const std::int64_t to = dim.strides[0];
    dim.strides[0] = dim.strides[1];
    dim.strides[1] = to;
  }
  return plan;
}

/// Copies slice `number` of [outer, parts, rest].
MTF_NOINLINE [[nodiscard]] constexpr CopyPlan plan_part(std::int64_t outer, std::int64_t parts, std::int64_t rest,
                                                        std::int64_t number) {
  CopyPlan plan;
  plan.loop.operands = 2;
  plan.loop.dims.push_back({outer, {rest, parts * rest}});
  plan.loop.dims.push_back({rest, {1, 1}});
  plan.loop = collapse(plan.loop);
  plan.in_offset = number * rest;
  return plan;
}

}  // namespace v0
}  // namespace mtf
