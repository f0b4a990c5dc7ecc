// What scripts/tidy checks: everything that knows no Kokkos and no MPI.
#include <mtf/core.hpp>
#include <mtf/model.hpp>
#include <mtf/tensor/best_layout.hpp>
