// How random graphs run in worlds and dry runs, and what must hold of a run.
#include <exception>

#include "graph_results.hpp"

namespace property {

namespace {

/// Calls f.operator()<T>() for the element type, bool among them.
template <class F>
Array with_element(ElementType type, const F& f) {
  switch (type) {
    case ElementType::float32: return f.template operator()<float>();
    case ElementType::float64: return f.template operator()<double>();
    case ElementType::int32: return f.template operator()<std::int32_t>();
    case ElementType::int64: return f.template operator()<std::int64_t>();
    case ElementType::bfloat16: return f.template operator()<mtf::bfloat16>();
    case ElementType::boolean: break;
  }
  return f.template operator()<bool>();
}

/// A result as an input: summed over what the input lacks, of bools whether any is, repeated along what it has more.
template <class E>
Array adapted(E& engine, const Array& x, const ShapeValue& to) {
  const ShapeValue shape = x.value->placement.shape();
  const ShapeValue common = common_dims(shape, to);
  return with_element(x.value->type(), [&]<class T>() {
    Array sum = x;
    if constexpr (std::same_as<T, bool>) {
      if (common.size() < shape.size())
        sum = {mtf::untyped::extreme<E, bool>(engine, x.value, engine.place(common), mtf::Combine::logical_or, "any"),
               {}};
    } else if (common.size() < shape.size()) {
      sum = mtf::untyped::reduce_sum<E, T>(engine, x, common, 1, "reduce_sum");
    }
    return mtf::untyped::broadcast<E, T>(engine, sum, to);
  });
}

template <class E>
Array with_errors(E& engine, const Array& x, std::uint64_t seed) {
  const Input input{x.value->placement.shape(), x.value->type()};
  Draw draw(seed);
  Host factors(static_cast<std::size_t>(mtf::size_of(input.shape)));
  const double size = input.type == ElementType::bfloat16 ? 0x1p-6 : 16 * roundoff(input.type);
  for (double& factor : factors) factor = 1 + static_cast<double>(draw.number(-2, 2)) * size;
  return with_element(input.type, [&]<class T>() {
    if constexpr (mtf::floating<T>) {
      return mtf::untyped::map<E, T, T>(engine, "multiply", mtf::functions::Multiply{},
                                        std::array<Array, 2>{x, array_of(engine, input, factors)});
    } else {
      return x;
    }
  });
}

/// A hash of this rank's slice as it is, 0 where a sum is outstanding.
std::uint64_t hash_of(const mtf::Value& value) {
  const mtf::Block& block = *value.block;
  if (!block.pending.empty() || !block.scattered.empty() || block.wide || block.data == nullptr) return 0;
  Kokkos::fence();
  return mtf::hash_text({static_cast<const char*>(block.data), static_cast<std::size_t>(block.bytes)}) | 1U;
}

template <class E>
void run_in(E& engine, const Graph& graph, Results& all, const Errors& errors) {
  constexpr bool has_elements = std::same_as<E, Engine>;
  std::vector<std::vector<Array>> results;
  std::vector<std::pair<const mtf::Value*, std::uint64_t>> hashes;
  std::vector<Array> inputs;
  std::vector<mtf::Ref<mtf::Node>> nodes;
  Array loss;
  for (std::size_t s = 0; s < graph.steps.size(); ++s) {
    const Step& step = graph.steps[s];
    const std::vector<Host> leaves = leaves_of(graph, step);
    std::vector<Array> xs;
    for (std::size_t i = 0; i < step.sources.size(); ++i) {
      const Input& input = step.program.inputs[i];
      const Source& source = step.sources[i];
      bool rounded = step.program.exactness != Exactness::same;
      if (source.step >= 0) {
        const Array& from = results[static_cast<std::size_t>(source.step)][static_cast<std::size_t>(source.output)];
        const ShapeValue shape = from.value->placement.shape();
        const bool is_summed = common_dims(shape, input.shape).size() < shape.size();
        // The parts of a sum that ranks hold are rounded before they travel, which counts where they nearly cancel.
        const bool rounds_parts = errors.seed != 0 && is_summed && is_floating(from.value->type());
        xs.push_back(adapted(engine, rounds_parts ? with_errors(engine, from, errors.seed + 100 * s + 50 + i) : from,
                             input.shape));
        rounded = rounded || is_summed;
      } else {
        xs.push_back(outstanding_array_of(engine, input, leaves[i], i));
        if (step.watched && is_floating(input.type)) {
          dispatch(input.type, [&](auto like) {
            if constexpr (mtf::floating<decltype(like)>) {
              nodes.push_back(
                  mtf::make_node(engine, xs.back().value->placement, &mtf::element_operations<E, decltype(like)>));
            }
          });
          xs.back().node = nodes.back();
          all.gradient_types.push_back(input.type);
        }
      }
      if (errors.seed != 0 && is_floating(input.type) && rounded)
        xs.back() = with_errors(engine, xs.back(), errors.seed + 100 * s + i);
      inputs.push_back(xs.back());
    }
    results.push_back(step.program.run(engine, xs));
    for (const Array& y : results.back()) hashes.emplace_back(&*y.value, hash_of(*y.value));
    for (std::size_t o = 0; o < results.back().size(); ++o) {
      const Array& y = results.back()[o];
      if (!step.in_loss || !y.node || !is_floating(y.value->type())) continue;
      dispatch(y.value->type(), [&](auto like) {
        using T = decltype(like);
        if constexpr (mtf::floating<T>) {
          Array part = weighted_sum<T>(engine, y, step.seed % 97 + o);
          if constexpr (!std::same_as<T, double>) part = mtf::untyped::cast<E, double, T>(engine, part);
          const std::array<Array, 2> terms{loss, part};
          loss = loss.value ? mtf::untyped::map<E, double, double>(engine, "add", mtf::functions::Add{}, terms) : part;
        }
      });
    }
  }
  mtf::RecycledVector<mtf::Ref<mtf::Value>> gradients;
  if (loss.node) gradients = mtf::GradientPass::run(loss.node, nodes, mtf::keep_graph::no, mtf::unused::zeros);
  for (const std::vector<Array>& of_step : results) {
    for (const Array& y : of_step) mtf::complete(*y.value, "test");
  }
  for (const auto& gradient : gradients) {
    if (gradient) mtf::complete(*gradient, "test");
  }
  for (const auto& [value, hash] : hashes) all.kept = all.kept && (hash == 0 || hash == hash_of(*value));
  if constexpr (has_elements) {
    all.records = engine.records.size();
    for (const Array& x : inputs) {  // a sum that nobody has asked for may be completed now
      mtf::complete(*x.value, "test");
      all.inputs.push_back(elements_of(engine, *x.value));
    }
    for (const std::vector<Array>& of_step : results) {
      for (const Array& y : of_step) {
        all.values.push_back(elements_of(engine, *y.value));
        all.types.push_back(y.value->type());
      }
    }
    for (const auto& gradient : gradients) all.gradients.push_back(gradient ? elements_of(engine, *gradient) : Host{});
    all.hash = mtf::hash_text({});
    for (const std::vector<Host>* lists : {&all.values, &all.gradients}) {
      for (const Host& x : *lists)
        all.hash = mtf::hash_text({reinterpret_cast<const char*>(x.data()), x.size() * sizeof(double)}, all.hash);
    }
  }
}
}  // namespace

Results results_of(World& world, const Graph& graph, const Errors& errors) {
  const std::int64_t before = world.engine().pool().live_bytes();
  Results all;
  run_in(world.engine(), graph, all, errors);
  all.left = world.engine().pool().live_bytes() - before;
  return all;
}

namespace {

/// What is wrong with the run itself, if anything; `results` are left for the comparison with one rank, none if the
/// layout was refused as it should be.
std::string run_on_all_ranks(const Graph& graph, std::optional<Results>& results) {
  const bool legal = is_legal(graph);
  const std::string mesh = graph.mesh_text();
  const std::string layout = graph.layout();
  const mtf::WorldOptions options{.mesh = mesh, .layout = layout, .unused_rules = mtf::UnusedRules::ignore};
  World world(MPI_COMM_WORLD, options);
  std::string fault;
  try {
    world.start_tracing();
    results = results_of(world, graph);
    world.stop_tracing();
    if (!legal) fault = "an illegal layout was not refused";
  } catch (const mtf::plan_error& error) {
    if (legal) fault = fmt::format("refused: {}", error.what());
  } catch (const std::exception& error) {
    fault = fmt::format("thrown: {}", error.what());
  }
  if (!world.verify_replicas()) return "the sequence of collectives differs between ranks";
  if (!results || !fault.empty()) return fault;
  if (!results->kept) return "a result changed after it was made";
  if (results->left != 0) return fmt::format("{} bytes are left", results->left);
  if (!mtf::detail::is_same_everywhere(results->hash, world.engine().communicators().world())) return "replicas differ";
  if (results_of(world, graph).hash != results->hash) return "a second run, which is not traced, gives other bits";
  if (support::rank_of_process() != 0) return {};  // a dry run is that of the first rank
  mtf::DryRun<mtf::dynamic_mesh, mtf::dynamic_layout> dry(options);
  dry.start_tracing();
  Results planned;
  run_in(dry.engine(), graph, planned, {});
  if (dry.records().size() != results->records) return "a dry run has another number of records";
  for (std::size_t i = 0; i < results->records; ++i) {
    if (!same_work(world.records()[i], dry.records()[i]))
      return fmt::format("record {} is {}, in a dry run {}", i, support::text_of(world.records()[i]),
                         support::text_of(dry.records()[i]));
  }
  return {};
}

}  // namespace

std::vector<std::string> faults_of(std::span<const Graph> graphs, Tally& tally) {
  std::vector<std::string> faults;
  const auto ranks = static_cast<std::size_t>(support::ranks());
  const auto rank = static_cast<std::size_t>(support::rank_of_process());
  std::vector<std::optional<Results>> results(graphs.size());
  for (std::size_t i = 0; i < graphs.size(); ++i) faults.push_back(run_on_all_ranks(graphs[i], results[i]));
  for (std::size_t i = rank; i < graphs.size(); i += ranks) {
    if (!faults[i].empty()) continue;
    ++(results[i] ? tally.graphs : tally.refused);
    if (results[i]) faults[i] = difference_from_one_rank(graphs[i], *results[i], tally);
  }
  share_faults(faults);
  return faults;
}

}  // namespace property
