// Launching: one Kokkos range over blocks of work, and the decoding of loops into offsets.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <limits>
#include <mutex>
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

// Before a loop in which no iteration depends on another, also where output and input are the same memory: the compiler
// needs no test for overlap, and vectorises.
#if defined(__clang__)
#define MTF_INDEPENDENT_ITERATIONS _Pragma("clang loop vectorize(assume_safety)")
#elif defined(__GNUC__)
#define MTF_INDEPENDENT_ITERATIONS _Pragma("GCC ivdep")
#else
#define MTF_INDEPENDENT_ITERATIONS
#endif

/// Elements of one chunk: long enough to amortise the decoding, short enough for the first-level cache.
inline constexpr std::int64_t chunk = 512;

/// Waits for the kernels of the space. Newer Kokkos gives a fence a name, by default one so long that each call
/// allocates it.
template <class Space>
void wait_for(const Space& space) {
  if constexpr (requires { space.fence("mtf::wait"); }) {
    space.fence("mtf::wait");
  } else {
    space.fence();
  }
}

template <class Space, class Functor>
void for_blocks(const Space& space, const char* name, std::int64_t blocks, const Functor& functor) {
  using Policy = Kokkos::RangePolicy<Space, Kokkos::IndexType<std::int64_t>>;
  Kokkos::parallel_for(name, Policy(space, 0, blocks), functor);
}

/// What blocks of a user's code threw. An exception must not leave a thread of a parallel region, where it would end
/// the program without a word of ours; it waits here for the thread that launched the range.
class Thrown {
 public:
  /// Whether an earlier block has thrown: then this one need not run.
  [[nodiscard]] bool before(std::int64_t block) const { return first_.load(std::memory_order_relaxed) < block; }
  /// Called while an exception is handled. The first block's is kept, so that threads do not change which one it is.
  MTF_COLD void keep(std::int64_t block) {
    const std::lock_guard lock(mutex_);
    if (before(block)) return;
    exception_ = std::current_exception();
    first_.store(block, std::memory_order_relaxed);
  }
  void rethrow() const {
    if (exception_) std::rethrow_exception(exception_);
  }

 private:
  std::atomic<std::int64_t> first_{std::numeric_limits<std::int64_t>::max()};
  std::mutex mutex_;
  std::exception_ptr exception_;
};

template <class Functor>
struct Guarded {
  Functor functor;
  Thrown* thrown;
  void operator()(std::int64_t block) const {
    if (thrown->before(block)) return;
    try {
      functor(block);
    } catch (...) {
      thrown->keep(block);
    }
  }
};

/// As for_blocks, for blocks that call a user's function: what it throws on the host is thrown here after the range, as
/// a plain loop would throw it.
template <class Space, class Functor>
void for_user_blocks(const Space& space, const char* name, std::int64_t blocks, const Functor& functor) {
  if constexpr (on_host<Space>) {
    Thrown thrown;
    for_blocks(space, name, blocks, Guarded<Functor>{functor, &thrown});
    wait_for(space);  // threads may still be in the range in a space that does not wait by itself
    thrown.rethrow();
  } else {
    for_blocks(space, name, blocks, functor);
  }
}

/// A loop without its innermost dim, as a plain struct for kernels.
template <unsigned Operands>
struct Outer {
  int dims = 0;
  std::int64_t extents[static_cast<unsigned>(max_union_rank)];
  std::int64_t strides[static_cast<unsigned>(max_union_rank)][Operands];
  std::int64_t size = 1;   ///< iterations of the outer dims
  std::int64_t inner = 1;  ///< iterations of the innermost dim
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
