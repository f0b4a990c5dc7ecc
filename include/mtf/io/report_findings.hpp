// What a report finds that could be better.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include <mtf/io/report.hpp>

namespace mtf {
inline namespace v0 {

namespace detail {

/// Axes that split nothing in some products, in sentences: one for each axis and set of dims, forward and backward
/// together.
[[nodiscard]] inline std::vector<std::string> idle_axes(const Report& report) {
  std::vector<std::string> findings;
  for (std::size_t axis = 0; axis < report.mesh.size(); ++axis) {
    struct Idle {
      std::vector<Report::Dim> dims;
      std::string operation;
      std::int64_t count = 0;
      std::int64_t multiply_adds = 0;
    };
    std::vector<Idle> list;
    for (const Report::Product& product : report.products) {
      if (!product.idle.has(static_cast<int>(axis))) continue;
      const auto same = [&](const Idle& idle) {
        return idle.operation == product.operation &&
               std::is_permutation(idle.dims.begin(), idle.dims.end(), product.dims.begin(), product.dims.end());
      };
      auto found = std::find_if(list.begin(), list.end(), same);
      if (found == list.end()) found = list.insert(list.end(), {product.dims, product.operation});
      found->count += product.count;
      found->multiply_adds += product.multiply_adds;
    }
    for (const Idle& idle : list) {
      findings.push_back(fmt::format(
          "Axis \"{}\" splits nothing in {} over {}: in {} products each of its {} ranks makes the same {:.3g} "
          "multiply-adds, "
          "{:.1f} % of all. Split one of these dims over it.",
          report.mesh[axis].name, idle.operation, report.names(idle.dims), idle.count, report.mesh[axis].size,
          static_cast<double>(idle.multiply_adds),
          100.0 * static_cast<double>(idle.multiply_adds) / static_cast<double>(report.cost.multiply_adds())));
    }
  }
  return findings;
}

}  // namespace detail

}  // namespace v0
}  // namespace mtf
