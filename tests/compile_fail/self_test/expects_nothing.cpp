// A file without any expectation would pass for any typing error.
#ifndef MTF_CONTROL
static_assert(false, "mtf: this is wrong");
#endif
