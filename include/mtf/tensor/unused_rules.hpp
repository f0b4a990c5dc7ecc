// Rules that split nothing: most likely a misspelt dim, which would otherwise run replicated in silence.
#pragma once

#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include <mtf/tensor/backend.hpp>
#include <mtf/tensor/world_rules.hpp>

namespace mtf {
inline namespace v0 {

namespace detail {

/// Dims of rules that no tensor so far has had.
MTF_RARE [[nodiscard]] MTF_RUN_TIME std::vector<std::string_view> unused_dims(const Backend& backend);
/// The same in words, each with the name that may have been meant; empty if there are none, or no tensor at all. Equal
/// on all ranks, as the tensors' names are.
MTF_RARE [[nodiscard]] MTF_RUN_TIME std::string describe_unused_rules(const Backend& backend);
/// Warns of them in one line on stderr if this rank `speaks`, or throws a plan_error, as the option wants it.
MTF_RARE MTF_RUN_TIME void tell_unused_rules(const Backend& backend, UnusedRules option, bool speaks);

#if MTF_HAS_DEFINITIONS

std::vector<std::string_view> unused_dims(const Backend& backend) {
  std::vector<std::string_view> dims;
  const auto& rules = backend.rules.rules;
  for (int rule = 0; rule < rules.size(); ++rule) {
    if ((backend.placements.used_rules() >> rule & 1U) == 0) dims.push_back(rules[rule].dim.text);
  }
  return dims;
}

std::string describe_unused_rules(const Backend& backend) {
  const std::vector<std::string_view> unused = unused_dims(backend);
  if (unused.empty()) return {};
  std::vector<std::string_view> names;
  backend.placements.for_each([&](const Placement& placement) {
    for (const PlacedDim& dim : placement.dims) {
      bool is_known = false;
      for (const std::string_view name : names) is_known = is_known || name == dim.name.text;
      if (!is_known) names.push_back(dim.name.text);
    }
  });
  if (names.empty()) return {};
  std::string list;
  for (const std::string_view dim : unused) {
    const NearestName nearest = nearest_name(dim, names);
    list += (list.empty() ? "" : ", ") + quoted(dim);
    list += nearest.is_similar ? " (did you mean " + quoted(nearest.name) + "?)"
                               : " (the nearest name is " + quoted(nearest.name) + ")";
  }
  return std::string(unused.size() == 1 ? "a rule of the layout splits nothing, because no tensor has its dim: "
                                        : "rules of the layout split nothing, because no tensor has their dims: ") +
         list;
}

void tell_unused_rules(const Backend& backend, UnusedRules option, bool speaks) {
  if (option == UnusedRules::ignore) return;
  const std::string text = describe_unused_rules(backend);
  if (text.empty()) return;
  if (option == UnusedRules::error) raise("layout", text);
  if (speaks) {
    std::fprintf(stderr, "mtf: warning: %s; WorldOptions::unused_rules can ignore this or make it an error\n",
                 text.c_str());
  }
}

#endif

}  // namespace detail

}  // namespace v0
}  // namespace mtf
