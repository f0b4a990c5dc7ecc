// How random graphs are drawn, and how they read.
#include "graph.hpp"

namespace property {

namespace {

Program draw_leaf(Draw& draw, const ShapeValue& dims) {
  return with_type<double, double, double, float, mtf::bfloat16, std::int32_t>(
      draw, [&]<class T>(std::type_identity<T>) {
        Program p;
        p.inputs = {{draw_shape(draw, dims), type_of<T>}};
        p.kind = p.text = "leaf";
        p.run = []<class E>(E&, const std::vector<Array>& xs) { return xs; };
        p.naive = [](const std::vector<Dense>& xs) { return xs; };
        return p;
      });
}

/// All shapes that the graph's operations place, each with the dims that must be legal together.
template <class F>
void for_each_shape(const Graph& graph, const F& f) {
  for (const Step& step : graph.steps) {
    for (const Input& input : step.program.inputs) f(input.shape);
    for (const ShapeValue& dims : step.program.unions) f(dims);
    for (const ShapeValue& dims : step.made) f(dims);
  }
}

/// A rule whose axes come in any order, and mostly divide every extent of the dim.
Rule draw_rule(Draw& draw, const Graph& graph, std::string_view dim) {
  std::vector<std::int64_t> extents;
  for_each_shape(graph, [&](const ShapeValue& shape) {
    if (mtf::find(shape, Name(dim)) >= 0) extents.push_back(extent_of(shape, dim));
  });
  auto axes = graph.mesh;
  for (std::size_t i = axes.size(); i-- > 1;)
    std::swap(axes[i], axes[static_cast<std::size_t>(draw.number(0, static_cast<std::int64_t>(i)))]);
  Rule rule{std::string(dim), {}};
  std::int64_t parts = 1;
  for (const auto& [axis, size] : axes) {
    if (!draw.chance(rule.axes.empty() ? 45 : 30)) continue;
    const std::int64_t more = parts * size;
    if (std::ranges::any_of(extents, [&](std::int64_t extent) { return extent % more != 0; })) continue;
    parts = more;
    rule.axes.push_back(axis);
  }
  return rule;
}

/// One of the results that an input may come from, one of the last for most: chains, and operands that several share.
Source draw_source(Draw& draw, const Graph& graph, const Input& input) {
  std::vector<Source> sources;
  for (std::size_t s = 0; s < graph.steps.size(); ++s) {
    for (std::size_t o = 0; o < graph.steps[s].types.size(); ++o) {
      if (graph.steps[s].types[o] == input.type) sources.push_back({static_cast<int>(s), static_cast<int>(o)});
    }
  }
  if (sources.empty() || !draw.chance(80)) return {};
  const auto last = std::ssize(sources) - 1;
  return sources[static_cast<std::size_t>(
      draw.number(draw.chance(60) ? std::max<std::int64_t>(0, last - 2) : std::int64_t{0}, last))];
}

/// The program of a step and what it gives, by a dry run on one rank; false if it is refused.
bool build(Step& step, const ShapeValue& dims) {
  Draw draw(step.seed);
  step.program = step.kind->draw(draw, dims);
  step.made.clear();
  step.types.clear();
  mtf::DryRun<mtf::dynamic_mesh, mtf::dynamic_layout> dry(mtf::WorldOptions{.mesh = "p:1"});
  std::vector<Array> xs;
  for (const Input& input : step.program.inputs) xs.push_back(array_of(dry.engine(), input, {}));
  try {
    for (const Array& y : step.program.run(dry.engine(), xs)) {
      step.made.push_back(y.value->placement.shape());
      step.types.push_back(y.value->type());
    }
  } catch (const mtf::plan_error&) {
    return false;
  }
  return true;
}

}  // namespace

Kind leaf() { return {"leaf", draw_leaf}; }

std::string Graph::mesh_text() const { return text_of_mesh(mesh); }
std::string Graph::layout() const { return text_of_rules(rules); }
std::string Graph::text() const {
  std::string lines = fmt::format("graph {} on {} ranks, dims {}, mesh {}, layout \"{}\"{}\n", number, support::ranks(),
                                  mtf::describe(dims), mesh_text(), layout(), whole ? ", whole numbers" : "");
  for (std::size_t s = 0; s < steps.size(); ++s) {
    const Step& step = steps[s];
    lines += fmt::format("  {}: {} of", s, step.program.text);
    for (std::size_t i = 0; i < step.sources.size(); ++i) {
      const Input& input = step.program.inputs[i];
      const Source& source = step.sources[i];
      const std::string as = fmt::format("{} {}", mtf::name_of(input.type), mtf::describe(input.shape));
      lines += source.step < 0 ? fmt::format(" {} {}", step.watched ? "watched" : "given", as)
                               : fmt::format(" result {}.{} as {}", source.step, source.output, as);
      lines += i + 1 < step.sources.size() ? "," : "";
    }
    for (std::size_t o = 0; o < step.made.size(); ++o)
      lines += fmt::format("{} {} {}", o == 0 ? " ->" : ",", mtf::name_of(step.types[o]), mtf::describe(step.made[o]));
    lines += step.in_loss ? ", in the loss\n" : "\n";
  }
  return lines;
}

bool rebuild(Graph& graph) {
  for (std::size_t s = 0; s < graph.steps.size(); ++s) {
    Step& step = graph.steps[s];
    if (!build(step, graph.dims)) return false;
    step.sources.resize(step.program.inputs.size());
    for (std::size_t i = 0; i < step.sources.size(); ++i) {
      Source& source = step.sources[i];
      if (source.step < 0) continue;
      const Step& earlier = graph.steps[static_cast<std::size_t>(source.step)];
      const auto output = static_cast<std::size_t>(source.output);
      if (output >= earlier.types.size() || earlier.types[output] != step.program.inputs[i].type) source = {};
    }
  }
  return true;
}

bool is_legal(const Graph& graph) {
  const mtf::DryRun<mtf::dynamic_mesh, mtf::dynamic_layout> dry(
      mtf::WorldOptions{.mesh = graph.mesh_text(), .layout = graph.layout(), .unused_rules = mtf::UnusedRules::ignore});
  bool legal = true;
  for_each_shape(graph, [&](const ShapeValue& dims) { legal = legal && mtf::check(dry.rules(), dims, false).empty(); });
  for (const Step& step : graph.steps) legal = legal && (!step.program.legal || step.program.legal(dry.rules()));
  return legal;
}

std::vector<Host> leaves_of(const Graph& graph, const Step& step) {
  std::vector<Host> leaves;
  for (std::size_t i = 0; i < step.program.inputs.size(); ++i) {
    Draw draw(step.seed * 31 + i);
    Input input = step.program.inputs[i];
    if (is_floating(input.type) && (graph.whole || input.content == Content::special)) {
      input.content = Content::integers;
      input.low = -2;
      input.high = 2;
    } else if (input.content != Content::integers) {  // what overflows elsewhere is in single programs
      input.content = Content::normal;
    }
    leaves.push_back(draw_elements(draw, input));
  }
  return leaves;
}

Graph draw_graph(std::uint64_t number, const std::vector<Kind>& kinds) {
  Draw draw(0x67726170 + number);
  Graph graph;
  graph.number = number;
  graph.mesh = draw_mesh(draw);
  graph.whole = draw.chance(40);
  for (const std::string_view name : names)
    graph.dims.push_back({Name(name), draw.chance(70) ? draw.of<std::int64_t>({2, 4, 8, 8}) : draw.number(1, 5)});
  const auto wanted = static_cast<std::size_t>(draw.number(1, 12));
  // Most operations are of one element type, so that they follow one another.
  const auto main = draw.of({ElementType::float64, ElementType::float64, ElementType::float64, ElementType::float32,
                             ElementType::bfloat16, ElementType::int32});
  while (graph.steps.size() < wanted) {
    Step step;
    step.kind = &kinds[static_cast<std::size_t>(draw.number(0, std::ssize(kinds) - 1))];
    step.seed = static_cast<std::uint64_t>(draw.number(0, 1LL << 40));
    step.watched = draw.chance(80);
    step.in_loss = draw.chance(40) || graph.steps.size() + 1 == wanted;
    if (!build(step, graph.dims)) continue;
    const bool fits = std::ranges::any_of(step.program.inputs, [=](const Input& input) { return input.type == main; });
    if (!fits && !draw.chance(20)) continue;
    for (const Input& input : step.program.inputs) step.sources.push_back(draw_source(draw, graph, input));
    graph.steps.push_back(std::move(step));
  }
  // A rule for most dims; rules are taken away until all is legal, or in a few cases not.
  std::vector<std::string> found;
  for_each_shape(graph, [&](const ShapeValue& shape) {
    for (const DimValue& dim : shape) {
      const std::string name(dim.name.text);
      if (std::ranges::find(found, name) == found.end()) found.push_back(name);
    }
  });
  for (const std::string& name : found) {
    const Rule rule = draw_rule(draw, graph, name);
    if (!rule.axes.empty()) graph.rules.push_back(rule);
  }
  if (draw.chance(35)) {
    const auto axis = static_cast<std::size_t>(draw.number(0, std::ssize(graph.mesh) - 1));
    graph.rules.push_back({std::string(outstanding), {graph.mesh[axis].first}});
  }
  const bool any = draw.chance(5);
  while (!any && !is_legal(graph)) graph.rules.erase(graph.rules.begin() + draw.number(0, std::ssize(graph.rules) - 1));
  return graph;
}

}  // namespace property
