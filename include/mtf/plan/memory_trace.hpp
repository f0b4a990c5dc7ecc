// MemoryTrace: in which order the arrays of a step come and go, from which the peak of memory under any layout follows.
#pragma once

#include <cstdint>

#include <mtf/core/inline_vector.hpp>
#include <mtf/core/recycled.hpp>

namespace mtf {
inline namespace v0 {

/// A set of surveyed dims: bit i stands for dim i of the survey.
using DimSet = std::uint64_t;
inline constexpr int max_surveyed_dims = 64;

[[nodiscard]] constexpr DimSet bit(int dim) { return DimSet{1} << dim; }
[[nodiscard]] constexpr bool has(DimSet set, int dim) { return (set >> dim & 1U) != 0; }

/// The arrays of a step in the order of a run without layout rules. Mesh-TensorFlow's automatic layout minimises the
/// peak of the sum of the slices of these arrays, each divided by the axes that split it; memory for moving data
/// between ranks is not in it. An einsum of three or more operands has the products of its order without a layout.
class MemoryTrace {
 public:
  /// Arrays of the same dims and bytes are one kind.
  struct Kind {
    DimSet dims = 0;
    std::int64_t bytes = 0;  ///< of the whole array
  };
  struct Event {
    int kind = 0;
    bool ends = false;
  };

  constexpr void begin(const void* array, DimSet dims, std::int64_t bytes) {
    int kind = 0;
    while (kind < number_of_kinds() && (at(kind).dims != dims || at(kind).bytes != bytes)) ++kind;
    if (kind == number_of_kinds()) kinds_.push_back({dims, bytes});
    events_.push_back({kind, false});
    live_.push_back({array, kind});
  }
  constexpr void end(const void* array) {
    for (std::size_t i = live_.size(); i-- > 0;) {
      if (live_[i].array != array) continue;
      events_.push_back({live_[i].kind, true});
      live_[i] = live_.back();
      live_.pop_back();
      return;
    }
  }

  [[nodiscard]] constexpr const RecycledVector<Kind>& kinds() const { return kinds_; }
  [[nodiscard]] constexpr const RecycledVector<Event>& events() const { return events_; }

  /// The largest sum of live arrays if `parts(dims)` is the number of slices of an array of these dims. Takes one
  /// addition for each event.
  template <class Parts>
  [[nodiscard]] constexpr std::int64_t peak(const Parts& parts) const {
    RecycledVector<std::int64_t> bytes;
    bytes.reserve(kinds_.size());
    for (const Kind& kind : kinds_) bytes.push_back(kind.bytes / parts(kind.dims));
    std::int64_t live = 0;
    std::int64_t largest = 0;
    for (const Event& event : events_) {
      const std::int64_t of_kind = bytes[static_cast<std::size_t>(event.kind)];
      live += event.ends ? -of_kind : of_kind;
      if (live > largest) largest = live;
    }
    return largest;
  }

 private:
  struct Live {
    const void* array = nullptr;
    int kind = 0;
  };
  [[nodiscard]] constexpr int number_of_kinds() const { return static_cast<int>(kinds_.size()); }
  [[nodiscard]] constexpr const Kind& at(int kind) const { return kinds_[static_cast<std::size_t>(kind)]; }

  RecycledVector<Kind> kinds_;
  RecycledVector<Event> events_;
  RecycledVector<Live> live_;
};

}  // namespace v0
}  // namespace mtf
