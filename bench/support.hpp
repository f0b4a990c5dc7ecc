// What the benchmarks that run on several ranks share: flags, the ranks, the file of the results.
#pragma once

#include <fstream>
#include <optional>
#include <stdexcept>
#include <string>

#include <CLI/CLI.hpp>
#include <mpi.h>
#include <nlohmann/json.hpp>

namespace bench {

[[nodiscard]] inline int rank() {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  return rank;
}
[[nodiscard]] inline int ranks() {
  int ranks = 1;
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  return ranks;
}
/// The rows of the squarest grid of all ranks; it has at least as many columns.
[[nodiscard]] inline int rows_of_squarest_grid() {
  int rows = 1;
  for (int r = 1; r * r <= ranks(); ++r) {
    if (ranks() % r == 0) rows = r;
  }
  return rows;
}

/// Reads the flags, of which rank 0 alone speaks. The exit status, if the program ends with that: after --help, or an
/// error in the flags.
[[nodiscard]] inline std::optional<int> parse_flags(CLI::App& app, int argc, char** argv) {
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (rank() == 0) return app.exit(error);
    return error.get_exit_code() == 0 ? 0 : 1;
  }
  return std::nullopt;
}

/// Writes the results of rank 0, if a file is asked for. Throws std::runtime_error if that cannot be written.
inline void write_results(const std::string& path, const nlohmann::json& results) {
  if (path.empty() || rank() != 0) return;
  std::ofstream file(path);
  file << results.dump(2) << '\n';
  file.close();
  if (!file) throw std::runtime_error("the results cannot be written to \"" + path + "\"");
}

}  // namespace bench
