// Random graphs: operations of the families, whose inputs are leaves or results of earlier operations.
#pragma once

#include "execution.hpp"

namespace property {

/// Where an input of an operation comes from.
struct Source {
  int step = -1;      ///< an earlier operation, or -1: a leaf of its own
  int output = 0;     ///< which of its results
  ShapeValue common;  ///< dims that result and input have alike: the others are summed, those that lack are broadcast
};
struct Step {
  Program program;
  std::vector<Source> sources;   ///< one for each input
  std::vector<ShapeValue> made;  ///< shapes of its results
  std::vector<bool> real;        ///< whether they are doubles
};
struct Graph {
  std::string mesh;
  std::vector<std::string> rules;  ///< of the layout
  std::vector<Step> steps;
  std::uint64_t number = 0;  ///< seed of the leaves

  [[nodiscard]] std::string layout() const { return fmt::format("{}", fmt::join(rules, ";")); }
  /// One line an operation.
  [[nodiscard]] std::string text() const;
};

/// Up to 12 operations of doubles that share operands.
[[nodiscard]] Graph draw_graph(std::uint64_t number, std::string mesh, std::vector<std::string> rules,
                               const ShapeValue& dims, const std::vector<Kind>& kinds);

/// What a graph gives: every result of every operation, and the gradients of all leaves of doubles.
struct GraphResults {
  std::vector<Host> values, gradients;
  bool kept = true;  ///< every result still was at the end what it was when it was made
};
[[nodiscard]] GraphResults run_graph(World& world, const Graph& graph);

/// What is wrong with a graph on all ranks, beside one rank; empty if nothing is. All ranks get the same
/// answer.
[[nodiscard]] std::string fault_of(const Graph& graph);

/// The smallest graph that `fails` too, of those that lack operations, rules or links of this one. A failing graph is
/// never lost: what does not fail is not taken.
template <class Fails>
[[nodiscard]] Graph shrunk(Graph graph, const Fails& fails) {
  const auto without_step = [](const Graph& whole, std::size_t step) {
    Graph part = whole;
    part.steps.erase(part.steps.begin() + static_cast<std::ptrdiff_t>(step));
    for (Step& other : part.steps) {
      for (Source& source : other.sources) {
        if (source.step == static_cast<int>(step)) source = {};
        if (source.step > static_cast<int>(step)) --source.step;
      }
    }
    return part;
  };
  for (bool smaller = true; smaller;) {
    smaller = false;
    const auto take = [&](const Graph& part) {
      if (!fails(part)) return false;
      graph = part;
      return smaller = true;
    };
    for (std::size_t step = graph.steps.size(); step-- > 0 && graph.steps.size() > 1;) take(without_step(graph, step));
    for (std::size_t rule = graph.rules.size(); rule-- > 0;) {
      Graph part = graph;
      part.rules.erase(part.rules.begin() + static_cast<std::ptrdiff_t>(rule));
      take(part);
    }
    for (std::size_t step = 0; step < graph.steps.size(); ++step) {
      for (std::size_t i = 0; i < graph.steps[step].sources.size(); ++i) {
        if (graph.steps[step].sources[i].step < 0) continue;
        Graph part = graph;
        part.steps[step].sources[i] = {};
        take(part);
      }
    }
  }
  return graph;
}

}  // namespace property
