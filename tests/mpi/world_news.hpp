// Counts the calls of operator new in the test program.
#pragma once

#include <cstdint>

/// Calls of operator new in this process so far.
std::int64_t news();
