// What every test file includes, compiled once per test program.
#ifndef MTF_TESTS_SUPPORT_PRECOMPILED_HPP  // not #pragma once: g++ warns of it in the file that it precompiles
#define MTF_TESTS_SUPPORT_PRECOMPILED_HPP

#include <Kokkos_Core.hpp>
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <mpi.h>

#include <mtf/mtf.hpp>

#endif
