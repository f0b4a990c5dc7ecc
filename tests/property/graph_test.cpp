// Random graphs of up to twelve operations under random layouts give what one rank gives. A graph that does not is printed
// in its smallest form.
//
// MTF_PROPERTY_GRAPHS sets how many, MTF_PROPERTY_START the number of the first; MTF_PROPERTY_GRAPH=N runs graph N alone.
#include "graph.hpp"

using namespace property;

namespace {

/// Its operand, one more by design where a rule names the operand's first dim and that has more than one element.
Program draw_wrong(Draw& draw, const ShapeValue& dims) {
  Program p;
  const ShapeValue x = draw_shape(draw, dims, 2);
  p.inputs = {{x, ElementType::float64}};
  p.kind = p.text = "wrong";
  p.run = [x]<class E>(E& e, const std::vector<Array>& xs) {
    const bool wrong = !e.rules.axes_of(x[0].name).empty() && x[0].extent > 1;
    if (!wrong) return xs;
    const Array ones{mtf::detail::Elements<E, double>::filled(e, xs[0].value->placement, 1), {}};
    const std::array<Array, 2> terms{xs[0], ones};
    return std::vector<Array>{mtf::untyped::map<E, double, double>(e, "add", mtf::functions::Add{}, terms)};
  };
  return p;
}

std::vector<Kind> graph_kinds() {
  std::vector<Kind> kinds = all_kinds();
  for (int i = 0; i < 4; ++i) kinds.push_back(leaf());
  return kinds;
}

}  // namespace

TEST_CASE("random graphs under random layouts give what one rank gives") {
  const std::vector<Kind> kinds = graph_kinds();
  const std::uint64_t single = from_environment("MTF_PROPERTY_GRAPH", ~std::uint64_t{0});
  const bool only_one = single != ~std::uint64_t{0};
  const std::uint64_t start = only_one ? single : first_number();
  const std::uint64_t end = start + (only_one ? 1 : from_environment("MTF_PROPERTY_GRAPHS", 400));
  std::vector<Graph> graphs;
  Tally tally;
  std::map<std::string, int> drawn;
  int failed = 0;  // three say enough
  for (std::uint64_t number = start; number < end && failed < 3; ++number) {
    graphs.push_back(draw_graph(number, kinds));
    for (const Step& step : graphs.back().steps) ++drawn[step.program.kind];
    if (graphs.size() < static_cast<std::size_t>(support::ranks()) && number + 1 < end) continue;
    const std::vector<std::string> faults = faults_of(graphs, tally);
    for (std::size_t i = 0; i < faults.size() && failed < 3; ++i) {
      if (faults[i].empty()) continue;
      ++failed;
      const Graph smallest = shrunk(graphs[i], [](const Graph& part) { return !fault_of(part).empty(); });
      FAIL_CHECK(faults[i], "; smallest: ", fault_of(smallest), "\n", smallest.text(),
                 "again: MTF_PROPERTY_GRAPH=", graphs[i].number, " mpiexec -n ", support::ranks(), " property_tests");
    }
    graphs.clear();
  }
  std::array<std::int64_t, 7> counts{tally.graphs, tally.refused,   tally.exact,          tally.near,
                                     tally.loose,  tally.gradients, tally.loose_gradients};
  MPI_Allreduce(MPI_IN_PLACE, counts.data(), static_cast<int>(counts.size()), MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
  const auto [ran, refused, exact, near, loose, gradients, loose_gradients] = counts;
  if (support::rank_of_process() == 0) {
    fmt::print(
        "{} graphs ran, {} were refused; results: {} exact, {} within roundings, {} of these loose; gradients: {}, {} "
        "loose\n",
        ran, refused, exact, near, loose, gradients, loose_gradients);
  }
  if (end - start < 100 || failed > 0) return;
  // What is compared must be worth something.
  for (const Kind& kind : kinds)
    CHECK_MESSAGE(drawn[std::string(kind.name)] > 0, "no graph has ", std::string(kind.name));
  CHECK(8 * refused < ran);
  CHECK(3 * exact > near);
  CHECK(gradients > ran);
  CHECK(30 * loose < near);
  CHECK(30 * loose_gradients < gradients);
}

TEST_CASE("a failing graph shrinks to the operation, the rule and the extent that it fails for") {
  std::vector<Kind> kinds = graph_kinds();
  for (int i = 0; i < 3; ++i) kinds.push_back({"wrong", draw_wrong});
  int found = 0;
  for (std::uint64_t number = 0; number < 400 && found < 3; ++number) {
    const Graph graph = draw_graph(number, kinds);
    if (graph.steps.size() < 6 || fault_of(graph).empty()) continue;
    ++found;
    const Graph smallest = shrunk(graph, [](const Graph& part) { return !fault_of(part).empty(); });
    CAPTURE(smallest.text());
    CHECK(fault_of(smallest).starts_with("result 0.0 differs"));
    REQUIRE(smallest.steps.size() == 1);
    const Step& step = smallest.steps[0];
    CHECK(step.kind->name == "wrong");
    CHECK(step.sources[0].step == -1);
    CHECK(!step.watched);
    CHECK(!step.in_loss);
    REQUIRE(smallest.rules.size() == 1);
    CHECK(smallest.rules[0].axes.size() == 1);
    CHECK(smallest.mesh.size() <= 2);  // an axis of one rank splits an extent of 2
    const ShapeValue& x = step.made[0];
    CHECK(Name(smallest.rules[0].dim) == x[0].name);
    CHECK(x[0].extent <= std::max(2, support::ranks()));
    for (int d = 1; d < x.size(); ++d) CHECK(x[d].extent == 1);
  }
  CHECK(found == 3);
}
