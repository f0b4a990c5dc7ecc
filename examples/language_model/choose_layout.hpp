// --layout auto: the cheapest layout of a training step, found before the world starts.
#pragma once

#include "options.hpp"

/// Sets mesh and layout: of the mesh if one is given, else over all meshes of the ranks of `comm`. Rank 0 prints the
/// report.
void choose_layout(Options& options, MPI_Comm comm);
