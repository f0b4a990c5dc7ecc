// EXPECT-ERROR: mtf: this is wrong
// EXPECT-ERROR: words that no compiler prints
#ifndef MTF_CONTROL
static_assert(false, "mtf: this is wrong");
#endif
