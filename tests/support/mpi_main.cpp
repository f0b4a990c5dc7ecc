// Main of the tests that run on several ranks. Every rank runs the same cases; a case passes when it passes on all of
// them. Rank 0 prints what each failing rank said, then one line of totals; all ranks return the worst exit code,
// because mpiexec reports only the last one it sees.
//
// A REQUIRE whose condition may differ between ranks hangs the others in their next collective: use CHECK, or agree on
// the condition first.
#define DOCTEST_CONFIG_IMPLEMENT
#include <cstdio>
#include <sstream>
#include <string>
#include <vector>

#include <Kokkos_Core.hpp>
#include <dlfcn.h>
#include <doctest/doctest.h>
#include <mpi.h>
#include <sched.h>

extern "C" unsigned ucp_worker_progress(void* worker);

// MPICH over UCX polls without ever giving its core away: with more ranks than cores a barrier takes 14 ms instead of
// 12 us. The symbol of the program wins over the library's, so this yields in its place; Open MPI never calls it.
extern "C" unsigned ucp_worker_progress(void* worker) {
  using Progress = unsigned (*)(void*);
  static const Progress real = reinterpret_cast<Progress>(dlsym(RTLD_NEXT, "ucp_worker_progress"));
  const unsigned progressed = real(worker);
  if (progressed == 0) sched_yield();
  return progressed;
}

namespace {

std::vector<int> failed;  // one entry for each test case that ran on this rank

struct Recorder : doctest::IReporter {
  explicit Recorder(const doctest::ContextOptions&) {}
  void report_query(const doctest::QueryData&) override {}
  void test_run_start() override {}
  void test_run_end(const doctest::TestRunStats&) override {}
  void test_case_start(const doctest::TestCaseData&) override {}
  void test_case_reenter(const doctest::TestCaseData&) override {}
  void test_case_end(const doctest::CurrentTestCaseStats& stats) override {
    failed.push_back(stats.testCaseSuccess ? 0 : 1);
  }
  void test_case_exception(const doctest::TestCaseException&) override {}
  void subcase_start(const doctest::SubcaseSignature&) override {}
  void subcase_end() override {}
  void log_assert(const doctest::AssertData&) override {}
  void log_message(const doctest::MessageData&) override {}
  void test_case_skipped(const doctest::TestCaseData&) override {}
};
REGISTER_LISTENER("recorder", 1, Recorder);

// Rank 0 prints the text of each rank that has one, in rank order.
void print_by_rank(const std::string& mine, int rank, int size) {
  if (rank != 0) {
    const int length = static_cast<int>(mine.size());
    MPI_Send(&length, 1, MPI_INT, 0, 0, MPI_COMM_WORLD);
    MPI_Send(mine.data(), length, MPI_CHAR, 0, 0, MPI_COMM_WORLD);
    return;
  }
  for (int from = 0; from < size; ++from) {
    std::string text = mine;
    if (from != 0) {
      int length = 0;
      MPI_Recv(&length, 1, MPI_INT, from, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      text.resize(static_cast<std::size_t>(length));
      MPI_Recv(text.data(), length, MPI_CHAR, from, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    if (!text.empty()) std::printf("--- rank %d\n%s", from, text.c_str());
  }
}

}  // namespace

int main(int argc, char** argv) {
  int level = MPI_THREAD_SINGLE;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &level);
  int rank = 0;
  int size = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);

  int result = 0;
  bool only_asked = false;  // --help, --list-test-cases and the like
  std::ostringstream text;
  {
    Kokkos::ScopeGuard kokkos(argc, argv);
    doctest::Context context(argc, argv);
    context.setOption("no-breaks", true);
    context.setOption("no-intro", true);
    context.setCout(&text);
    result = context.run();
    only_asked = context.shouldExit();
  }
  if (only_asked) {
    if (rank == 0) std::fputs(text.str().c_str(), stdout);
    std::fflush(stdout);
    MPI_Finalize();
    return result;
  }

  std::vector<int> failed_anywhere(failed.size());
  MPI_Allreduce(failed.data(), failed_anywhere.data(), static_cast<int>(failed.size()), MPI_INT, MPI_MAX,
                MPI_COMM_WORLD);
  int worst = 0;
  MPI_Allreduce(&result, &worst, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
  print_by_rank(result != 0 ? text.str() : std::string(), rank, size);
  if (rank == 0) {
    int bad = 0;
    for (int value : failed_anywhere) bad += value;
    std::printf("%d passed, %d failed\n", static_cast<int>(failed_anywhere.size()) - bad, bad);
  }
  MPI_Finalize();
  return worst;
}
