// EXPECT-ERROR: mtf: this is wrong
static_assert(false, "mtf: this is wrong");
