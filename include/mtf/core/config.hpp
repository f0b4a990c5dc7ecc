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

// How much code a user's file makes the compiler write is half of what including this library costs. Planning runs once
// per operation and errors never in a good run: copies of them inlined everywhere buy nothing.
#if defined(__GNUC__)
#define MTF_NOINLINE [[gnu::noinline]]
#define MTF_COLD [[gnu::cold, gnu::noinline]]
#define MTF_RARE [[gnu::cold]]  // on a declaration that a definition follows
#else
#define MTF_NOINLINE
#define MTF_COLD
#define MTF_RARE
#endif

// On the declaration of a function that is no template and never part of a constant expression: it is defined inline in
// its header or, in a program that uses the compiled part of the library (MTF_COMPILED), once in the library (see
// compiled.hpp).
#if defined(MTF_COMPILED)
#define MTF_RUN_TIME
#else
#define MTF_RUN_TIME inline
#endif
#if !defined(MTF_COMPILED) || defined(MTF_DEFINES_RUN_TIME)
#define MTF_HAS_DEFINITIONS 1
#else
#define MTF_HAS_DEFINITIONS 0
#endif
// Whether a constant expression is evaluated now. A macro, because clang counts what std::is_constant_evaluated does as
// steps of the evaluation, and the smallest functions ask.
#define MTF_CONSTANT_EVALUATED __builtin_is_constant_evaluated()

namespace mtf {
inline namespace v0 {}
}  // namespace mtf
