// Version of the library and the inline namespace that keeps two versions apart; what is asked of the compiler.
#pragma once

// One line instead of all that an older compiler does not understand: g++ ends at a missing file and not at an #error,
// clang at a warning that is fatal. (What Apple calls clang 15 is another one.)
#if defined(__clang__) && !defined(__apple_build_version__) && __clang_major__ < 16
#define MTF_OLD_COMPILER 1
#pragma clang diagnostic ignored "-Wpedantic"
#pragma clang diagnostic fatal "-W#warnings"
#warning mtf: this clang lacks parts of C++20; install clang >= 16 (Debian 12: clang-19) or g++ >= 12
#elif defined(__GNUC__) && !defined(__clang__) && !defined(__NVCOMPILER) && __GNUC__ < 12
#define MTF_OLD_COMPILER 1
#endif
#if defined(MTF_OLD_COMPILER)
#error mtf: this compiler lacks parts of C++20; install g++ >= 12 or clang >= 16 (Debian 12: g++ or clang-19)
#include "mtf: compilation ends here"
#endif

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
#define MTF_RARE [[gnu::cold]]                    // on a declaration that a definition follows
#define MTF_ALWAYS_INLINE [[gnu::always_inline]]  // in inner loops, which vectorise without calls only
#else
#define MTF_NOINLINE
#define MTF_COLD
#define MTF_RARE
#define MTF_ALWAYS_INLINE
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

// Files of one program are compiled alike, with the compiled part or without it: a mixture would have two kinds of worlds
// of the same name. The linker sees to it. The headers alone define a function as an alias, which is not weak, of an inline
// one, so that the files of a program share it; the library defines it too, and is always linked when a file wants its part.
#if defined(__ELF__) && !defined(__CUDA_ARCH__)
extern "C" {
#if defined(MTF_COMPILED)
void mtf_compiled_part() noexcept;
namespace mtf {
namespace {
[[gnu::used]] void (*const compiled_part)() noexcept = &mtf_compiled_part;
}
}  // namespace mtf
#else
[[gnu::used]] inline void mtf_headers_alone() noexcept {}
// NOLINTNEXTLINE(misc-definitions-in-headers, readability-identifier-naming)
void mtf_files_with_and_without_MTF_COMPILED_are_mixed() noexcept __attribute__((alias("mtf_headers_alone")));
#endif
}
#endif

// Whether a constant expression is evaluated now. A macro, because clang counts what std::is_constant_evaluated does as
// steps of the evaluation, and the smallest functions ask.
#define MTF_CONSTANT_EVALUATED __builtin_is_constant_evaluated()

namespace mtf {
inline namespace v0 {}
}  // namespace mtf
