// Main of the tests that need one rank. MPI and Kokkos run, because the library's headers may ask them.
#define DOCTEST_CONFIG_IMPLEMENT
#include <Kokkos_Core.hpp>
#include <doctest/doctest.h>
#include <mpi.h>

int main(int argc, char** argv) {
  int level = MPI_THREAD_SINGLE;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &level);
  int result = 0;
  {
    Kokkos::ScopeGuard kokkos(argc, argv);
    doctest::Context context(argc, argv);
    context.setOption("no-breaks", true);
    result = context.run();
  }
  MPI_Finalize();
  return result;
}
