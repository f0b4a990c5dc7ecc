// How random training programs run in a world.
#include <exception>
#include <variant>

#include "training.hpp"

namespace property {

namespace {

struct BatchDim : mtf::Dim<"a"> {};
struct LengthDim : mtf::Dim<"b"> {};
struct ModelDim : mtf::Dim<"c"> {};
struct OtherDim : mtf::Dim<"d"> {};
struct HiddenDim : mtf::Dim<"e"> {};
struct HeadsDim : mtf::Dim<"f"> {};
struct KvDim : mtf::Dim<"g"> {};
struct MemoryDim : mtf::Dim<"h"> {};

template <class T, class... Dims>
using Variable = mtf::Variable<World, T, Dims...>;
template <class T>
using Result = mtf::Tensor<World, T, BatchDim, LengthDim, ModelDim>;
template <class T>
using Scalar0 = mtf::Tensor<World, T>;
template <class T>
using Attention =
    mtf::SelfAttention<World, T, mtf::AttentionDims<BatchDim, LengthDim, MemoryDim, ModelDim, HeadsDim, KvDim>>;

/// What a layer has.
template <class T>
struct Parameters {
  std::optional<Variable<T, ModelDim, HiddenDim>> w;
  std::optional<Variable<T, HiddenDim, ModelDim>> v;
  std::optional<Variable<T, ModelDim>> s;
  std::optional<mtf::RmsNorm<World, T, ModelDim>> norm;
  std::optional<Attention<T>> attention;
};
template <class T>
using AnyVariable =
    std::variant<Variable<T, ModelDim>, Variable<T, ModelDim, HiddenDim>, Variable<T, HiddenDim, ModelDim>,
                 Variable<T, ModelDim, HeadsDim, KvDim>, Variable<T, HeadsDim, KvDim, ModelDim>>;

template <class X>
auto activated(int form, const X& x) {
  if (form == 0) return mtf::tanh(x);
  return form == 1 ? mtf::swish(x) : mtf::sigmoid(x);
}

/// The function of a recomputed layer.
struct Recomputed {
  int form;
  double rate;
  mtf::Key key;
  template <class X, class W, class V>
  auto operator()(const X& x, const W& w, const V& v) const {
    auto hidden = activated(form, mtf::einsum<BatchDim, LengthDim, HiddenDim>(x, w));
    if (rate > 0) hidden = mtf::dropout<BatchDim, HiddenDim>(hidden, rate, key);
    const auto y = mtf::einsum<BatchDim, LengthDim, ModelDim>(hidden, v);
    return std::tuple(y, mtf::tanh(x) * y);
  }
};

template <class Pointer>
using View = Kokkos::View<Pointer, Kokkos::LayoutRight, Kokkos::HostSpace>;
template <class T, std::size_t Rank>
struct Pointers {
  using type = typename Pointers<T, Rank - 1>::type*;
};
template <class T>
struct Pointers<T, 0> {
  using type = T;
};

template <class T>
class Run {
 public:
  Run(World& world, const Training& program)
      : world_(world), program_(program), sgd_(world, program.momentum), adam_(world, program.adam) {
    for (std::size_t i = 0; i < program.layers.size(); ++i) parameters_.push_back(make_parameters(i));
    for (const AnyVariable<T>& variable : variables_) observe_variable("initial", variable, Nearness::same);
  }

  Trace run() {
    for (number_ = 0; number_ < program_.actions.size(); ++number_) {
      const Action& action = program_.actions[number_];
      switch (action.kind) {
        case ActionKind::train: train(action); break;
        case ActionKind::probe: probe(action); break;
        case ActionKind::assign: assign(action); break;
        case ActionKind::stale: stale(action); break;
        case ActionKind::lend: lend(action); break;
        case ActionKind::share: share(action); break;
      }
      bool moderate = true;
      for (const AnyVariable<T>& variable : variables_) {
        observe_variable("then", variable, Nearness::update);
        moderate = moderate && is_moderate(trace_.back().values);
      }
      if (!moderate) break;
    }
    observe_holds("the rules that split nothing are told", are_unused_rules_told());
    observe_holds("a damaged replica is told",
                  is_damage_told(*world_.registry().all()[program_.number % variables_.size()]));
    observe_holds("memory of the user's own is as it was left",
                  std::ranges::all_of(memory_, [](const auto& is_intact) { return is_intact(); }));
    return std::move(trace_);
  }

 private:
  template <class D>
  [[nodiscard]] D dim() const {
    return D{program_.extent(D::name.text[0])};
  }
  template <class... Dims>
  [[nodiscard]] Variable<T, Dims...> variable(const mtf::Scope& path) {
    const auto made = mtf::variable<T>(world_, path, mtf::init::normal(0.7), dim<Dims>()...);
    variables_.push_back(made);
    return made;
  }
  [[nodiscard]] mtf::Key key(std::size_t layer) const { return mtf::seed{program_.number} / "noise" / layer; }

  Parameters<T> make_parameters(std::size_t number) {
    const Layer& layer = program_.layers[number];
    if (layer.variables != static_cast<int>(number)) return parameters_[static_cast<std::size_t>(layer.variables)];
    Parameters<T> made;
    const mtf::Scope scope = mtf::Scope("layer") / number;
    switch (layer.kind) {
      case LayerKind::dense:
      case LayerKind::recomputed:
        made.w = variable<ModelDim, HiddenDim>(scope / "w");
        made.v = variable<HiddenDim, ModelDim>(scope / "v");
        break;
      case LayerKind::bias:
      case LayerKind::scale:
      case LayerKind::custom: made.s = variable<ModelDim>(scope / "s"); break;
      case LayerKind::norm:
        made.norm.emplace(world_, scope, dim<ModelDim>());
        variables_.push_back(made.norm->scale);
        break;
      case LayerKind::attention:
        made.attention.emplace(world_, scope, dim<ModelDim>(), dim<HeadsDim>(), dim<KvDim>());
        variables_.insert(variables_.end(),
                          {made.attention->wq, made.attention->wk, made.attention->wv, made.attention->wo});
        break;
      case LayerKind::dropout:
      case LayerKind::mix:
      case LayerKind::renamed: break;
    }
    return made;
  }

  [[nodiscard]] Result<T> renamed(const Layer& layer, const Result<T>& x, std::vector<Array>& inner) const {
    const auto y = mtf::rename<ModelDim, OtherDim>(x);
    inner.push_back(y.array());
    if (layer.form == 0) return x + mtf::rename<OtherDim, ModelDim>(y);
    if (layer.form == 1) return mtf::rename<OtherDim, ModelDim>(mtf::tanh(y));
    return mtf::tanh(x) * mtf::rename<OtherDim, ModelDim>(y);
  }
  [[nodiscard]] Result<T> recomputed(std::size_t number, const Result<T>& x) const {
    const Layer& layer = program_.layers[number];
    const Recomputed f{layer.form, layer.rate, key(number)};
    const auto& w = *parameters_[number].w;
    const auto& v = *parameters_[number].v;
    const auto [y, z] =
        layer.is_captured
            ? mtf::recompute([f, w, v](const auto& u) { return f(u, w, v); }, x)
            : mtf::recompute([f](const auto& u, const auto& a, const auto& b) { return f(u, a, b); }, x, w, v);
    if (layer.form == 0) return y;
    return layer.form == 1 ? z : y + z;
  }
  [[nodiscard]] Result<T> custom(std::size_t number, const Result<T>& x) const {
    const Layer& layer = program_.layers[number];
    const auto [y, z] = mtf::custom_gradient(
        [](const auto& u, const auto& s) { return std::tuple(u * s, mtf::tanh(u)); },
        [](const auto& dy, const auto& ys, const auto& u, const auto& s) {
          const auto& [dy0, dy1] = dy;
          const auto& [y0, y1] = ys;
          return std::tuple(dy0 * s * 2.0 + dy1 * y0, mtf::reduce_sum<BatchDim, LengthDim>(dy0 * u + dy1 * y1) * 3.0);
        },
        x, *parameters_[number].s);
    if (layer.form == 0) return y;
    return layer.form == 1 ? z : y + z;
  }
  [[nodiscard]] Result<T> result_of(std::size_t number, const std::vector<Result<T>>& results,
                                    std::vector<Array>& inner) const {
    const Layer& layer = program_.layers[number];
    const Parameters<T>& has = parameters_[number];
    const Result<T>& x = results[static_cast<std::size_t>(layer.input)];
    const Result<T>& other = results[static_cast<std::size_t>(layer.other)];
    switch (layer.kind) {
      case LayerKind::dense:
        return mtf::einsum<BatchDim, LengthDim, ModelDim>(
            activated(layer.form, mtf::einsum<BatchDim, LengthDim, HiddenDim>(x, *has.w)), *has.v);
      case LayerKind::bias: return x + *has.s;
      case LayerKind::scale: return x * *has.s;
      case LayerKind::norm: return (*has.norm)(x);
      case LayerKind::attention: {
        const auto mask = mtf::causal_mask<T>(world_, dim<LengthDim>(), dim<MemoryDim>());
        return (*has.attention)(x, mask, layer.rate, key(number));
      }
      case LayerKind::dropout:
        if (layer.form == 0) return mtf::dropout(x, layer.rate, key(number));
        if (layer.form == 1) return mtf::dropout<BatchDim, ModelDim>(x, layer.rate, key(number));
        return mtf::dropout<BatchDim>(x, layer.rate, key(number));
      case LayerKind::mix:
        if (layer.form == 0) return x + other;
        return layer.form == 1 ? x - other : x * mtf::tanh(other);
      case LayerKind::renamed: return renamed(layer, x, inner);
      case LayerKind::recomputed: return recomputed(number, x);
      case LayerKind::custom: break;
    }
    return custom(number, x);
  }

  struct Forward {
    std::vector<Result<T>> results;
    std::vector<Array> inner;
    std::optional<Scalar0<T>> loss;
  };
  [[nodiscard]] Forward forward(const Result<T>& x, const Result<T>& target, const mtf::Microbatch& part) const {
    Forward made;
    made.results.push_back(x);
    for (std::size_t i = 0; i < program_.layers.size(); ++i)
      made.results.push_back(result_of(i, made.results, made.inner));
    const auto add = [&](const Scalar0<T>& term) { made.loss = made.loss ? *made.loss + term : term; };
    const auto rows = static_cast<double>(program_.extent('a') * program_.extent('b'));
    for (const Term& term : program_.terms) {
      const Result<T>& y = made.results[static_cast<std::size_t>(term.result)];
      if (term.form == 0) {
        add(mtf::reduce_sum(mtf::square(y - target)) / rows);
      } else if (term.form == 1) {
        add(mtf::reduce_sum(y * target) / rows);
      } else {
        add(mtf::reduce_mean(mtf::square(y)) / static_cast<double>(part.count));
      }
    }
    const Penalty& penalty = program_.penalty;
    const bool everywhere = penalty.part < 0;
    if (penalty.variable >= 0 && (everywhere || penalty.part % part.count == part.index)) {
      std::visit(
          [&](const auto& w) {
            add(mtf::reduce_sum(mtf::square(w)) * (0.25 / static_cast<double>(everywhere ? part.count : 1)));
          },
          variables_[static_cast<std::size_t>(penalty.variable)]);
    }
    return made;
  }

  template <class... Dims>
  [[nodiscard]] mtf::Tensor<World, T, Dims...> tensor(const Host& elements) const {
    return mtf::from_global<T>(world_, std::vector<T>(elements.begin(), elements.end()), dim<Dims>()...);
  }
  [[nodiscard]] std::pair<Result<T>, Result<T>> data(const Action& action) const {
    const Batch batch = batch_of(program_, action);
    return {tensor<BatchDim, LengthDim, ModelDim>(batch.x), tensor<BatchDim, LengthDim, ModelDim>(batch.target)};
  }

  void observe(std::string_view what, const Array& x, Nearness nearness = Nearness::sums) {
    trace_.push_back({name(what), elements_of(world_.engine(), *x.value), nearness});
  }
  template <mtf::operand X>
  void observe(std::string_view what, const X& x, Nearness nearness = Nearness::sums) {
    trace_.push_back({name(what), support::host(x), nearness});
  }
  void observe_variable(std::string_view what, const AnyVariable<T>& variable, Nearness nearness) {
    std::visit([&](const auto& w) { observe(fmt::format("{} {}", what, w.path()), w, nearness); }, variable);
  }
  /// Whether something holds on all ranks.
  void observe_holds(std::string_view what, bool holds) {
    int all = holds ? 1 : 0;
    MPI_Allreduce(MPI_IN_PLACE, &all, 1, MPI_INT, MPI_LAND, world_.comm());
    trace_.push_back({name(what), {static_cast<double>(all)}, Nearness::same});
  }
  [[nodiscard]] std::string name(std::string_view what) const { return fmt::format("action {}: {}", number_, what); }

  [[nodiscard]] const AnyVariable<T>& chosen(const Action& action) const {
    return variables_[static_cast<std::size_t>(action.variable)];
  }
  template <class V, class X>
  static void assign_in_form(int form, const V& variable, const X& x) {
    if (form == 0) {
      variable.assign(x);
    } else if (form == 1) {
      variable.assign_add(x);
    } else {
      variable.assign_sub(x);
    }
  }
  template <class... Dims>
  void assign_to(const Action& action, const Variable<T, Dims...>& w) {
    assign_in_form(action.form, w, tensor<Dims...>(assigned_elements(program_, action, w.shape())));
  }

  // ------------------------------------------------------------------------------------------------------- actions

  void observe_gradients(const mtf::VariableGradients& gradients) {
    for (std::size_t i = 0; i < gradients.variables.size(); ++i)
      observe(fmt::format("gradient of {}", gradients.variables[i]->path.view()), Array{gradients.value(i), {}});
  }
  void train(const Action& action) {
    const auto [x, target] = data(action);
    mtf::VariableGradients gradients;
    if (action.parts == 1) {
      const Forward made = forward(x, target, {});
      const Result<T> last = made.results.back();
      gradients = mtf::gradients_of_variables(world_, *made.loss);
      observe("loss", *made.loss);
      observe("last result", last);
      observe("last result, summed", mtf::reduce_sum<BatchDim>(last));
    } else {
      auto [found, loss, last, sums] = mtf::serialize_training_step(
          world_, BatchDim{program_.extent('a') / action.parts},
          [&](const mtf::Microbatch& part, const Result<T>& rows, const Result<T>& target_rows) {
            const Forward made = forward(rows, target_rows, part);
            return std::tuple(*made.loss, made.results.back(), mtf::reduce_sum<BatchDim>(made.results.back()));
          },
          mtf::unused::zeros, x, target);
      gradients = std::move(found);
      observe("loss", loss);
      observe("last result", last);
      observe("last result, summed", sums);
    }
    if (action.reads_first) observe_gradients(gradients);
    std::optional<Array> held;
    if (action.holds) {
      std::visit([&](const auto& w) { held = w.read().array(); }, chosen(action));
    }
    if (action.is_adam) {
      adam_.apply(gradients, action.rate);
    } else {
      sgd_.apply(gradients, action.rate);
    }
    if (held) observe("the snapshot", *held, Nearness::same);
    if (!action.reads_first) observe_gradients(gradients);
    for (const auto& state : gradients.variables) {
      for (const char* slot : {"momentum_v", "adam_m", "adam_v"}) {
        if (const mtf::VariableState* found = world_.registry().find(state->path / slot))
          observe(fmt::format("{}/{}", state->path.view(), slot), Array{found->slice(), {}}, Nearness::update);
      }
    }
  }

  [[nodiscard]] mtf::RecycledVector<Array> gradients(const Scalar0<T>& loss, const std::vector<Array>& wanted,
                                                     mtf::keep_graph keep) const {
    std::vector<mtf::untyped::Differentiable> xs;
    for (const Array& x : wanted) xs.push_back({&x, &mtf::element_operations<Engine, T>});
    return mtf::untyped::gradients({.keep = keep, .when_unused = mtf::unused::zeros}, loss.array(), xs);
  }
  void probe(const Action& action) {
    const auto [x, target] = data(action);
    const Forward made = forward(mtf::watch(x), target, {});
    std::vector<Array> wanted;
    for (std::size_t i = 0; i < made.results.size(); ++i) {
      if (action.wanted[i]) wanted.push_back(made.results[i].array());
    }
    if (action.holds) wanted.insert(wanted.end(), made.inner.begin(), made.inner.end());
    for (const AnyVariable<T>& variable : variables_)
      std::visit([&](const auto& w) { wanted.push_back(w.read().array()); }, variable);
    std::vector<mtf::RecycledVector<Array>> passes;
    for (int pass = 1; pass <= action.passes; ++pass)
      passes.push_back(
          gradients(*made.loss, wanted, pass < action.passes ? mtf::keep_graph::yes : mtf::keep_graph::no));
    if (action.goes_on)
      observe_holds("a pass over a freed graph is refused",
                    refuses([&] { (void)gradients(*made.loss, wanted, mtf::keep_graph::no); }));
    for (const auto& found : passes) {
      for (std::size_t i = 0; i < found.size(); ++i) observe(fmt::format("gradient {}", i), found[i]);
    }
    for (const Result<T>& result : made.results) observe("result", result);
  }
  template <class F>
  static bool refuses(const F& f) {
    try {
      f();
    } catch (const mtf::plan_error&) {
      return true;
    }
    return false;
  }

  void assign(const Action& action) {
    std::visit(
        [&](const auto& w) {
          const auto snapshot = w.read();
          assign_to(action, w);
          observe("the snapshot", snapshot, Nearness::same);
          observe_holds("a local view has the elements of its place", is_seen_in_place(w));
        },
        chosen(action));
  }
  /// Whether the elements of this rank's view are those of the whole array from where the view says that it begins.
  template <class... Dims>
  [[nodiscard]] bool is_seen_in_place(const Variable<T, Dims...>& w) const {
    const Host whole = support::host(w);
    const ShapeValue shape = w.shape();
    const auto local = mtf::local_view(w);
    for (std::size_t i = 0; i < local.view.size(); ++i) {
      std::size_t rest = i, at = 0, stride = 1;
      for (std::size_t d = sizeof...(Dims); d-- > 0;) {
        at += (rest % local.view.extent(d) + static_cast<std::size_t>(local.begin[d])) * stride;
        rest /= local.view.extent(d);
        stride *= static_cast<std::size_t>(shape[static_cast<int>(d)].extent);
      }
      if (at >= whole.size() || static_cast<double>(local.view.data()[i]) != whole[at]) return false;
    }
    return true;
  }
  /// Whether the world names those rules whose dims no tensor had, and no others.
  [[nodiscard]] bool are_unused_rules_told() const {
    std::string placed = "c";
    bool forward = false;
    for (std::size_t i = 0; i < program_.actions.size() && i <= number_; ++i) {
      const ActionKind kind = program_.actions[i].kind;
      forward = forward || kind == ActionKind::train || kind == ActionKind::probe || kind == ActionKind::stale;
      if (kind == ActionKind::share) placed += 'd';
    }
    if (forward) placed += "ab";
    for (const Layer& layer : program_.layers) {
      if (layer.kind == LayerKind::dense || layer.kind == LayerKind::recomputed) placed += 'e';
      if (layer.kind == LayerKind::attention) placed += forward ? "fgh" : "fg";
      if (layer.kind == LayerKind::renamed && forward) placed += 'd';
    }
    std::vector<std::string> expected;
    for (const auto& rule : world_.rules().rules) {  // on one rank there are none
      if (placed.find(rule.dim.text) == std::string::npos) expected.emplace_back(rule.dim.text);
    }
    return world_.unused_rules() == expected;
  }
  /// Whether a replica of a variable that one rank alone changes is told, if there are other replicas.
  [[nodiscard]] bool is_damage_told(const mtf::VariableState& state) {
    const mtf::Block& block = *state.slice()->block;
    const bool has_replicas = world_.mesh().size(world_.mesh().all() - state.slice()->placement.split_axes()) > 1;
    Engine& engine = world_.engine();
    std::vector<char> bytes(static_cast<std::size_t>(block.bytes));
    engine.read(block, bytes.data());
    std::vector<char> damaged = bytes;
    if (world_.rank() == 0) damaged[program_.number % damaged.size()] ^= 1;
    engine.write(const_cast<mtf::Block&>(block), damaged.data());
    const bool equal = world_.verify_replicas();
    engine.write(const_cast<mtf::Block&>(block), bytes.data());
    return equal != has_replicas;
  }
  /// Gradients of a loss that was computed before a variable was assigned, and maybe of one computed after it too.
  void stale(const Action& action) {
    const auto [x, target] = data(action);
    Scalar0<T> loss = *forward(x, target, {}).loss;
    std::vector<Array> wanted;
    std::visit(
        [&](const auto& w) {
          if (action.holds) wanted.push_back(w.read().array());
          assign_to(action, w);
          wanted.push_back(w.read().array());
        },
        chosen(action));
    if (action.goes_on) loss = loss + *forward(x, target, {}).loss;
    mtf::RecycledVector<Array> found;
    observe_holds("the gradient is refused", refuses([&] { found = gradients(loss, wanted, mtf::keep_graph::no); }));
    for (const Array& gradient : found) observe("gradient", gradient);
  }
  /// Assigns what lies in memory of the program's own, which it then uses otherwise.
  template <class... Dims>
  void lend_to(const Action& action, const Variable<T, Dims...>& w) {
    const auto given = tensor<Dims...>(assigned_elements(program_, action, w.shape()));
    View<typename Pointers<T, sizeof...(Dims)>::type> memory;
    {
      const auto& dims = given.placement().dims;
      int d = 0;
      const std::array<std::size_t, sizeof...(Dims)> local{
          (static_cast<void>(sizeof(Dims)), static_cast<std::size_t>(dims[d++].local()))...};
      memory = std::apply([](auto... extents) { return decltype(memory)("memory", extents...); }, local);
    }
    world_.engine().read(*given.array().value->block, memory.data());
    {
      const auto lent = mtf::from_local(world_, memory, dim<Dims>()...);
      assign_in_form(action.form, w, lent.tensor());
      observe("twice what was lent", lent.tensor() + lent.tensor(), Nearness::update);
    }
    const T mine = static_cast<T>(static_cast<double>(action.seed % 1000) + 0.5);
    Kokkos::deep_copy(memory, mine);
    memory_.push_back([memory, mine] {
      Kokkos::fence();
      return std::all_of(memory.data(), memory.data() + memory.size(), [&](T element) { return element == mine; });
    });
    observe("three times the variable", w * 3.0, Nearness::update);
    observe_holds("memory of the user's own is as it was left", memory_.back()());
  }
  void lend(const Action& action) {
    std::visit([&](const auto& w) { lend_to(action, w); }, chosen(action));
  }
  /// A variable that has the memory of a tensor, and a tensor that has that of a variable.
  template <class... Dims>
  void share_with(const Action& action, const Variable<T, Dims...>& w) {
    const Host elements = assigned_elements(program_, action, w.shape());
    using Other = mtf::Tensor<World, T, std::conditional_t<std::same_as<Dims, ModelDim>, OtherDim, Dims>...>;
    const Other given = tensor<std::conditional_t<std::same_as<Dims, ModelDim>, OtherDim, Dims>...>(elements);
    if (action.holds) {
      w.assign(mtf::rename<OtherDim, ModelDim>(given));
      observe("the variable", w, Nearness::same);
    }
    const auto snapshot = mtf::rename<ModelDim, OtherDim>(w.read());
    assign_to(action, w);
    observe("the tensor", given, Nearness::same);
    observe("the snapshot", snapshot, Nearness::same);
  }
  void share(const Action& action) {
    std::visit([&](const auto& w) { share_with(action, w); }, chosen(action));
  }

  World& world_;
  const Training& program_;
  mtf::Sgd<World, T> sgd_;
  mtf::Adam<World, T> adam_;
  std::vector<AnyVariable<T>> variables_;
  std::vector<Parameters<T>> parameters_;
  std::vector<std::function<bool()>> memory_;
  std::size_t number_ = 0;
  Trace trace_;
};

}  // namespace

Trace trace_of(World& world, const Training& program) {
  if (program.type == ElementType::float64) return Run<double>(world, program).run();
  return Run<float>(world, program).run();
}

}  // namespace property
