// Stands before the real header when the model wing is checked, which must do without it.
#error "mtf: the model wing includes mpi.h"
