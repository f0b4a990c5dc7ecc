// How a failing graph becomes small.
#include "graph.hpp"

namespace property {

namespace {

using Change = std::function<bool(Graph&)>;  ///< false if there is nothing to change

/// Takes a step out. What had its results has a leaf instead, or what the step had.
Change removed_step(std::size_t step, bool bypass) {
  return [=](Graph& graph) {
    const int at = static_cast<int>(step);
    if (step >= graph.steps.size() || graph.steps.size() == 1) return false;
    Source instead;
    for (const Source& source : graph.steps[step].sources) {
      if (bypass && source.step >= 0) instead = source;
    }
    if (bypass && instead.step < 0) return false;
    graph.steps.erase(graph.steps.begin() + at);
    for (Step& other : graph.steps) {
      for (Source& source : other.sources) {
        if (source.step == at) source = instead;
        if (source.step > at) --source.step;
      }
    }
    return true;
  };
}

/// All changes that make this graph smaller, the large ones first.
std::vector<Change> changes_of(const Graph& graph) {
  std::vector<Change> changes;
  for (std::size_t s = graph.steps.size(); s-- > 0;) {
    changes.push_back(removed_step(s, false));
    changes.push_back(removed_step(s, true));
  }
  for (std::size_t r = 0; r < graph.rules.size(); ++r) {
    changes.push_back([=](Graph& g) { return g.rules.erase(g.rules.begin() + static_cast<std::ptrdiff_t>(r)), true; });
    for (std::size_t a = 0; graph.rules[r].axes.size() > 1 && a < graph.rules[r].axes.size(); ++a) {
      changes.push_back([=](Graph& g) {
        auto& axes = g.rules[r].axes;
        return axes.erase(axes.begin() + static_cast<std::ptrdiff_t>(a)), true;
      });
    }
  }
  // An axis goes into another, which splits finer then: its own rules alone, or those of both.
  for (std::size_t a = 0; graph.mesh.size() > 1 && a < graph.mesh.size(); ++a) {
    for (std::size_t b = 0; b < graph.mesh.size(); ++b) {
      if (a == b) continue;
      for (const bool replaced : {false, true}) {
        changes.push_back([=](Graph& g) {
          const std::string gone = g.mesh[a].first;
          const std::string other = g.mesh[b].first;
          g.mesh[b].second *= g.mesh[a].second;
          g.mesh.erase(g.mesh.begin() + static_cast<std::ptrdiff_t>(a));
          for (Rule& rule : g.rules) {
            const bool has_other = std::ranges::find(rule.axes, other) != rule.axes.end();
            if (replaced && !has_other) std::ranges::replace(rule.axes, gone, other);
            std::erase(rule.axes, gone);
          }
          std::erase_if(g.rules, [](const Rule& rule) { return rule.axes.empty(); });
          return true;
        });
      }
    }
  }
  for (std::size_t s = 0; s < graph.steps.size(); ++s) {
    for (std::size_t i = 0; i < graph.steps[s].sources.size(); ++i) {
      if (graph.steps[s].sources[i].step < 0) continue;
      changes.push_back([=](Graph& g) { return g.steps[s].sources[i] = {}, true; });
    }
    if (graph.steps[s].in_loss) changes.push_back([=](Graph& g) { return g.steps[s].in_loss = false, true; });
    if (graph.steps[s].watched) changes.push_back([=](Graph& g) { return g.steps[s].watched = false, true; });
  }
  for (int d = 0; d < graph.dims.size(); ++d) {
    for (const std::int64_t extent : {std::int64_t{1}, std::int64_t{2}, graph.dims[d].extent / 2}) {
      if (extent > 0 && extent < graph.dims[d].extent)
        changes.push_back([=](Graph& g) { return g.dims[d].extent = extent, true; });
    }
  }
  if (!graph.whole) changes.push_back([](Graph& g) { return g.whole = true; });
  return changes;
}

}  // namespace

Graph shrunk(Graph graph, const std::function<bool(const Graph&)>& fails) {
  // After each change that is taken the others are tried again, until none is.
  for (bool smaller = true; smaller;) {
    smaller = false;
    for (const Change& change : changes_of(graph)) {
      Graph part = graph;
      if (!change(part) || !rebuild(part) || !fails(part)) continue;
      graph = std::move(part);
      smaller = true;
      break;
    }
  }
  return graph;
}

}  // namespace property
