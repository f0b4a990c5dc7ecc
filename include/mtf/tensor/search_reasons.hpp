// Why layouts are illegal, in words: by dim, axis, extent and operation.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <mtf/plan/layout_space.hpp>
#include <mtf/tensor/error.hpp>

namespace mtf {
inline namespace v0 {

namespace detail {

/// " (did you mean "batch"?)", if the step has a dim of a similar name.
MTF_COLD [[nodiscard]] inline std::string hint_of_dim(std::string_view dim, const Survey& survey) {
  std::vector<std::string_view> names;
  for (const SurveyedDim& known : survey.dims) names.push_back(known.name.text);
  const NearestName nearest = nearest_name(dim, names);
  return nearest.is_similar ? " (did you mean " + quoted(nearest.name) + "?)" : "";
}
MTF_COLD [[nodiscard]] inline std::string whole_reason(const SurveyedDim& dim) {
  return "dim " + quoted(dim.name) + " cannot be split: " + dim.whole + " needs it whole";
}
MTF_COLD [[nodiscard]] inline std::string extent_reason(const SurveyedDim& dim, const std::string& axes,
                                                        std::int64_t size) {
  std::string text = "dim " + quoted(dim.name) + " has ";
  text += dim.extents.size() == 1 ? "extent " : "extents ";
  for (int i = 0; i < dim.extents.size(); ++i) text += (i > 0 ? ", " : "") + std::to_string(dim.extents[i]);
  return text + ": " + axes + " of size " + std::to_string(size) + " does not divide " +
         (dim.extents.size() == 1 ? "it" : "all of them");
}
MTF_COLD [[nodiscard]] inline std::string meeting_reason(const Survey& survey, int a, int b) {
  const std::string operation = survey.where_met(a, b);
  return "dims " + quoted(survey.dims[a].name) + " and " + quoted(survey.dims[b].name) + " meet in " +
         (operation.empty() ? "an operation" : operation) + ": no axis may split both";
}

}  // namespace detail

/// One sentence for each rule that candidates of a search on this mesh break: dims that operations need whole, axes
/// that do not divide extents, dims that may not share an axis. `by_axis` names the axes, which a search over meshes
/// does not.
MTF_COLD [[nodiscard]] inline std::vector<std::string> reasons_of(const Survey& survey, const MeshValue& mesh,
                                                                  const SpaceOptions& options, bool by_axis = true) {
  const auto is_dim = [&](const Name& name) {
    return options.dims.empty() || LayoutSpace::contains(options.dims, name);
  };
  const auto is_axis = [&](const Name& name) {
    return options.axes.empty() || LayoutSpace::contains(options.axes, name);
  };
  std::vector<std::string> reasons;
  std::vector<int> splittable;
  for (int i = 0; i < survey.dims.size(); ++i) {
    const SurveyedDim& dim = survey.dims[i];
    if (!is_dim(dim.name)) continue;
    if (dim.whole != nullptr) {
      reasons.push_back(detail::whole_reason(dim));
      continue;
    }
    bool divides = false;
    for (const AxisValue& axis : mesh.axes) {
      if (!is_axis(axis.name)) continue;
      if (dim.divisor % axis.size == 0) {
        divides = true;
      } else {
        reasons.push_back(detail::extent_reason(dim, by_axis ? "axis " + quoted(axis.name) : "an axis", axis.size));
      }
    }
    if (divides) splittable.push_back(i);
  }
  for (const int a : splittable) {
    for (const int b : splittable) {
      if (a < b && has(survey.dims[a].meets, b)) reasons.push_back(detail::meeting_reason(survey, a, b));
    }
  }
  return reasons;
}

/// One sentence for each axis of the mesh that splits nothing under a layout, with the dims that it does not divide; and
/// one before them if nothing is split at all.
MTF_COLD [[nodiscard]] inline std::vector<std::string> idle_axes_of(const Survey& survey, const MeshValue& mesh,
                                                                    const SpaceOptions& options,
                                                                    const LayoutValue& layout) {
  std::vector<std::string> sentences;
  if (layout.rules.empty() && mesh.size() > 1) {
    sentences.push_back("nothing is split: each of the " + std::to_string(mesh.size()) +
                        " processors holds everything and does all the work");
  }
  for (const AxisValue& axis : mesh.axes) {
    bool is_idle = axis.size > 1;
    for (const Rule& rule : layout.rules) {
      for (const Name& used : rule.axes) is_idle = is_idle && !(used == axis.name);
    }
    if (!is_idle) continue;
    std::string sentence = "axis " + quoted(axis.name) + " of size " + std::to_string(axis.size) + " splits nothing";
    if (!options.axes.empty() && !LayoutSpace::contains(options.axes, axis.name)) {
      sentences.push_back(sentence + ": SearchOptions::axes does not name it");
      continue;
    }
    std::string undivided;
    std::string whole;
    std::string divided;
    for (const SurveyedDim& dim : survey.dims) {
      if (!options.dims.empty() && !LayoutSpace::contains(options.dims, dim.name)) continue;
      std::string& list = dim.whole != nullptr ? whole : dim.divisor % axis.size == 0 ? divided : undivided;
      list += (list.empty() ? "" : ", ") + quoted(dim.name);
      if (&list != &undivided) continue;
      for (int i = 0; i < dim.extents.size(); ++i)
        list += (i == 0 ? " (" : ", ") + std::to_string(dim.extents[i]) + (i + 1 == dim.extents.size() ? ")" : "");
    }
    const char* separator = ": ";
    const auto add = [&](const char* words, const std::string& list) {
      if (list.empty()) return;
      sentence += separator + (words + list);
      separator = "; ";
    };
    add("it does not divide the extents of ", undivided);
    add("needed whole are ", whole);
    add("splitting is illegal beside the other rules, or costs more, for ", divided);
    sentences.push_back(sentence);
  }
  return sentences;
}

/// One sentence for each thing that is wrong with rules that every candidate is to have.
MTF_COLD [[nodiscard]] inline std::vector<std::string> faults_of_fixed(const Survey& survey, const MeshValue& mesh,
                                                                       const LayoutValue& fixed) {
  std::vector<std::string> faults;
  Violations violations;
  const PlacementRules rules = resolve(fixed, mesh, violations);
  for (const Violation& violation : violations) faults.push_back(describe(violation, mesh));
  for (int r = 0; r < rules.rules.size(); ++r) {
    const PlacementRules::Resolved& rule = rules.rules[r];
    const int at = survey.find(rule.dim);
    if (at < 0) {
      faults.push_back("the fixed rule for dim " + quoted(rule.dim) + detail::hint_of_dim(rule.dim.text, survey) +
                       " names a dim that the step does not have");
      continue;
    }
    const SurveyedDim& dim = survey.dims[at];
    const std::int64_t parts = mesh.size(set_of(rule.axes));
    if (dim.whole != nullptr) faults.push_back(detail::whole_reason(dim));
    if (dim.divisor % parts != 0) faults.push_back(detail::extent_reason(dim, "the product of its axes", parts));
    for (int other = 0; other < r; ++other) {
      const int second = survey.find(rules.rules[other].dim);
      if (second < 0 || (set_of(rule.axes) & set_of(rules.rules[other].axes)).empty()) continue;
      const bool may_be_alike = has(dim.follows, second) && !has(dim.meets, second);
      if (has(dim.meets, second) || (may_be_alike && !(rule.axes == rules.rules[other].axes)))
        faults.push_back(detail::meeting_reason(survey, at, second));
    }
  }
  return faults;
}

}  // namespace v0
}  // namespace mtf
