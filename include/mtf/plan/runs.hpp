// Runs: the consecutive global indices of which a slice consists, and what two slices have in common.
#pragma once

#include <utility>

#include <mtf/core/placement.hpp>
#include <mtf/core/recycled.hpp>

namespace mtf {
inline namespace v0 {

/// Digits of the coordinate along an axis, or (axis < 0) indices that every rank of the group holds.
struct Digit {
  int axis = -1;
  std::int64_t weight = 1;  ///< digit = coordinate / weight % extent

  [[nodiscard]] constexpr std::int64_t of(const Coordinates& at, std::int64_t extent) const {
    return at[axis] / weight % extent;
  }
  friend constexpr bool operator==(const Digit&, const Digit&) = default;
};

/// A dim or a part of one, and what chooses among its indices.
struct Part {
  std::int64_t extent = 1;
  Digit digit;
};
using Parts = InlineVector<Part, 4 * max_rank>;  ///< of a row-major array, major first

/// `count` runs of `length` indices, `step` apart. In the slice's memory they follow each other, from `offset` on.
struct RunGroup {
  std::int64_t first = 0;
  std::int64_t length = 1;
  std::int64_t count = 1;
  std::int64_t step = 1;
  std::int64_t offset = 0;

  [[nodiscard]] constexpr std::int64_t end() const { return first + (count - 1) * step + length; }
  /// The first run that ends beyond `index`, and the first that begins at or beyond it.
  [[nodiscard]] constexpr std::int64_t ending_beyond(std::int64_t index) const {
    const std::int64_t distance = index - first - length;
    return distance < 0 ? 0 : distance / step + 1;
  }
  [[nodiscard]] constexpr std::int64_t beginning_from(std::int64_t index) const {
    const std::int64_t distance = index - first;
    const std::int64_t run = distance <= 0 ? 0 : (distance - 1) / step + 1;
    return run < count ? run : count;
  }
};

/// The slice of an array that the processor at `at` holds, as groups of runs in the order of their indices, which is
/// that of the memory. The two innermost local parts are a group's run and count; only those above make several groups.
class SliceRuns {
 public:
  MTF_NOINLINE constexpr SliceRuns(const Parts& parts, const Coordinates& at) {
    std::int64_t stride = 1;
    std::int64_t local = 1;
    int levels = 0;
    for (int i = parts.size() - 1; i >= 0; --i) {
      const Part& part = parts[i];
      if (part.digit.axis >= 0) {
        innermost_.first += part.digit.of(at, part.extent) * stride;
      } else {
        if (stride == 1) {
          innermost_.length = part.extent;
        } else if (++levels == 1) {
          innermost_.count = part.extent;
          innermost_.step = stride;
        } else {
          outer_.push_back({part.extent, stride, local});
          groups_ *= part.extent;
        }
        local *= part.extent;
      }
      stride *= part.extent;
    }
    size_ = local;
  }
  [[nodiscard]] constexpr std::int64_t size() const { return size_; }  ///< elements
  [[nodiscard]] constexpr std::int64_t groups() const { return groups_; }
  [[nodiscard]] constexpr RunGroup group(std::int64_t number) const {
    RunGroup result = innermost_;
    for (const Level& level : outer_) {
      result.first += number % level.extent * level.stride;
      result.offset += number % level.extent * level.local;
      number /= level.extent;
    }
    return result;
  }

 private:
  struct Level {
    std::int64_t extent = 1, stride = 1, local = 1;
  };
  RunGroup innermost_;
  InlineVector<Level, 4 * max_rank> outer_;  // minor first
  std::int64_t groups_ = 1;
  std::int64_t size_ = 1;
};

/// `count` runs of `length` elements that two slices have in common: where they are in either.
struct CommonRuns {
  std::int64_t source = 0, target = 0;
  std::int64_t length = 1;
  std::int64_t count = 1;
  std::int64_t source_step = 0, target_step = 0;
};

namespace detail {

/// Adds runs that come after all others; those of equal length and distance become one entry.
constexpr void append(RecycledVector<CommonRuns>& list, const CommonRuns& added) {
  if (!list.empty()) {
    CommonRuns& last = list.back();
    const std::int64_t source = added.source - last.source;
    const std::int64_t target = added.target - last.target;
    const auto steps_alike = [&](std::int64_t source_step, std::int64_t target_step) {
      return added.count == 1 || (added.source_step == source_step && added.target_step == target_step);
    };
    if (last.count == 1 && added.count == 1 && source == last.length && target == last.length) {
      last.length += added.length;
      return;
    }
    if (last.length == added.length) {
      if (last.count == 1 && steps_alike(source, target)) {
        last.source_step = source;
        last.target_step = target;
        last.count += added.count;
        return;
      }
      if (last.count > 1 && source == last.count * last.source_step && target == last.count * last.target_step &&
          steps_alike(last.source_step, last.target_step)) {
        last.count += added.count;
        return;
      }
    }
  }
  list.push_back(added);
}

/// What the run [low, high), whose first element is at `offset`, and the runs of a group have in common: whole runs of
/// the group, but for the first and the last.
constexpr void append_common(RecycledVector<CommonRuns>& list, std::int64_t low, std::int64_t high, std::int64_t offset,
                             const RunGroup& group, bool group_is_target) {
  std::int64_t run = group.ending_beyond(low);
  const std::int64_t last = group.beginning_from(high);
  while (run < last) {
    const std::int64_t begin = group.first + run * group.step;
    const std::int64_t from = begin > low ? begin : low;
    const std::int64_t to = begin + group.length < high ? begin + group.length : high;
    std::int64_t count = 1;
    if (to - from == group.length) {
      count = last - run;
      if (group.first + (last - 1) * group.step + group.length > high) --count;
    }
    CommonRuns common{offset + from - low,
                      group.offset + run * group.length + from - begin,
                      to - from,
                      count,
                      count > 1 ? group.step : 0,
                      count > 1 ? group.length : 0};
    if (!group_is_target) {
      std::swap(common.source, common.target);
      std::swap(common.source_step, common.target_step);
    }
    append(list, common);
    run += count;
  }
}

}  // namespace detail

/// What two slices of one array have in common, in the order of the global indices. O(groups of both + for every two
/// groups that overlap the smaller number of runs in them): the elements of a run, and the runs that lie in a run of
/// the other, are not walked through.
MTF_NOINLINE [[nodiscard]] constexpr RecycledVector<CommonRuns> common_runs(const SliceRuns& source,
                                                                            const SliceRuns& target) {
  RecycledVector<CommonRuns> result;
  std::int64_t s = 0;
  std::int64_t t = 0;
  while (s < source.groups() && t < target.groups()) {
    const RunGroup from = source.group(s);
    const RunGroup to = target.group(t);
    const bool fewer_from = from.count <= to.count;
    const RunGroup& walked = fewer_from ? from : to;
    const RunGroup& other = fewer_from ? to : from;
    const std::int64_t end = walked.beginning_from(other.end());
    for (std::int64_t run = walked.ending_beyond(other.first); run < end; ++run) {
      const std::int64_t low = walked.first + run * walked.step;
      detail::append_common(result, low, low + walked.length, walked.offset + run * walked.length, other, fewer_from);
    }
    if (from.end() <= to.end()) ++s;
    if (to.end() <= from.end()) ++t;
  }
  return result;
}

}  // namespace v0
}  // namespace mtf
