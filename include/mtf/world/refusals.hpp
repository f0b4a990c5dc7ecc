// What an engine refuses: threads other than its own, and slices for which there is no memory.
#pragma once

#include <cstdint>
#include <string>

#include <mtf/runtime/end_of_job.hpp>
#include <mtf/runtime/memory_pool.hpp>
#include <mtf/tensor/node.hpp>

namespace mtf {
inline namespace v0 {

namespace detail {

/// Something whose address is that of no other thread.
[[nodiscard]] inline const void* this_thread() {
  static thread_local char mark;
  return &mark;
}
/// Throws for an operation on a thread that does not drive the world, or after the world has ended.
MTF_RARE [[noreturn]] MTF_RUN_TIME void refuse_thread(const Backend& backend);
/// Throws out_of_memory for so many bytes, of a slice of this placement if there is one; bytes < 0 are more than 64
/// bits count. The world's pool has so many in use, and keeps so many.
MTF_RARE [[noreturn]] MTF_RUN_TIME void refuse_memory(const Backend& backend, std::int64_t bytes, ElementType type,
                                                      const Placement* placement, std::int64_t used, std::int64_t kept);

#if MTF_HAS_DEFINITIONS

void refuse_thread(const Backend& backend) {
  if (backend.closed) raise_ended(backend, backend.activity.operation);
  throw session_error(std::string("World: ") + backend.activity.operation +
                      " on another thread than the one that made the world; one thread drives a world, others may only "
                      "destroy tensors, and not at the same time");
}

void refuse_memory(const Backend& backend, std::int64_t bytes, ElementType type, const Placement* placement,
                   std::int64_t used, std::int64_t kept) {
  throw out_of_memory(
      std::string(backend.activity.operation) + ": no memory for " +
      (bytes < 0 ? "more than 2^63" : std::to_string(bytes)) + " bytes of " + std::string(name_of(type)) +
      (placement != nullptr ? ", this rank's slice of " + describe(placement->shape()) : ", a buffer") +
      "; the world's tensors use " + std::to_string(used) + " bytes, the pool keeps " + std::to_string(kept) +
      " for the next ones; split a dim over more ranks, make it smaller, or keep fewer tensors");
}

#endif

}  // namespace detail

}  // namespace v0
}  // namespace mtf
