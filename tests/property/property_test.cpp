// Random programs: an operation, shapes, a mesh and a layout are drawn; values and gradients must be those of one rank without a layout, and
// of a naive loop. The untyped forms are drawn, so one instantiation serves all layouts.
//
// MTF_PROPERTY_CASES sets how many; MTF_PROPERTY_CASE=N runs case N alone, which repeats a failure.
#include "../mpi/support.hpp"

#include <cstdlib>
#include <functional>
#include <random>

using namespace support;

namespace {

using Engine = World::engine_type;
using mtf::Array;
using mtf::Name;
using mtf::ShapeValue;

constexpr std::string_view names[]{"a", "b", "c", "d", "e", "f"};
constexpr std::string_view fresh = "n";  // the dim that some operations make
constexpr std::string_view axes[]{"p", "q", "r"};

/// The same numbers on every rank.
class Draw {
 public:
  explicit Draw(std::uint64_t seed) : random_(seed) {}
  /// In [low, high].
  std::int64_t number(std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(high - low + 1));
  }
  bool chance(int percent) { return number(1, 100) <= percent; }
  template <class T>
  const T& of(const std::vector<T>& items) {
    return items[static_cast<std::size_t>(number(0, std::ssize(items) - 1))];
  }

 private:
  std::mt19937_64 random_;
};

/// A global array in a test: row-major elements.
struct Dense {
  ShapeValue shape;
  Host elements;
};

std::int64_t extent_of(const ShapeValue& shape, std::string_view name) {
  const int at = mtf::find(shape, Name(name));
  return at < 0 ? 0 : shape[at].extent;
}

using Index = std::map<std::string_view, std::int64_t>;

/// Calls f(index by name) for every element of the shape, in row-major order.
void for_each(const ShapeValue& shape, const std::function<void(const Index&)>& f) {
  Index index;
  for (const mtf::DimValue& dim : shape) index[dim.name.text] = 0;
  const std::int64_t size = mtf::size_of(shape);
  for (std::int64_t i = 0; i < size; ++i) {
    f(index);
    for (int d = shape.size() - 1; d >= 0; --d) {
      if (++index[shape[d].name.text] < shape[d].extent) break;
      index[shape[d].name.text] = 0;
    }
  }
}
std::size_t offset(const ShapeValue& shape, const Index& index) {
  std::int64_t result = 0;
  for (const mtf::DimValue& dim : shape) result = result * dim.extent + index.at(dim.name.text);
  return static_cast<std::size_t>(result);
}
double at(const Dense& x, const Index& index) { return x.elements[offset(x.shape, index)]; }

Dense make(const ShapeValue& shape, const std::function<double(const Index&)>& f) {
  Dense result{shape, {}};
  for_each(shape, [&](const Index& index) { result.elements.push_back(f(index)); });
  return result;
}
/// Folds f(sum, index over all dims of `over`) into the elements of `kept`.
Dense fold(const ShapeValue& kept, const ShapeValue& over, double start, const std::function<double(double, const Index&)>& f) {
  Dense result{kept, Host(static_cast<std::size_t>(mtf::size_of(kept)), start)};
  for_each(over, [&](const Index& index) {
    double& element = result.elements[offset(kept, index)];
    element = f(element, index);
  });
  return result;
}

/// One drawn operation: on arrays of a world, and naively on dense ones.
struct Program {
  std::string text;
  std::vector<ShapeValue> inputs;
  std::function<Array(Engine&, const std::vector<Array>&)> run;
  std::function<Dense(const std::vector<Dense>&)> naive;
  std::vector<ShapeValue> unions;  ///< lists of dims that must be legal together, beside each input alone
};

ShapeValue without(const ShapeValue& shape, std::string_view name) {
  ShapeValue result;
  for (const mtf::DimValue& dim : shape) {
    if (dim.name.text != name) result.push_back(dim);
  }
  return result;
}
ShapeValue replaced(const ShapeValue& shape, std::string_view name, const mtf::DimValue& by) {
  ShapeValue result;
  for (const mtf::DimValue& dim : shape) result.push_back(dim.name.text == name ? by : dim);
  return result;
}
ShapeValue some_of(Draw& draw, const ShapeValue& shape, int percent) {
  ShapeValue result;
  for (const mtf::DimValue& dim : shape) {
    if (draw.chance(percent)) result.push_back(dim);
  }
  return result;
}
ShapeValue shuffled(Draw& draw, ShapeValue shape) {
  for (int i = shape.size() - 1; i > 0; --i) std::swap(shape[i], shape[static_cast<int>(draw.number(0, i))]);
  return shape;
}
std::string_view dim_of(Draw& draw, const ShapeValue& shape) { return shape[static_cast<int>(draw.number(0, shape.size() - 1))].name.text; }

Program draw_program(Draw& draw, const ShapeValue& dims) {
  Program p;
  const auto tensor = [&](int least) {
    ShapeValue shape;
    while (shape.size() < least) shape = some_of(draw, dims, 50);
    while (shape.size() > 4) shape.erase(static_cast<int>(draw.number(0, shape.size() - 1)));
    return shuffled(draw, shape);
  };
  const ShapeValue x = tensor(1);
  const std::string_view d = dim_of(draw, x);
  const std::int64_t extent = extent_of(x, d);
  p.inputs = {x};


  switch (draw.number(0, 13)) {
    case 0: {
      const ShapeValue y = tensor(1);
      ShapeValue out = shuffled(draw, some_of(draw, mtf::unite(x, y), 60));
      p.text = "einsum";
      p.inputs = {x, y};
      p.unions = {mtf::unite(x, y)};
      p.run = [out](Engine& e, const std::vector<Array>& xs) { return mtf::untyped::einsum<Engine, double>(e, xs, out); };
      p.naive = [out](const std::vector<Dense>& xs) {
        return fold(out, mtf::unite(xs[0].shape, xs[1].shape), 0, [&](double sum, const Index& i) { return sum + at(xs[0], i) * at(xs[1], i); });
      };
      break;
    }
    case 1: {
      const ShapeValue y = tensor(1);
      p.text = "multiply";
      p.inputs = {x, y};
      p.unions = {mtf::unite(x, y)};
      p.run = [](Engine& e, const std::vector<Array>& xs) {
        return mtf::untyped::map<Engine, double, double>(e, "multiply", mtf::functions::Multiply{}, std::array<Array, 2>{xs[0], xs[1]});
      };
      p.naive = [](const std::vector<Dense>& xs) {
        return make(mtf::broadcast_shape(xs[0].shape, xs[1].shape), [&](const Index& i) { return at(xs[0], i) * at(xs[1], i); });
      };
      break;
    }
    case 2: {
      const ShapeValue y = tensor(1);
      p.text = "add, subtract";
      p.inputs = {x, y};
      p.unions = {mtf::unite(x, y)};
      p.run = [](Engine& e, const std::vector<Array>& xs) {
        const Array sum = mtf::untyped::map<Engine, double, double>(e, "add", mtf::functions::Add{}, std::array<Array, 2>{xs[0], xs[1]});
        return mtf::untyped::map<Engine, double, double>(e, "subtract", mtf::functions::Subtract{}, std::array<Array, 2>{sum, xs[1]});
      };
      p.naive = [](const std::vector<Dense>& xs) {
        return make(mtf::broadcast_shape(mtf::broadcast_shape(xs[0].shape, xs[1].shape), xs[1].shape), [&](const Index& i) { return at(xs[0], i); });
      };
      break;
    }
    case 3: {
      const ShapeValue kept = shuffled(draw, some_of(draw, x, 50));
      p.text = "reduce_sum";
      p.run = [kept](Engine& e, const std::vector<Array>& xs) { return mtf::untyped::reduce_sum<Engine, double>(e, xs[0], kept, 0.5, "reduce_sum"); };
      p.naive = [kept](const std::vector<Dense>& xs) {
        return fold(kept, xs[0].shape, 0, [&](double sum, const Index& i) { return sum + 0.5 * at(xs[0], i); });
      };
      break;
    }
    case 4: {
      const ShapeValue kept = shuffled(draw, some_of(draw, x, 50));
      const bool largest = draw.chance(50);
      p.text = largest ? "reduce_max" : "reduce_min";
      p.run = [kept, largest](Engine& e, const std::vector<Array>& xs) {
        return mtf::untyped::reduce_extreme<Engine, double>(e, xs[0], kept, largest ? mtf::Combine::max : mtf::Combine::min, "reduce_extreme");
      };
      p.naive = [kept, largest](const std::vector<Dense>& xs) {
        return fold(kept, xs[0].shape, largest ? -HUGE_VAL : HUGE_VAL,
                    [&](double best, const Index& i) { return largest ? std::max(best, at(xs[0], i)) : std::min(best, at(xs[0], i)); });
      };
      break;
    }
    case 5: {
      const ShapeValue to = shuffled(draw, mtf::unite(x, tensor(1)));
      p.text = "broadcast";
      p.unions = {to};
      p.run = [to](Engine& e, const std::vector<Array>& xs) { return mtf::untyped::broadcast<Engine, double>(e, xs[0], to); };
      p.naive = [to](const std::vector<Dense>& xs) { return make(to, [&](const Index& i) { return at(xs[0], i); }); };
      break;
    }
    case 6: {
      // The same factors under names that may be split otherwise.
      ShapeValue to = x;
      for (int i = 0; i < to.size(); ++i) std::swap(to[i].name, to[static_cast<int>(draw.number(0, to.size() - 1))].name);
      p.text = "reshape to " + mtf::describe(to);
      p.unions = {to};
      p.run = [to](Engine&, const std::vector<Array>& xs) { return mtf::untyped::reshape(xs[0], to, "reshape"); };
      p.naive = [to](const std::vector<Dense>& xs) { return Dense{to, xs[0].elements}; };
      break;
    }
    case 7: {
      const bool whole = draw.chance(50);
      p.text = "softmax along " + std::string(d);
      p.run = [d, whole](Engine& e, const std::vector<Array>& xs) {
        const auto kind = whole ? mtf::untyped::SoftmaxKind::softmax : mtf::untyped::SoftmaxKind::logsumexp;
        return mtf::untyped::softmax<Engine, double>(e, xs[0], Name(d), kind, "softmax");
      };
      p.naive = [d, whole](const std::vector<Dense>& xs) {
        const Dense sums = fold(without(xs[0].shape, d), xs[0].shape, 0, [&](double sum, const Index& i) { return sum + std::exp(at(xs[0], i)); });
        if (!whole) return make(sums.shape, [&](const Index& i) { return std::log(at(sums, i)); });
        return make(xs[0].shape, [&](const Index& i) { return std::exp(at(xs[0], i)) / at(sums, i); });
      };
      break;
    }
    case 8: {
      const bool exclusive = draw.chance(50);
      const bool reverse = draw.chance(50);
      p.text = "cumsum along " + std::string(d);
      p.run = [d, exclusive, reverse](Engine& e, const std::vector<Array>& xs) {
        return mtf::untyped::cumsum<Engine, double>(e, xs[0], Name(d), {.exclusive = exclusive, .reverse = reverse});
      };
      p.naive = [d, extent, exclusive, reverse](const std::vector<Dense>& xs) {
        return make(xs[0].shape, [&](const Index& i) {
          double sum = 0;
          for (std::int64_t j = 0; j < extent; ++j) {
            const std::int64_t own = i.at(d);
            if (reverse ? j < own || (exclusive && j == own) : j > own || (exclusive && j == own)) continue;
            Index other = i;
            other[d] = j;
            sum += at(xs[0], other);
          }
          return sum;
        });
      };
      break;
    }
    case 9: {
      const std::int64_t by = draw.number(-extent - 1, extent + 1);
      const bool wrap = draw.chance(50);
      p.text = "shift of " + std::string(d) + " by " + std::to_string(by);
      p.run = [d, by, wrap](Engine& e, const std::vector<Array>& xs) { return mtf::untyped::shift<Engine, double>(e, xs[0], Name(d), by, {.wrap = wrap}); };
      p.naive = [d, by, wrap, extent](const std::vector<Dense>& xs) {
        return make(xs[0].shape, [&](const Index& i) {
          std::int64_t from = i.at(d) - by;
          if (wrap) from = ((from % extent) + extent) % extent;
          if (from < 0 || from >= extent) return 0.0;
          Index other = i;
          other[d] = from;
          return at(xs[0], other);
        });
      };
      break;
    }
    case 10: {
      const std::int64_t begin = draw.number(0, extent - 1);
      const std::int64_t stride = draw.number(1, 3);
      const mtf::DimValue to{Name(fresh), draw.number(1, (extent - 1 - begin) / stride + 1)};
      p.text = "slice of " + std::string(d) + " from " + std::to_string(begin);
      p.unions = {replaced(x, d, to)};
      p.run = [d, begin, stride, to](Engine& e, const std::vector<Array>& xs) {
        return mtf::untyped::slice<Engine, double>(e, xs[0], Name(d), begin, stride, to);
      };
      p.naive = [d, begin, stride, to](const std::vector<Dense>& xs) {
        return make(replaced(xs[0].shape, d, to), [&](const Index& i) {
          Index other = i;
          other[d] = begin + i.at(fresh) * stride;
          return at(xs[0], other);
        });
      };
      break;
    }
    case 11: {
      const std::int64_t before = draw.number(0, 3);
      const std::int64_t after = draw.number(0, 3);
      const mtf::DimValue to{Name(fresh), before + extent + after};
      p.text = "pad of " + std::string(d);
      p.unions = {replaced(x, d, to)};
      p.run = [d, before, after, to](Engine& e, const std::vector<Array>& xs) {
        return mtf::untyped::pad<Engine, double>(e, xs[0], Name(d), before, after, to);
      };
      p.naive = [d, before, extent, to](const std::vector<Dense>& xs) {
        return make(replaced(xs[0].shape, d, to), [&](const Index& i) {
          const std::int64_t from = i.at(fresh) - before;
          if (from < 0 || from >= extent) return 0.0;
          Index other = i;
          other[d] = from;
          return at(xs[0], other);
        });
      };
      break;
    }
    case 12: {
      p.text = "reverse of " + std::string(d);
      p.run = [d](Engine& e, const std::vector<Array>& xs) { return mtf::untyped::reverse<Engine, double>(e, xs[0], Name(d)); };
      p.naive = [d, extent](const std::vector<Dense>& xs) {
        return make(xs[0].shape, [&](const Index& i) {
          Index other = i;
          other[d] = extent - 1 - i.at(d);
          return at(xs[0], other);
        });
      };
      break;
    }
    default: {
      const ShapeValue y = shuffled(draw, x);
      const mtf::DimValue to{Name(fresh), 2 * extent};
      const ShapeValue out = replaced(x, d, to);
      p.text = "concat of " + std::string(d);
      p.inputs = {x, y};
      p.unions = {out};
      p.run = [d, to, out](Engine& e, const std::vector<Array>& xs) {
        const Name from[]{Name(d), Name(d)};
        return mtf::untyped::concat<Engine, double>(e, "concat", xs, from, to, out);
      };
      p.naive = [d, extent, out](const std::vector<Dense>& xs) {
        return make(out, [&](const Index& i) {
          Index other = i;
          other[d] = i.at(fresh) % extent;
          return at(xs[static_cast<std::size_t>(i.at(fresh) / extent)], other);
        });
      };
    }
  }
  return p;
}

struct Case {
  std::string mesh, layout;
  Program program;
};

Case draw_case(std::uint64_t number) {
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
    sizes[i] = i + 1 == count ? rest : draw.of(divisors);
    rest /= sizes[i];
  }
  for (std::size_t i = 0; i < count; ++i) result.mesh += fmt::format("{}{}:{}", i > 0 ? ";" : "", axes[i], sizes[i]);
  // Extents 1 to 7 and some larger; a rule for about half of the dims, among those that fit.
  ShapeValue dims;
  const auto add_rule = [&](std::string_view name, const std::vector<std::int64_t>& extents) {
    std::string rule;
    std::int64_t parts = 1;
    for (std::size_t i = 0; i < count; ++i) {
      if (!draw.chance(rule.empty() ? 32 : 12)) continue;
      bool fits = true;
      for (const std::int64_t extent : extents) fits = fits && extent % (parts * sizes[i]) == 0;
      if (!fits) continue;
      parts *= sizes[i];
      rule += (rule.empty() ? "" : ",") + std::string(axes[i]);
    }
    if (!rule.empty()) result.layout += fmt::format("{}{}:{}", result.layout.empty() ? "" : ";", name, rule);
  };
  for (const std::string_view name : names) {
    const std::int64_t extent = draw.chance(60) ? draw.of(std::vector<std::int64_t>{2, 4, 8, 8, 12, 16}) : draw.number(1, 7);
    dims.push_back({Name(name), extent});
    add_rule(name, {extent});
  }
  result.program = draw_program(draw, dims);
  for (const ShapeValue& all : result.program.unions) {
    if (const std::int64_t extent = extent_of(all, fresh); extent > 0) add_rule(fresh, {extent});
  }
  return result;
}

/// Value, then gradients of its weighted sum.
std::vector<Host> results_of(World& world, const Program& program, const std::vector<Dense>& inputs, ShapeValue& shape) {
  Engine& engine = world.engine();
  std::vector<Array> xs;
  std::vector<mtf::Ref<mtf::Node>> nodes;
  for (const Dense& input : inputs) {
    auto value = mtf::new_value(engine, "test", input.shape, mtf::ElementType::float64);
    engine.write_slice(*value->block, value->placement, input.elements.data());
    nodes.push_back(mtf::make_node(engine, value->placement, &mtf::element_operations<Engine, double>));
    xs.push_back(Array(value, nodes.back()));
  }
  const Array y = program.run(engine, xs);
  shape = y.value->placement.shape();
  std::vector<Host> results{mtf::detail::gather_to_host<double>(engine, *y.value)};
  const auto weights = mtf::untyped::random<Engine, double>(engine, y.value->placement, mtf::seed{5} / "weights", mtf::Distribution::normal, 0, 1);
  const Array weighted =
      mtf::untyped::map<Engine, double, double>(engine, "multiply", mtf::functions::Multiply{}, std::array<Array, 2>{y, Array(weights, {})});
  const Array loss = mtf::untyped::reduce_sum<Engine, double>(engine, weighted, {}, 1, "reduce_sum");
  const auto gradients = mtf::GradientPass::run(loss.node, nodes, mtf::keep_graph::no, mtf::unused::error);
  for (const auto& gradient : gradients) results.push_back(mtf::detail::gather_to_host<double>(engine, *gradient));
  return results;
}

std::uint64_t from_environment(const char* name, std::uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

}  // namespace

TEST_CASE("random programs under random layouts give what one rank gives") {
  const std::uint64_t cases = from_environment("MTF_PROPERTY_CASES", 600);
  const std::uint64_t single = from_environment("MTF_PROPERTY_CASE", ~std::uint64_t{0});
  World alone(MPI_COMM_SELF, {.mesh = "p:1"});
  std::map<std::string, int> ran;
  int refused = 0;
  for (std::uint64_t number = 0; number < cases; ++number) {
    if (single != ~std::uint64_t{0} && number != single) continue;
    const Case drawn = draw_case(number);
    const std::string what = fmt::format("MTF_PROPERTY_CASE={} on {} ranks: {} on mesh {}, layout {}", number, ranks(), drawn.program.text, drawn.mesh, drawn.layout);
    CAPTURE(what);
    std::vector<Dense> inputs;
    for (const ShapeValue& shape : drawn.program.inputs) {
      const auto value = mtf::untyped::random<Engine, double>(alone.engine(), mtf::place(alone.engine().rules, shape),
                                                             mtf::seed{number} / "input" / inputs.size(), mtf::Distribution::normal, 0, 1);
      inputs.push_back({shape, mtf::detail::gather_to_host<double>(alone.engine(), *value)});
    }
    World world(MPI_COMM_WORLD, {.mesh = drawn.mesh, .layout = drawn.layout});
    ShapeValue shape;
    const std::vector<Host> expected = results_of(alone, drawn.program, inputs, shape);
    const Dense naive = drawn.program.naive(inputs);
    CHECK_MESSAGE(mtf::describe(shape) == mtf::describe(naive.shape), what);
    check_close(expected[0], naive.elements, 1e-12, what + ", one rank against a naive loop");
    bool is_legal = true;
    for (const ShapeValue& dims : drawn.program.inputs) is_legal = is_legal && legal(world, dims);
    for (const ShapeValue& dims : drawn.program.unions) is_legal = is_legal && legal(world, dims);
    if (!is_legal) {
      CHECK_THROWS_AS(results_of(world, drawn.program, inputs, shape), mtf::plan_error);
      ++refused;
    } else {
      const std::vector<Host> results = results_of(world, drawn.program, inputs, shape);
      for (std::size_t i = 0; i < results.size(); ++i) {
        check_close(results[i], expected[i], 1e-12, what + (i == 0 ? ", value" : ", gradient " + std::to_string(i - 1)));
      }
      ++ran[drawn.program.text.substr(0, drawn.program.text.find(' '))];
    }
    CHECK_MESSAGE(world.verify_replicas(), what);
  }
  if (single != ~std::uint64_t{0}) return;
  if (cases >= 300) CHECK(ran.size() >= 13);  // every kind of operation
  CHECK(refused < static_cast<int>(cases) / 2);
}
