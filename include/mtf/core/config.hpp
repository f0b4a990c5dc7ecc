// Version of the library and the inline namespace that keeps two versions apart.
#pragma once

#define MTF_VERSION_MAJOR 0
#define MTF_VERSION_MINOR 1
#define MTF_VERSION_PATCH 0

// Functions that also run in kernels. Kokkos is not needed for the model wing, so the macro asks the compiler.
#if defined(__CUDACC__) || defined(__HIPCC__)
#define MTF_FUNCTION __host__ __device__
#else
#define MTF_FUNCTION
#endif

// How much code a user's file makes the compiler write is half of what including this library costs. Planning runs once per
// operation and errors never in a good run: copies of them inlined everywhere buy nothing.
#if defined(__GNUC__)
#define MTF_NOINLINE [[gnu::noinline]]
#define MTF_COLD [[gnu::cold, gnu::noinline]]
#else
#define MTF_NOINLINE
#define MTF_COLD
#endif

// Whether a constant expression is evaluated now. A macro, because clang counts what std::is_constant_evaluated does as steps of the
// evaluation, and the smallest functions ask.
#define MTF_CONSTANT_EVALUATED __builtin_is_constant_evaluated()

namespace mtf {
inline namespace v0 {}
}  // namespace mtf
