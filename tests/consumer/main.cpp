// A program outside the project, built through each way of finding mtf.
#include <mtf/mtf.hpp>

#include <Kokkos_Core.hpp>
#include <cblas.h>
#include <mpi.h>

struct Batch : mtf::Dim<"batch", 64> {};
struct Io : mtf::Dim<"io", 1024> {};

static_assert(MTF_VERSION_MAJOR == 0);

int main(int argc, char** argv) {
  // What the library calls must be linked too: MPI, Kokkos, BLAS.
  MPI_Init(&argc, &argv);
  Kokkos::initialize(argc, argv);
  const double x[2] = {1, 2};
  const bool right = cblas_ddot(2, x, 1, x, 1) == 5.0 && Kokkos::is_initialized();
  Kokkos::finalize();
  MPI_Finalize();
  return right ? 0 : 1;
}
