// Segments: runs of indices of a dim that move to another place, also where the dim is split.
#pragma once

#include <span>
#include <utility>

#include <mtf/plan/exchange.hpp>

namespace mtf {
inline namespace v0 {

/// The i-th index of a run, i < length, is `source` + i * source_step in the old dim and `target` + i * target_step in
/// the new one.
struct Segment {
  std::int64_t source = 0;
  std::int64_t target = 0;
  std::int64_t length = 0;
};

/// Runs of common steps. A step is not 0; -1 walks backwards.
struct Segments {
  RecycledVector<Segment> runs{};
  std::int64_t source_step = 1;
  std::int64_t target_step = 1;

  /// The runs of the transpose: old and new change places.
  [[nodiscard]] constexpr Segments transposed() const {
    Segments result = *this;
    for (Segment& run : result.runs) std::swap(run.source, run.target);
    std::swap(result.source_step, result.target_step);
    return result;
  }
};

/// What moves along with an index: a box of the local arrays, of which the loop walks all dims but the moving one; that
/// has extent 1 there, and the strides of one index.
struct SegmentBox {
  Loop loop;  ///< operands: target, source
  int varying = 0;
  std::int64_t source_offset = 0;  ///< of the box in the local array
  std::int64_t target_offset = 0;
};

namespace detail {

/// The iterations i in [begin, end) for which low <= base + i * step < high.
constexpr void clip(std::int64_t& begin, std::int64_t& end, std::int64_t base, std::int64_t step, std::int64_t low,
                    std::int64_t high) {
  const auto ceiling = [](std::int64_t a, std::int64_t b) { return a / b + (a % b > 0 ? 1 : 0); };  // b > 0
  std::int64_t first = step > 0 ? ceiling(low - base, step) : ceiling(base - high + 1, -step);
  std::int64_t last = step > 0 ? ceiling(high - base, step) : ceiling(base - low + 1, -step);
  if (first > begin) begin = first;
  if (last < end) end = last;
}

}  // namespace detail

/// The exchange that makes target[..., t, ...] = source[..., s, ...] for every pair (s, t) of the segments, for the
/// processor at `at`. The old and the new dim may be split over different axes, all of which are in `axes`; whoever has
/// a choice takes from the nearest copy, so that nothing that is there already is sent. O(members).
MTF_NOINLINE [[nodiscard]] constexpr ExchangePlan plan_segments(const MeshValue& mesh, const Coordinates& at,
                                                                AxisSet axes, const PlacedDim& source,
                                                                const PlacedDim& target, const SegmentBox& box,
                                                                const Segments& segments) {
  ExchangePlan plan;
  plan.axes = axes;
  plan.members = mesh.size(axes);
  plan.loop = box.loop;
  plan.varying = box.varying;
  std::int64_t(&strides)[max_operands] = plan.loop.dims[box.varying].strides;
  const std::int64_t source_stride = strides[ExchangePlan::source];
  const std::int64_t target_stride = strides[ExchangePlan::target];
  strides[ExchangePlan::source] *= segments.source_step;
  strides[ExchangePlan::target] *= segments.target_step;
  const AxisSet copies =
      axes - set_of(source.axes);  // processors that differ along these hold the same part of the source

  // Calls f(offset in the target, offset in the source, length) for what the member `to` takes from `from`.
  const auto each_common = [&](const Coordinates& from, const Coordinates& to, const auto& f) {
    for (int axis = 0; axis < mesh.rank(); ++axis) {
      if (copies.has(axis) && from[axis] != to[axis]) return;
    }
    const std::int64_t source_begin = slice_begin(source, mesh, from);
    const std::int64_t target_begin = slice_begin(target, mesh, to);
    for (const Segment& run : segments.runs) {
      std::int64_t begin = 0;
      std::int64_t end = run.length;
      detail::clip(begin, end, run.target, segments.target_step, target_begin, target_begin + target.local());
      detail::clip(begin, end, run.source, segments.source_step, source_begin, source_begin + source.local());
      if (begin >= end) continue;
      f(box.target_offset + (run.target + begin * segments.target_step - target_begin) * target_stride,
        box.source_offset + (run.source + begin * segments.source_step - source_begin) * source_stride, end - begin);
    }
  };
  const auto length_from = [&](const Coordinates& from, const Coordinates& to) {
    std::int64_t sum = 0;
    each_common(from, to, [&](std::int64_t, std::int64_t, std::int64_t length) { sum += length; });
    return sum;
  };
  const auto length_of = [&](const Coordinates& to) {
    std::int64_t sum = 0;
    for (const Segment& run : segments.runs) {
      std::int64_t begin = 0;
      std::int64_t end = run.length;
      const std::int64_t target_begin = slice_begin(target, mesh, to);
      detail::clip(begin, end, run.target, segments.target_step, target_begin, target_begin + target.local());
      if (begin < end) sum += end - begin;
    }
    return sum;
  };
  const std::int64_t position = mesh.position(at, axes);
  for (std::int64_t member = 0; member < plan.members; ++member) {
    const Coordinates other = mesh.member(at, axes, member);
    if (member == position) {
      each_common(at, at, [&](std::int64_t to, std::int64_t from, std::int64_t length) {
        plan.kept.push_back({from, to, length});
      });
    } else {
      each_common(at, other, [&](std::int64_t, std::int64_t from, std::int64_t length) {
        plan.sent.push_back({member, from, length});
      });
      each_common(other, at, [&](std::int64_t to, std::int64_t, std::int64_t length) {
        plan.received.push_back({member, to, length});
      });
    }
    plan.communicates = plan.communicates || length_from(other, other) < length_of(other);
  }
  return plan;
}

}  // namespace v0
}  // namespace mtf
