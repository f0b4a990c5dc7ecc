// Launching: one Kokkos range over blocks of work, and the decoding of loops into offsets.
#pragma once

#include <cstdint>
#include <type_traits>

#include <Kokkos_Core.hpp>

#include <mtf/plan/loop.hpp>

namespace mtf {
inline namespace v0 {

/// Untyped strided kernels: each `execute(space, plan, pointers...)` runs one plan on local slices.
namespace kernels {

/// Whether kernels of this space run on the host, where a block of work is a chunk that the compiler can vectorise.
template <class Space>
inline constexpr bool on_host = Kokkos::SpaceAccessibility<Kokkos::HostSpace, typename Space::memory_space>::accessible;

/// Elements of one chunk: long enough to amortise the decoding, short enough for the first-level cache.
inline constexpr std::int64_t chunk = 512;

template <class Space, class Functor>
void for_blocks(const Space& space, const char* name, std::int64_t blocks, const Functor& functor) {
  using Policy = Kokkos::RangePolicy<Space, Kokkos::IndexType<std::int64_t>>;
  Kokkos::parallel_for(name, Policy(space, 0, blocks), functor);
}

/// A loop without its innermost dim, as a plain struct for kernels.
template <unsigned Operands>
struct Outer {
  int dims = 0;
  std::int64_t extents[static_cast<unsigned>(max_union_rank)];
  std::int64_t strides[static_cast<unsigned>(max_union_rank)][Operands];
  std::int64_t size = 1;             ///< iterations of the outer dims
  std::int64_t inner = 1;            ///< iterations of the innermost dim
  std::int64_t inner_strides[Operands]{};

  explicit Outer(const Loop& loop) {
    for (int d = 0; d + 1 < loop.dims.size(); ++d) {
      extents[dims] = loop.dims[d].extent;
      size *= loop.dims[d].extent;
      for (unsigned o = 0; o < Operands; ++o) strides[dims][o] = loop.dims[d].strides[o];
      ++dims;
    }
    if (!loop.dims.empty()) {
      inner = loop.dims.back().extent;
      for (unsigned o = 0; o < Operands; ++o) inner_strides[o] = loop.dims.back().strides[o];
    }
  }

  /// Offsets of every operand at an iteration of the outer dims.
  MTF_FUNCTION void offsets(std::int64_t iteration, std::int64_t (&result)[Operands]) const {
    for (unsigned o = 0; o < Operands; ++o) result[o] = 0;
    for (int d = dims - 1; d >= 0; --d) {
      const std::int64_t i = iteration % extents[d];
      iteration /= extents[d];
      for (unsigned o = 0; o < Operands; ++o) result[o] += i * strides[d][o];
    }
  }
};

}  // namespace kernels

}  // namespace v0
}  // namespace mtf
