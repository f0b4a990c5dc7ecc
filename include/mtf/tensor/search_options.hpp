// What a layout search is asked and what it answers.
#pragma once

#include <functional>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include <mtf/plan/cost_terms.hpp>
#include <mtf/plan/layout_search.hpp>
#include <mtf/plan/objective.hpp>
#include <mtf/tensor/error.hpp>

namespace mtf {
inline namespace v0 {

struct SearchOptions {
  Objective objective = Objective::time;
  Machine machine{};  ///< of Objective::time; the default is a first guess, `bench/calibrate` measures one
  /// Instead of `objective` if given. Must not fall where a count or size of a Cost grows, or the search be
  /// `exhaustive`.
  std::function<double(const Cost&)> cost{};
  std::int64_t memory_cap = std::numeric_limits<std::int64_t>::max();  ///< bytes of a rank
  std::vector<std::string_view> dims{};                                ///< dims that may be split; none: all
  std::vector<std::string_view> axes{};                                ///< axes that may split them; none: all
  std::string_view fixed{};                                            ///< rules that every candidate has, "batch:rows"
  bool several_axes = false;  ///< a dim may also be split over several axes, major first in the order of the mesh
  bool exhaustive = false;    ///< evaluates every legal layout, to check the pruning
  int mesh_axes = 2;          ///< of `search`: axes of a mesh, at most
  std::vector<std::string_view>
      axis_names{};  ///< of `search`: of the first, second, ... axis; beyond them "mesh_0", "mesh_1", ...
};

namespace detail {

/// In the notation that parse_layout reads, in quotes for messages.
[[nodiscard]] inline std::string text_of(const LayoutValue& layout) {
  std::string text;
  for (const Rule& rule : layout.rules) {
    text += text.empty() ? "\"" : ";";
    text += std::string_view(rule.dim.text);
    for (int i = 0; i < rule.axes.size(); ++i) {
      text += i == 0 ? ':' : ',';
      text += std::string_view(rule.axes[i].text);
    }
    if (rule.optional) text += '?';
  }
  return text.empty() ? "\"\"" : text + "\"";
}
[[nodiscard]] inline std::string without_quotes(const std::string& text) { return text.substr(1, text.size() - 2); }

}  // namespace detail

/// A layout with its cost. Names refer to the texts that the step's dims, the mesh and the options hold.
struct FoundLayout {
  MeshValue mesh;
  LayoutValue layout;
  Evaluation value;
  Cost cost;
  CostTerm loses_by;  ///< of a runner-up: the term that makes most of its distance to the best

  /// What a world of a dynamic_layout and dynamic_mesh takes, "batch:rows;hidden:cols" and "rows:2;cols:2".
  [[nodiscard]] std::string layout_text() const { return detail::without_quotes(detail::text_of(layout)); }
  [[nodiscard]] std::string mesh_text() const { return detail::without_quotes(describe(mesh)); }
  [[nodiscard]] PlacementRules rules() const {
    Violations none;
    return resolve(layout, mesh, none);
  }
};

struct LayoutSearch {
  std::vector<FoundLayout> layouts;  ///< the best first, then up to three runners-up
  SearchCounts counts;
  std::size_t meshes = 1;             ///< meshes searched
  std::vector<std::string> reasons;   ///< why candidates are illegal, by name
  std::vector<std::string> idle;      ///< what the best layout leaves unsplit: axes that split nothing, and why
  std::vector<std::string> refusals;  ///< what the step threw under legal layouts, each once
  SearchOptions options;

  [[nodiscard]] const FoundLayout& best() const { return layouts.front(); }
};

namespace detail {

/// A step without its type: the search is compiled once.
struct SearchedStep {
  std::function<Survey(const MeshValue&, MemoryTrace&)> survey;
  std::function<Cost(const PlacementRules&)> cost;
};

}  // namespace detail
}  // namespace v0
}  // namespace mtf
