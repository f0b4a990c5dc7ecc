// Where the elements of a slice are in the global array.
#pragma once

#include <cstdint>

#include <mtf/core/placement.hpp>

namespace mtf {
inline namespace v0 {

namespace detail {

/// Calls f(local index, global index) for every element of the slice at these coordinates, both row-major.
template <class F>
void for_each_element_at(const Placement& placement, const MeshValue& mesh, const Coordinates& at, const F& f) {
  std::int64_t index[max_rank]{};
  const std::int64_t count = placement.local_size();
  for (std::int64_t local = 0; local < count; ++local) {
    std::int64_t global = 0;
    for (int d = 0; d < placement.rank(); ++d) {
      global = global * placement.dims[d].extent + slice_begin(placement.dims[d], mesh, at) + index[d];
    }
    f(local, global);
    for (int d = placement.rank() - 1; d >= 0 && ++index[d] == placement.dims[d].local(); --d) index[d] = 0;
  }
}

}  // namespace detail

}  // namespace v0
}  // namespace mtf
