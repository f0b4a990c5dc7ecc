// Random training programs under random layouts give what one rank gives, and what loops on the host give. A program that
// does not is printed in its smallest form.
//
// MTF_PROPERTY_TRAININGS sets how many, MTF_PROPERTY_START the number of the first; MTF_PROPERTY_TRAINING=N runs program
// N alone.
#include "training.hpp"

#include <exception>

namespace property {

namespace {

/// What is wrong with the run itself, if anything.
std::string run_on_all_ranks(const Training& program, Trace& trace) {
  const std::string mesh = program.mesh_text();
  const std::string layout = program.layout();
  World world(MPI_COMM_WORLD, {.mesh = mesh,
                               .layout = layout,
                               .seed = program.number,
                               .unused_rules = mtf::UnusedRules::ignore,
                               .check_lent = true});
  try {
    trace = trace_of(world, program);
  } catch (const std::exception& error) {
    return fmt::format("thrown: {}", error.what());
  }
  if (!world.verify_replicas()) return "replicas or the sequence of collectives differ between ranks";
  std::uint64_t hash = mtf::hash_text({});
  for (const Observation& seen : trace)
    hash =
        mtf::hash_text({reinterpret_cast<const char*>(seen.values.data()), seen.values.size() * sizeof(double)}, hash);
  if (!mtf::detail::is_same_everywhere(hash, world.engine().communicators().world())) return "ranks have other results";
  return {};
}

double tolerance(const Training& program, Nearness nearness) {
  const bool wide = program.type == ElementType::float64;
  if (nearness == Nearness::same) return 0;
  if (nearness == Nearness::update) return wide ? 1e-14 : 4e-6;
  return wide ? 1e-10 : 1e-3;
}

std::string difference_from(const Trace& got, const Trace& expected, const std::string& whose,
                            const std::function<double(const Observation&)>& tolerated) {
  for (std::size_t i = 0; i < std::min(got.size(), expected.size()); ++i) {
    const double bound = tolerated(got[i]) * expected[i].scale * (1 + largest(expected[i].values));
    if (!agree(got[i].values, expected[i].values, [=](std::size_t) { return bound; }))
      return fmt::format("{} differs from {} by {} ({} elements, largest {})", got[i].name, whose,
                         support::difference(got[i].values, expected[i].values), got[i].values.size(),
                         largest(expected[i].values));
  }
  return got.size() == expected.size() ? "" : fmt::format("{} results, of {} {}", got.size(), whose, expected.size());
}

std::string difference_from_one_rank(const Training& program, const Trace& got) {
  World alone(MPI_COMM_SELF, {.mesh = "p:1", .seed = program.number, .check_lent = true});
  const std::string fault = difference_from(got, reference_of(alone, program, got), "the loops on the host",
                                            [&](const Observation& seen) { return tolerance(program, seen.nearness); });
  if (!fault.empty()) return fault;
  // Roundings of earlier steps add up here.
  const double loose = program.type == ElementType::float64 ? 1e-7 : 2e-2;
  Trace expected = trace_of(alone, program);
  // A variable that is just too large for one of them ends only its program.
  expected.resize(std::min(expected.size(), got.size()));
  return difference_from({got.begin(), got.begin() + std::ssize(expected)}, expected, "one rank",
                         [=](const Observation&) { return loose; });
}

}  // namespace

std::vector<std::string> faults_of(std::span<const Training> programs) {
  std::vector<std::string> faults;
  const auto ranks = static_cast<std::size_t>(support::ranks());
  const auto rank = static_cast<std::size_t>(support::rank_of_process());
  std::vector<Trace> traces(programs.size());
  for (std::size_t i = 0; i < programs.size(); ++i) faults.push_back(run_on_all_ranks(programs[i], traces[i]));
  for (std::size_t i = rank; i < programs.size(); i += ranks) {
    if (!faults[i].empty()) continue;
    try {
      faults[i] = difference_from_one_rank(programs[i], traces[i]);
    } catch (const std::exception& error) {
      faults[i] = fmt::format("thrown on one rank: {}", error.what());
    }
  }
  share_faults(faults);
  return faults;
}

}  // namespace property

using namespace property;

TEST_CASE("random training programs under random layouts give what one rank and loops on the host give") {
  const std::uint64_t single = from_environment("MTF_PROPERTY_TRAINING", ~std::uint64_t{0});
  const bool only_one = single != ~std::uint64_t{0};
  const std::uint64_t start = only_one ? single : first_number();
  const std::uint64_t end = start + (only_one ? 1 : from_environment("MTF_PROPERTY_TRAININGS", 300));
  std::vector<Training> programs;
  std::array<int, layer_kinds> layers{};
  std::array<int, action_kinds> actions{};
  int failed = 0;  // three say enough
  for (std::uint64_t number = start; number < end && failed < 3; ++number) {
    programs.push_back(draw_training(number));
    for (const Layer& layer : programs.back().layers) ++layers[static_cast<std::size_t>(layer.kind)];
    for (const Action& action : programs.back().actions) ++actions[static_cast<std::size_t>(action.kind)];
    if (programs.size() < static_cast<std::size_t>(support::ranks()) && number + 1 < end) continue;
    const std::vector<std::string> faults = faults_of(programs);
    for (std::size_t i = 0; i < faults.size() && failed < 3; ++i) {
      if (faults[i].empty()) continue;
      ++failed;
      const auto fault_of = [](const Training& part) { return faults_of({&part, 1})[0]; };
      const Training smallest = shrunk(programs[i], [&](const Training& part) { return !fault_of(part).empty(); });
      FAIL_CHECK(faults[i], "; smallest: ", fault_of(smallest), "\n", smallest.text(),
                 "again: MTF_PROPERTY_TRAINING=", programs[i].number, " mpiexec -n ", support::ranks(),
                 " property_tests");
    }
    programs.clear();
  }
  if (end - start < 100 || failed > 0) return;
  // What is compared must be worth something.
  CHECK(std::ranges::all_of(layers, [](int count) { return count > 0; }));
  CHECK(std::ranges::all_of(actions, [](int count) { return count > 0; }));
}
