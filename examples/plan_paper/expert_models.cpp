#include "expert_models.hpp"

#include <algorithm>
#include <chrono>
#include <tuple>

#include "top_2_gating.hpp"

namespace {

using World = mtf::DryRun<mtf::dynamic_mesh, mtf::dynamic_layout>;
using T = float;

struct Batch : mtf::Dim<"batch"> {};
struct OuterBatch : mtf::Dim<"outer_batch"> {};
struct InnerBatch : mtf::Dim<"inner_batch"> {};
struct Length : mtf::Dim<"length"> {};
struct Memory : mtf::Dim<"memory_length"> {};
struct Model : mtf::Dim<"d_model"> {};
struct Heads : mtf::Dim<"heads"> {};
struct Kv : mtf::Dim<"d_kv"> {};
struct Ff : mtf::Dim<"d_ff"> {};
struct Vocab : mtf::Dim<"vocab"> {};
struct ExpertHidden : mtf::Dim<"expert_hidden"> {};

/// Self-attention over any dims of the batch.
template <class... Batches>
struct Attention {
  mtf::Variable<World, T, Model, Heads, Kv> q, k, v;
  mtf::Variable<World, T, Heads, Kv, Model> o;

  Attention(World& world, const mtf::Scope& scope, const Model& d_model, const Heads& heads, const Kv& d_kv)
      : q(mtf::variable<T>(world, scope / "q", mtf::init::normal(1), d_model, heads, d_kv)),
        k(mtf::variable<T>(world, scope / "k", mtf::init::normal(1), d_model, heads, d_kv)),
        v(mtf::variable<T>(world, scope / "v", mtf::init::normal(1), d_model, heads, d_kv)),
        o(mtf::variable<T>(world, scope / "o", mtf::init::normal(1), heads, d_kv, d_model)) {}

  template <class X, class Mask>
  auto operator()(const X& x, const Mask& mask) const {
    const auto keys = mtf::rename<Length, Memory>(mtf::einsum<Batches..., Length, Heads, Kv>(x, k));
    const auto values = mtf::rename<Length, Memory>(mtf::einsum<Batches..., Length, Heads, Kv>(x, v));
    const auto logits =
        mtf::einsum<Batches..., Heads, Length, Memory>(mtf::einsum<Batches..., Length, Heads, Kv>(x, q), keys);
    const auto weights = mtf::softmax<Memory>(mtf::map(mtf::detail::ScaleAndMask{1.0}, logits, mask));
    return mtf::einsum<Batches..., Length, Model>(mtf::einsum<Batches..., Length, Heads, Kv>(weights, values), o);
  }
};

template <class X, class Loss>
struct Output {
  X x;
  Loss loss;
};
template <class X, class Loss>
Output(X, Loss) -> Output<X, Loss>;

struct Dense {
  mtf::DenseReluDense<World, T, Model, Ff> layer;

  Dense(World& world, const mtf::Scope& scope, const ExpertModelSizes& sizes)
      : layer(world, scope, Model{sizes.d_model}, Ff{sizes.d_ff}), world_(&world) {}
  static std::int64_t original_only(const ExpertModelSizes&) { return 0; }
  template <class X>
  auto operator()(const X& x, const mtf::Key&) const {
    return Output{layer.template apply<Batch, Length>(x), mtf::constant<T>(*world_, T(0))};
  }

 private:
  World* world_;
};

std::int64_t places(std::int64_t group, double factor, std::int64_t experts) {
  return std::min(group, static_cast<std::int64_t>(static_cast<double>(group) * factor) / experts);
}

/// What the original's gating multiplies more than this one: of each position the gradient of the dispatch to all
/// places, and two cumulative sums over the group for each expert.
std::int64_t original_gating(std::int64_t positions, std::int64_t group, std::int64_t experts, std::int64_t capacity,
                             std::int64_t d_model) {
  return positions * experts * (capacity * d_model + 2 * group);
}

/// One level of experts, split over the axis of the batch: one all-to-all there and one back.
struct OneLevel {
  struct Experts : mtf::Dim<"experts"> {};
  struct ExpertsUnsplit : mtf::Dim<"experts_unsplit"> {};
  struct BatchUnsplit : mtf::Dim<"batch_unsplit"> {};
  struct Group : mtf::Dim<"group"> {};
  struct Capacity : mtf::Dim<"expert_capacity"> {};

  ExpertModelSizes sizes;
  mtf::Variable<World, T, Model, ExpertsUnsplit> gate;
  mtf::Variable<World, T, Experts, Model, ExpertHidden> wi;
  mtf::Variable<World, T, Experts, ExpertHidden, Model> wo;

  OneLevel(World& world, const mtf::Scope& scope, const ExpertModelSizes& s)
      : sizes(s),
        gate(mtf::variable<T>(world, scope / "gate", mtf::init::glorot, Model{s.d_model}, ExpertsUnsplit{s.experts})),
        wi(mtf::variable<T>(world, scope / "wi", mtf::init::glorot, Experts{s.experts}, Model{s.d_model},
                            ExpertHidden{s.d_ff})),
        wo(mtf::variable<T>(world, scope / "wo", mtf::init::glorot, Experts{s.experts}, ExpertHidden{s.d_ff},
                            Model{s.d_model})),
        world_(&world) {}

  static std::int64_t original_only(const ExpertModelSizes& s) {
    return original_gating(s.batch * s.length, s.group, s.experts, places(s.group, s.capacity, s.experts), s.d_model);
  }
  template <class X>
  auto operator()(const X& x, const mtf::Key& key) const {
    const Model d_model{sizes.d_model};
    const Batch groups{sizes.batch * sizes.length /
                       sizes.group};  // split as the batch is, so that grouping moves nothing
    const BatchUnsplit groups_unsplit{groups.extent()};
    const Group group{sizes.group};
    const Experts experts{sizes.experts};
    const ExpertsUnsplit experts_unsplit{sizes.experts};
    const Capacity capacity{places(sizes.group, sizes.capacity, sizes.experts)};

    const auto grouped = mtf::reshape(x, groups, group, d_model);
    const auto probabilities = mtf::softmax<ExpertsUnsplit>(mtf::einsum<Batch, Group, ExpertsUnsplit>(grouped, gate));
    const auto gates = top_2_gates(*world_, probabilities, mtf::constant<T>(*world_, T(1), groups, group),
                                   sizes.second_threshold, key, experts_unsplit, capacity, group, groups);
    const auto sent = mtf::einsum<ExpertsUnsplit, Batch, Capacity, Model>(grouped, gates.dispatch);
    const auto inputs = mtf::reshape(sent, experts, groups_unsplit, capacity, d_model);
    const auto hidden = mtf::relu(mtf::einsum<Experts, BatchUnsplit, Capacity, ExpertHidden>(inputs, wi));
    const auto outputs = mtf::einsum<Experts, BatchUnsplit, Capacity, Model>(hidden, wo);
    const auto returned = mtf::reshape(outputs, experts_unsplit, groups, capacity, d_model);
    const auto y = mtf::einsum<Batch, Group, Model>(returned, gates.combine);
    return Output{mtf::reshape(y, Batch{sizes.batch}, Length{sizes.length}, d_model), gates.balance};
  }

 private:
  World* world_;
};

/// Experts of experts: the first choice is split over one axis, the second over the other; two all-to-alls each way.
struct TwoLevels {
  static constexpr std::int64_t side = 4;  ///< experts of each level
  struct X1 : mtf::Dim<"expert_x"> {};
  struct XUnsplit : mtf::Dim<"expert_x_unsplit"> {};
  struct Y1 : mtf::Dim<"expert_y"> {};
  struct YUnsplit : mtf::Dim<"expert_y_unsplit"> {};
  struct OuterUnsplit : mtf::Dim<"outer_batch_unsplit"> {};
  struct InnerUnsplit : mtf::Dim<"inner_batch_unsplit"> {};
  struct GroupX : mtf::Dim<"group_size_x"> {};
  struct GroupY : mtf::Dim<"group_size_y"> {};
  struct CapacityX : mtf::Dim<"expert_capacity_x"> {};
  struct CapacityY : mtf::Dim<"expert_capacity_y"> {};

  ExpertModelSizes sizes;
  mtf::Variable<World, T, Model, XUnsplit> outer_gate;
  mtf::Variable<World, T, X1, Model, YUnsplit> inner_gate;
  mtf::Variable<World, T, Y1, X1, Model, ExpertHidden> wi;
  mtf::Variable<World, T, Y1, X1, ExpertHidden, Model> wo;

  TwoLevels(World& world, const mtf::Scope& scope, const ExpertModelSizes& s)
      : sizes(s),
        outer_gate(mtf::variable<T>(world, scope / "outer_gate", mtf::init::glorot, Model{s.d_model}, XUnsplit{side})),
        inner_gate(mtf::variable<T>(world, scope / "inner_gate", mtf::init::glorot, X1{side}, Model{s.d_model},
                                    YUnsplit{side})),
        wi(mtf::variable<T>(world, scope / "wi", mtf::init::glorot, Y1{side}, X1{side}, Model{s.d_model},
                            ExpertHidden{s.d_ff})),
        wo(mtf::variable<T>(world, scope / "wo", mtf::init::glorot, Y1{side}, X1{side}, ExpertHidden{s.d_ff},
                            Model{s.d_model})),
        world_(&world) {}

  static std::int64_t original_only(const ExpertModelSizes& s) {
    const std::int64_t tokens = s.batch * s.length;
    const std::int64_t outer = places(s.group, s.capacity, side);
    const std::int64_t inner_positions = side * (tokens / s.group) * outer;  // of all first-level experts
    return original_gating(tokens, s.group, side, outer, s.d_model) +
           original_gating(inner_positions, s.group, side, places(s.group, s.inner_capacity, side), s.d_model);
  }
  template <class X>
  auto operator()(const X& input, const mtf::Key& key) const {
    const Model d_model{sizes.d_model};
    const X1 x1{side};
    const XUnsplit x{side};
    const Y1 y0{side};
    const YUnsplit y{side};
    const OuterBatch a0{sizes.outer_batch};
    const std::int64_t inner_groups = sizes.batch / sizes.outer_batch * sizes.length / sizes.group;
    const InnerBatch g1{inner_groups};
    const InnerUnsplit g{inner_groups};
    const GroupX s{sizes.group};
    const CapacityX c{places(sizes.group, sizes.capacity, side)};
    const std::int64_t positions = a0.extent() * g.extent() * c.extent();  // of one first-level expert
    const OuterBatch h0{positions / sizes.group};
    const OuterUnsplit h{h0.extent()};
    const GroupY t{sizes.group};
    const CapacityY d{places(sizes.group, sizes.inner_capacity, side)};

    const auto grouped = mtf::reshape(input, a0, g1, s, d_model);
    const auto outer_probabilities =
        mtf::softmax<XUnsplit>(mtf::einsum<OuterBatch, InnerBatch, GroupX, XUnsplit>(grouped, outer_gate));
    const auto outer = top_2_gates(*world_, outer_probabilities, mtf::constant<T>(*world_, T(1), a0, g1, s),
                                   sizes.second_threshold, key / "outer", x, c, s, a0, g1);
    // A first choice counts 1 at the second level, a second choice one half.
    const auto weight = mtf::reduce_sum<GroupX>(outer.combine);
    const auto importance = (mtf::map(gating::IsAbove{0.5}, weight) + mtf::map(gating::IsAbove{0.0}, weight)) * T(0.5);
    const auto sent_x =
        mtf::reshape(mtf::einsum<XUnsplit, OuterBatch, InnerBatch, CapacityX, Model>(grouped, outer.dispatch), x1, a0,
                     g, c, d_model);
    const auto inputs_y = mtf::reshape(sent_x, x1, h0, t, d_model);
    const auto sent_importance = mtf::reshape(
        mtf::reshape(mtf::einsum<XUnsplit, OuterBatch, InnerBatch, CapacityX>(importance), x1, a0, g, c), x1, h0, t);

    const auto inner_probabilities =
        mtf::softmax<YUnsplit>(mtf::einsum<X1, OuterBatch, GroupY, YUnsplit>(inputs_y, inner_gate));
    const auto inner = top_2_gates(*world_, inner_probabilities, sent_importance, sizes.second_threshold, key / "inner",
                                   y, d, t, x1, h0);
    const auto inputs = mtf::reshape(mtf::einsum<YUnsplit, X1, OuterBatch, CapacityY, Model>(inputs_y, inner.dispatch),
                                     y0, x1, h, d, d_model);
    const auto hidden = mtf::relu(mtf::einsum<Y1, X1, OuterUnsplit, CapacityY, ExpertHidden>(inputs, wi));
    const auto outputs = mtf::einsum<Y1, X1, OuterUnsplit, CapacityY, Model>(hidden, wo);

    const auto returned_y = mtf::reshape(outputs, y, x1, h0, d, d_model);
    const auto combined_y =
        mtf::reshape(mtf::einsum<X1, OuterBatch, GroupY, Model>(returned_y, inner.combine), x1, a0, g, c, d_model);
    const auto returned_x = mtf::reshape(combined_y, x, a0, g1, c, d_model);
    const auto combined_x = mtf::einsum<OuterBatch, InnerBatch, GroupX, Model>(returned_x, outer.combine);
    const InnerBatch b1{sizes.batch / sizes.outer_batch};
    return Output{mtf::reshape(combined_x, a0, b1, Length{sizes.length}, d_model), outer.balance + inner.balance};
  }

 private:
  World* world_;
};

template <class FeedForward, class... Batches>
PlannedExperts plan(const ExpertModelSizes& sizes, std::string_view mesh, std::string_view layout,
                    const Batches&... batches) {
  const auto start = std::chrono::steady_clock::now();
  World world({.mesh = mesh, .layout = layout});
  const Length length{sizes.length};
  const Memory memory{sizes.length};
  const Model d_model{sizes.d_model};
  const Vocab vocab{sizes.vocab};
  struct Layer {
    mtf::RmsNorm<World, T, Model> attention_norm;
    Attention<Batches...> attention;
    mtf::RmsNorm<World, T, Model> feed_forward_norm;
    FeedForward feed_forward;
  };
  const auto embedding = mtf::variable<T>(world, "embedding", mtf::init::normal(1), vocab, d_model);
  const auto positions = mtf::variable<T>(world, "positional_embedding", mtf::init::normal(1), length, d_model);
  std::vector<Layer> layers;
  for (std::int64_t i = 0; i < sizes.layers; ++i) {
    const mtf::Scope scope = mtf::Scope("layer") / i;
    layers.push_back({{world, scope / "attention_norm", d_model},
                      {world, scope / "attention", d_model, Heads{sizes.heads}, Kv{sizes.d_kv}},
                      {world, scope / "feed_forward_norm", d_model},
                      {world, scope / "feed_forward", sizes}});
  }
  const mtf::RmsNorm<World, T, Model> final_norm(world, "final_norm", d_model);
  const auto softmax = mtf::variable<T>(world, "logits", mtf::init::normal(1), d_model, vocab);

  world.start_tracing();
  const auto tokens = mtf::placeholder<std::int32_t>(world, batches..., length);
  const auto targets = mtf::placeholder<std::int32_t>(world, batches..., length);
  const auto mask = mtf::causal_mask<T>(world, length, memory);
  mtf::Tensor<World, T, Batches..., Length, Model> x = mtf::gather<Vocab>(embedding, tokens) + positions;
  mtf::Tensor<World, T> balance = mtf::constant<T>(world, T(0));
  const mtf::Key key = mtf::seed{1};
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const Layer& layer = layers[i];
    x = x + layer.attention(layer.attention_norm(x), mask);
    const auto [y, loss] = layer.feed_forward(layer.feed_forward_norm(x), key / i);
    x = x + y;
    balance = balance + loss;
  }
  const auto logits = mtf::einsum<Batches..., Length, Vocab>(final_norm(x), softmax);
  const auto loss = mtf::reduce_mean(mtf::cross_entropy<Vocab>(logits, targets, {.z_loss = 1e-4})) + balance * T(0.01);
  mtf::Adam<World, T>(world).apply(mtf::gradients_of_variables(world, loss), 0.1);

  PlannedExperts result;
  result.cost = world.cost();
  result.counters = mtf::original_counters(world, {.one_hot_lookups = true});
  result.original_only = sizes.layers * FeedForward::original_only(sizes);
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return result;
}

}  // namespace

const std::vector<PublishedCounters>& published_counters() {
  static const std::vector<PublishedCounters> published{
      {ExpertModel::dense, "xmoe_dense_4k", "batch:8", "batch:batch", 30, 3.0e12, 0},
      {ExpertModel::one_level, "xmoe_top_2", "all:8", "batch:all;experts:all", 282, 4.0e12, 3.4e8},
      {ExpertModel::two_levels, "xmoe_2d", "b0:2;b1:4", "outer_batch:b0;inner_batch:b1;expert_x:b1;expert_y:b0", 282,
       5.3e12, 7.6e8},
  };
  return published;
}

PlannedExperts plan_expert_model(ExpertModel model, const ExpertModelSizes& sizes, std::string_view mesh,
                                 std::string_view layout) {
  switch (model) {
    case ExpertModel::dense: return plan<Dense>(sizes, mesh, layout, Batch{sizes.batch});
    case ExpertModel::one_level: return plan<OneLevel>(sizes, mesh, layout, Batch{sizes.batch});
    case ExpertModel::two_levels:
      return plan<TwoLevels>(sizes, mesh, layout, OuterBatch{sizes.outer_batch},
                             InnerBatch{sizes.batch / sizes.outer_batch});
  }
  return {};
}
