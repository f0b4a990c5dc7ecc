// Where the ranks of a job run: hosts, cores, threads. Slow training is often a wrong binding, which nobody sees.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>

#if defined(__linux__)
#include <sched.h>
#endif

#include <mtf/core/recycled.hpp>
#include <mtf/runtime/mpi.hpp>

namespace mtf {
inline namespace v0 {

/// The place of one rank.
struct ProcessPlace {
  char host[64]{};
  std::int32_t cores = 0;    ///< cores it may run on; 0 where the system does not say
  std::int32_t core = -1;    ///< that one, if it may run on one only
  std::int32_t threads = 1;  ///< of its execution space
};

/// The place of this rank.
MTF_RARE [[nodiscard]] MTF_RUN_TIME ProcessPlace this_process(int threads);
/// What the places of all ranks mean, in a line for each finding: ranks, hosts, threads and cores; then warnings that
/// start "mtf: warning:", of ranks bound to one and the same core, and of hosts with more threads than cores.
MTF_RARE [[nodiscard]] MTF_RUN_TIME std::string describe_processes(const ProcessPlace* places, int count,
                                                                   const char* space);
/// The same for the ranks of a communicator. Collective; the text is that of rank 0's view, equal on all ranks.
MTF_RARE [[nodiscard]] MTF_RUN_TIME std::string describe_processes(MPI_Comm comm, int threads, const char* space);

#if MTF_HAS_DEFINITIONS

ProcessPlace this_process(int threads) {
  ProcessPlace place;
  place.threads = threads;
  char host[MPI_MAX_PROCESSOR_NAME]{};
  int length = 0;
  MPI_Get_processor_name(host, &length);
  for (int i = 0; i < length && i + 1 < static_cast<int>(sizeof place.host); ++i) place.host[i] = host[i];
#if defined(__linux__)
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof allowed, &allowed) == 0) {
    place.cores = CPU_COUNT(&allowed);
    for (int core = 0; core < CPU_SETSIZE && place.cores == 1; ++core) {
      if (CPU_ISSET(static_cast<std::size_t>(core), &allowed)) place.core = core;
    }
  }
#endif
  return place;
}

std::string describe_processes(const ProcessPlace* places, int count, const char* space) {
  const auto same_host = [&](int a, int b) { return std::strcmp(places[a].host, places[b].host) == 0; };
  const auto counted = [](int n, const char* what) { return std::to_string(n) + " " + what + (n == 1 ? "" : "s"); };
  int hosts = 0;
  int most_threads = 0;
  std::string warnings;
  for (int i = 0; i < count; ++i) {
    most_threads = places[i].threads > most_threads ? places[i].threads : most_threads;
    bool first = true;
    for (int j = 0; j < i; ++j) first = first && !same_host(i, j);
    if (!first) continue;
    ++hosts;
    int threads = 0;
    int cores = 0;
    bool free = true;  // ranks of this host that may run on many cores may all run on the same ones
    for (int j = i; j < count; ++j) {
      if (!same_host(i, j)) continue;
      threads += places[j].threads;
      cores = places[j].cores > cores ? places[j].cores : cores;
      free = free && places[j].cores > 1;
      for (int k = i; k < j; ++k) {
        if (!same_host(j, k) || places[k].core < 0 || places[k].core != places[j].core) continue;
        warnings += std::string("mtf: warning: ranks ") + std::to_string(k) + " and " + std::to_string(j) + " on " +
                    places[i].host + " are both bound to core " + std::to_string(places[j].core) +
                    " and take turns; change the binding of mpiexec\n";
        break;
      }
    }
    if (free && threads > cores) {
      warnings += std::string("mtf: warning: ") + places[i].host + " runs " + std::to_string(threads) + " threads on " +
                  counted(cores, "core") + "; start fewer ranks, or fewer threads a rank\n";
    }
  }
  std::string text = counted(count, "rank") + " on " + counted(hosts, "host") + ", " +
                     (most_threads > 1 ? "up to " : "") + counted(most_threads, "thread") + " each (" + space + ")";
  if (count > 0 && places[0].cores > 0) text += ", rank 0 on " + counted(places[0].cores, "core");
  return text + "\n" + warnings;
}

std::string describe_processes(MPI_Comm comm, int threads, const char* space) {
  int size = 0;
  detail::check_mpi(MPI_Comm_size(comm, &size), "describe_processes");
  const ProcessPlace here = this_process(threads);
  RecycledVector<ProcessPlace> places(static_cast<std::size_t>(size));
  constexpr int bytes = static_cast<int>(sizeof(ProcessPlace));
  detail::check_mpi(MPI_Allgather(&here, bytes, MPI_BYTE, places.data(), bytes, MPI_BYTE, comm), "describe_processes");
  return describe_processes(places.data(), size, space);
}

#endif

}  // namespace v0
}  // namespace mtf
