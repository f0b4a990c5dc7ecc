// How a search runs: the part that does not depend on the step's type.
#pragma once

#include <span>

#include <mtf/plan/mesh_shapes.hpp>
#include <mtf/tensor/search_options.hpp>
#include <mtf/tensor/search_reasons.hpp>

namespace mtf {
inline namespace v0 {

namespace detail {

[[noreturn]] MTF_COLD inline void raise_reasons(const char* operation, const MeshValue* mesh,
                                                const std::string& summary, const std::vector<std::string>& reasons) {
  std::string text = summary;
  for (const std::string& reason : reasons) text += "\n  " + reason;
  raise(mesh == nullptr ? std::string(operation) : operation + (" on mesh " + describe(*mesh)), text);
}

/// One search over some meshes.
class SearchRun {
 public:
  SearchRun(const SearchedStep& step, const SearchOptions& options, const char* operation)
      : step_(step), options_(options), operation_(operation) {
    result_.options = options;
    ranking_.prefers_splits = by_trace();
  }

  [[nodiscard]] LayoutSearch over(std::span<const MeshValue> meshes) {
    std::vector<std::string> faults;
    for (std::size_t i = 0; i < meshes.size(); ++i) {
      const MeshValue& mesh = meshes[i];
      MemoryTrace trace;
      const Survey survey = step_.survey(mesh, trace);
      const SpaceOptions space_options = options_for(survey, mesh, meshes);
      const std::vector<std::string> wrong = faults_of_fixed(survey, mesh, space_options.fixed);
      if (!wrong.empty()) {
        collect(faults, wrong, meshes.size() > 1 ? "on mesh " + describe(mesh) + ": " : "");
        continue;
      }
      collect(result_.reasons, reasons_of(survey, mesh, space_options, meshes.size() == 1), "");
      const LayoutSpace space(survey, mesh, space_options);
      if (survey.overflowed || space.overflowed) {
        raise_reasons(operation_, &mesh,
                      "the step has more than " + std::to_string(survey.overflowed ? max_surveyed_dims : max_rules) +
                          " dims that may be split; name those to consider in SearchOptions::dims",
                      {});
      }
      spaces_.push_back(space);
      surveys_.push_back(survey);
      space_options_.push_back(space_options);
      result_.counts.add(search_space(space, survey, trace, static_cast<int>(i), options_.memory_cap, ranking_));
    }
    result_.meshes = meshes.size();
    if (ranking_.layouts.empty()) nothing(meshes, faults);
    for (const RankedLayout& layout : ranking_.layouts) finish(layout, meshes);
    return std::move(result_);
  }

 private:
  /// The names and rules of the options; throws if the step or the mesh does not have them.
  [[nodiscard]] SpaceOptions options_for(const Survey& survey, const MeshValue& mesh,
                                         std::span<const MeshValue> meshes) const {
    SpaceOptions result;
    result.several_axes = options_.several_axes;
    std::vector<std::string> unknown;
    for (const std::string_view dim : options_.dims) {
      if (survey.find(Name(dim)) < 0)
        unknown.push_back("SearchOptions::dims names " + quoted(dim) + hint_of_dim(dim, survey) +
                          ", a dim that the step does not have");
      if (!result.dims.full()) result.dims.push_back(Name(dim));
    }
    for (const std::string_view axis : options_.axes) {
      bool is_known = false;
      for (const MeshValue& one : meshes) is_known = is_known || one.find(Name(axis)) >= 0;
      if (!is_known)
        unknown.push_back("SearchOptions::axes names " + quoted(axis) + hint_of_axis(Name(axis), mesh) +
                          ", an axis that the mesh does not have");
      if (!result.axes.full()) result.axes.push_back(Name(axis));
    }
    for (const AxisValue& axis : mesh.axes) {
      if (axis.size < 1)
        unknown.push_back("axis " + quoted(axis.name) + " has a dynamic size; give the search a mesh of known sizes");
    }
    if (options_.several_axes && mesh.rank() > max_axes_of_dim)
      unknown.push_back("several_axes takes meshes of at most 6 axes");
    if (!unknown.empty()) raise_reasons(operation_, &mesh, "the options do not fit", unknown);
    Violations malformed;
    const LayoutValue fixed = parse_layout(options_.fixed, malformed);
    require_none(operation_, malformed);
    for (const Rule& rule : fixed.rules) {
      bool is_there = true;
      for (const Name& axis : rule.axes) is_there = is_there && mesh.find(axis) >= 0;
      if (is_there || !rule.optional) result.fixed.rules.push_back(rule);
    }
    return result;
  }

  [[nodiscard]] bool by_trace() const { return options_.objective == Objective::tensor_memory && !options_.cost; }
  [[nodiscard]] double objective_of(const Cost& cost) const {
    if (options_.cost) return options_.cost(cost);
    return value_of(cost, options_.objective, options_.machine);
  }
  [[nodiscard]] Evaluation evaluate(const PlacementRules& rules) {
    try {
      const Cost cost = step_.cost(rules);
      return {objective_of(cost), cost.peak_bytes, false};
    } catch (const plan_error& error) {
      const std::vector<std::string> message{error.what()};
      if (result_.refusals.size() < 16) collect(result_.refusals, message, "");
      return {0, 0, true};
    }
  }

  SearchCounts search_space(const LayoutSpace& space, const Survey& survey, const MemoryTrace& trace, int mesh,
                            std::int64_t memory_cap, Ranking& ranking) {
    const auto trace_peak = [&](const Splits& splits) {
      const LayoutSpace::Reach reach = space.reach_of(survey, splits);
      return trace.peak([&](DimSet dims) { return space.parts(reach, dims); });
    };
    if (by_trace()) {
      // Exact for a layout, and for a part of the space a bound: each array split as far as it can be there.
      const auto bound = [&](const Splits& splits, const LowerBound&) {
        return static_cast<double>(trace_peak(splits));
      };
      const auto value = [&](const Splits& splits) {
        const std::int64_t peak = trace_peak(splits);
        return Evaluation{static_cast<double>(peak), peak, false};
      };
      return branch_and_bound(space, survey, memory_cap, options_.exhaustive, mesh, bound, value, ranking);
    }
    const auto bound = [&](const Splits&, const LowerBound& least) {
      return objective_of(cost_at_least(space.mesh, least));
    };
    const auto value = [&](const Splits& splits) { return evaluate(space.rules(splits)); };
    return branch_and_bound(space, survey, memory_cap, options_.exhaustive, mesh, bound, value, ranking);
  }

  void finish(const RankedLayout& ranked, std::span<const MeshValue> meshes) {
    FoundLayout found;
    found.mesh = meshes[static_cast<std::size_t>(ranked.mesh)];
    for (std::size_t i = 0; i < spaces_.size(); ++i) {
      if (!(spaces_[i].mesh.axes == found.mesh.axes)) continue;
      found.layout = spaces_[i].layout(ranked.splits);
      if (result_.layouts.empty())
        result_.idle = idle_axes_of(surveys_[i], found.mesh, space_options_[i], found.layout);
    }
    found.value = ranked.value;
    found.cost = step_.cost(found.rules());
    if (!result_.layouts.empty() && by_trace()) {
      found.loses_by = {.kind = CostTerm::Kind::memory,
                        .amount = found.value.objective,
                        .other_amount = result_.best().value.objective,
                        .difference = found.value.objective - result_.best().value.objective};
    } else if (!result_.layouts.empty()) {
      found.loses_by =
          dominant_term(result_.best().cost, found.cost, [&](const Cost& cost) { return objective_of(cost); });
    }
    result_.layouts.push_back(found);
  }

  /// Nothing is legal, or nothing fits: says why.
  [[noreturn]] void nothing(std::span<const MeshValue> meshes, const std::vector<std::string>& faults) {
    std::vector<std::string> reasons = faults;
    collect(reasons, result_.refusals, "");
    if (result_.counts.over_memory + result_.counts.pruned_by_memory > 0) reasons.push_back(smallest(meshes));
    collect(reasons, result_.reasons, "");
    raise_reasons(operation_, meshes.size() == 1 ? &meshes[0] : nullptr, "no layout is legal and fits:", reasons);
  }
  /// The least memory that a layout takes, looked for because nothing fits.
  [[nodiscard]] std::string smallest(std::span<const MeshValue> meshes) {
    SearchOptions options = options_;
    options.memory_cap = std::numeric_limits<std::int64_t>::max();
    options.cost = nullptr;
    if (options.objective != Objective::tensor_memory) options.objective = Objective::peak_memory;
    const LayoutSearch least = SearchRun(step_, options, operation_).over(meshes);
    return "memory: the smallest peak is " + std::to_string(least.best().value.memory) + " bytes, under " +
           text_of(least.best().layout) + " on mesh " + describe(least.best().mesh) + "; the cap is " +
           std::to_string(options_.memory_cap) + " bytes";
  }

  static void collect(std::vector<std::string>& all, const std::vector<std::string>& more, const std::string& before) {
    for (const std::string& text : more) {
      bool known = false;
      for (const std::string& other : all) known = known || other == before + text;
      if (!known) all.push_back(before + text);
    }
  }

  const SearchedStep& step_;
  const SearchOptions& options_;
  const char* operation_;
  LayoutSearch result_;
  Ranking ranking_;
  std::vector<LayoutSpace> spaces_;  // of the meshes on which rules are possible, with what they were made of
  std::vector<Survey> surveys_;
  std::vector<SpaceOptions> space_options_;
};

[[nodiscard]] inline LayoutSearch search_meshes(const SearchedStep& step, std::span<const MeshValue> meshes,
                                                const SearchOptions& options, const char* operation) {
  return SearchRun(step, options, operation).over(meshes);
}

/// The meshes of a search, their axes named by the options.
[[nodiscard]] inline std::vector<MeshValue> meshes_of(std::int64_t processors, const SearchOptions& options) {
  static constexpr std::string_view names[]{"mesh_0", "mesh_1", "mesh_2", "mesh_3",
                                            "mesh_4", "mesh_5", "mesh_6", "mesh_7"};
  if (processors < 1) raise("search", std::to_string(processors) + " processors: there is at least one");
  if (options.mesh_axes < 1 || options.mesh_axes > 8)
    raise("search", "SearchOptions::mesh_axes is " + std::to_string(options.mesh_axes) + ", from 1 to 8");
  std::vector<MeshValue> meshes;
  // The order of the axes makes no difference to memory.
  for (const MeshShape& shape :
       mesh_shapes(processors, options.mesh_axes, options.objective != Objective::tensor_memory)) {
    MeshValue mesh;
    for (int i = 0; i < shape.size(); ++i) {
      const auto at = static_cast<std::size_t>(i);
      mesh.axes.push_back({Name(at < options.axis_names.size() ? options.axis_names[at] : names[at]), shape[i]});
    }
    meshes.push_back(mesh);
  }
  if (meshes.empty())
    raise("search", std::to_string(processors) + " processors form no mesh of at most " +
                        std::to_string(options.mesh_axes) + " axes");
  return meshes;
}

}  // namespace detail
}  // namespace v0
}  // namespace mtf
