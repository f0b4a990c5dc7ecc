// Chrome traces: the file against the records of every rank, and spans that nest.
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <random>

#include <mtf/io/chrome_trace.hpp>

#include "support.hpp"

using namespace support;

namespace {

/// A path that all ranks agree on; rank 0 removes the file at the end.
struct SharedFile {
  std::string path;
  SharedFile() {
    unsigned number = std::random_device{}();
    MPI_Bcast(&number, 1, MPI_UNSIGNED, 0, MPI_COMM_WORLD);
    path = (std::filesystem::temp_directory_path() / fmt::format("mtf_trace_{}.json", number)).string();
  }
  SharedFile(const SharedFile&) = delete;
  SharedFile& operator=(const SharedFile&) = delete;
  ~SharedFile() {
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank_of_process() == 0) std::remove(path.c_str());
  }
};

nlohmann::json read(const std::string& path) {
  std::ifstream file(path);
  return nlohmann::json::parse(file);
}
std::int64_t nanoseconds(const nlohmann::json& microseconds) { return std::llround(1e3 * microseconds.get<double>()); }
struct Span {
  std::int64_t begin, end;
};
Span span_of(const nlohmann::json& event) {
  const std::int64_t begin = nanoseconds(event.at("ts"));
  return {begin, begin + nanoseconds(event.at("dur"))};
}

std::string axes_of(mtf::AxisSet axes) {
  const bool rows = axes.has(0);
  const bool cols = axes.has(1);
  return rows && cols ? "rows,cols" : rows ? "rows" : cols ? "cols" : "";
}

/// Everything that the file says of this rank, against its records.
void check_events(const nlohmann::json& file, const mtf::Records& records, const World& world) {
  std::vector<nlohmann::json> operations;
  std::vector<nlohmann::json> events;
  std::string name;
  for (const nlohmann::json& event : file.at("traceEvents")) {
    if (event.at("pid") != world.rank()) continue;
    if (event.at("ph") == "M") {
      name = event.at("args").at("name");
    } else if (event.at("cat") == "operation") {
      operations.push_back(event);
    } else {
      events.push_back(event);
    }
  }
  CHECK(name == world.describe_rank());
  CHECK(events.size() == records.size());
  for (std::size_t i = 0; i < std::min(events.size(), records.size()); ++i) {
    const mtf::Record& record = records[i];
    const nlohmann::json& event = events[i];
    const nlohmann::json& args = event.at("args");
    CHECK(event.at("name") == record.plan);
    CHECK(event.at("cat") == (record.is_collective ? "collective" : "local"));
    CHECK(args.at("operation") == record.operation);
    CHECK(args.at("gradient") == record.is_gradient);
    CHECK(args.at("bytes") == record.bytes);
    CHECK(args.at("type") == mtf::name_of(record.type));
    if (record.is_collective) {
      CHECK(args.at("axes") == axes_of(record.axes));
      CHECK(args.at("count") == record.count);
      CHECK(args.at("wire_bytes") == record.wire_bytes);
      CHECK(args.at("for") == record.subject);
    } else {
      CHECK(args.at("work") == record.work);
      CHECK(args.contains("split_axes") == record.is_contraction());
      if (record.is_contraction()) CHECK(args.at("split_axes") == axes_of(record.axes));
    }
    CHECK(std::abs(static_cast<double>(span_of(event).begin) - 1e9 * record.begin) <= 1);
    CHECK(std::abs(static_cast<double>(span_of(event).end) - 1e9 * record.end) <= 2);
  }
  // Operations follow each other, and so do records; every record lies within the operation whose name it has.
  std::size_t next = 0;
  for (std::size_t o = 0; o < operations.size(); ++o) {
    const Span whole = span_of(operations[o]);
    CHECK(whole.begin <= whole.end);
    if (o > 0) CHECK(span_of(operations[o - 1]).end <= whole.begin);
    const std::size_t first = next;
    std::int64_t last = whole.begin;
    while (next < events.size() && span_of(events[next]).end <= whole.end) {
      const Span part = span_of(events[next]);
      CHECK(last <= part.begin);
      last = part.end;
      const std::string label = std::string(records[next].operation) + (records[next].is_gradient ? " gradient" : "");
      CHECK(operations[o].at("name") == label);
      CHECK(records[next].occurrence == records[first].occurrence);
      ++next;
    }
    CHECK(next > first);
    CHECK(last == whole.end);
  }
  CHECK(next == events.size());
}

/// Products, local and with collectives of several kinds and axes, forward and backward.
void run_step(World& world) {
  const auto x = mtf::watch(normal(world, 1, a, b));
  const auto y = mtf::watch(normal(world, 2, b, c));
  const auto product = mtf::softmax<C>(mtf::einsum<A, C>(x, y));
  const auto moved = mtf::reshape(mtf::shift<B>(x, 3), b, a);
  const auto loss = mtf::reduce_sum(product) + mtf::reduce_mean(mtf::square(moved));
  (void)mtf::gradients(loss, x, y);
  (void)mtf::item(loss);
}

}  // namespace

TEST_CASE("the file says what every rank has recorded, and spans nest") {
  for (const std::string& mesh : meshes()) {
    for (const char* layout : {"", "a:rows;b:cols", "b:rows", "a:cols;c:rows"}) {
      World world(MPI_COMM_WORLD, {.mesh = mesh, .layout = layout});
      run_step(world);  // memory and communicators exist from here on
      world.start_tracing();
      run_step(world);
      world.stop_tracing();
      const SharedFile shared;
      mtf::write_chrome_trace(shared.path, world);
      MPI_Barrier(MPI_COMM_WORLD);
      const nlohmann::json file = read(shared.path);
      check_events(file, world.records(), world);
      CHECK(!world.records().empty());
      std::int64_t all = std::ssize(world.records());
      MPI_Allreduce(MPI_IN_PLACE, &all, 1, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
      std::int64_t found = 0;
      std::int64_t names = 0;
      for (const nlohmann::json& event : file.at("traceEvents")) {
        names += event.at("ph") == "M" ? 1 : 0;
        found += event.at("ph") == "X" && event.at("cat") != "operation" ? 1 : 0;
      }
      CHECK(found == all);
      CHECK(names == ranks());
    }
  }
}

TEST_CASE("time goes on from one record to the next, and tracing begins anew") {
  World world(MPI_COMM_WORLD, {.mesh = mesh_text(ranks(), 1), .layout = "a:rows"});
  const auto begin = std::chrono::steady_clock::now();
  world.start_tracing();
  run_step(world);
  const double passed = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  const mtf::Records records = world.records();
  double last = 0;
  for (const mtf::Record& record : records) {
    CHECK(last <= record.begin);
    CHECK(record.begin <= record.end);
    last = record.end;
  }
  CHECK(last > 0);
  CHECK(last <= passed);
  world.start_tracing();
  CHECK(world.records().empty());
}

TEST_CASE("a kernel of the user's own has a record") {
  World world(MPI_COMM_WORLD, {.mesh = mesh_text(ranks(), 1), .layout = "a:rows"});
  const auto x = normal(world, 1, a, b);
  world.start_tracing();
  (void)mtf::local_map(
      mtf::local_result<double>(a, b),
      [](const auto&, const auto& y, const auto& in) { Kokkos::deep_copy(y.view, in.view); }, x);
  REQUIRE(world.records().size() == 1);
  CHECK(world.records()[0].operation == "local_map");
  CHECK(world.records()[0].plan == "local_map");
  CHECK(world.records()[0].bytes == 2 * 8 * 8 * 16 / ranks());
}

TEST_CASE("a trace of nothing is a file of names, and of long texts one of pieces") {
  World world(MPI_COMM_WORLD, {.mesh = mesh_text(1, ranks())});
  const SharedFile shared;
  mtf::write_chrome_trace(shared.path, world);
  MPI_Barrier(MPI_COMM_WORLD);
  CHECK(read(shared.path).at("traceEvents").size() == static_cast<std::size_t>(ranks()));
  world.start_tracing();
  run_step(world);
  world.stop_tracing();
  const std::int64_t limit = std::exchange(mtf::detail::mpi_count_limit, 1000);
  mtf::write_chrome_trace(shared.path, world);
  mtf::detail::mpi_count_limit = limit;
  MPI_Barrier(MPI_COMM_WORLD);
  check_events(read(shared.path), world.records(), world);
}

TEST_CASE("a file that cannot be written is an error on every rank") {
  World world(MPI_COMM_WORLD, {.mesh = mesh_text(1, ranks())});
  const std::string path = "/no such folder/trace.json";
  CHECK_THROWS_WITH(
      mtf::write_chrome_trace(path, world),
      ("mtf: write_chrome_trace: the file \"" + path + "\" cannot be written: No such file or directory").c_str());
  CHECK(world.verify_replicas());
}

TEST_CASE("a trace with names that are not UTF-8 is JSON all the same") {
  mtf::MeshValue mesh;
  mesh.axes.push_back({"r\xc3\"\n", ranks()});
  mtf::Record record{};
  record.is_collective = true;
  record.axes = mtf::AxisSet::of(0);
  record.plan = "allreduce";
  record.operation = "my\xff \x1b operation";
  record.subject = "layer\x80/\"w\"\x01";
  const SharedFile shared;
  mtf::write_chrome_trace(shared.path, std::span<const mtf::Record>(&record, 1), mesh, MPI_COMM_WORLD);
  MPI_Barrier(MPI_COMM_WORLD);
  const nlohmann::json events = read(shared.path).at("traceEvents");
  REQUIRE(events.size() == 3 * static_cast<std::size_t>(ranks()));
  CHECK(events[0].at("args").at("name") == "rank 0 (r\xef\xbf\xbd\"\n=0)");
  CHECK(events[1].at("name") == "my\xef\xbf\xbd \x1b operation");
  CHECK(events[2].at("args").at("axes") == "r\xef\xbf\xbd\"\n");
  CHECK(events[2].at("args").at("for") == "layer\xef\xbf\xbd/\"w\"\x01");
}
