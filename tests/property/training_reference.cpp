// What random training programs are to give: loops on the host, in double, with their own gradients.
#include <cmath>
#include <deque>
#include <numeric>

#include "training.hpp"

namespace property {

namespace {

/// An array of the reference with its gradient.
struct HostArray {
  ShapeValue shape;
  Host values, gradient;
  std::function<void()> back;
};

/// Arrays in the order in which they were made.
class Tape {
 public:
  using Ref = HostArray*;

  Ref leaf(const ShapeValue& shape, Host values) {
    arrays_.push_back({shape, std::move(values), Host(static_cast<std::size_t>(mtf::size_of(shape))), {}});
    return &arrays_.back();
  }
  /// y[shape] = the sum of f(elements of xs) over the dims that only xs have; `slope(i, elements)` is the derivative
  /// with respect to element i. Dims that some x lacks are repeated.
  template <class F, class Slope>
  Ref sum_of(const ShapeValue& shape, const std::vector<Ref>& xs, const F& f, const Slope& slope) {
    ShapeValue all = shape;
    for (const Ref x : xs) all = mtf::unite(all, x->shape);
    const Ref y = leaf(shape, Host(static_cast<std::size_t>(mtf::size_of(shape))));
    const auto walk = [=](const auto& visit) {
      std::vector<std::size_t> at(xs.size());
      Host elements(xs.size());
      for_each(all, [&](const Index& index) {
        for (std::size_t i = 0; i < xs.size(); ++i) {
          at[i] = offset(xs[i]->shape, index);
          elements[i] = xs[i]->values[at[i]];
        }
        visit(offset(y->shape, index), at, elements);
      });
    };
    walk([&](std::size_t to, const std::vector<std::size_t>&, const Host& elements) { y->values[to] += f(elements); });
    y->back = [=] {
      walk([&](std::size_t from, const std::vector<std::size_t>& at, const Host& elements) {
        for (std::size_t i = 0; i < xs.size(); ++i) xs[i]->gradient[at[i]] += y->gradient[from] * slope(i, elements);
      });
    };
    return y;
  }
  Ref product(const ShapeValue& shape, const std::vector<Ref>& xs) {
    const auto f = [](const Host& x) { return std::accumulate(x.begin(), x.end(), 1.0, std::multiplies<>{}); };
    return sum_of(shape, xs, f, [](std::size_t which, const Host& x) {
      double result = 1;
      for (std::size_t i = 0; i < x.size(); ++i) result *= i == which ? 1 : x[i];
      return result;
    });
  }
  Ref linear(Ref a, Ref b, double factor) {
    return sum_of(
        a->shape, {a, b}, [=](const Host& x) { return x[0] + factor * x[1]; },
        [=](std::size_t i, const Host&) { return i == 0 ? 1 : factor; });
  }
  Ref renamed(Ref x, std::string_view from, std::string_view to) {
    const Ref y = leaf(replaced(x->shape, from, {Name(to), extent_of(x->shape, from)}), x->values);
    y->back = [=] { add(x->gradient, y->gradient); };
    return y;
  }
  static void add(Host& sum, const Host& x) {
    for (std::size_t i = 0; i < x.size(); ++i) sum[i] += x[i];
  }
  static std::size_t offset(const ShapeValue& shape, const Index& index) {
    std::int64_t result = 0;
    for (const DimValue& dim : shape) result = result * dim.extent + index[dim.name.text];
    return static_cast<std::size_t>(result);
  }
  /// The gradients of all arrays that were made.
  void differentiate(Ref loss) {
    loss->gradient[0] = 1;
    for (auto array = arrays_.rbegin(); array != arrays_.rend(); ++array) {
      if (array->back) array->back();
    }
  }

 private:
  std::deque<HostArray> arrays_;
};

double function(int form, double x) {
  const double logistic = 1 / (1 + std::exp(-x));
  return form == 0 ? std::tanh(x) : form == 1 ? x * logistic : logistic;
}
double slope_of_function(int form, double x) {
  const double logistic = 1 / (1 + std::exp(-x));
  if (form == 0) return 1 - std::tanh(x) * std::tanh(x);
  return form == 1 ? logistic + x * logistic * (1 - logistic) : logistic * (1 - logistic);
}

class Reference {
 public:
  Reference(World& alone, const Training& program, const Trace& observed)
      : alone_(alone), program_(program), observed_(observed), variables_(variables_of(program)) {
    for (const LayerVariable& variable : variables_)
      state_.push_back(Host(static_cast<std::size_t>(mtf::size_of(variable.shape))));
    for (std::size_t i = 0; i < variables_.size(); ++i) {
      state_[i] = seen();  // any numbers will do
      observe(state_[i]);
    }
    velocities_ = means_ = squares_ = std::vector<Host>(state_.size());
  }

  Trace run() {
    for (const Action& action : program_.actions) {
      scale_ = 1;
      switch (action.kind) {
        case ActionKind::train: train(action); break;
        case ActionKind::probe: probe(action); break;
        case ActionKind::assign:
          observe(state_[variable(action)]);
          assign(action);
          observe({1});
          break;
        case ActionKind::stale: stale(action); break;
        case ActionKind::lend: lend(action); break;
        case ActionKind::share: share(action); break;
      }
      for (Host& variable : state_) observe_and_follow(variable);
      if (!std::ranges::all_of(state_, is_moderate)) break;
    }
    for (int i = 0; i < 3; ++i) observe({1});
    return std::move(trace_);
  }

 private:
  using Ref = Tape::Ref;
  struct Forward {
    Tape tape;
    std::vector<Ref> variables, results, inner;
    Ref loss = nullptr;
  };

  /// The next thing that was observed, empty if there is none.
  [[nodiscard]] Host seen() const {
    return trace_.size() < observed_.size() ? observed_[trace_.size()].values : Host{};
  }
  void observe(const Host& values) { trace_.push_back({.name = {}, .values = values, .scale = scale_}); }
  void observe_and_follow(Host& values) {
    Host got = seen();
    observe(values);
    if (got.size() == values.size()) values = std::move(got);
  }
  [[nodiscard]] static std::size_t variable(const Action& action) { return static_cast<std::size_t>(action.variable); }

  /// What dropout makes of ones.
  [[nodiscard]] Ref mask(Tape& tape, std::size_t layer, const ShapeValue& shape, const ShapeValue& noise) {
    const Layer& drops = program_.layers[layer];
    const Array ones = array_of(alone_.engine(), {shape, ElementType::float64},
                                Host(static_cast<std::size_t>(mtf::size_of(shape)), 1.0));
    const mtf::Key key = mtf::seed{program_.number} / "noise" / layer;
    Array kept;
    if (program_.type == ElementType::float64) {
      kept = mtf::untyped::dropout<Engine, double>(alone_.engine(), ones, drops.rate, key, noise);
    } else {  // the same uniform numbers, as floats
      kept = mtf::untyped::dropout<Engine, float>(
          alone_.engine(), mtf::untyped::cast<Engine, float, double>(alone_.engine(), ones), drops.rate, key, noise);
    }
    return tape.leaf(shape, elements_of(alone_.engine(), *kept.value));
  }
  [[nodiscard]] Ref dropped(Tape& tape, std::size_t layer, Ref x, std::string_view noise) {
    if (program_.layers[layer].rate == 0) return x;
    ShapeValue dims;
    for (const DimValue& dim : x->shape) {
      if (noise.find(dim.name.text) != std::string_view::npos) dims.push_back(dim);
    }
    return tape.product(x->shape, {x, mask(tape, layer, x->shape, dims)});
  }

  [[nodiscard]] static Ref applied(Tape& tape, int form, Ref x) {
    return tape.sum_of(
        x->shape, {x}, [=](const Host& e) { return function(form, e[0]); },
        [=](std::size_t, const Host& e) { return slope_of_function(form, e[0]); });
  }
  [[nodiscard]] Ref hidden(Tape& tape, int form, Ref x, Ref w) const {
    return applied(tape, form, tape.product(program_.shape("abe"), {x, w}));
  }
  [[nodiscard]] static Ref normed(Tape& tape, Ref x, Ref scale) {
    const ShapeValue rows = without(x->shape, "c");
    const auto count = static_cast<double>(extent_of(x->shape, "c"));
    const Ref mean = tape.sum_of(
        rows, {x}, [=](const Host& e) { return e[0] * e[0] / count; },
        [=](std::size_t, const Host& e) { return 2 * e[0] / count; });
    constexpr double epsilon = 1e-6;
    const Ref factor = tape.sum_of(
        rows, {mean}, [](const Host& e) { return 1 / std::sqrt(e[0] + epsilon); },
        [](std::size_t, const Host& e) { return -0.5 * std::pow(e[0] + epsilon, -1.5); });
    return tape.product(x->shape, {x, factor, scale});
  }
  [[nodiscard]] Ref attended(Tape& tape, std::size_t layer, Ref x, const Ref* variables) {
    const auto projected = [&](Ref weight, bool memory) {
      const Ref y = tape.product(program_.shape("abfg"), {x, weight});
      return memory ? tape.renamed(y, "b", "h") : y;
    };
    const Ref q = projected(variables[0], false), k = projected(variables[1], true), v = projected(variables[2], true);
    const ShapeValue shape = program_.shape("afbh");
    const Ref logits = tape.product(shape, {q, k});
    Host visible(static_cast<std::size_t>(mtf::size_of(program_.shape("bh"))));
    for_each(program_.shape("bh"), [&](const Index& index) {
      visible[Tape::offset(program_.shape("bh"), index)] = index["h"] <= index["b"] ? 1 : 0;
    });
    // Powers of the distance to the largest; the quotients do not depend on it.
    const ShapeValue rows = program_.shape("afb");
    Host most(static_cast<std::size_t>(mtf::size_of(rows)), -HUGE_VAL);
    for_each(shape, [&](const Index& index) {
      if (visible[Tape::offset(program_.shape("bh"), index)] == 0) return;
      double& at = most[Tape::offset(rows, index)];
      at = std::max(at, logits->values[Tape::offset(shape, index)]);
    });
    scale_ = std::max(scale_, largest(logits->values) / 10);
    const Ref powers = tape.sum_of(
        shape, {logits, tape.leaf(program_.shape("bh"), visible), tape.leaf(rows, most)},
        [](const Host& e) { return e[1] == 0 ? 0 : std::exp(e[0] - e[2]); },
        [](std::size_t i, const Host& e) { return i == 0 && e[1] != 0 ? std::exp(e[0] - e[2]) : 0; });
    const Ref sums = tape.product(rows, {powers});
    const Ref weights = tape.sum_of(
        shape, {powers, sums}, [](const Host& e) { return e[0] / e[1]; },
        [](std::size_t i, const Host& e) { return i == 0 ? 1 / e[1] : -e[0] / (e[1] * e[1]); });
    const Ref kept = dropped(tape, layer, weights, "afh");
    return tape.product(program_.shape("abc"), {tape.product(program_.shape("abfg"), {kept, v}), variables[3]});
  }
  /// Its gradient is its own.
  [[nodiscard]] static Ref custom(Tape& tape, int form, Ref x, Ref s) {
    const Ref y = tape.product(x->shape, {x, s});
    const Ref z = applied(tape, 0, x);
    const Ref result = form == 0 ? y : form == 1 ? z : tape.linear(y, z, 1);
    y->back = z->back = {};
    if (result == y || result == z) {  // a result that is wanted keeps its gradient
      const Ref copy = tape.leaf(result->shape, result->values);
      copy->back = [=] {
        Tape::add(result->gradient, copy->gradient);
        pull(x, s, y, z);
      };
      return copy;
    }
    const auto split = result->back;
    result->back = [=] {
      split();
      pull(x, s, y, z);
    };
    return result;
  }
  static void pull(Ref x, Ref s, Ref y, Ref z) {
    for_each(x->shape, [&](const Index& index) {
      const std::size_t at = Tape::offset(x->shape, index), to = Tape::offset(s->shape, index);
      x->gradient[at] += 2 * y->gradient[at] * s->values[to] + z->gradient[at] * y->values[at];
      s->gradient[to] += 3 * (y->gradient[at] * x->values[at] + z->gradient[at] * z->values[at]);
    });
  }

  [[nodiscard]] Ref result_of(Forward& made, std::size_t number) {
    const Layer& layer = program_.layers[number];
    Tape& tape = made.tape;
    const Ref x = made.results[static_cast<std::size_t>(layer.input)];
    const Ref other = made.results[static_cast<std::size_t>(layer.other)];
    std::size_t first = 0;
    while (first < variables_.size() && variables_[first].layer != static_cast<std::size_t>(layer.variables)) ++first;
    const Ref* variables = made.variables.data() + first;
    const ShapeValue shape = program_.shape("abc");
    switch (layer.kind) {
      case LayerKind::dense: return tape.product(shape, {hidden(tape, layer.form, x, variables[0]), variables[1]});
      case LayerKind::bias: return tape.linear(x, variables[0], 1);
      case LayerKind::scale: return tape.product(shape, {x, variables[0]});
      case LayerKind::norm: return normed(tape, x, variables[0]);
      case LayerKind::attention: return attended(tape, number, x, variables);
      case LayerKind::dropout: return dropped(tape, number, x, layer.form == 0 ? "abc" : layer.form == 1 ? "ac" : "a");
      case LayerKind::mix:
        return layer.form == 2 ? tape.product(shape, {x, applied(tape, 0, other)})
                               : tape.linear(x, other, layer.form == 0 ? 1 : -1);
      case LayerKind::renamed: {
        const Ref y = tape.renamed(x, "c", "d");
        made.inner.push_back(y);
        if (layer.form == 0) return tape.linear(x, tape.renamed(y, "d", "c"), 1);
        if (layer.form == 1) return tape.renamed(applied(tape, 0, y), "d", "c");
        return tape.product(shape, {applied(tape, 0, x), tape.renamed(y, "d", "c")});
      }
      case LayerKind::recomputed: {
        const Ref kept = dropped(tape, number, hidden(tape, layer.form, x, variables[0]), "ae");
        const Ref y = tape.product(shape, {kept, variables[1]});
        const Ref z = tape.product(shape, {applied(tape, 0, x), y});
        return layer.form == 0 ? y : layer.form == 1 ? z : tape.linear(y, z, 1);
      }
      case LayerKind::custom: break;
    }
    return custom(tape, layer.form, x, variables[0]);
  }

  /// The whole batch at once, and all gradients.
  void forward(Forward& made, const Action& action) {
    const Batch batch = batch_of(program_, action);
    Tape& tape = made.tape;
    for (std::size_t i = 0; i < variables_.size(); ++i)
      made.variables.push_back(tape.leaf(variables_[i].shape, state_[i]));
    made.results.push_back(tape.leaf(program_.shape("abc"), batch.x));
    const Ref target = tape.leaf(program_.shape("abc"), batch.target);
    scale_ = 1;
    for (std::size_t i = 0; i < program_.layers.size(); ++i) made.results.push_back(result_of(made, i));
    for (const Ref result : made.results) scale_ = std::max(scale_, largest(result->values) / 10);
    const auto rows = static_cast<double>(program_.extent('a') * program_.extent('b'));
    made.loss = tape.leaf({}, {0});
    for (const Term& term : program_.terms) {
      const Ref y = made.results[static_cast<std::size_t>(term.result)];
      const double factor = 1 / (term.form == 2 ? rows * static_cast<double>(program_.extent('c')) : rows);
      const Ref value =
          term.form == 1
              ? tape.product({}, {y, target})
              : tape.sum_of(
                    {}, {y, target}, [=](const Host& e) { return std::pow(e[0] - (term.form == 0 ? e[1] : 0), 2); },
                    [=](std::size_t i, const Host& e) {
                      return i == 0 ? 2 * (e[0] - (term.form == 0 ? e[1] : 0)) : 0;
                    });
      made.loss = tape.linear(made.loss, value, factor);
    }
    if (program_.penalty.variable >= 0) {
      const Ref w = made.variables[static_cast<std::size_t>(program_.penalty.variable)];
      made.loss = tape.linear(made.loss, tape.product({}, {w, w}), 0.25);
    }
    tape.differentiate(made.loss);
  }

  /// A constant as the program's element type has it.
  [[nodiscard]] double rounded(double x) const {
    return program_.type == ElementType::float64 ? x : static_cast<double>(static_cast<float>(x));
  }
  void update(const Action& action, const std::vector<Host>& gradients) {
    const double rate = rounded(action.rate), momentum = rounded(program_.momentum);
    const double beta1 = rounded(program_.adam.beta1), beta2 = rounded(program_.adam.beta2);
    const double epsilon = rounded(program_.adam.epsilon), decay = rounded(program_.adam.weight_decay);
    for (std::size_t i = 0; i < state_.size(); ++i) {
      Host& w = state_[i];
      const Host& g = gradients[i];
      if (g.size() != w.size()) continue;
      const auto slot = [&](std::vector<Host>& all) -> Host& {
        all[i].resize(w.size());
        return all[i];
      };
      if (action.is_adam) {
        Host& m = slot(means_);
        Host& v = slot(squares_);
        for (std::size_t j = 0; j < w.size(); ++j) {
          m[j] = beta1 * m[j] + (1 - beta1) * g[j];
          v[j] = beta2 * v[j] + (1 - beta2) * g[j] * g[j];
          w[j] -= rate * (m[j] / (std::sqrt(v[j]) + epsilon) + decay * w[j]);
        }
      } else if (program_.momentum == 0) {
        for (std::size_t j = 0; j < w.size(); ++j) w[j] -= rate * g[j];
      } else {
        Host& v = slot(velocities_);
        for (std::size_t j = 0; j < w.size(); ++j) {
          v[j] = momentum * v[j] + rate * g[j];
          w[j] -= v[j];
        }
      }
    }
  }
  void train(const Action& action) {
    Forward made;
    forward(made, action);
    observe(made.loss->values);
    observe(made.results.back()->values);
    observe(made.tape.product(program_.shape("bc"), {made.results.back()})->values);
    std::vector<Host> gradients;  // as they were observed: what an update makes of them is exact
    const auto observe_gradients = [&] {
      for (const Ref variable : made.variables) {
        gradients.push_back(seen());
        observe(variable->gradient);
      }
    };
    if (action.reads_first) observe_gradients();
    if (action.holds) observe(state_[variable(action)]);
    if (!action.reads_first) observe_gradients();
    update(action, gradients);
    for (std::size_t i = 0; i < state_.size(); ++i) {
      for (std::vector<Host>* slots : {&velocities_, &means_, &squares_}) {
        if (!(*slots)[i].empty()) observe_and_follow((*slots)[i]);
      }
    }
  }
  void probe(const Action& action) {
    Forward made;
    forward(made, action);
    std::vector<Ref> wanted;
    for (std::size_t i = 0; i < made.results.size(); ++i) {
      if (action.wanted[i]) wanted.push_back(made.results[i]);
    }
    if (action.holds) wanted.insert(wanted.end(), made.inner.begin(), made.inner.end());
    wanted.insert(wanted.end(), made.variables.begin(), made.variables.end());
    if (action.goes_on) observe({1});
    for (int pass = 0; pass < action.passes; ++pass) {
      for (const Ref x : wanted) observe(x->gradient);
    }
    for (const Ref result : made.results) observe(result->values);
  }
  void assign(const Action& action) {
    const std::size_t i = variable(action);
    const Host given = assigned_elements(program_, action, variables_[i].shape);
    for (std::size_t j = 0; j < given.size(); ++j)
      state_[i][j] = action.form == 0 ? given[j] : state_[i][j] + (action.form == 1 ? given[j] : -given[j]);
  }
  void stale(const Action& action) {
    const std::size_t i = variable(action);
    Forward before, after;
    forward(before, action);
    assign(action);
    if (action.goes_on) {
      for (double& element : state_[i]) element = rounded(element);
      forward(after, action);
    }
    // A function that refers to the variable would run again with its new value.
    const std::vector<bool> reached = program_.reached();
    bool refused = false;
    for (std::size_t l = 0; l < program_.layers.size(); ++l) {
      const Layer& layer = program_.layers[l];
      refused = refused || (action.holds && reached[l + 1] && layer.kind == LayerKind::recomputed &&
                            layer.is_captured && static_cast<std::size_t>(layer.variables) == variables_[i].layer);
    }
    observe({refused ? 1.0 : 0.0});
    if (refused) return;
    if (action.holds) observe(before.variables[i]->gradient);
    observe(action.goes_on ? after.variables[i]->gradient : Host(state_[i].size()));
  }
  void lend(const Action& action) {
    Host twice = assigned_elements(program_, action, variables_[variable(action)].shape);
    for (double& element : twice) element *= 2;
    assign(action);
    observe(twice);
    Host three = state_[variable(action)];
    for (double& element : three) element *= 3;
    observe(three);
    observe({1});
  }
  void share(const Action& action) {
    const std::size_t i = variable(action);
    const Host given = assigned_elements(program_, action, variables_[i].shape);
    if (action.holds) {
      state_[i] = given;
      observe(given);
    }
    const Host snapshot = state_[i];
    assign(action);
    observe(given);
    observe(snapshot);
  }

  World& alone_;
  const Training& program_;
  const Trace& observed_;
  std::vector<LayerVariable> variables_;
  double scale_ = 1;  ///< of errors, from large numbers on the way
  std::vector<Host> state_, velocities_, means_, squares_;
  Trace trace_;
};

}  // namespace

Trace reference_of(World& alone, const Training& program, const Trace& observed) {
  return Reference(alone, program, observed).run();
}

}  // namespace property
