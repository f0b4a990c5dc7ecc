// DryRun: a world without data, MPI or Kokkos, which counts what the same program would do. Also in constant
// expressions.
#pragma once

#include <utility>

#include <mtf/plan/cost.hpp>
#include <mtf/tensor/check.hpp>
#include <mtf/tensor/form.hpp>
#include <mtf/tensor/sum_origin.hpp>
#include <mtf/tensor/variable.hpp>
#include <mtf/tensor/world_rules.hpp>

namespace mtf {
inline namespace v0 {

/// Records plans instead of running them: always in `cost`, one by one in `records` while `tracing`.
class DryEngine final : public Backend {
 public:
  Cost cost;

  constexpr explicit DryEngine(const PlacementRules& placement_rules) : cost(placement_rules.mesh) {
    rules = placement_rules;
    coordinates = rules.mesh.coordinates(0);
  }
  constexpr ~DryEngine() override {}

  template <class Plan, class... Operands>
  constexpr void run(const Plan& plan, const Operands&... operands) {
    note(detail::work_of(plan, operands...));
    if (tracing) detail::follow_sums(*this, operands...);
  }
  constexpr void copy(const CopyPlan& plan, Block& out, const Block& in) override {
    if (in.wide && !out.wide) narrow(const_cast<Block&>(in));
    note(detail::work_of_copy(plan, out));
    if (tracing) detail::follow_sum(*this, out, in);
  }
  constexpr void narrow(Block& block) override {
    note(detail::work_of_narrowing(block));
    const std::int64_t held = pooled_bytes(block.bytes);
    take(block.count() * bytes_of(block.type));  // before the old memory is given back
    live_ -= held;
    Backend::narrow(block);
  }
  constexpr void communicate(const CollectivePlan& plan, Block&, const Block& in) override {
    cost.add(plan);
    if (tracing) records.push_back(detail::record_of_collective(*this, plan, in));
  }
  [[nodiscard]] constexpr Block* allocate(ElementType type, std::int64_t count) override {
    ++references;
    const std::int64_t bytes = count * element_sizes[static_cast<int>(type)];
    take(bytes);
    return make<Block>(*this, type, bytes, nullptr);
  }
  [[nodiscard]] constexpr Block* allocate_slice(ElementType type, const KeptPlacement& placement) override {
    ++references;
    const std::int64_t bytes = placement.local_elements * element_sizes[static_cast<int>(type)];
    take(bytes);
    return make<Block>(*this, type, bytes, nullptr);
  }
  constexpr void release(Block* block) override {
    live_ -= pooled_bytes(block->bytes);
    if (survey != nullptr) survey->end(block);
    destroy(block);
  }
  /// There are no elements to write.
  template <class T, class F>
  constexpr void write(Block&, const Placement&, const F&) {}

  /// Bytes of all live arrays of a rank, as the memory pool counts them.
  [[nodiscard]] constexpr std::int64_t live() const { return live_; }

 private:
  constexpr void take(std::int64_t bytes) {
    live_ += pooled_bytes(bytes);
    if (live_ > cost.peak_bytes) cost.peak_bytes = live_;
  }
  constexpr void note(const LocalWork& done) {
    cost.add(done);
    if (tracing) records.push_back(record_of(activity, done));
  }

  std::int64_t live_ = 0;
};

/// The interface of `World` for operations, models and optimizers, without data: for meshes of any size, at run time
/// and, where all sizes are static, in constant expressions. What asks for elements (`item`, `to_host`, `print`) does
/// not exist here.
template <class MeshType, class LayoutType>
class DryRun {
  static_assert(std::is_base_of_v<MeshBase, MeshType> && std::is_base_of_v<LayoutBase, LayoutType>,
                "mtf: DryRun<Mesh, Layout> takes a mesh, then a layout: structs derived from mtf::Mesh<...> and "
                "mtf::Layout<...>");

 public:
  using mesh_type = MeshType;
  using layout_type = LayoutType;
  using engine_type = DryEngine;

  /// Of types that know all sizes.
  constexpr DryRun()
    requires(MeshType::is_static && LayoutType::is_static)
      : engine_(new DryEngine(detail::static_rules<DryRun>())) {
    if constexpr (!applicable<MeshType, LayoutType>) (void)not_applicable<MeshType, LayoutType>{};
  }
  /// Of rules as values: of a `dynamic_mesh` and `dynamic_layout`, as a search has them.
  constexpr explicit DryRun(const PlacementRules& rules) : engine_(new DryEngine(rules)) {}
  /// Of texts, as a World takes them; throws with every violated rule.
  explicit DryRun(const WorldOptions& options)
      : texts_(detail::read_rules(detail::static_rules_of<MeshType, LayoutType>(), options)) {
    engine_ = Ref<Backend>(new DryEngine(texts_.rules));
  }
  DryRun(const DryRun&) = delete;
  DryRun& operator=(const DryRun&) = delete;
  constexpr ~DryRun() {
    registry_.clear();
    engine().closed = true;
  }

  [[nodiscard]] constexpr engine_type& engine() const { return static_cast<engine_type&>(*engine_); }
  [[nodiscard]] constexpr Registry& registry() { return registry_; }
  [[nodiscard]] constexpr const Registry& registry() const { return registry_; }
  [[nodiscard]] constexpr const MeshValue& mesh() const { return engine().mesh(); }
  [[nodiscard]] constexpr const PlacementRules& rules() const { return engine().rules; }
  [[nodiscard]] constexpr std::uint64_t seed() const { return 0; }
  /// Keeps a record of every plan and collective from now on.
  constexpr void start_tracing() {
    engine().forget_records();
    engine().tracing = true;
  }
  constexpr void stop_tracing() { engine().tracing = false; }
  [[nodiscard]] constexpr const Records& records() const { return engine().records; }

  /// What has been done so far.
  [[nodiscard]] constexpr Cost cost() const {
    Cost result = engine().cost;
    for (const VariableState* state : registry_.all()) {
      const KeptPlacement& placement = state->placement();
      const std::int64_t bytes = placement.local_size() * bytes_of(state->leaf.value->type());
      if (state->trainable) {
        result.parameters += placement.size();
        result.parameters_per_rank += placement.local_size();
        result.parameter_bytes += bytes;
      } else {
        result.state_bytes += bytes;
      }
    }
    for (int rule = 0; rule < engine().rules.rules.size(); ++rule) {
      if ((engine().placements.used_rules() >> rule & 1U) == 0) ++result.unused;
    }
    return result;
  }

 private:
  detail::WorldRules texts_;
  Ref<Backend> engine_;
  Registry registry_;
};

/// What `step(world)` costs a rank of this mesh under this layout. `step` is a template over the world, the same that
/// runs on `World`: it makes its model and runs a training step. A constant expression if all sizes are static:
/// `constexpr auto c = mtf::cost<Mesh, Layout>(step); static_assert(c.bytes("cols") <= 64_MiB);`
template <class MeshType, class LayoutType, class Step>
[[nodiscard]] constexpr Cost cost(const Step& step) {
  DryRun<MeshType, LayoutType> world;
  step(world);
  return world.cost();
}
/// The same for rules as values. One instantiation of the step serves all rules.
template <class Step>
[[nodiscard]] constexpr Cost cost(const PlacementRules& rules, const Step& step) {
  DryRun<dynamic_mesh, dynamic_layout> world(rules);
  step(world);
  return world.cost();
}

}  // namespace v0
}  // namespace mtf
