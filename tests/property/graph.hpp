// Random graphs: operations of the families, whose inputs are leaves or results of earlier operations.
#pragma once

#include "execution.hpp"
#include "worlds.hpp"

namespace property {

/// Where an input of an operation comes from.
struct Source {
  int step = -1;   ///< an earlier operation, or -1: a leaf of its own
  int output = 0;  ///< which of its results
};
struct Step {
  const Kind* kind = nullptr;
  std::uint64_t seed = 0;       ///< of its attributes, and of the elements of its leaves
  std::vector<Source> sources;  ///< one for each input
  bool watched = true;          ///< whether its leaves have gradients
  bool in_loss = true;          ///< whether the loss depends on its results
  // Made of these and the dims by `rebuild`:
  Program program;
  std::vector<ShapeValue> made;    ///< shapes of its results
  std::vector<ElementType> types;  ///< and their element types
};
struct Rule {
  std::string dim;
  std::vector<std::string> axes;  ///< the major one first
};
struct Graph {
  std::uint64_t number = 0;
  DrawnMesh mesh;
  std::vector<Rule> rules;  ///< of the layout
  ShapeValue dims;          ///< that operations draw from
  bool whole = false;       ///< leaves are small whole numbers
  std::vector<Step> steps;

  [[nodiscard]] std::string mesh_text() const;
  [[nodiscard]] std::string layout() const;
  /// The world, then one line an operation.
  [[nodiscard]] std::string text() const;
};

/// An operation that has one input and returns it: a leaf that several operations share.
[[nodiscard]] Kind leaf();

/// Up to 12 operations that share operands, a mesh, a layout; most layouts are legal.
[[nodiscard]] Graph draw_graph(std::uint64_t number, const std::vector<Kind>& kinds);

/// Draws the operations again, for the dims that the graph now has; links that do not fit any more become leaves.
/// Returns whether all operations accept their operands on one rank.
[[nodiscard]] bool rebuild(Graph& graph);

/// Whether no operation meets a list of dims that the layout does not place.
[[nodiscard]] bool is_legal(const Graph& graph);

/// Elements of the leaves of a step.
[[nodiscard]] std::vector<Host> leaves_of(const Graph& graph, const Step& step);

/// What the comparisons were worth, counted by the ranks that made them.
struct Tally {
  std::int64_t graphs = 0, refused = 0;  ///< compared, of illegal layouts
  std::int64_t exact = 0, near = 0,
               loose = 0;  ///< results: bit for bit, within roundings, not compared as they rest on ties
  std::int64_t gradients = 0, loose_gradients = 0;
};

/// What is wrong with each graph on all ranks, beside one rank; empty if nothing is. All ranks get the same answer; each
/// runs some of the graphs alone.
[[nodiscard]] std::vector<std::string> faults_of(std::span<const Graph> graphs, Tally& tally);
[[nodiscard]] inline std::string fault_of(const Graph& graph) {
  Tally tally;
  return faults_of({&graph, 1}, tally)[0];
}

/// A smaller graph that `fails` too, of which nothing more can be taken away. What does not fail is not taken, so a
/// failing graph is never lost.
[[nodiscard]] Graph shrunk(Graph graph, const std::function<bool(const Graph&)>& fails);

}  // namespace property
