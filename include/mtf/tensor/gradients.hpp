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
  struct Entry {
    Ref<Node> node;
    InlineVector<Ref<Value>, 8> partials;
    bool useful = false;
    bool wanted = false;
    bool reached = false;
    std::int64_t outer_pass = 0;  ///< what the node says of the pass during which this one runs
    int outer_slot = -1;

    constexpr void release() {
      for (Ref<Value>& partial : partials) partial = Ref<Value>();
      partials.clear();
    }
  };

  [[nodiscard]] constexpr bool met(const Node& node) const { return node.pass == pass_; }
  [[nodiscard]] constexpr Entry& entry_of(int input) {
    return entries_[static_cast<std::size_t>(operation_->inputs[static_cast<std::size_t>(input)]->slot)];
  }
  MTF_NOINLINE static constexpr void add_to(Entry& entry, Ref<Value>&& contribution, const char* name) {
    const ElementOperations* elements = entry.node->elements;
    if (!contribution->block->scattered.empty()) complete(*contribution, name);
    for (Ref<Value>& partial : entry.partials) {
      // Another holder of the block may have scattered it since.
      if (!partial->block->scattered.empty()) complete(*partial, name);
      if (partial->pending() == contribution->pending()) {
        // The memory of whichever is not held by anyone else takes the sum.
        if (contribution->references == 1 && contribution->block->references == 1) std::swap(partial, contribution);
        partial = elements->add(std::move(partial), *contribution);
        return;
      }
    }
    if (entry.partials.full()) {
      // More sets than one operand of a sensible program meets; complete this one to bound the list.
      complete(*contribution, name);
      Ref<Value>& first = entry.partials[0];
      complete(*first, name);
      first = elements->add(std::move(first), *contribution);
      return;
    }
    entry.partials.push_back(std::move(contribution));
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
        raise("gradients", std::string("this graph was freed by an earlier gradients(); pass keep_graph::yes there to use it again"));
      }
    }
    for (const Ref<Node>& node : wanted) {
      if (rule == unused::error && !pass.sink_.met(*node)) {
        const std::string name(node->name.empty() ? std::string_view("a watched tensor") : node->name);
        raise("gradients", "the loss does not depend on \"" + name + "\"; leave it out, or ask for unused::zeros");
      }
    }
    pass.sink_.entries_[0].partials.push_back(loss->elements->fill(*loss->backend, loss->placement, 1.0));
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

  MTF_NOINLINE constexpr void collect(std::span<const Ref<Node>> roots) {
    RecycledVector<Entry>& entries = sink_.entries_;
    RecycledVector<Node*> nodes;
    struct Outer {
      std::int64_t pass;
      int slot;
    };
    RecycledVector<Outer> outer;
    const auto meet = [&](const Ref<Node>& node) {
      if (!node || sink_.met(*node)) return;
      outer.push_back({std::exchange(node->pass, sink_.pass_), node->slot});
      node->slot = static_cast<int>(nodes.size());
      nodes.push_back(node.get());
    };
    for (const Ref<Node>& root : roots) meet(root);
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      const Operation* operation = operation_of(*nodes[i]);
      if (operation == nullptr) continue;
      for (const Ref<Node>& input : operation->inputs) meet(input);
    }
    // By falling creation number. The walk met them nearly so, and then insertion is linear.
    for (std::size_t i = 1; i < nodes.size(); ++i) {
      Node* node = nodes[i];
      std::size_t at = i;
      for (; at > 0 && nodes[at - 1]->id < node->id; --at) nodes[at] = nodes[at - 1];
      nodes[at] = node;
    }
    entries = RecycledVector<Entry>(nodes.size());
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      const Outer& before = outer[static_cast<std::size_t>(nodes[i]->slot)];
      entries[i].node = Ref<Node>(nodes[i]);
      entries[i].outer_pass = before.pass;
      entries[i].outer_slot = before.slot;
      nodes[i]->slot = static_cast<int>(i);
    }
  }

  /// Marks the entries on a path to a wanted node; inputs come after the operations that use them.
  MTF_NOINLINE constexpr void prune(std::span<const Ref<Node>> wanted) {
    RecycledVector<Entry>& entries = sink_.entries_;
    for (const Ref<Node>& node : wanted) {
      if (!sink_.met(*node)) continue;
      Entry& entry = entries[static_cast<std::size_t>(node->slot)];
      entry.useful = entry.wanted = true;
    }
    for (std::size_t i = entries.size(); i-- > 0;) {
      const Operation* operation = operation_of(*entries[i].node);
      if (operation == nullptr) continue;
      for (const Ref<Node>& input : operation->inputs) {
        if (input && entries[static_cast<std::size_t>(input->slot)].useful) entries[i].useful = true;
      }
    }
  }

  MTF_NOINLINE constexpr void walk(keep_graph keep) {
    RecycledVector<Entry>& entries = sink_.entries_;
    for (std::size_t i = 0; i < entries.size(); ++i) {
      Node& node = *entries[i].node;
      if (operation_of(node) == nullptr || !entries[i].useful) continue;
      if (!entries[i].partials.empty() || entries[i].reached) {
        Ref<Value> gradient;
        if (!entries[i].partials.empty()) gradient = read(entries[i]);
        if (!entries[i].wanted) entries[i].release();
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
    if (entry.partials.empty()) return entry.node->elements->fill(*entry.node->backend, entry.node->placement, 0.0);
    while (entry.partials.size() > 1) {
      Ref<Value> last = std::move(entry.partials.back());
      entry.partials.erase(entry.partials.size() - 1);
      complete(*last, "gradients");
      Ref<Value>& first = entry.partials[0];
      complete(*first, "gradients");
      first = entry.node->elements->add(std::move(first), *last);
    }
    return entry.partials[0];
  }

  [[nodiscard]] constexpr RecycledVector<Ref<Value>> results(std::span<const Ref<Node>> wanted) {
    RecycledVector<Ref<Value>> result;
    result.reserve(wanted.size());
    for (const Ref<Node>& node : wanted) {
      if (!sink_.met(*node)) {
        result.push_back(Ref<Value>());
        continue;
      }
      Entry& entry = sink_.entries_[static_cast<std::size_t>(node->slot)];
      result.emplace_back();
      if (scope_ == 0 || !entry.partials.empty()) result.back() = read(entry);
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
