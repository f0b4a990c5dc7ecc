// EXPECT-ERROR: mtf: this is wrong
// REJECT-ERROR: mtf: this follows from it
#ifndef MTF_CONTROL
static_assert(false, "mtf: this is wrong");
static_assert(false, "mtf: this follows from it");
#endif
