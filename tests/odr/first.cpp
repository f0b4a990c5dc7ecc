// The second translation unit includes the same headers: a function that is not inline would be defined twice.
#include <cstdio>

#include <mtf/mtf.hpp>

int version_in_second();

int main() {
  if (version_in_second() == MTF_VERSION_MAJOR * 10000 + MTF_VERSION_MINOR * 100 + MTF_VERSION_PATCH) return 0;
  std::puts("the two translation units see different versions of mtf");
  return 1;
}
