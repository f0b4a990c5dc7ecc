// Random programs: an operation, element types, shapes, a mesh and a layout are drawn; values and gradients must be
// those of one rank without a layout, and of a naive loop. The untyped forms are drawn, so one instantiation serves all
// layouts. The operations are in the files beside this one, by family.
//
// MTF_PROPERTY_CASES sets how many, MTF_PROPERTY_START the number of the first; MTF_PROPERTY_CASE=N runs case N alone,
// which repeats a failure.
#include <set>

#include "execution.hpp"

using namespace property;
using support::ranks;

namespace {

constexpr std::string_view axes[]{"p", "q", "r"};
struct Case {
  std::string mesh, layout;
  Program program;
};

Case draw_case(std::uint64_t number, const std::vector<Kind>& kinds) {
  Draw draw(0x6d7466 + number);
  Case result;
  // A mesh of one to three axes, some of size 1.
  const auto count = static_cast<std::size_t>(draw.number(1, 3));
  std::vector<std::int64_t> sizes(count, 1);
  std::int64_t rest = ranks();
  for (std::size_t i = 0; i < count; ++i) {
    std::vector<std::int64_t> divisors;
    for (std::int64_t size = 1; size <= rest; ++size) {
      if (rest % size == 0) divisors.push_back(size);
    }
    sizes[i] = i + 1 == count ? rest : divisors[static_cast<std::size_t>(draw.number(0, std::ssize(divisors) - 1))];
    rest /= sizes[i];
  }
  for (std::size_t i = 0; i < count; ++i) result.mesh += fmt::format("{}{}:{}", i > 0 ? ";" : "", axes[i], sizes[i]);
  // Extents 1 to 7 and some larger; a rule for about half of the dims, among those that fit.
  ShapeValue dims;
  std::vector<std::pair<std::string, std::string>> rules;  // dims and axes
  const auto add_rule = [&](const DimValue& dim) {
    std::string rule;
    std::int64_t parts = 1;
    std::vector<std::size_t> order(count);  // the major axis of a rule may be any
    for (std::size_t i = 0; i < count; ++i) order[i] = i;
    for (std::size_t i = count; i-- > 1;)
      std::swap(order[i], order[static_cast<std::size_t>(draw.number(0, static_cast<std::int64_t>(i)))]);
    for (const std::size_t i : order) {
      if (!draw.chance(rule.empty() ? 32 : 12) || dim.extent % (parts * sizes[i]) != 0) continue;
      parts *= sizes[i];
      if (!rule.empty()) rule += ',';
      rule += axes[i];
    }
    if (!rule.empty()) rules.emplace_back(dim.name.text, rule);
  };
  const auto rule_of = [&](std::string_view dim) -> const std::string* {
    for (const auto& [name, rule] : rules) {
      if (name == dim) return &rule;
    }
    return nullptr;
  };
  const auto shares_axis = [&](const std::string& a, const std::string& b) {
    return std::ranges::any_of(axes, [&](std::string_view axis) {
      return a.find(axis) != std::string::npos && b.find(axis) != std::string::npos;
    });
  };
  const auto parts_of = [&](const std::string& rule) {
    std::int64_t parts = 1;
    for (std::size_t i = 0; i < count; ++i) parts *= rule.find(axes[i]) != std::string::npos ? sizes[i] : 1;
    return parts;
  };
  for (const std::string_view name : names) {
    dims.push_back({Name(name), draw.chance(60) ? draw.of<std::int64_t>({2, 4, 8, 8, 12, 16}) : draw.number(1, 7)});
    add_rule(dims.back());
  }
  // Kinds in turn, so that every one occurs equally often.
  result.program = kinds[number % kinds.size()].draw(draw, dims);
  // The dims that the operation makes, and those of its inputs that are not drawn.
  ShapeValue more;
  const auto collect = [&](const ShapeValue& shape) {
    for (const DimValue& dim : shape) {
      if (mtf::find(dims, dim.name) < 0 && mtf::find(more, dim.name) < 0) more.push_back(dim);
    }
  };
  for (const Input& input : result.program.inputs) collect(input.shape);
  for (const ShapeValue& shape : result.program.unions) collect(shape);
  // A dim that is to be split as another: over its axes, or over one for both, which no other dim of the program keeps.
  const auto split_as = [&](const DimValue& dim, std::string_view original) {
    const std::string* known = rule_of(original);
    const std::string rule(known != nullptr ? *known
                                            : axes[static_cast<std::size_t>(draw.number(0, std::ssize(sizes) - 1))]);
    if (dim.extent % parts_of(rule) != 0 || extent_of(dims, original) % parts_of(rule) != 0) return false;
    std::erase_if(rules, [&](const auto& other) { return other.first == original || shares_axis(other.second, rule); });
    rules.emplace_back(original, rule);
    rules.emplace_back(dim.name.text, rule);
    return true;
  };
  for (const DimValue& dim : more) {
    bool alike = false;
    for (const auto& [copy, original] : result.program.split_alike)
      alike = alike || (dim.name == Name(copy) && draw.chance(70) && split_as(dim, original));
    if (!alike) add_rule(dim);
  }
  const std::string_view summed = result.program.summed;
  if (!summed.empty() && extent_of(dims, summed) % ranks() == 0 && draw.chance(70)) {
    std::string all;
    for (std::size_t i = 0; i < count; ++i) all += fmt::format("{}{}", i > 0 ? "," : "", axes[i]);
    rules.clear();
    rules.emplace_back(summed, all);
  }
  // A dim of sums that are still outstanding when an operation, or its gradient, gets them.
  if (draw.chance(35))
    rules.emplace_back(outstanding, axes[static_cast<std::size_t>(draw.number(0, std::ssize(sizes) - 1))]);
  for (const auto& [dim, rule] : rules)
    result.layout += fmt::format("{}{}:{}", result.layout.empty() ? "" : ";", dim, rule);
  return result;
}

struct Results {
  std::vector<ElementType> types;
  std::vector<ShapeValue> shapes;
  std::vector<Host> values;
  std::vector<Host> gradients;  ///< of the inputs that have one, in order
  bool views_fit = true;        ///< views of slices begin where they say
  std::vector<mtf::Record> sent, sent_back;
};

/// Whether a view of this rank's slice has the elements of the global array from where it says that it begins.
template <class T, std::size_t Rank>
bool view_fits(Engine& engine, const mtf::Value& value, const Host& global) {
  const auto slice = mtf::detail::view_of<const T, Rank>(engine, value.placement, value.block->data);
  const ShapeValue shape = value.placement.shape();
  ShapeValue local;
  for (const mtf::PlacedDim& dim : value.placement.dims) local.push_back({dim.name, dim.local()});
  const T* element = slice.view.data();
  bool fits = slice.view.size() == static_cast<std::size_t>(mtf::size_of(local));
  for_each(local, [&](const Index& at) {
    std::int64_t offset = 0;
    for (std::size_t d = 0; d < Rank; ++d) {
      const DimValue& dim = shape[static_cast<int>(d)];
      offset = offset * dim.extent + slice.begin[d] + at[dim.name.text];
    }
    const auto here = static_cast<double>(*element++);
    const double there = global[static_cast<std::size_t>(offset)];
    fits = fits && (here == there || (std::isnan(here) && std::isnan(there)));
  });
  return fits;
}
bool view_fits(Engine& engine, const mtf::Value& value, const Host& global) {
  Kokkos::fence();
  return dispatch(value.type(), [&](auto like) {
    using T = decltype(like);
    switch (value.placement.rank()) {
      case 1: return view_fits<T, 1>(engine, value, global);
      case 2: return view_fits<T, 2>(engine, value, global);
      case 3: return view_fits<T, 3>(engine, value, global);
      default: return true;
    }
  });
}

Results results_of(World& world, const Program& program, const std::vector<Host>& inputs) {
  Engine& engine = world.engine();
  std::vector<Array> xs;
  std::vector<mtf::Ref<mtf::Node>> nodes;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    xs.push_back(outstanding_array_of(engine, program.inputs[i], inputs[i], i));
    if (!program.differentiable || !is_floating(program.inputs[i].type)) continue;
    dispatch(program.inputs[i].type, [&](auto like) {
      if constexpr (mtf::floating<decltype(like)>) {
        nodes.push_back(
            mtf::make_node(engine, xs.back().value->placement, &mtf::element_operations<Engine, decltype(like)>));
      }
    });
    xs.back().node = nodes.back();
  }
  world.start_tracing();
  const auto sent_since = [&](std::size_t start) {
    std::vector<mtf::Record> sent;
    for (std::size_t i = start; i < world.records().size(); ++i) {
      if (world.records()[i].is_collective) sent.push_back(world.records()[i]);
    }
    return sent;
  };
  std::size_t start = 0;
  const std::vector<Array> ys = program.run(engine, xs);
  Results results;
  for (const Array& y : ys) mtf::complete(*y.value, "test");
  results.sent = sent_since(start);
  for (const Array& y : ys) {
    results.types.push_back(y.value->type());
    results.shapes.push_back(y.value->placement.shape());
    results.values.push_back(elements_of(engine, *y.value));
    results.views_fit = results.views_fit && view_fits(engine, *y.value, results.values.back());
  }
  if (nodes.empty()) return results;
  // The weighted sum of all floating outputs, which have one type.
  dispatch(ys[0].value->type(), [&](auto like) {
    using T = decltype(like);
    if constexpr (mtf::floating<T>) {
      Array loss;
      for (std::size_t o = 0; o < ys.size(); ++o) {
        if (!is_floating(ys[o].value->type())) continue;
        const Array part = weighted_sum<T>(engine, ys[o], o);
        loss = loss.value ? mtf::untyped::map<Engine, T, T>(engine, "add", mtf::functions::Add{},
                                                            std::array<Array, 2>{loss, part})
                          : part;
      }
      REQUIRE_MESSAGE(loss.node, program.text, ": the result joined no graph");
      start = world.records().size();
      const auto gradients = mtf::GradientPass::run(loss.node, nodes, mtf::keep_graph::no, mtf::unused::error);
      for (const auto& gradient : gradients) mtf::complete(*gradient, "test");
      results.sent_back = sent_since(start);
      for (const auto& gradient : gradients) results.gradients.push_back(elements_of(engine, *gradient));
    }
  });
  return results;
}

struct Judge {
  const Program& program;
  const std::vector<Host>& inputs;
  const std::string& what;
  std::vector<Dense> naive;
  std::vector<Host> directions;  ///< of the inputs that have a gradient

  Judge(const Program& drawn, const std::vector<Host>& elements, const std::string& text, Draw& draw)
      : program(drawn), inputs(elements), what(text) {
    std::vector<Dense> xs;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const bool moves = program.differentiable && is_floating(program.inputs[i].type);
      xs.push_back({program.inputs[i].shape, {}});
      if (moves) directions.emplace_back();
      for (const double element : inputs[i]) {
        xs.back().elements.emplace_back(element);
        if (!moves) continue;
        directions.back().push_back(draw.normal());
        xs.back().elements.back().slope = directions.back().back();
        xs.back().elements.back().slope_size = std::abs(directions.back().back());
      }
    }
    naive = program.naive(xs);
  }

  [[nodiscard]] double error(ElementType type) const {
    return slack * static_cast<double>(program.terms + 16) * roundoff(type) + program.roundings * rounding(type);
  }

  /// Values element by element; the gradients in one direction: <gradients, directions> is <weights, derivative in the
  /// direction>.
  void against_naive(const Results& results, const Slices& slices, const std::string& place) const {
    const bool exact = program.exactness == Exactness::same || (program.rounds_once && program.rounds_once(slices));
    CHECK_MESSAGE(results.values.size() == naive.size(), what);
    double slope = 0, bound = 0;
    for (std::size_t o = 0; o < naive.size(); ++o) {
      CHECK_MESSAGE(mtf::describe(results.shapes[o]) == mtf::describe(naive[o].shape), what, ", output ", o);
      const ElementType type = results.types[o];
      Host expected;
      for (const Scalar& element : naive[o].elements)
        expected.push_back(exact ? rounded_to(type, element.value) : element.value);
      const auto tolerance = [&](std::size_t i) {
        return exact ? 0 : error(type) * naive[o].elements[i].size + underflow(type);
      };
      CHECK_MESSAGE(agree(results.values[o], expected, tolerance), what, ", output ", o, " of ", place,
                    " against a naive loop", std::string(exact ? ", rounded once" : ""));
      if (!is_floating(type)) continue;
      for (std::size_t i = 0; i < naive[o].elements.size(); ++i) {
        slope += weight(o, i) * naive[o].elements[i].slope;
        bound += std::abs(weight(o, i)) * (error(type) * naive[o].elements[i].slope_size + underflow(type));
      }
    }
    double found = 0;
    std::size_t position = 0;
    for (std::size_t i = 0; i < program.inputs.size() && !directions.empty(); ++i) {
      if (!is_floating(program.inputs[i].type)) continue;
      const Host& gradient = results.gradients[position];
      const Host& direction = directions[position++];
      for (std::size_t j = 0; j < gradient.size(); ++j) {
        found += gradient[j] * direction[j];
        bound += std::abs(direction[j] * gradient[j]) *
                 (error(program.inputs[i].type) + 0x1p-53 * static_cast<double>(gradient.size()));
      }
    }
    CHECK_MESSAGE(std::abs(found - slope) <= bound, what, ", gradient of ", place, " against a naive loop: ", found,
                  " for ", slope, ", bound ", bound);
  }

  void against_one_rank(const Results& results, const Results& alone) const {
    for (std::size_t o = 0; o < alone.values.size(); ++o) {
      const ElementType type = alone.types[o];
      CHECK_MESSAGE(
          agree(results.values[o], alone.values[o],
                [&](std::size_t i) { return 2 * (error(type) * naive[o].elements[i].size + underflow(type)); }),
          what, ", output ", o, " against one rank");
    }
    CHECK_MESSAGE(results.gradients.size() == alone.gradients.size(), what);
    const ElementType type = alone.types[0];
    for (std::size_t i = 0; i < alone.gradients.size(); ++i) {
      // Where terms cancel, errors are those of the terms, about as large as they are on the average.
      double terms = 0, way = 0;
      for (std::size_t o = 0; o < naive.size(); ++o) {
        for (std::size_t j = 0; j < naive[o].elements.size(); ++j)
          terms += std::abs(weight(o, j)) * naive[o].elements[j].slope_size;
      }
      for (const double step : directions[i]) way += std::abs(step);
      const double scale = std::max(largest(alone.gradients[i]), 4 * terms / way);
      const double tolerance = 2 * error(type) * scale;
      CHECK_MESSAGE(agree(results.gradients[i], alone.gradients[i], [&](std::size_t) { return tolerance; }), what,
                    ", gradient ", i,
                    " against one rank: ", support::difference(results.gradients[i], alone.gradients[i]));
    }
  }
};

/// What was sent and not foreseen, or foreseen and not sent; empty if all is well.
std::string surprise(const World& world, const std::vector<mtf::Record>& sent, Collectives expected) {
  const mtf::MeshValue& mesh = world.mesh();
  const auto text = [&](mtf::Collective kind, mtf::AxisSet over, std::int64_t count) {
    std::string names_of_axes;
    for (int i = 0; i < mesh.rank(); ++i) {
      if (over.has(i)) names_of_axes += mesh.axes[i].name.text;
    }
    return fmt::format("{} over {} of {}", mtf::name_of(kind), names_of_axes, count);
  };
  for (const mtf::Record& plan : sent) {
    mtf::AxisSet over;
    for (int i = 0; i < mesh.rank(); ++i) {
      if (plan.axes.has(i) && mesh.axes[i].size > 1) over |= mtf::AxisSet::of(i);
    }
    if (over.empty()) continue;
    bool found = false;
    for (std::size_t i = 0; i < expected.size() && !found; ++i) {
      const Sent& e = expected[i];
      found = (e.any_kind || e.kind == plan.collective) && (e.any_axes || e.axes == over) &&
              (e.count < 0 || e.count == plan.count);
      if (found) expected.erase(expected.begin() + static_cast<std::ptrdiff_t>(i));
    }
    if (!found) return "unforeseen " + text(plan.collective, over, plan.count);
  }
  for (const Sent& e : expected) {
    if (!e.may && !e.axes.empty()) return "missing " + text(e.kind, e.axes, e.count);
  }
  return {};
}

/// A record of a collective that counts other bytes than its kind has to send: of n elements over p ranks a part of n / p
/// to each of the others, in an allreduce of parts (a reduce-scatter) and of their sums (an allgather).
std::string miscounted(const World& world) {
  for (const mtf::Record& record : world.records()) {
    if (!record.is_collective || record.collective == mtf::Collective::exchange) continue;
    const auto members = static_cast<double>(world.mesh().size(record.axes));
    const double part = static_cast<double>(record.count * mtf::bytes_of(record.type)) / members;
    const double messages = (members - 1) * (record.collective == mtf::Collective::all_reduce ? 2 : 1);
    if (std::abs(record.wire_bytes - messages * part) > 0.01) return support::text_of(record);
  }
  return {};
}

/// The sequences of collectives so far, by the hash that ranks compare.
class Sequences {
 public:
  /// Whether no other sequence had this hash.
  bool is_new_or_known(World& world) {
    std::string text;
    for (const mtf::Record& record : world.records()) {
      if (!record.is_collective) continue;
      text += fmt::format("{} {} {};", mtf::name_of(record.collective), record.axes.bits, record.count);
    }
    return texts_.emplace(world.counters().sequence(), text).first->second == text;
  }

 private:
  std::map<std::uint64_t, std::string> texts_;
};

/// A rule that is said to be unused and is not, or the other way round: one is used if a tensor has its dim.
std::string misjudged_rule(const World& world, const Program& program, const Results& results) {
  const std::vector<std::string> unused = world.unused_rules();
  const auto has = [](const ShapeValue& shape, Name dim) { return mtf::find(shape, dim) >= 0; };
  for (const auto& rule : world.engine().rules.rules) {
    const std::string dim(rule.dim.text);
    const bool said = std::ranges::find(unused, dim) != unused.end();
    bool met = false, may_be_met = dim == outstanding;
    for (const Input& input : program.inputs) met = met || has(input.shape, rule.dim);
    for (const ShapeValue& shape : results.shapes) met = met || has(shape, rule.dim);
    for (const ShapeValue& shape : program.unions) may_be_met = may_be_met || has(shape, rule.dim);
    if (said ? met : !met && !may_be_met) return dim;
  }
  return {};
}

/// The elements that the ranks lack, all together, of a program that moves elements: forward those of inputs from which
/// their slices of the results are, and in the gradient those of the results that came from their slices of the inputs.
struct Lacking {
  std::int64_t forward = 0, back = 0;
};
Lacking lacking(const World& world, const Program& program) {
  const mtf::MeshValue& mesh = world.mesh();
  std::vector<Dense> inputs;
  double elements = 0;
  for (const Input& input : program.inputs) {
    inputs.push_back(make(input.shape, [&](const Index&) { return Scalar(++elements); }));  // each has a number
  }
  const std::vector<Dense> outputs = program.naive(inputs);
  const auto for_each_held = [&](const mtf::Coordinates& at, const std::vector<Dense>& arrays, const auto& f) {
    std::size_t first = 0;  // the number of an array's first element among those of all arrays
    for (const Dense& array : arrays) {
      const mtf::Placement placement = mtf::place(world.engine().rules, array.shape);
      for_each(array.shape, [&](const Index& index) {
        const bool held = std::ranges::all_of(placement.dims, [&](const mtf::PlacedDim& dim) {
          const std::int64_t begin = mtf::slice_begin(dim, mesh, at);
          return index[dim.name.text] >= begin && index[dim.name.text] < begin + dim.local();
        });
        if (held) f(first + array.offset(index), static_cast<std::size_t>(array(index).value));
      });
      first += array.elements.size();
    }
  };
  Lacking result;
  for (std::int64_t rank = 0; rank < mesh.size(); ++rank) {
    const mtf::Coordinates at = mesh.coordinates(rank);
    std::set<std::size_t> held, wanted;
    for_each_held(at, inputs, [&](std::size_t, std::size_t number) { held.insert(number); });
    for_each_held(at, outputs, [&](std::size_t, std::size_t number) {
      if (number != 0 && !held.contains(number)) wanted.insert(number);
    });
    result.forward += std::ssize(wanted);
    std::set<std::size_t> held_results;
    for_each_held(at, outputs, [&](std::size_t position, std::size_t) { held_results.insert(position); });
    std::size_t position = 0;
    for (const Dense& output : outputs) {
      for (const Scalar& element : output.elements) {
        const bool wants = held.contains(static_cast<std::size_t>(element.value)) && !held_results.contains(position);
        if (wants) ++result.back;
        ++position;
      }
    }
  }
  return result;
}
/// Elements that all ranks have sent.
std::int64_t sent_by_all(const std::vector<mtf::Record>& sent) {
  double elements = 0;
  for (const mtf::Record& record : sent)
    elements += record.wire_bytes / static_cast<double>(mtf::bytes_of(record.type));
  MPI_Allreduce(MPI_IN_PLACE, &elements, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  return std::llround(elements);
}

/// Whether all ranks have the same results, bit for bit.
bool equal_on_all_ranks(const Results& results) {
  std::uint64_t hash = mtf::hash_text({});
  const auto add = [&](const Host& x) {
    hash = mtf::hash_text({reinterpret_cast<const char*>(x.data()), x.size() * sizeof(double)}, hash);
  };
  for (const Host& x : results.values) add(x);
  for (const Host& x : results.gradients) add(x);
  std::uint64_t extremes[2] = {hash, ~hash};
  MPI_Allreduce(MPI_IN_PLACE, extremes, 2, MPI_UINT64_T, MPI_MAX, MPI_COMM_WORLD);
  return extremes[0] == ~extremes[1];
}

bool is_legal(const World& world, const Program& program) {
  bool legal = true;
  for (const Input& input : program.inputs) legal = legal && support::legal(world, input.shape);
  for (const ShapeValue& dims : program.unions) legal = legal && support::legal(world, dims);
  return legal && (!program.legal || program.legal(world.engine().rules));
}

}  // namespace

TEST_CASE("random programs under random layouts give what one rank gives") {
  const std::vector<Kind> kinds = all_kinds();
  const std::uint64_t cases = from_environment("MTF_PROPERTY_CASES", 1000);
  const std::uint64_t single = from_environment("MTF_PROPERTY_CASE", ~std::uint64_t{0});
  const std::uint64_t start = single != ~std::uint64_t{0} ? single : first_number();
  World alone(MPI_COMM_SELF, {.mesh = "p:1"});
  std::map<std::string, int> ran;
  Sequences sequences;
  int refused = 0;
  for (std::uint64_t number = start; number < start + (single != ~std::uint64_t{0} ? 1 : cases); ++number) {
    const Case drawn = draw_case(number, kinds);
    const Program& program = drawn.program;
    std::string what = fmt::format("MTF_PROPERTY_CASE={} on {} ranks: {} of", number, ranks(), program.text);
    for (const Input& input : program.inputs)
      what += fmt::format(" {} {}", mtf::name_of(input.type), mtf::describe(input.shape));
    what += fmt::format(" on mesh {}, layout {}", drawn.mesh, drawn.layout);
    CAPTURE(what);
    Draw draw(number);
    std::vector<Host> inputs;
    for (const Input& input : program.inputs) inputs.push_back(draw_elements(draw, input));
    World world(MPI_COMM_WORLD, {.mesh = drawn.mesh, .layout = drawn.layout, .unused_rules = mtf::UnusedRules::ignore});
    if (!is_legal(world, program)) {
      CHECK_THROWS_AS(results_of(world, program, inputs), mtf::plan_error);
      CHECK_MESSAGE(world.verify_replicas(), what);
      ++refused;
      continue;
    }
    const Results results = results_of(world, program, inputs);
    CHECK_MESSAGE(sequences.is_new_or_known(world), what, ": the sequence of collectives passes for another");
    CHECK_MESSAGE(miscounted(world) == "", what);
    CHECK_MESSAGE(misjudged_rule(world, program, results) == "", what);
    CHECK_MESSAGE(results.views_fit, what, ": the view of a slice begins elsewhere");
    CHECK_MESSAGE(world.verify_replicas(), what, ": the sequence of collectives differs between ranks");
    CHECK_MESSAGE(equal_on_all_ranks(results), what, ": replicas differ");
    // Outstanding sums are completed when they must be, which the documentation of the operations does not count.
    if (world.engine().rules.axes_of(Name(outstanding)).empty()) {
      const Slices slices(world.engine().rules);
      const auto foreseen = [&](const auto& sends) { return sends ? sends(slices) : Collectives{}; };
      CHECK_MESSAGE(surprise(world, results.sent, foreseen(program.sends)) == "", what);
      if (!results.gradients.empty()) {
        CHECK_MESSAGE(surprise(world, results.sent_back, foreseen(program.sends_back)) == "", what, ", gradient");
      }
      if (program.moves) {
        const Lacking least = lacking(world, program);
        CHECK_MESSAGE(sent_by_all(results.sent) <= least.forward, what);
        CHECK_MESSAGE(sent_by_all(results.sent_back) <= least.back, what, ", gradient");
      }
    }
    ++ran[program.kind];
    // All ranks have the same, so one of them compares, while the others go on.
    if (static_cast<std::uint64_t>(support::rank_of_process()) != number % static_cast<std::uint64_t>(ranks()))
      continue;
    const Judge judge(program, inputs, what, draw);
    const Results expected = results_of(alone, program, inputs);
    judge.against_naive(expected, Slices(alone.engine().rules), "one rank");
    judge.against_naive(results, Slices(world.engine().rules), "all ranks");
    judge.against_one_rank(results, expected);
  }
  if (single != ~std::uint64_t{0}) return;
  if (cases >= 20 * kinds.size()) {
    for (const Kind& kind : kinds)
      CHECK_MESSAGE(ran[std::string(kind.name)] > 0, "no case of ", std::string(kind.name), " ran");
  }
  CHECK(refused < static_cast<int>(cases) / 2);
}
