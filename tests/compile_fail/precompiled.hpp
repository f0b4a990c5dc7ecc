// What every case includes. g++ precompiles this file and not mtf.hpp itself, because it then prints as many lines of
// "included from" for a mistake as without a precompiled header.
#ifndef MTF_TESTS_COMPILE_FAIL_PRECOMPILED_HPP  // not #pragma once: g++ warns of it in the file that it precompiles
#define MTF_TESTS_COMPILE_FAIL_PRECOMPILED_HPP

#include <mtf/mtf.hpp>

#endif
