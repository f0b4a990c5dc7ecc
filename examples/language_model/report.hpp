// What a training run cost.
#pragma once

#include <cstdint>
#include <string>

#include <mtf/mtf.hpp>

/// Wire bytes by axes and memory by rank, for rank 0 to print. Collective.
std::string costs_text(const mtf::Counters& counters, const mtf::MeshValue& mesh, std::int64_t peak_bytes, MPI_Comm comm);
