// KeptPlacement: a placement that its backend keeps, so that its address stands for it.
#pragma once

#include <cstdint>
#include <utility>

#include <mtf/core/placement.hpp>
#include <mtf/plan/loop.hpp>

namespace mtf {
inline namespace v0 {

class Placements;

namespace detail {
/// Of the names and extents of dims.
template <class Dims>
[[nodiscard]] constexpr std::uint64_t hash_dims(const Dims& dims) {
  std::uint64_t hash = 0;
  for (int i = 0; i < dims.count; ++i)
    hash = hash * 0x9E3779B97F4A7C15ULL + (dims.items[i].name.hash ^ static_cast<std::uint64_t>(dims.items[i].extent));
  return hash ^ hash >> 32;
}
}  // namespace detail

/// A placement of which a backend has one only: two of its tensors are placed alike if and only if they refer to the
/// same one. What planning asks of a placement again and again is here once. Lives as long as the backend.
class KeptPlacement : public Placement {
 public:
  KeptPlacement(const KeptPlacement&) = delete;
  KeptPlacement& operator=(const KeptPlacement&) = delete;

  unsigned number;              ///< 1, 2, ... in order of first use: what plans are remembered by
  std::int64_t local_elements;  ///< of one slice
  [[nodiscard]] constexpr std::int64_t size() const { return size_; }
  [[nodiscard]] constexpr std::int64_t local_size() const { return local_elements; }
  [[nodiscard]] constexpr AxisSet split_axes() const { return split_axes_; }
  /// The local slice, row-major.
  friend constexpr const StridedShape& row_major(const KeptPlacement& kept) { return kept.slice_; }

  friend constexpr bool operator==(const KeptPlacement& a, const KeptPlacement& b) { return &a == &b; }

 private:
  friend class Placements;
  constexpr KeptPlacement(const Placement& placement, std::uint64_t hash, unsigned position)
      : Placement(placement),
        number(position),
        local_elements(placement.local_size()),
        hash_(hash),
        size_(placement.size()),
        split_axes_(placement.split_axes()),
        slice_(row_major(placement)) {}

  std::uint64_t hash_;
  std::int64_t size_;
  AxisSet split_axes_;
  StridedShape slice_;
  bool by_rules_ = false;           ///< known to be where the rules put its dims
  KeptPlacement* next_ = nullptr;   ///< of those with a similar hash
  KeptPlacement* older_ = nullptr;  ///< of all
};

/// The placements of a backend: one record of about two kilobytes for each shape that has occurred.
class Placements {
 public:
  constexpr Placements() = default;
  Placements(const Placements&) = delete;
  Placements& operator=(const Placements&) = delete;
  constexpr ~Placements() {
    while (newest_ != nullptr) delete std::exchange(newest_, newest_->older_);
  }

  /// Where the rules put dims, if these have occurred together before; else null.
  [[nodiscard]] constexpr const KeptPlacement* find(const ShapeValue& shape) const {
    const std::uint64_t hash = detail::hash_dims(shape);
    for (const KeptPlacement* kept = buckets_[hash % buckets]; kept != nullptr; kept = kept->next_) {
      if (kept->hash_ == hash && kept->by_rules_ && same_dims(*kept, shape)) return kept;
    }
    return nullptr;
  }
  /// Where the rules put dims.
  [[nodiscard]] constexpr const KeptPlacement& of(const PlacementRules& rules, const ShapeValue& shape) {
    if (const KeptPlacement* kept = find(shape)) return *kept;
    KeptPlacement& kept = keep_one(rules, place(rules, shape));
    kept.by_rules_ = true;
    return kept;
  }
  /// The one that equals this placement.
  [[nodiscard]] constexpr const KeptPlacement& keep(const PlacementRules& rules, const Placement& placement) {
    return keep_one(rules, placement);
  }

  /// Calls f for each, the last first.
  template <class F>
  constexpr void for_each(const F& f) const {
    for (const KeptPlacement* kept = newest_; kept != nullptr; kept = kept->older_) f(*kept);
  }
  /// Bit r: a dim of rule r has occurred in a tensor.
  [[nodiscard]] constexpr std::uint64_t used_rules() const { return used_rules_; }

 private:
  static constexpr std::uint64_t buckets = 256;

  MTF_NOINLINE [[nodiscard]] constexpr KeptPlacement& keep_one(const PlacementRules& rules,
                                                               const Placement& placement) {
    const std::uint64_t hash = detail::hash_dims(placement.dims);
    KeptPlacement*& bucket = buckets_[hash % buckets];
    for (KeptPlacement* kept = bucket; kept != nullptr; kept = kept->next_) {
      if (kept->hash_ == hash && static_cast<const Placement&>(*kept) == placement) return *kept;
    }
    auto* kept = new KeptPlacement(placement, hash, ++count_);
    kept->next_ = bucket;
    bucket = kept;
    kept->older_ = newest_;
    newest_ = kept;
    for (const PlacedDim& dim : placement.dims) {
      if (dim.axes.empty()) continue;
      for (int rule = 0; rule < rules.rules.size(); ++rule) {
        if (rules.rules[rule].dim == dim.name) used_rules_ |= std::uint64_t{1} << rule;
      }
    }
    return *kept;
  }

  [[nodiscard]] static constexpr bool same_dims(const KeptPlacement& kept, const ShapeValue& shape) {
    if (kept.dims.count != shape.count) return false;
    for (int i = 0; i < shape.count; ++i) {
      if (kept.dims.items[i].extent != shape.items[i].extent || !(kept.dims.items[i].name == shape.items[i].name))
        return false;
    }
    return true;
  }

  KeptPlacement* buckets_[buckets]{};
  KeptPlacement* newest_ = nullptr;
  unsigned count_ = 0;
  std::uint64_t used_rules_ = 0;
};

}  // namespace v0
}  // namespace mtf
