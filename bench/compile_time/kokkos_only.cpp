// The unit of the compile-time benchmark: what every program that uses Kokkos pays anyway.
#include <Kokkos_Core.hpp>

int main() {}
