#include <mtf/mtf.hpp>

int version_in_second();

int version_in_second() { return MTF_VERSION_MAJOR * 10000 + MTF_VERSION_MINOR * 100 + MTF_VERSION_PATCH; }
