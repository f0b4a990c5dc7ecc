// EXPECT-ERROR: mtf: this is wrong
// FIRST-ERROR: mtf: this is wrong
// REJECT-ERROR: words that no compiler prints
// MAX-LINES: 12
#ifdef MTF_CONTROL
static_assert(true, "mtf: this is right");
#else
static_assert(false, "mtf: this is wrong");
#endif
