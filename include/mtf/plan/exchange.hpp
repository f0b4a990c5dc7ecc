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
  std::int64_t count = 1;   ///< boxes that the part consists of,
  std::int64_t step = 0;    ///< this far apart
};
/// Part that a member has already.
struct KeptPart {
  std::int64_t source = 0;  ///< offset in the source
  std::int64_t target = 0;  ///< offset in the target
  std::int64_t length = 1;
  std::int64_t count = 1;
  std::int64_t source_step = 0, target_step = 0;
};

/// What one member does. Parts are boxes of one form, `loop`, of which one dim may differ in extent, or several such
/// boxes at equal distances; both sides list those of a pair of members in the same order. What no part writes stays as it is.
struct ExchangePlan {
  static constexpr int target = 0, source = 1;  ///< operands of the loop

  AxisSet axes;
  std::int64_t members = 1;
  Loop loop;
  int varying = -1;                       ///< the dim of `loop` whose extent is a part's length; -1: none
  bool communicates = false;              ///< whether any member needs a part of another: the same on all
  RecycledVector<ExchangePart> sent;      ///< by member
  RecycledVector<ExchangePart> received;  ///< by member
  RecycledVector<KeptPart> kept;

  /// The loop of a part, for one operand of the two and a packed copy (`packed` first).
  [[nodiscard]] constexpr CopyPlan packing(const ExchangePart& part, int operand, bool packed_is_output) const {
    CopyPlan plan;
    plan.loop.operands = 2;
    std::int64_t stride = 1;
    for (int d = loop.dims.size() - 1; d >= 0; --d) {
      LoopDim dim;
      dim.extent = d == varying ? part.length : loop.dims[d].extent;
      dim.strides[packed_is_output ? 0 : 1] = stride;
      dim.strides[packed_is_output ? 1 : 0] = loop.dims[d].strides[operand];
      stride *= dim.extent;
      plan.loop.dims.push_back(dim);
    }
    if (part.count > 1) {
      LoopDim dim{part.count, {stride, stride}};
      dim.strides[packed_is_output ? 1 : 0] = part.step;
      plan.loop.dims.push_back(dim);
    }
    for (int d = 0; 2 * d < plan.loop.dims.size() - 1; ++d)
      std::swap(plan.loop.dims[d], plan.loop.dims[plan.loop.dims.size() - 1 - d]);
    plan.loop = collapse(plan.loop);
    return plan;
  }
  /// The loop of a kept part: target, source.
  [[nodiscard]] constexpr Loop moving(const KeptPart& part) const {
    Loop result = loop;
    if (varying >= 0) result.dims[varying].extent = part.length;
    if (part.count > 1) {
      result.dims.push_back({});
      for (int d = result.dims.size() - 1; d > 0; --d) result.dims[d] = result.dims[d - 1];
      result.dims[0] = {part.count, {part.target_step, part.source_step}};
    }
    return collapse(result);
  }
  /// The same messages the other way: what was the target is the source.
  [[nodiscard]] constexpr ExchangePlan transposed() const {
    ExchangePlan result = *this;
    result.sent = received;
    result.received = sent;
    for (KeptPart& part : result.kept) {
      std::swap(part.source, part.target);
      std::swap(part.source_step, part.target_step);
    }
    for (LoopDim& dim : result.loop.dims) std::swap(dim.strides[source], dim.strides[target]);
    return result;
  }
  /// Elements of a part.
  template <class P>
  [[nodiscard]] constexpr std::int64_t size_of_part(const P& part) const {
    std::int64_t size = part.count;
    for (int d = 0; d < loop.dims.size(); ++d) size *= d == varying ? part.length : loop.dims[d].extent;
    return size;
  }
  /// Elements that this member writes to its target.
  [[nodiscard]] constexpr std::int64_t written() const {
    std::int64_t size = 0;
    for (const KeptPart& part : kept) size += size_of_part(part);
    for (const ExchangePart& part : received) size += size_of_part(part);
    return size;
  }
};

}  // namespace v0
}  // namespace mtf
