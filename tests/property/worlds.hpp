// Random meshes, the texts of meshes and rules, and one answer of all ranks: what graphs, training programs and worlds share.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include <fmt/ranges.h>

#include "program.hpp"

namespace property {

/// Names and sizes of axes.
using DrawnMesh = std::vector<std::pair<std::string, std::int64_t>>;

/// One to three axes, some of size 1, of all ranks together.
inline DrawnMesh draw_mesh(Draw& draw) {
  DrawnMesh mesh;
  std::int64_t rest = support::ranks();
  const std::int64_t count = draw.number(1, 3);
  for (std::int64_t i = 0; i < count; ++i) {
    std::int64_t size = i + 1 == count ? rest : draw.number(1, rest);
    while (rest % size != 0) --size;
    rest /= size;
    mesh.emplace_back(std::string(1, static_cast<char>('p' + i)), size);
  }
  return mesh;
}

inline std::string text_of_mesh(const DrawnMesh& mesh) {
  std::vector<std::string> axes;
  for (const auto& [name, size] : mesh) axes.push_back(fmt::format("{}:{}", name, size));
  return fmt::format("{}", fmt::join(axes, ";"));
}
/// Of rules that have a dim and the axes that split it.
template <class Rules>
std::string text_of_rules(const Rules& rules) {
  std::vector<std::string> texts;
  for (const auto& [dim, axes] : rules) texts.push_back(fmt::format("{}:{}", dim, fmt::join(axes, ",")));
  return fmt::format("{}", fmt::join(texts, ";"));
}

/// Collective. For each program one answer for all, that of the first rank that found a fault; empty if none did.
inline void share_faults(std::vector<std::string>& faults) {
  for (std::string& fault : faults) {
    int first = fault.empty() ? support::ranks() : support::rank_of_process();
    MPI_Allreduce(MPI_IN_PLACE, &first, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    if (first == support::ranks()) continue;
    fault.resize(600, ' ');
    MPI_Bcast(fault.data(), static_cast<int>(fault.size()), MPI_CHAR, first, MPI_COMM_WORLD);
    while (!fault.empty() && fault.back() == ' ') fault.pop_back();
  }
}

}  // namespace property
