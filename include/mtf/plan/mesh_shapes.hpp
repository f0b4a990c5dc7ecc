// The meshes that a number of processors can form.
#pragma once

#include <vector>

#include <mtf/core/mesh.hpp>

namespace mtf {
inline namespace v0 {

/// Sizes of the axes of a mesh.
using MeshShape = InlineVector<std::int64_t, max_axes>;

namespace detail {

constexpr void extend_shape(std::vector<MeshShape>& all, MeshShape& shape, std::int64_t rest, int axes_left,
                            std::int64_t largest, bool ordered) {
  if (rest == 1) {
    all.push_back(shape);
    return;
  }
  if (axes_left == 0) return;
  for (std::int64_t size = rest; size > 1; --size) {
    if (rest % size != 0 || (!ordered && size > largest)) continue;
    shape.push_back(size);
    extend_shape(all, shape, rest / size, axes_left - 1, size, ordered);
    --shape.count;
  }
}

}  // namespace detail

/// Every way to write `processors` as a product of at most `axes` sizes greater than 1, in every order; not `ordered`:
/// each once, largest size first (the mesh shapes of Mesh-TensorFlow's automatic layout). One processor is a mesh of
/// one axis of size 1.
[[nodiscard]] constexpr std::vector<MeshShape> mesh_shapes(std::int64_t processors, int axes, bool ordered = true) {
  std::vector<MeshShape> all;
  MeshShape shape;
  if (processors == 1) {
    shape.push_back(1);
    all.push_back(shape);
  } else if (processors > 1) {
    detail::extend_shape(all, shape, processors, axes < max_axes ? axes : max_axes, processors, ordered);
  }
  return all;
}

}  // namespace v0
}  // namespace mtf
