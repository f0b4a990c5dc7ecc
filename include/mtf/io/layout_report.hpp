// The answer of a layout search as text: a line to paste, the runners-up and what they lose by, what is illegal and
// why.
#pragma once

#include <string>

#include <fmt/format.h>

#include <mtf/tensor/layout_search.hpp>

namespace mtf {
inline namespace v0 {

/// `mtf::Layout<mtf::Split<"batch", "rows">, mtf::Split<"heads", "cols">>`
[[nodiscard]] inline std::string type_text(const LayoutValue& layout) {
  std::string rules;
  for (const Rule& rule : layout.rules) {
    std::string split = fmt::format("mtf::Split<\"{}\"", rule.dim.text);
    for (const Name& axis : rule.axes) split += fmt::format(", \"{}\"", axis.text);
    split += ">";
    rules += (rules.empty() ? "" : ", ") + (rule.optional ? "mtf::optional_rule<" + split + ">" : split);
  }
  return "mtf::Layout<" + rules + ">";
}
/// `mtf::Mesh<mtf::Axis<"rows", 2>, mtf::Axis<"cols", 2>>`
[[nodiscard]] inline std::string type_text(const MeshValue& mesh) {
  std::string axes;
  for (const AxisValue& axis : mesh.axes)
    axes += fmt::format("{}mtf::Axis<\"{}\", {}>", axes.empty() ? "" : ", ", axis.name.text, axis.size);
  return "mtf::Mesh<" + axes + ">";
}

namespace detail {

[[nodiscard]] inline std::string objective_text(const SearchOptions& options, double value) {
  if (options.cost) return fmt::format("{:.6g}", value);
  switch (options.objective) {
    case Objective::time: return fmt::format("{:.4g} s", value);
    case Objective::wire_bytes: return fmt::format("{:.6g} bytes sent", value);
    case Objective::peak_memory:
    case Objective::tensor_memory: break;
  }
  return fmt::format("{:.10g} bytes", value);
}

/// `allreduce over "rows"`
[[nodiscard]] inline std::string term_text(const Cost& cost, const CostTerm& term) {
  if (term.kind == CostTerm::Kind::work) return std::string(term.work);
  if (term.kind == CostTerm::Kind::memory) return "memory";
  std::string axes;
  for (int i = 0; i < cost.mesh.size(); ++i) {
    if (term.axes.has(i)) axes += fmt::format("{}\"{}\"", axes.empty() ? "" : ", ", cost.mesh[i].text());
  }
  return fmt::format("{} over {}", name_of(term.collective), axes);
}
[[nodiscard]] inline std::string_view unit_of(const CostTerm& term) {
  if (term.kind == CostTerm::Kind::collective) return "bytes on the wire";
  if (term.kind == CostTerm::Kind::memory) return "bytes";
  return term.work == contraction_name ? "multiply-adds" : "bytes read and written";
}

/// Why a runner-up is none better.
[[nodiscard]] inline std::string loss_text(const LayoutSearch& search, const FoundLayout& loser) {
  const double distance = loser.value.objective - search.best().value.objective;
  if (distance == 0) {
    return fmt::format("costs the same; {} bytes of memory against {}, {} rules against {}", loser.value.memory,
                       search.best().value.memory, loser.layout.rules.size(), search.best().layout.rules.size());
  }
  const CostTerm& term = loser.loses_by;
  return fmt::format("{} more, most of it by {}: {:.0f} against {:.0f} {}, {} more",
                     objective_text(search.options, distance), term_text(loser.cost, term), term.amount,
                     term.other_amount, unit_of(term), objective_text(search.options, term.difference));
}

}  // namespace detail

/// The answer of a search in words. Lines that begin with `using` can be pasted.
[[nodiscard]] inline std::string report(const LayoutSearch& search) {
  const FoundLayout& best = search.best();
  const SearchCounts& counts = search.counts;
  std::string text;
  if (search.meshes > 1) text += fmt::format("using Mesh = {};\n", type_text(best.mesh));
  text += fmt::format("using Layout = {};\n", type_text(best.layout));
  text += fmt::format("  as text {} on mesh {}: {}", detail::text_of(best.layout), describe(best.mesh),
                      detail::objective_text(search.options, best.value.objective));
  if (search.options.objective == Objective::time && !search.options.cost) {
    text += fmt::format(" at most, {:.4g} s at least", estimate(best.cost, search.options.machine).at_least());
  }
  text += fmt::format("; peak of memory {} bytes\n", best.value.memory);
  for (const std::string& sentence : search.idle) text += "note: " + sentence + "\n";
  for (std::size_t i = 1; i < search.layouts.size(); ++i) {
    const FoundLayout& loser = search.layouts[i];
    text += fmt::format("{}. {} on mesh {}: {}\n", i + 1, detail::text_of(loser.layout), describe(loser.mesh),
                        detail::loss_text(search, loser));
  }
  text += fmt::format("{} assignments of axes to dims on {} {}: {}{} legal, {}{} illegal\n", counts.candidates,
                      search.meshes, search.meshes == 1 ? "mesh" : "meshes", counts.all_counted ? "" : "at least ",
                      counts.legal, counts.all_counted ? "" : "at most ", counts.illegal());
  text += fmt::format(
      "{} nodes visited, {} pruned by cost, {} by memory; {} layouts costed, of which {} exceed the memory cap and {} "
      "were refused by the step\n",
      counts.visited, counts.pruned, counts.pruned_by_memory, counts.evaluated, counts.over_memory, counts.refused);
  for (const std::string& reason : search.reasons) text += "illegal: " + reason + "\n";
  for (const std::string& refusal : search.refusals) text += "refused: " + refusal + "\n";
  return text;
}

}  // namespace v0
}  // namespace mtf
