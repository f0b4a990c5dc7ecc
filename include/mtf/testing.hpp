// What tests of programs use: check_gradients and check_layouts. Not part of mtf.hpp, so that programs do not pay for it.
#pragma once

#include <mtf/mtf.hpp>
#include <mtf/testing/check_gradients.hpp>
#include <mtf/testing/check_layouts.hpp>
