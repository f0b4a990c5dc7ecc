// A report as JSON.
#pragma once

#include <nlohmann/json.hpp>

#include <mtf/io/report.hpp>
#include <mtf/io/utf8.hpp>

namespace mtf {
inline namespace v0 {

namespace detail {

[[nodiscard]] inline nlohmann::json axes_to_json(const Report& report, AxisSet axes) {
  nlohmann::json names = nlohmann::json::array();
  for (std::size_t axis = 0; axis < report.mesh.size(); ++axis) {
    if (axes.has(static_cast<int>(axis))) names.push_back(report.mesh[axis].name);
  }
  return names;
}
[[nodiscard]] inline nlohmann::json dims_to_json(const Report& report, const std::vector<Report::Dim>& dims) {
  nlohmann::json list = nlohmann::json::array();
  for (const Report::Dim& dim : dims) {
    nlohmann::json axes = nlohmann::json::array();
    for (const int axis : dim.axes) axes.push_back(report.mesh[static_cast<std::size_t>(axis)].name);
    list.push_back({{"name", dim.name}, {"extent", dim.extent}, {"parts", dim.parts}, {"axes", axes}});
  }
  return list;
}
[[nodiscard]] inline std::string_view name_of_group(ProductGroup group) {
  switch (group) {
    case ProductGroup::batch: return "batch";
    case ProductGroup::first: return "first";
    case ProductGroup::second: return "second";
    case ProductGroup::summed: return "summed";
  }
  return {};
}

}  // namespace detail

/// The members of a report under their names; numbers are of one rank, bytes and seconds where they are named so. Names
/// that are not UTF-8 have U+FFFD in place of the bytes that are not.
/// docs/reports.md has the list.
[[nodiscard]] inline nlohmann::json json_of(const Report& report) {
  using nlohmann::json;
  const Cost& cost = report.cost;
  json mesh = json::array();
  for (const Report::Axis& axis : report.mesh) mesh.push_back({{"name", axis.name}, {"size", axis.size}});
  json rules = json::array();
  for (const Report::Rule& rule : report.rules) {
    json axes = json::array();
    for (const int axis : rule.axes) axes.push_back(report.mesh[static_cast<std::size_t>(axis)].name);
    rules.push_back({{"dim", rule.dim}, {"axes", axes}});
  }
  json operations = json::array();
  for (const Report::Operation& o : report.operations) {
    operations.push_back({{"operation", o.name},
                          {"phase", name_of(o.phase)},
                          {"runs", o.runs},
                          {"plans", o.plans},
                          {"multiply_adds", o.multiply_adds},
                          {"element_operations", o.element_operations},
                          {"bytes", o.bytes},
                          {"seconds", o.seconds}});
  }
  json communication = json::array();
  for (const Report::Communication& c : report.communication) {
    communication.push_back({{"collective", c.kind},
                             {"axes", detail::axes_to_json(report, c.axes)},
                             {"phase", name_of(c.phase)},
                             {"for", c.operation},
                             {"count", c.count},
                             {"elements", c.elements},
                             {"bytes", c.bytes},
                             {"wire_bytes", c.wire_bytes},
                             {"seconds", c.seconds}});
  }
  json along_axes = json::array();
  for (const Report::AlongAxes& a : report.along_axes) {
    along_axes.push_back({{"axes", detail::axes_to_json(report, a.axes)},
                          {"count", a.count},
                          {"elements", a.elements},
                          {"bytes", a.bytes},
                          {"wire_bytes", a.wire_bytes},
                          {"messages", a.messages},
                          {"seconds", a.seconds}});
  }
  json products = json::array();
  for (const Report::Product& p : report.products) {
    json dims = detail::dims_to_json(report, p.dims);
    for (std::size_t i = 0; i < p.groups.size(); ++i) dims[i]["group"] = detail::name_of_group(p.groups[i]);
    products.push_back({{"operation", p.operation},
                        {"phase", name_of(p.phase)},
                        {"dims", dims},
                        {"count", p.count},
                        {"multiply_adds", p.multiply_adds},
                        {"distinct_multiply_adds", p.distinct},
                        {"repeated_along", detail::axes_to_json(report, p.idle)},
                        {"least_elements", p.least_elements},
                        {"grid_elements", p.grid_elements}});
  }
  json tensors = json::array();
  for (const Report::Tensor& t : report.tensors) {
    tensors.push_back({{"name", t.name},
                       {"is_variable", t.is_variable},
                       {"type", t.type},
                       {"dims", detail::dims_to_json(report, t.dims)},
                       {"count", t.count},
                       {"local_elements", t.local_elements},
                       {"copies", t.copies}});
  }
  json events = json::array();
  for (const Report::Event& e : report.events) {
    json axes = json::array();
    if (e.lane >= 0) axes = detail::axes_to_json(report, report.along_axes[static_cast<std::size_t>(e.lane)].axes);
    events.push_back({{"axes", axes},
                      {"phase", name_of(e.phase)},
                      {"operation", e.operation},
                      {"plan", e.plan},
                      {"begin", e.begin},
                      {"seconds", e.seconds},
                      {"work", e.work},
                      {"bytes", e.bytes}});
  }
  json result{
      {"title", report.title},
      {"mesh", mesh},
      {"layout", report.layout},
      {"rules", rules},
      {"processors", report.processors},
      {"parameters", {{"total", cost.parameters}, {"per_rank", cost.parameters_per_rank}}},
      {"memory",
       {{"parameter_bytes", cost.parameter_bytes}, {"state_bytes", cost.state_bytes}, {"peak_bytes", cost.peak_bytes}}},
      {"multiply_adds", cost.multiply_adds()},
      {"seconds",
       {{"step", report.seconds()},
        {"local_work", report.local_seconds()},
        {"communication", report.communication_seconds()},
        {"outside_of_plans", report.outside_seconds()}}},
      {"einsum", report.einsum},
      {"einsum_unique", report.einsum_unique},
      {"operations", operations},
      {"communication", communication},
      {"along_axes", along_axes},
      {"products", products},
      {"tensors", tensors},
      {"events", events},
      {"counters", report.counters},
      {"findings", report.findings}};
  if (report.is_measured) {
    result["time"] = {{"measured", report.seconds()}};
  } else {
    result["time"] = {{"at_least", report.time.at_least()}, {"at_most", report.time.at_most()}};
  }
  return detail::with_valid_texts(std::move(result));
}

}  // namespace v0
}  // namespace mtf
