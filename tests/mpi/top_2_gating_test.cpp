// The gating of the example plan_paper on data: the reference's six positions of three experts.
#include "../../examples/plan_paper/top_2_gating.hpp"

#include "support.hpp"

namespace {

using namespace support;

struct Batch : mtf::Dim<"batch"> {};
struct Group : mtf::Dim<"group"> {};
struct Expert : mtf::Dim<"experts"> {};
struct Capacity : mtf::Dim<"capacity"> {};

constexpr int groups = 8, positions = 6, experts = 3;
constexpr double inputs[positions][experts] = {{2, .1, 0},  {1.5, 0, .2}, {0, 1, 0},
                                               {1.2, 1, 0}, {0, 0, 1},    {.3, .2, .1}};

struct Result {
  std::vector<double> combine, dispatch, balance;
};
/// The same positions in every group; importance of a position is given.
Result gates_on(World& world, std::int64_t places, const std::vector<float>& importance) {
  const Batch batch{groups};
  const Group group{positions};
  const Expert expert{experts};
  const Capacity capacity{places};
  std::vector<float> x, weights;
  for (int g = 0; g < groups; ++g) {
    for (const auto& position : inputs) x.insert(x.end(), std::begin(position), std::end(position));
    weights.insert(weights.end(), importance.begin(), importance.end());
  }
  const auto probabilities = mtf::softmax<Expert>(mtf::from_global(world, x, batch, group, expert));
  const auto gates = top_2_gates(world, probabilities, mtf::from_global(world, weights, batch, group), 1e-6,
                                 mtf::seed{3}, expert, capacity, group, batch);
  const auto host = [](const auto& tensor) {
    const auto values = mtf::to_host(tensor);
    return std::vector<double>(values.begin(), values.end());
  };
  return {host(gates.combine), host(gates.dispatch), host(gates.balance)};
}
double at(const Result& result, int g, int position, int expert, std::int64_t place, std::int64_t places) {
  return result.combine.at(static_cast<std::size_t>(((g * positions + position) * experts + expert) * places + place));
}

}  // namespace

TEST_CASE("top-2 gating: the reference's assignments, places and balance, however the groups are split") {
  for (const std::string& mesh : meshes()) {
    World world(MPI_COMM_WORLD, {.mesh = mesh, .layout = "batch:rows"});
    const Result result = gates_on(world, 2, std::vector<float>(positions, 1));
    REQUIRE(result.combine.size() == groups * positions * experts * 2);
    struct Entry {
      int position, expert, place;
      double weight;
    };
    // Positions 3 and 5 find no place.
    const Entry expected[]{{0, 0, 0, .86989152}, {0, 1, 1, .13010847}, {1, 0, 1, .78583498},
                           {1, 2, 1, .21416502}, {2, 1, 0, .73105858}, {4, 2, 0, .73105858}};
    for (int g = 0; g < groups; ++g) {
      double rest = 0;
      for (int i = 0; i < positions * experts * 2; ++i)
        rest += result.combine[static_cast<std::size_t>(g * positions * experts * 2 + i)];
      for (const Entry& entry : expected) {
        CHECK(at(result, g, entry.position, entry.expert, entry.place, 2) ==
              doctest::Approx(entry.weight).epsilon(2e-6));
        rest -= entry.weight;
      }
      CHECK(std::abs(rest) < 1e-5);
    }
    for (std::size_t i = 0; i < result.combine.size(); ++i)
      CHECK(result.dispatch[i] == (result.combine[i] > 0 ? 1.0 : 0.0));
    CHECK(result.balance.at(0) == doctest::Approx(1.177407981).epsilon(2e-6));
  }
}

TEST_CASE("importance: one half goes to one expert with weight 1, none to none") {
  World world(MPI_COMM_WORLD, {.mesh = meshes().back(), .layout = "batch:rows"});
  const Result result = gates_on(world, 6, {1, .5F, 0, .5F, 1, 0});
  for (int position = 0; position < positions; ++position) {
    double sum = 0;
    int used = 0;
    for (int expert = 0; expert < experts; ++expert) {
      for (int place = 0; place < 6; ++place) {
        const double weight = at(result, 1, position, expert, place, 6);
        sum += weight;
        used += weight > 0 ? 1 : 0;
      }
    }
    const bool is_none = position == 2 || position == 5;
    const bool is_half = position == 1 || position == 3;
    CHECK(used == (is_none ? 0 : is_half ? 1 : 2));
    if (!is_none) CHECK(sum == doctest::Approx(1.0).epsilon(1e-5));
  }
  // Position 1 prefers expert 0, and position 3 too: as second choices they come after the first choice of position 0.
  CHECK(at(result, 1, 1, 0, 1, 6) == doctest::Approx(1.0).epsilon(1e-5));
  CHECK(at(result, 1, 3, 0, 2, 6) == doctest::Approx(1.0).epsilon(1e-5));
}
