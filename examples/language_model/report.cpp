#include "report.hpp"

#include <algorithm>
#include <vector>

#include <fmt/format.h>
#include <sys/resource.h>

#include <mtf/io/chrome_trace.hpp>

void StepTrace::write_trace(const std::string& path, const mtf::Records& records, const mtf::MeshValue& mesh,
                            MPI_Comm comm) {
  mtf::write_chrome_trace(path, records, mesh, comm);
}

std::string costs_text(const mtf::Counters& counters, const mtf::MeshValue& mesh, std::int64_t peak_bytes,
                       MPI_Comm comm) {
  std::string by_axes;
  std::vector<std::uint32_t> seen;
  for (const mtf::CollectiveTotals& totals : counters.all()) {
    if (std::find(seen.begin(), seen.end(), totals.axes.bits) != seen.end() || mesh.size(totals.axes) == 1) continue;
    seen.push_back(totals.axes.bits);
    std::string axes;
    for (int i = 0; i < mesh.rank(); ++i) {
      if (totals.axes.has(i)) axes += (axes.empty() ? "" : "+") + std::string(mesh.axes[i].name.text);
    }
    const auto sum = counters.sum([&](const mtf::CollectiveTotals& t) { return t.axes == totals.axes; });
    by_axes += fmt::format("  {}: {:.1f} MB sent per rank in {} collectives\n", axes, sum.wire_bytes / 1e6, sum.count);
  }
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const double mine[2] = {static_cast<double>(peak_bytes) / 1e6, static_cast<double>(usage.ru_maxrss) / 1e3};
  int ranks = 1;
  MPI_Comm_size(comm, &ranks);
  std::vector<double> all(2 * static_cast<std::size_t>(ranks));
  MPI_Allgather(mine, 2, MPI_DOUBLE, all.data(), 2, MPI_DOUBLE, comm);
  std::string by_rank;
  for (std::size_t r = 0; 2 * r < all.size(); ++r) {
    by_rank += fmt::format("  rank {}: {:.1f} MB in tensors, {:.1f} MB in all\n", r, all[2 * r], all[2 * r + 1]);
  }
  return fmt::format("communication of training\n{}peak memory\n{}", by_axes.empty() ? "  none\n" : by_axes, by_rank);
}
