// EXPECT-ERROR: mtf: this is wrong
int compiles_in_both_halves();
