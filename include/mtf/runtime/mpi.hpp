// The one place that includes mpi.h, without the C++ bindings that MPI 3 removed.
#pragma once

#ifndef OMPI_SKIP_MPICXX
#define OMPI_SKIP_MPICXX 1
#endif
#ifndef MPICH_SKIP_MPICXX
#define MPICH_SKIP_MPICXX 1
#endif
#include <stdexcept>
#include <string>

#include <mpi.h>

#include <mtf/core/element.hpp>

namespace mtf {
inline namespace v0 {

/// A failed MPI call. Not an error of a plan: the ranks may disagree, so `mtf::run` ends the job.
class mpi_error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

namespace detail {

/// Throws with the operation, the axes and MPI's own words unless `code` is success.
MTF_NOINLINE inline void check_mpi(int code, const std::string& what) {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING];
  int length = 0;
  MPI_Error_string(code, text, &length);
  throw mpi_error("mtf: " + what + ": " + std::string(text, static_cast<std::size_t>(length)));
}

[[nodiscard]] inline MPI_Datatype datatype_of(ElementType type) {
  switch (type) {
    case ElementType::float32: return MPI_FLOAT;
    case ElementType::float64: return MPI_DOUBLE;
    case ElementType::int32: return MPI_INT32_T;
    case ElementType::int64: return MPI_INT64_T;
    case ElementType::boolean: return MPI_UINT8_T;  // takes maxima and logical operations in every MPI
    case ElementType::bfloat16: return MPI_UINT16_T;
  }
  return MPI_DATATYPE_NULL;
}

}  // namespace detail

}  // namespace v0
}  // namespace mtf
