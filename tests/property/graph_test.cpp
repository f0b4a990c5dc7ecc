// Random graphs of up to twelve operations under random layouts give what one rank gives. A graph that does not is printed
// in its smallest form.
//
// MTF_PROPERTY_GRAPHS sets how many, MTF_PROPERTY_START the number of the first; MTF_PROPERTY_GRAPH=N runs graph N alone.
#include "graph.hpp"

using namespace property;

namespace {

Graph graph_of(std::uint64_t number, const std::vector<Kind>& kinds) {
  Draw draw(0x6d657368 + number);
  constexpr std::string_view axes[]{"p", "q", "r"};
  const auto count = static_cast<std::size_t>(draw.number(1, 3));
  std::string mesh;
  std::vector<std::int64_t> sizes;
  std::int64_t rest = support::ranks();
  for (std::size_t i = 0; i < count; ++i) {
    std::int64_t size = i + 1 == count ? rest : draw.number(1, rest);
    while (rest % size != 0) --size;
    rest /= size;
    sizes.push_back(size);
    mesh += fmt::format("{}{}:{}", i > 0 ? ";" : "", axes[i], size);
  }
  ShapeValue dims;
  std::vector<std::string> rules;
  for (const std::string_view name : names) {
    const std::int64_t extent = draw.chance(70) ? draw.of<std::int64_t>({2, 4, 8, 8}) : draw.number(1, 5);
    dims.push_back({Name(name), extent});
    std::string rule;
    std::int64_t parts = 1;
    const std::size_t first = static_cast<std::size_t>(draw.number(0, static_cast<std::int64_t>(count) - 1));
    for (std::size_t j = 0; j < count; ++j) {  // any axis may be the major one
      const std::size_t i = draw.chance(50) ? (first + j) % count : (first + count - j) % count;
      if (rule.find(axes[i]) != std::string::npos) continue;
      if (!draw.chance(rule.empty() ? 22 : 15) || extent % (parts * sizes[i]) != 0) continue;
      parts *= sizes[i];
      rule += (rule.empty() ? "" : ",") + std::string(axes[i]);
    }
    if (!rule.empty()) rules.push_back(fmt::format("{}:{}", name, rule));
  }
  if (draw.chance(35)) {
    rules.push_back(
        fmt::format("{}:{}", outstanding, axes[static_cast<std::size_t>(draw.number(0, std::ssize(sizes) - 1))]));
  }
  return draw_graph(number, mesh, rules, dims, kinds);
}

}  // namespace

TEST_CASE("random graphs under random layouts give what one rank gives") {
  const std::vector<Kind> kinds = all_kinds();
  const std::uint64_t graphs = from_environment("MTF_PROPERTY_GRAPHS", 150);
  const std::uint64_t single = from_environment("MTF_PROPERTY_GRAPH", ~std::uint64_t{0});
  const std::uint64_t start = single != ~std::uint64_t{0} ? single : from_environment("MTF_PROPERTY_START", 0);
  const std::uint64_t end = start + (single != ~std::uint64_t{0} ? 1 : graphs);
  for (std::uint64_t number = start; number < end; ++number) {
    const Graph graph = graph_of(number, kinds);
    const std::string fault = fault_of(graph);
    if (fault.empty()) continue;
    const Graph smallest = shrunk(graph, [](const Graph& part) { return !fault_of(part).empty(); });
    FAIL_CHECK("MTF_PROPERTY_GRAPH=", number, ": ", fault_of(smallest), "\n", smallest.text());
  }
}

TEST_CASE("a failing graph shrinks to the operations and rules that it fails for") {
  const std::vector<Kind> kinds = all_kinds();
  // As if every einsum after a softmax or a sum were wrong under a rule for dim "a".
  const auto fails = [](const Graph& graph) {
    int first = -1;
    bool found = false;
    for (std::size_t s = 0; s < graph.steps.size(); ++s) {
      const std::string& kind = graph.steps[s].program.kind;
      if (first >= 0 && kind == "einsum") found = true;
      if (kind == "add, subtract" && first < 0) first = static_cast<int>(s);
    }
    const bool ruled = std::ranges::any_of(graph.rules, [](const std::string& rule) { return rule[0] == 'a'; });
    return found && ruled;
  };
  int shrunk_graphs = 0;
  for (std::uint64_t number = 0; number < 400 && shrunk_graphs < 2; ++number) {
    const Graph graph = graph_of(number, kinds);
    if (!fails(graph)) continue;
    ++shrunk_graphs;
    const Graph smallest = shrunk(graph, fails);
    CHECK(fails(smallest));
    CHECK(smallest.steps.size() == 2);
    CHECK(smallest.rules.size() == 1);
    for (const Step& step : smallest.steps) {
      for (const Source& source : step.sources) CHECK(source.step == -1);
    }
    CHECK(smallest.text().find("einsum") != std::string::npos);
  }
  CHECK(shrunk_graphs > 0);
}
