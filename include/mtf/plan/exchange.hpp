// Exchange: every member of a group sends parts of its local array to the members that need them.
#pragma once

#include <span>
#include <utility>

#include <mtf/core/recycled.hpp>
#include <mtf/plan/loop.hpp>

namespace mtf {
inline namespace v0 {

/// Part of a local array that goes to or comes from another member of the group.
struct ExchangePart {
  std::int64_t member = 0;  ///< position in the group
  std::int64_t offset = 0;  ///< of its first element in the local array
  std::int64_t length = 1;  ///< extent of the loop's `varying` dim
};
/// Part that a member has already.
struct KeptPart {
  std::int64_t source = 0;  ///< offset in the source
  std::int64_t target = 0;  ///< offset in the target
  std::int64_t length = 1;
};

/// What one member does. Parts are boxes of one form, `loop`, of which one dim may differ in extent; both sides list those of a pair of
/// members in the same order. What no part writes is zero.
struct ExchangePlan {
  static constexpr int target = 0, source = 1;  ///< operands of the loop

  AxisSet axes;
  std::int64_t members = 1;
  Loop loop;
  int varying = -1;           ///< the dim of `loop` whose extent is a part's length; -1: none
  bool communicates = false;  ///< whether any member needs a part of another: the same on all
  bool covers = true;         ///< whether the parts cover every element of the target
  RecycledVector<ExchangePart> sent;      ///< by member
  RecycledVector<ExchangePart> received;  ///< by member
  RecycledVector<KeptPart> kept;

  /// The loop of a part, for one operand of the two and a packed copy (`packed` first).
  [[nodiscard]] constexpr CopyPlan packing(std::int64_t length, int operand, bool packed_is_output) const {
    CopyPlan plan;
    plan.loop.operands = 2;
    std::int64_t stride = 1;
    for (int d = loop.dims.size() - 1; d >= 0; --d) {
      LoopDim dim;
      dim.extent = d == varying ? length : loop.dims[d].extent;
      dim.strides[packed_is_output ? 0 : 1] = stride;
      dim.strides[packed_is_output ? 1 : 0] = loop.dims[d].strides[operand];
      stride *= dim.extent;
      plan.loop.dims.push_back(dim);
    }
    for (int d = 0; 2 * d < plan.loop.dims.size() - 1; ++d) std::swap(plan.loop.dims[d], plan.loop.dims[plan.loop.dims.size() - 1 - d]);
    plan.loop = collapse(plan.loop);
    return plan;
  }
  /// The loop of a kept part: target, source.
  [[nodiscard]] constexpr Loop moving(std::int64_t length) const {
    Loop result = loop;
    if (varying >= 0) result.dims[varying].extent = length;
    return collapse(result);
  }
  /// Elements of a part.
  [[nodiscard]] constexpr std::int64_t size_of_part(std::int64_t length) const {
    return moving(length).size();
  }
};

/// A run of consecutive indices of a dim: the indices [source, source + length) of the old array are [target, target + length) of the new
/// one. Runs do not overlap in the target; in the source they may.
struct Segment {
  std::int64_t source = 0;
  std::int64_t target = 0;
  std::int64_t length = 0;
};

/// The exchange that makes target[outer, t, inner] = source[outer, s, inner] for every pair (s, t) of the segments, and 0 elsewhere, where
/// both middle dims are split over the same `axes` (or none) and have `source_block`, `target_block` indices on every member. O(members x
/// segments).
MTF_NOINLINE [[nodiscard]] constexpr ExchangePlan plan_segments(AxisSet axes, std::int64_t members, std::int64_t position, std::int64_t outer,
                                                                std::int64_t source_block, std::int64_t target_block, std::int64_t inner,
                                                                std::span<const Segment> segments) {
  ExchangePlan plan;
  plan.axes = axes;
  plan.members = members;
  plan.loop.operands = 2;
  plan.loop.dims.push_back({outer, {target_block * inner, source_block * inner}});
  plan.loop.dims.push_back({1, {inner, inner}});
  plan.loop.dims.push_back({inner, {1, 1}});
  plan.varying = 1;
  std::int64_t covered = 0;
  // Calls f(begin in the target, begin in the source, length) for what `to` takes from `from`.
  const auto each_common = [&](std::int64_t from, std::int64_t to, const auto& f) {
    for (const Segment& segment : segments) {
      const std::int64_t move = segment.source - segment.target;
      std::int64_t begin = segment.target;
      std::int64_t end = segment.target + segment.length;
      begin = begin > to * target_block ? begin : to * target_block;
      end = end < (to + 1) * target_block ? end : (to + 1) * target_block;
      begin = begin > from * source_block - move ? begin : from * source_block - move;
      end = end < (from + 1) * source_block - move ? end : (from + 1) * source_block - move;
      if (begin < end) f(begin - to * target_block, begin + move - from * source_block, end - begin);
    }
  };
  for (std::int64_t member = 0; member < members; ++member) {
    if (member == position) {
      each_common(member, member, [&](std::int64_t to, std::int64_t from, std::int64_t length) {
        plan.kept.push_back({from * inner, to * inner, length});
        covered += length;
      });
    } else {
      each_common(position, member, [&](std::int64_t, std::int64_t from, std::int64_t length) { plan.sent.push_back({member, from * inner, length}); });
      each_common(member, position, [&](std::int64_t to, std::int64_t, std::int64_t length) {
        plan.received.push_back({member, to * inner, length});
        covered += length;
      });
    }
    for (const Segment& segment : segments) {  // does this member need more than its own?
      const std::int64_t begin = segment.target > member * target_block ? segment.target : member * target_block;
      const std::int64_t end = segment.target + segment.length < (member + 1) * target_block ? segment.target + segment.length : (member + 1) * target_block;
      const std::int64_t move = segment.source - segment.target;
      plan.communicates = plan.communicates || (begin < end && (begin + move < member * source_block || end + move > (member + 1) * source_block));
    }
  }
  plan.covers = covered == target_block;
  return plan;
}

}  // namespace v0
}  // namespace mtf
