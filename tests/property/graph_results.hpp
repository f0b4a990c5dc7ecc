// What random graphs give, for graph_run.cpp, which gets it, and graph_compare.cpp, which compares it with one rank.
#pragma once

#include "graph.hpp"

namespace property {

/// The dims that both have with one extent.
inline ShapeValue common_dims(const ShapeValue& a, const ShapeValue& b) {
  ShapeValue result;
  for (const DimValue& dim : b) {
    if (extent_of(a, dim.name.text) == dim.extent) result.push_back(dim);
  }
  return result;
}

/// Small relative errors of the inputs, as if they had been rounded: what comes of them shows how far apart two runs
/// may be that round otherwise. 0 for none.
struct Errors {
  std::uint64_t seed = 0;
};
/// What a graph gives: every result of every operation, and the gradients of the watched leaves of those in the loss.
struct Results {
  std::vector<Host> inputs, values, gradients;
  std::vector<ElementType> types, gradient_types;  ///< of values, gradients
  bool kept = true;         ///< every result that was complete still was at the end what it was when it was made
  std::size_t records = 0;  ///< while tracing, before results are read
  std::int64_t left = 0;    ///< bytes that live on when all this is gone
  std::uint64_t hash = 0;   ///< of values and gradients
};

[[nodiscard]] Results results_of(World& world, const Graph& graph, const Errors& errors = {});

/// What differs from one rank, if anything.
[[nodiscard]] std::string difference_from_one_rank(const Graph& graph, const Results& results, Tally& tally);

}  // namespace property
