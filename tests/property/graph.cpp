#include "graph.hpp"

namespace property {

namespace {

/// Whether an input may be the result of another operation: any numbers will do, in doubles.
bool is_open(const Input& input) { return input.type == ElementType::float64 && input.content == Content::normal; }

/// Whether a program computes in doubles alone, besides indices and conditions.
bool is_of_doubles(const Program& program) {
  return std::ranges::none_of(
      program.inputs, [](const Input& input) { return is_floating(input.type) && input.type != ElementType::float64; });
}

/// The dims that both have with one extent.
ShapeValue common_dims(const ShapeValue& a, const ShapeValue& b) {
  ShapeValue result;
  for (const DimValue& dim : b) {
    if (extent_of(a, dim.name.text) == dim.extent) result.push_back(dim);
  }
  return result;
}

std::vector<Host> leaves_of(const Graph& graph, const Step& step, std::size_t position) {
  std::vector<Host> leaves;
  for (std::size_t i = 0; i < step.program.inputs.size(); ++i) {
    Draw draw(graph.number * 1009 + position * 31 + i);  // the same, whatever else the graph has lost
    leaves.push_back(draw_elements(draw, step.program.inputs[i]));
  }
  return leaves;
}

/// A result as an input: summed over what the input lacks, repeated along what it has more.
Array adapted(Engine& engine, const Array& x, const ShapeValue& common, const ShapeValue& to) {
  const Array sum = mtf::untyped::reduce_sum<Engine, double>(engine, x, common, 0.5, "reduce_sum");
  return mtf::untyped::broadcast<Engine, double>(engine, sum, to);
}

}  // namespace

std::string Graph::text() const {
  std::string lines =
      fmt::format("graph {} on {} ranks, mesh {}, layout {}\n", number, support::ranks(), mesh, layout());
  for (std::size_t s = 0; s < steps.size(); ++s) {
    lines += fmt::format("  {}: {} of", s, steps[s].program.text);
    for (std::size_t i = 0; i < steps[s].sources.size(); ++i) {
      const Input& input = steps[s].program.inputs[i];
      const Source& source = steps[s].sources[i];
      lines += source.step < 0
                   ? fmt::format(" leaf {} {}", mtf::name_of(input.type), mtf::describe(input.shape))
                   : fmt::format(" result {}.{} as {}", source.step, source.output, mtf::describe(input.shape));
    }
    lines += "\n";
  }
  return lines;
}

Graph draw_graph(std::uint64_t number, std::string mesh, std::vector<std::string> rules, const ShapeValue& dims,
                 const std::vector<Kind>& kinds) {
  Draw draw(0x67726170 + number);
  Graph graph{.mesh = std::move(mesh), .rules = std::move(rules), .steps = {}, .number = number};
  const auto wanted = static_cast<std::size_t>(draw.number(2, 12));
  for (int tries = 0; graph.steps.size() < wanted && tries < 200; ++tries) {
    Program program = kinds[static_cast<std::size_t>(draw.number(0, std::ssize(kinds) - 1))].draw(draw, dims);
    if (!is_of_doubles(program)) continue;
    Step step{.program = std::move(program), .sources = {}, .made = {}, .real = {}};
    for (const Input& input : step.program.inputs) {
      Source source;
      // One of the last results for most inputs, any for some: chains, and operands that several share.
      if (is_open(input) && !graph.steps.empty() && draw.chance(75)) {
        const auto last = static_cast<std::int64_t>(graph.steps.size()) - 1;
        const auto from = static_cast<int>(draw.chance(60) ? last : draw.number(0, last));
        const Step& earlier = graph.steps[static_cast<std::size_t>(from)];
        const auto output = static_cast<int>(draw.number(0, std::ssize(earlier.made) - 1));
        if (earlier.real[static_cast<std::size_t>(output)]) {
          source = {.step = from,
                    .output = output,
                    .common = common_dims(earlier.made[static_cast<std::size_t>(output)], input.shape)};
        }
      }
      step.sources.push_back(source);
    }
    // Shapes and types of the results, as a naive loop and one rank have them.
    std::vector<Dense> zeros;
    for (const Input& input : step.program.inputs)
      zeros.push_back(make(input.shape, [](const Index&) { return Scalar(1); }));
    for (const Dense& result : step.program.naive(zeros)) step.made.push_back(result.shape);
    step.real.assign(step.made.size(), false);
    graph.steps.push_back(std::move(step));
    Step& added = graph.steps.back();
    World alone(MPI_COMM_SELF, {.mesh = "p:1"});
    const std::vector<Host> leaves = leaves_of(graph, added, 0);
    std::vector<Array> xs;
    for (std::size_t i = 0; i < leaves.size(); ++i)
      xs.push_back(array_of(alone.engine(), added.program.inputs[i], leaves[i]));
    const std::vector<Array> ys = added.program.run(alone.engine(), xs);
    for (std::size_t o = 0; o < ys.size(); ++o) added.real[o] = ys[o].value->type() == ElementType::float64;
  }
  return graph;
}

GraphResults run_graph(World& world, const Graph& graph) {
  Engine& engine = world.engine();
  std::vector<std::vector<Array>> results;
  std::vector<mtf::Ref<mtf::Node>> nodes;
  Array loss;
  GraphResults all;
  for (std::size_t s = 0; s < graph.steps.size(); ++s) {
    const Step& step = graph.steps[s];
    const std::vector<Host> leaves = leaves_of(graph, step, s);
    std::vector<Array> xs;
    for (std::size_t i = 0; i < step.sources.size(); ++i) {
      const Input& input = step.program.inputs[i];
      const Source& source = step.sources[i];
      if (source.step >= 0) {
        const Array& from = results[static_cast<std::size_t>(source.step)][static_cast<std::size_t>(source.output)];
        xs.push_back(adapted(engine, from, source.common, input.shape));
        continue;
      }
      xs.push_back(outstanding_array_of(engine, input, leaves[i], i));
      if (input.type != ElementType::float64 || !step.program.differentiable) continue;
      nodes.push_back(mtf::make_node(engine, xs.back().value->placement, &mtf::element_operations<Engine, double>));
      xs.back().node = nodes.back();
    }
    results.push_back(step.program.run(engine, xs));
    for (std::size_t o = 0; o < results.back().size(); ++o) {
      const Array& y = results.back()[o];
      if (!y.node || y.value->type() != ElementType::float64) continue;
      const Array part = weighted_sum<double>(engine, y, s * 4 + o);
      const std::array<Array, 2> terms{loss, part};
      loss = loss.value ? mtf::untyped::map<Engine, double, double>(engine, "add", mtf::functions::Add{}, terms) : part;
    }
  }
  const auto read = [&] {
    std::vector<Host> values;
    for (const std::vector<Array>& of_step : results) {
      for (const Array& y : of_step) {
        mtf::complete(*y.value, "test");
        values.push_back(elements_of(engine, *y.value));
      }
    }
    return values;
  };
  all.values = read();
  if (loss.node) {
    for (const auto& gradient : mtf::GradientPass::run(loss.node, nodes, mtf::keep_graph::no, mtf::unused::zeros)) {
      if (gradient) mtf::complete(*gradient, "test");
      all.gradients.push_back(gradient ? elements_of(engine, *gradient) : Host{});
    }
  }
  const std::vector<Host> again = read();
  const auto same = [](double a, double b) { return a == b || (a != a && b != b); };
  for (std::size_t i = 0; i < again.size(); ++i)
    all.kept = all.kept && std::ranges::equal(all.values[i], again[i], same);
  return all;
}

namespace {

bool is_legal(const World& world, const Graph& graph) {
  bool legal = true;
  for (const Step& step : graph.steps) {
    for (const Input& input : step.program.inputs) legal = legal && support::legal(world, input.shape);
    for (const ShapeValue& dims : step.program.unions) legal = legal && support::legal(world, dims);
    for (const ShapeValue& dims : step.made) legal = legal && support::legal(world, dims);
    legal = legal && (!step.program.legal || step.program.legal(world.engine().rules));
  }
  return legal;
}

}  // namespace

std::string fault_of(const Graph& graph) {
  std::string fault;
  const auto blame = [&](const std::string& what) { fault = fault.empty() ? what : fault; };
  World world(MPI_COMM_WORLD, {.mesh = graph.mesh, .layout = graph.layout(), .unused_rules = mtf::UnusedRules::ignore});
  World alone(MPI_COMM_SELF, {.mesh = "p:1"});
  const bool legal = is_legal(world, graph);
  try {
    const GraphResults results = run_graph(world, graph);
    if (!legal) blame("an illegal layout was not refused");
    const GraphResults expected = run_graph(alone, graph);
    if (!results.kept || !expected.kept) blame("a result changed after it was made");
    for (std::size_t i = 0; i < expected.values.size(); ++i) {
      const double near = 1e-9 * (1 + largest(expected.values[i]));
      if (!agree(results.values[i], expected.values[i], [&](std::size_t) { return near; }))
        blame(fmt::format("result {} differs from one rank's by {}", i,
                          support::difference(results.values[i], expected.values[i])));
    }
    if (results.gradients.size() != expected.gradients.size()) blame("other leaves have gradients");
    for (std::size_t i = 0; i < expected.gradients.size() && fault.empty(); ++i) {
      const double near = 1e-8 * (1 + largest(expected.gradients[i]));
      if (!agree(results.gradients[i], expected.gradients[i], [&](std::size_t) { return near; }))
        blame(fmt::format("gradient {} differs from one rank's by {}", i,
                          support::difference(results.gradients[i], expected.gradients[i])));
    }
    // The same bits on every rank.
    std::uint64_t hash = mtf::hash_text({});
    for (const std::vector<Host>* lists : {&results.values, &results.gradients}) {
      for (const Host& x : *lists)
        hash = mtf::hash_text({reinterpret_cast<const char*>(x.data()), x.size() * sizeof(double)}, hash);
    }
    if (!mtf::detail::is_same_everywhere(hash, world.engine().communicators().world())) blame("replicas differ");
  } catch (const mtf::plan_error& error) {
    if (legal) blame(fmt::format("refused: {}", error.what()));
  }
  if (!world.verify_replicas()) blame("the sequence of collectives differs between ranks");
  // One answer for all: the first rank's that found a fault.
  int rank = fault.empty() ? support::ranks() : support::rank_of_process();
  MPI_Allreduce(MPI_IN_PLACE, &rank, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
  if (rank == support::ranks()) return {};
  std::string text(400, ' ');
  std::copy_n(fault.begin(), std::min(fault.size(), text.size()), text.begin());
  MPI_Bcast(text.data(), static_cast<int>(text.size()), MPI_CHAR, rank, MPI_COMM_WORLD);
  while (!text.empty() && text.back() == ' ') text.pop_back();
  return text.empty() ? "a fault without words" : text;
}

}  // namespace property
