// What operations along one dim share: its place in a slice, and its rows made whole where it is split.
#pragma once

#include <limits>

#include <mtf/plan/parts.hpp>
#include <mtf/tensor/form.hpp>
#include <mtf/tensor/variable.hpp>

namespace mtf {
inline namespace v0 {

namespace untyped {

/// A local slice seen as [outer, length, inner], with the dim in the middle. Its rows are the elements along the dim.
struct Along {
  PlacedDim dim;
  std::int64_t outer = 1, inner = 1;

  constexpr Along(const Placement& placement, const Name& name) {
    bool before = true;
    for (const PlacedDim& other : placement.dims) {
      if (other.name == name) {
        dim = other;
        before = false;
      } else {
        (before ? outer : inner) *= other.local();
      }
    }
  }
  [[nodiscard]] constexpr std::int64_t rows() const { return outer * inner; }
  [[nodiscard]] constexpr std::int64_t length() const { return dim.local(); }

  /// A loop over the rows of row-major arrays [outer, lengths..., inner], one for each operand; a length of 1 is an
  /// array without the dim.
  template <class... Lengths>
  [[nodiscard]] constexpr Loop loop(Lengths... lengths) const {
    Loop result;
    result.operands = static_cast<int>(sizeof...(Lengths));
    result.dims.push_back({outer, {lengths * inner...}});
    // 1 for each; nvcc takes no pack whose value is dropped.
    result.dims.push_back({inner, {std::int64_t{lengths - lengths + 1}...}});
    return collapse(result);
  }
};

/// Throws unless int32 holds the indices along the dim.
MTF_NOINLINE constexpr void require_indices(const char* name, const PlacedDim& dim) {
  if (dim.extent > std::numeric_limits<std::int32_t>::max()) {
    raise(name, "dim \"" + std::string(dim.name.text) + "\" has extent " + std::to_string(dim.extent) +
                    ", more than an int32 index counts; reshape it "
                    "into two dims");
  }
}

/// What every member of a group holds, in the order of the slices of `dim`: [outer, slice, rest]. One allgather.
MTF_NOINLINE [[nodiscard]] constexpr Buffer gather_parts(Backend& backend, const Buffer& part, const PlacedDim& dim,
                                                         std::int64_t outer, const char* name) {
  if (dim.parts == 1) return part;
  const std::int64_t count = part->count() * dim.parts;
  const Buffer gathered(backend.allocate(part->type, count));
  backend.communicate({.collective = Collective::all_gather,
                       .axes = set_of(dim.axes),
                       .count = count,
                       .type = part->type,
                       .operation = name},
                      *gathered, *part);
  Buffer result(backend.allocate(part->type, count));
  backend.copy(plan_join(backend.mesh(), dim, outer, part->count() / outer), *result, *gathered);
  return result;
}

/// The rows along one dim, whole and contiguous, for operations that need all of a row at once. If the dim is split,
/// the other dims of the slice share its rows out among the ranks where they divide evenly: an all-to-all there and one
/// back, and each rank works on its share in the memory of a slice. Else every rank gathers all of its group's rows,
/// and keeps its own part of them afterwards.
class WholeRows {
 public:
  constexpr WholeRows(Backend& backend, const Placement& placement, const Name& name, const char* operation)
      : backend_(backend), along_(placement, name), operation_(operation) {
    exchanges_ = along_.dim.parts > 1 && along_.rows() % along_.dim.parts == 0;
  }

  /// Rows that this rank works on.
  [[nodiscard]] constexpr std::int64_t count() const {
    return exchanges_ ? along_.rows() / along_.dim.parts : along_.rows();
  }

  /// [outer, length, inner] to [count, extent].
  MTF_NOINLINE [[nodiscard]] constexpr Buffer collect(const Buffer& slice) const {
    Buffer rows = slice;
    if (along_.inner > 1) {
      rows = Buffer(backend_.allocate(slice->type, slice->count()));
      backend_.copy(plan_unpack_rows(), *rows, *slice);
    }
    if (!exchanges_) return gather_parts(backend_, rows, along_.dim, along_.rows(), operation_);
    rows = exchange(rows);
    Buffer result(backend_.allocate(slice->type, slice->count()));
    backend_.copy(join(), *result, *rows);
    return result;
  }
  /// [count, extent] to [outer, length, inner].
  MTF_NOINLINE [[nodiscard]] constexpr Buffer distribute(const Buffer& whole) const {
    Buffer rows = whole;
    const std::int64_t size = along_.rows() * along_.length();
    if (exchanges_) {
      const Buffer parts(backend_.allocate(whole->type, size));
      backend_.copy(reversed(join()), *parts, *whole);
      rows = exchange(parts);
    } else if (along_.dim.parts > 1) {
      rows = Buffer(backend_.allocate(whole->type, size));
      backend_.copy(plan_part(along_.rows(), along_.dim.parts, along_.length(),
                              slice_number(along_.dim, backend_.mesh(), backend_.coordinates)),
                    *rows, *whole);
    }
    if (along_.inner == 1) return rows;
    Buffer result(backend_.allocate(whole->type, size));
    backend_.copy(reversed(plan_unpack_rows()), *result, *rows);
    return result;
  }

 private:
  /// [outer, inner, length] from [outer, length, inner].
  [[nodiscard]] constexpr CopyPlan plan_unpack_rows() const {
    CopyPlan plan;
    plan.loop.operands = 2;
    plan.loop.dims.push_back({along_.outer, {along_.inner * along_.length(), along_.inner * along_.length()}});
    plan.loop.dims.push_back({along_.inner, {along_.length(), 1}});
    plan.loop.dims.push_back({along_.length(), {1, along_.inner}});
    plan.loop = collapse(plan.loop);
    return plan;
  }
  [[nodiscard]] constexpr CopyPlan join() const {
    return plan_join(backend_.mesh(), along_.dim, count(), along_.length());
  }
  [[nodiscard]] constexpr Buffer exchange(const Buffer& sent) const {
    Buffer received(backend_.allocate(sent->type, sent->count()));
    backend_.communicate({.collective = Collective::all_to_all,
                          .axes = set_of(along_.dim.axes),
                          .count = sent->count(),
                          .type = sent->type,
                          .operation = operation_},
                         *received, *sent);
    return received;
  }

  Backend& backend_;
  Along along_;
  const char* operation_;
  bool exchanges_ = false;
};

}  // namespace untyped

template <class Element>
struct not_ordered {
  static_assert(always_false<Element>,
                "mtf: elements to order or add up are numbers, not bool; convert with cast<std::int32_t>(x)");
};

namespace detail {

/// Whether X has a dim of D's name.
template <class D, class X>
inline constexpr bool has_dim = contains(dims_of<X>::shape(), D::name);

}  // namespace detail

}  // namespace v0
}  // namespace mtf
