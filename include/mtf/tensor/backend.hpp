// Backend: what the model wing knows of a running world or of a dry run - memory, mesh, collectives.
#pragma once

#include <cstdint>

#include <mtf/core/element.hpp>
#include <mtf/plan/collective.hpp>
#include <mtf/plan/loop.hpp>
#include <mtf/plan/record.hpp>
#include <mtf/plan/survey.hpp>
#include <mtf/plan/traced.hpp>
#include <mtf/tensor/counted.hpp>
#include <mtf/tensor/plan_memo.hpp>

namespace mtf {
inline namespace v0 {

class Backend;
class Node;

/// Memory of one local slice, and whether the sum over some mesh axes is still outstanding. Arrays that share a block
/// share its state, so a sum is completed once for all of them:
///
/// * full: `pending` and `scattered` are empty, the block is the slice;
/// * pending(set): the block is this rank's partial sum; the value is the sum over the set;
/// * scattered(set): summed, but of the local array seen as [outer, parts, inner] the block holds [outer, 1, inner],
///   the part of this rank's position along the set.
///
/// Sums of bfloat16 that go on - partial sums, and what a gradient or parts of a batch are added to - are held in float
/// (`wide`) until they are completed, or until someone asks for them as they are.
struct Block : Counted {
  Backend* backend = nullptr;
  void* data = nullptr;  ///< null in a dry run
  std::int64_t bytes = 0;
  ElementType type{};
  bool wide = false;  ///< a sum of bfloat16 whose elements are floats for now
  bool lent = false;  ///< memory of the user's own: never written, never freed here
  AxisSet pending;
  AxisSet scattered;
  std::int64_t outer = 1;  ///< of a scattered block
  std::int64_t inner = 1;
  const char* summed_by = "";  ///< while tracing: the operation that made these partial sums

  constexpr Block(Backend& home, ElementType element_type, std::int64_t size, void* memory)
      : Counted{}, backend(&home), data(memory), bytes(size), type(element_type) {}

  [[nodiscard]] constexpr std::int64_t width() const { return wide ? bytes_of(ElementType::float32) : bytes_of(type); }
  [[nodiscard]] constexpr std::int64_t count() const { return bytes / width(); }
};
using Buffer = Ref<Block>;

/// A function whose graph is kept apart from that around it (see ops/custom_gradient.hpp). Scopes nest.
struct CaptureScope {
  std::int64_t number = 0;
  const CaptureScope* outer = nullptr;
  const char* operation = "";
};

/// A dim of which every `count`-th row is there, beginning with `first`: what a microbatch sees of a batch. Random
/// numbers follow the rows of the whole.
struct StridedRows {
  Name dim;
  std::int64_t extent = 0;  ///< rows that are there
  std::int64_t count = 1;
  std::int64_t first = 0;
};

/// The world as operations see it. A running world implements it with Kokkos and MPI, a dry run records what it is
/// asked for. Handles keep their backend alive; after the world has ended only their destruction is allowed.
class Backend {
 public:
  PlacementRules rules;     ///< layout and mesh
  Coordinates coordinates;  ///< of this rank
  int references = 0;
  bool closed = false;             ///< the world has ended
  const char* ended_by = nullptr;  ///< "MPI" or "Kokkos", if the world has ended because that was finalized
  bool recording = true;           ///< operations on tensors that need gradients join the graph
  std::int64_t next_id = 0;
  Placements placements;                ///< of all tensors so far
  PlanMemo plans;                       ///< of the operations so far
  std::int64_t next_pass = 1;           ///< number of the next gradient pass
  std::int64_t next_scope = 1;          ///< number of the next capture scope
  const CaptureScope* scope = nullptr;  ///< the innermost open one; nodes made now belong to it
  const StridedRows* rows = nullptr;    ///< of the microbatch that is running
  const char* replaying = nullptr;      ///< the operation whose gradient calls a function of the user's now
  Survey* survey = nullptr;             ///< of a dry run for a layout search: what operations tell it
  Node* graveyard = nullptr;            ///< nodes whose last handle is gone, see node.hpp
  bool burying = false;
  bool has_updated = false;                ///< an optimizer has begun a step
  Activity activity;                       ///< whose records the next ones are
  bool tracing = false;                    ///< keep what is done in `records`
  Records records;                         ///< in order, since they were last cleared
  RecycledVector<TracedProduct> products;  ///< those among the records
  RecycledVector<TracedTensor> tensors;    ///< kinds of tensors made meanwhile

  constexpr Backend() = default;
  Backend(const Backend&) = delete;
  Backend& operator=(const Backend&) = delete;
  constexpr virtual ~Backend() {}

  [[nodiscard]] constexpr const MeshValue& mesh() const { return rules.mesh; }
  /// Where a tensor of these dims lives; they must have passed `check`.
  [[nodiscard]] constexpr const KeptPlacement& place(const ShapeValue& shape) { return placements.of(rules, shape); }
  /// The same placement, kept.
  [[nodiscard]] constexpr const KeptPlacement& keep(const Placement& placement) {
    return placements.keep(rules, placement);
  }

  [[nodiscard]] constexpr bool is_observed() const { return tracing || survey != nullptr; }
  /// A tensor was made.
  MTF_COLD constexpr void observe(const Placement& placement, ElementType made, const Block& block) {
    if (tracing) trace(placement, made);
    if (survey != nullptr) survey->begin(&block, placement, block.bytes);
  }
  constexpr void forget_records() {
    records.clear();
    products.clear();
    tensors.clear();
  }
  /// Keeps the dims of a product whose record is the last.
  MTF_COLD constexpr void trace(const Placement& c, const Placement& a, const Placement& b, bool is_lookup = false) {
    products.push_back(traced_product(c, a, b));
    products.back().record = static_cast<std::int64_t>(records.size()) - 1;
    products.back().is_lookup = is_lookup;
  }
  MTF_COLD constexpr void trace(const Placement& placement, ElementType type) {
    for (TracedTensor& kind : tensors) {
      if (kind.type == type && kind.placement == placement) {
        ++kind.count;
        return;
      }
    }
    tensors.push_back({.placement = placement,
                       .type = type,
                       .operation = activity.operation,
                       .is_gradient = activity.is_gradient,
                       .count = 1});
  }

  /// An optimizer begins a step.
  constexpr void begin_update() {
    if (!has_updated) {
      has_updated = true;
      begin_first_update();
    }
  }
  /// All that a step makes has been made once: a world tells of rules that no tensor has used.
  constexpr virtual void begin_first_update() {}

  /// An operation begins: the records that follow are its.
  constexpr void announce(const char* operation) {
    activity.operation = operation;
    ++activity.occurrence;
  }

  /// A block of `count` elements, uninitialised. It counts as a handle to its backend.
  [[nodiscard]] constexpr virtual Block* allocate(ElementType type, std::int64_t count) = 0;
  /// The same for a slice of this placement, which an error names.
  [[nodiscard]] constexpr virtual Block* allocate_slice(ElementType type, const KeptPlacement& placement) = 0;
  constexpr virtual void release(Block* block) = 0;
  /// Runs a collective. In place for all_reduce, broadcast (from position 0); else `in` to `out`.
  constexpr virtual void communicate(const CollectivePlan& plan, Block& out, const Block& in) = 0;
  /// Moves elements, whatever their type.
  constexpr virtual void copy(const CopyPlan& plan, Block& out, const Block& in) = 0;
  /// Rounds a wide block to bfloat16, in place. A backend without data only notes it.
  constexpr virtual void narrow(Block& block) {
    block.bytes = block.count() * bytes_of(block.type);
    block.wide = false;
  }
};

constexpr void dispose(Backend* backend) { delete backend; }
MTF_NOINLINE constexpr void dispose(Block* block) {
  Backend& backend = *block->backend;
  backend.release(block);
  if (--backend.references == 0) dispose(&backend);
}

}  // namespace v0
}  // namespace mtf
