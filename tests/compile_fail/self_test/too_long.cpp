// EXPECT-ERROR: mtf: this is wrong
// MAX-LINES: 1
#ifndef MTF_CONTROL
static_assert(false, "mtf: this is wrong");
static_assert(false, "mtf: this follows from it");
#endif
