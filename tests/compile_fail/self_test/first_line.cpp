// EXPECT-ERROR: mtf: this is wrong
// FIRST-ERROR: mtf: this is wrong
#ifndef MTF_CONTROL
static_assert(false, "mtf: this comes first");
static_assert(false, "mtf: this is wrong");
#endif
