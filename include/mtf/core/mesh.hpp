// Axis and Mesh: a named, n-dimensional array of processors, as a type and as a value.
#pragma once

#include <concepts>
#include <cstdint>

#include <mtf/core/dim.hpp>

namespace mtf {
inline namespace v0 {

/// A set of mesh axes: bit i stands for axis i of the mesh.
struct AxisSet {
  std::uint32_t bits = 0;

  [[nodiscard]] static constexpr AxisSet of(int axis) { return {std::uint32_t{1} << axis}; }
  [[nodiscard]] constexpr bool empty() const { return bits == 0; }
  [[nodiscard]] constexpr bool has(int axis) const { return (bits >> axis & 1U) != 0; }
  constexpr AxisSet& operator|=(AxisSet other) {
    bits |= other.bits;
    return *this;
  }
  friend constexpr AxisSet operator|(AxisSet a, AxisSet b) { return {a.bits | b.bits}; }
  friend constexpr AxisSet operator&(AxisSet a, AxisSet b) { return {a.bits & b.bits}; }
  friend constexpr AxisSet operator-(AxisSet a, AxisSet b) { return {a.bits & ~b.bits}; }
  friend constexpr bool operator==(AxisSet, AxisSet) = default;
};

struct AxisValue {
  Name name;
  std::int64_t size = 1;

  friend constexpr bool operator==(const AxisValue&, const AxisValue&) = default;
};

/// Where a processor stands: one coordinate per axis.
using Coordinates = InlineVector<std::int64_t, max_axes>;

/// A mesh as a value: a row-major array of processors, last axis fastest.
struct MeshValue {
  InlineVector<AxisValue, max_axes> axes;

  [[nodiscard]] constexpr int rank() const { return axes.size(); }
  [[nodiscard]] constexpr int find(const Name& name) const {
    for (int i = 0; i < axes.size(); ++i) {
      if (axes[i].name == name) return i;
    }
    return -1;
  }
  [[nodiscard]] constexpr AxisSet all() const {
    AxisSet set;
    for (int i = 0; i < axes.size(); ++i) set |= AxisSet::of(i);
    return set;
  }
  /// Number of processors.
  [[nodiscard]] constexpr std::int64_t size() const { return size(all()); }
  /// Number of processors in a group along the axes of `set`.
  [[nodiscard]] constexpr std::int64_t size(AxisSet set) const {
    std::int64_t product = 1;
    for (int i = 0; i < axes.size(); ++i) {
      if (set.has(i)) product *= axes[i].size;
    }
    return product;
  }
  [[nodiscard]] constexpr Coordinates coordinates(std::int64_t processor) const {
    Coordinates result;
    result.count = axes.size();
    for (int i = axes.size() - 1; i >= 0; --i) {
      result[i] = processor % axes[i].size;
      processor /= axes[i].size;
    }
    return result;
  }
  [[nodiscard]] constexpr std::int64_t processor(const Coordinates& at) const { return position(at, all()); }
  /// Row-major position within the group along the axes of `set`.
  [[nodiscard]] constexpr std::int64_t position(const Coordinates& at, AxisSet set) const {
    std::int64_t result = 0;
    for (int i = 0; i < axes.size(); ++i) {
      if (set.has(i)) result = result * axes[i].size + at[i];
    }
    return result;
  }
  /// The inverse: the coordinates of the member at a position of the group along the axes of `set` that contains the
  /// one at `at`.
  [[nodiscard]] constexpr Coordinates member(const Coordinates& at, AxisSet set, std::int64_t position) const {
    Coordinates result = at;
    for (int i = axes.size() - 1; i >= 0; --i) {
      if (!set.has(i)) continue;
      result[i] = position % axes[i].size;
      position /= axes[i].size;
    }
    return result;
  }
};

/// An axis of a mesh: a name and a size, static or (left out) dynamic.
template <FixedString Text, std::int64_t Size = dynamic>
struct Axis {
  static_assert(Size > 0 || Size == dynamic, "mtf: the size of a mesh axis must be positive");
  static constexpr Name name{Text.view()};
  static constexpr std::int64_t static_size = Size;
};

struct MeshBase {};

/// A mesh of processors. `struct Mesh : mtf::Mesh<mtf::Axis<"rows", 2>, mtf::Axis<"cols", 2>> {};`
/// A size left out is dynamic: the World is then given a value, `World<Mesh, Layout> world{comm, {.mesh = "rows:2"}}`.
template <class... Axes>
struct Mesh : MeshBase {
  static_assert(sizeof...(Axes) <= max_axes, "mtf: a mesh has at most 32 axes");
  static constexpr bool is_static = ((Axes::static_size != dynamic) && ...);
  static constexpr bool has_static_names = true;

  /// The mesh as a value; an axis of dynamic size has size `dynamic`.
  [[nodiscard]] static constexpr MeshValue value() {
    MeshValue result;
    (result.axes.push_back({Axes::name, Axes::static_size}), ...);
    return result;
  }
};

/// A mesh whose axes, too, are known at run time only.
struct dynamic_mesh : MeshBase {
  static constexpr bool is_static = false;
  static constexpr bool has_static_names = false;
  [[nodiscard]] static constexpr MeshValue value() { return {}; }
};

/// A Mesh, or a struct derived from one.
template <class M>
concept mesh_like = std::derived_from<M, MeshBase>;

}  // namespace v0
}  // namespace mtf
