// Compiled with the flags of everybody who uses mtf; see probe_flags in tests/meson.build.
#include <mtf/core/config.hpp>
