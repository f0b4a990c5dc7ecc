// Reverse-mode differentiation of the untyped graph.
#pragma once

#include <span>

#include <mtf/tensor/node.hpp>

namespace mtf {
inline namespace v0 {

/// Receives the gradients of an operation's inputs during `Operation::backward`.
class GradientSink {
 public:
  /// Whether the gradient of input i is needed: an operation skips the work otherwise.
  [[nodiscard]] constexpr bool wants(int input) const {
    const Ref<Node>& node = operation_->inputs[static_cast<std::size_t>(input)];
    return node && met(*node) && entries_[static_cast<std::size_t>(node->slot)].useful;
  }
  /// Adds a contribution. One partial sum is kept per set of axes that it is pending over: adding in order of arrival
  /// would complete a sum for every branch, this completes one per set when the gradient is read.
  constexpr void add(int input, const Ref<Value>& contribution) {
    Ref<Value> copy = contribution;
    add(input, std::move(copy));
  }
  constexpr void add(int input, Ref<Value>&& contribution) {
    add_to(entry_of(input), std::move(contribution), operation_->name);
  }
  /// Lets the operation of input i have its turn although it receives no contribution here.
  constexpr void reach(int input) { entry_of(input).reached = true; }

 private:
  friend class GradientPass;
  /// What a pass knows of a node.
  struct Entry {
    Ref<Node> node;
    std::int64_t outer_pass;  ///< what the node says of the pass during which this one runs
    int outer_slot;
    bool useful = false;
    bool wanted = false;
    bool reached = false;
    Ref<Value> sum;                    ///< of the contributions that are pending over one set of axes, null if there are none
    RecycledVector<Ref<Value>> others;  ///< those over other sets, rarely any

    constexpr Entry(Node* met, std::int64_t pass, int slot) : node(met), outer_pass(pass), outer_slot(slot) {}
  };
  static constexpr std::size_t max_others = 7;

  [[nodiscard]] constexpr bool met(const Node& node) const { return node.pass == pass_; }
  [[nodiscard]] constexpr Entry& entry_of(int input) {
    return entries_[static_cast<std::size_t>(operation_->inputs[static_cast<std::size_t>(input)]->slot)];
  }
  MTF_NOINLINE static constexpr void add_to(Entry& entry, Ref<Value>&& contribution, const char* name) {
    if (contribution->block->scattered.bits != 0) complete(*contribution, name);
    if (!entry.sum) {
      entry.sum = std::move(contribution);
      return;
    }
    if (joins(entry, entry.sum, contribution, name)) return;
    for (Ref<Value>& other : entry.others) {
      if (joins(entry, other, contribution, name)) return;
    }
    if (entry.others.size() == max_others) {
      // More sets than one operand of a sensible program meets; complete this one to bound the list.
      complete(*contribution, name);
      complete(*entry.sum, name);
      entry.sum = entry.node->elements->add(std::move(entry.sum), *contribution);
      return;
    }
    entry.others.push_back(std::move(contribution));
  }
  /// Adds a contribution to a partial sum if both are pending over the same axes.
  static constexpr bool joins(const Entry& entry, Ref<Value>& partial, Ref<Value>& contribution, const char* name) {
    // Another holder of the block may have scattered it since.
    if (partial->block->scattered.bits != 0) complete(*partial, name);
    if (partial->pending().bits != contribution->pending().bits) return false;
    // The memory of whichever is not held by anyone else takes the sum.
    if (contribution->references == 1 && contribution->block->references == 1) std::swap(partial, contribution);
    partial = entry.node->elements->add(std::move(partial), *contribution);
    return true;
  }

  RecycledVector<Entry> entries_;
  Operation* operation_ = nullptr;
  std::int64_t pass_ = 0;
};

enum class keep_graph : bool { no, yes };
/// What the gradient of something the loss does not depend on is.
enum class unused : bool { error, zeros };

/// One walk from a loss to the nodes that reach the wanted ones, by falling creation number. Passes nest: the gradient of an
/// operation may run one of its own.
class GradientPass {
 public:
  GradientPass(const GradientPass&) = delete;
  GradientPass& operator=(const GradientPass&) = delete;
  constexpr ~GradientPass() {
    forget();
    backend_->activity.operation = outer_.operation;
    backend_->activity.is_gradient = outer_.is_gradient;
  }

  /// Gradients of a scalar loss, in the order of `wanted`. Saved data is freed on the way unless the graph is kept.
  /// An entry of `wanted` that the loss does not depend on is an error, or null if `unused::zeros` is asked for.
  MTF_NOINLINE static constexpr RecycledVector<Ref<Value>> run(const Ref<Node>& loss, std::span<const Ref<Node>> wanted, keep_graph keep, unused rule) {
    detail::require_open(*loss->backend, "gradients");
    detail::require_visible(*loss);
    for (const Ref<Node>& node : wanted) detail::require_visible(*node);
    GradientPass pass(*loss->backend, 0);
    pass.collect({&loss, 1});
    pass.prune(wanted);
    // An error leaves the graph as it was. A freed node has lost its inputs: whatever lies behind it cannot be reached.
    for (const GradientSink::Entry& entry : pass.sink_.entries_) {
      if (entry.node->consumed) {
        raise("gradients", "this graph was freed by an earlier gradients(); pass keep_graph::yes there to use it again");
      }
    }
    for (const Ref<Node>& node : wanted) {
      if (rule == unused::error && !pass.sink_.met(*node)) {
        const std::string name(node->name.empty() ? std::string_view("a watched tensor") : node->name);
        raise("gradients", "the loss does not depend on \"" + name + "\"; leave it out, or ask for unused::zeros");
      }
    }
    pass.sink_.entries_[0].sum = loss->elements->fill(*loss->backend, loss->placement, 1.0);
    pass.walk(keep);
    pass.backend_->announce("gradients");
    return pass.results(wanted);
  }

  /// Gradients of the results of a captured function, whose own gradients are `seeds` (null for none), with respect to `wanted`,
  /// null where no result depends on one. The walk stays inside the scope, and frees its graph.
  MTF_NOINLINE static constexpr RecycledVector<Ref<Value>> pull(const CaptureScope& scope, std::span<const Ref<Node>> roots,
                                                                std::span<const Ref<Value>> seeds, std::span<const Ref<Node>> wanted) {
    GradientPass pass(*roots[0]->backend, scope.number);
    pass.collect(roots);
    pass.prune(wanted);
    for (std::size_t i = 0; i < roots.size(); ++i) {
      if (!seeds[i]) continue;
      Ref<Value> seed = seeds[i];
      GradientSink::add_to(pass.sink_.entries_[static_cast<std::size_t>(roots[i]->slot)], std::move(seed), scope.operation);
    }
    pass.walk(keep_graph::no);
    return pass.results(wanted);
  }

 private:
  using Entry = GradientSink::Entry;

  constexpr GradientPass(Backend& backend, std::int64_t scope) : scope_(scope), backend_(&backend), outer_(backend.activity) {
    sink_.pass_ = backend.next_pass++;
    backend.activity.is_gradient = true;
  }

  /// The operation that made a node, if the walk goes through it.
  [[nodiscard]] constexpr Operation* operation_of(const Node& node) const { return scope_ == 0 || node.scope == scope_ ? node.operation : nullptr; }

  /// Meets all nodes that the walk goes through, operations first, by falling creation number: the largest of those met is next.
  MTF_NOINLINE constexpr void collect(std::span<const Ref<Node>> roots) {
    struct Met {
      Node* node;
      std::int64_t outer_pass;
      int outer_slot;
    };
    RecycledVector<Met> operations, leaves;
    RecycledVector<Met> open;  // operations whose turn has not come, by rising creation number
    const auto meet = [&](const Ref<Node>& met) {
      Node* const node = met.get();
      if (node == nullptr || node->pass == sink_.pass_) return;
      const Met entry{node, std::exchange(node->pass, sink_.pass_), node->slot};
      if (operation_of(*node) == nullptr) {
        leaves.push_back(entry);
        return;
      }
      open.push_back(entry);
      Met* at = &open.back();
      for (; at != open.data() && (at - 1)->node->id > node->id; --at) *at = *(at - 1);
      *at = entry;
    };
    for (const Ref<Node>& root : roots) meet(root);
    while (!open.empty()) {
      const Met next = open.back();
      open.pop_back();
      operations.push_back(next);
      for (const Ref<Node>& input : next.node->operation->inputs) meet(input);
    }
    RecycledVector<Entry>& entries = sink_.entries_;
    entries.reserve(operations.size() + leaves.size());
    for (const RecycledVector<Met>* list : {&operations, &leaves}) {
      for (const Met& met : *list) {
        met.node->slot = static_cast<int>(entries.size());
        entries.emplace_back(met.node, met.outer_pass, met.outer_slot);
      }
    }
  }

  /// Marks the entries on a path to a wanted node; inputs come after the operations that use them.
  MTF_NOINLINE constexpr void prune(std::span<const Ref<Node>> wanted) {
    Entry* const entries = sink_.entries_.data();
    for (const Ref<Node>& node : wanted) {
      if (sink_.met(*node)) entries[node->slot].useful = entries[node->slot].wanted = true;
    }
    for (Entry* entry = entries + sink_.entries_.size(); entry != entries;) {
      --entry;
      const Operation* operation = operation_of(*entry->node);
      if (operation == nullptr) continue;
      for (const Ref<Node>& input : operation->inputs) {
        if (input && entries[input->slot].useful) entry->useful = true;
      }
    }
  }

  MTF_NOINLINE constexpr void walk(keep_graph keep) {
    for (Entry& entry : sink_.entries_) {
      Node& node = *entry.node;
      if (operation_of(node) == nullptr || !entry.useful) continue;
      if (entry.sum || entry.reached) {
        Ref<Value> gradient;
        if (entry.sum) gradient = read(entry);
        if (!entry.wanted) entry.sum = Ref<Value>();
        sink_.operation_ = node.operation;
        backend_->announce(node.operation->name);
        node.operation->backward(gradient, sink_);
      }
      if (keep == keep_graph::no) {
        destroy(std::exchange(node.operation, nullptr));
        node.consumed = true;
      }
    }
  }

  /// The sum of the partial sums. A single set stays pending.
  MTF_NOINLINE static constexpr Ref<Value> read(Entry& entry) {
    if (!entry.sum) return entry.node->elements->fill(*entry.node->backend, entry.node->placement, 0.0);
    while (!entry.others.empty()) {
      const Ref<Value> last = std::move(entry.others.back());
      entry.others.pop_back();
      complete(*last, "gradients");
      complete(*entry.sum, "gradients");
      entry.sum = entry.node->elements->add(std::move(entry.sum), *last);
    }
    return entry.sum;
  }

  [[nodiscard]] constexpr RecycledVector<Ref<Value>> results(std::span<const Ref<Node>> wanted) {
    RecycledVector<Ref<Value>> result;
    result.reserve(wanted.size());
    for (const Ref<Node>& node : wanted) {
      result.emplace_back();
      if (!sink_.met(*node)) continue;
      Entry& entry = sink_.entries_[static_cast<std::size_t>(node->slot)];
      if (scope_ == 0 || entry.sum) result.back() = read(entry);
    }
    return result;
  }

  /// Gives the nodes back to the pass during which this one ran, also when an exception ends it.
  constexpr void forget() {
    for (Entry& entry : sink_.entries_) {
      entry.node->pass = entry.outer_pass;
      entry.node->slot = entry.outer_slot;
    }
    sink_.entries_.clear();
  }

  GradientSink sink_;
  std::int64_t scope_;
  Backend* backend_;
  Activity outer_;  ///< what ran when the pass began
};

}  // namespace v0
}  // namespace mtf
