// What is said of the places where ranks run.
#include <cstdio>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <mtf/runtime/processes.hpp>

namespace {

mtf::ProcessPlace place(const char* host, int cores, int core, int threads) {
  mtf::ProcessPlace result;
  std::snprintf(result.host, sizeof result.host, "%s", host);
  result.cores = cores;
  result.core = core;
  result.threads = threads;
  return result;
}
std::string text_of(const std::vector<mtf::ProcessPlace>& places) {
  return mtf::describe_processes(places.data(), static_cast<int>(places.size()), "OpenMP");
}

}  // namespace

TEST_CASE("ranks with cores of their own are described in one line") {
  CHECK(text_of({place("a", 1, 0, 1), place("a", 1, 1, 1), place("b", 1, 0, 1)}) ==
        "3 ranks on 2 hosts, 1 thread each (OpenMP), rank 0 on 1 core\n");
  CHECK(text_of({place("a", 8, -1, 4), place("a", 8, -1, 4)}) ==
        "2 ranks on 1 host, up to 4 threads each (OpenMP), rank 0 on 8 cores\n");
  CHECK(text_of({place("a", 0, -1, 1)}) == "1 rank on 1 host, 1 thread each (OpenMP)\n");
}

TEST_CASE("MPI: ranks bound to one core are warned of, on the same host only") {
  const std::string text = text_of({place("a", 1, 3, 1), place("b", 1, 3, 1), place("a", 1, 3, 1)});
  CHECK(text.find("mtf: warning: ranks 0 and 2 on a are both bound to core 3 and take turns") != std::string::npos);
  CHECK(text.find(" on b ") == std::string::npos);
}

TEST_CASE("MPI: a host with more threads than cores is warned of") {
  CHECK(text_of({place("a", 4, -1, 4), place("a", 4, -1, 4)}).find("mtf: warning: a runs 8 threads on 4 cores") !=
        std::string::npos);
}

TEST_CASE("this process has a host, and where the system says so, cores") {
  const mtf::ProcessPlace here = mtf::this_process(3);
  CHECK(here.host[0] != '\0');
  CHECK(here.threads == 3);
#if defined(__linux__)
  CHECK(here.cores >= 1);
  CHECK((here.cores == 1) == (here.core >= 0));
#endif
}
