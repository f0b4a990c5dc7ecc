#include <doctest/doctest.h>

#include <mtf/core/config.hpp>

TEST_CASE("the version is the one that the build was given") {
  CHECK(MTF_VERSION_MAJOR == 0);
  CHECK(MTF_VERSION_MINOR == 1);
  CHECK(MTF_VERSION_PATCH == 0);
}
