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
    const Ref<Node>& node = operation_->inputs[input];
    return node && node->slot >= 0 && entries_[static_cast<std::size_t>(node->slot)].useful;
  }
  /// Adds a contribution. One partial sum is kept per set of axes that it is pending over: adding in order of arrival
  /// would complete a sum for every branch, this completes one per set when the gradient is read.
  constexpr void add(int input, const Ref<Value>& contribution) {
    Ref<Value> copy = contribution;
    add(input, std::move(copy));
  }
  MTF_NOINLINE constexpr void add(int input, Ref<Value>&& contribution) {
    const Ref<Node>& node = operation_->inputs[input];
    Entry& entry = entries_[static_cast<std::size_t>(node->slot)];
    if (!contribution->block->scattered.empty()) complete(*contribution, operation_->name);
    for (Ref<Value>& partial : entry.partials) {
      // Another holder of the block may have scattered it since.
      if (!partial->block->scattered.empty()) complete(*partial, operation_->name);
      if (partial->pending() == contribution->pending()) {
        // The memory of whichever is not held by anyone else takes the sum.
        if (contribution->references == 1 && contribution->block->references == 1) std::swap(partial, contribution);
        partial = node->elements->add(std::move(partial), *contribution);
        return;
      }
    }
    if (entry.partials.full()) {
      // More sets than one operand of a sensible program meets; complete this one to bound the list.
      complete(*contribution, operation_->name);
      Ref<Value>& first = entry.partials[0];
      complete(*first, operation_->name);
      first = node->elements->add(std::move(first), *contribution);
      return;
    }
    entry.partials.push_back(std::move(contribution));
  }

 private:
  friend class GradientPass;
  struct Entry {
    Ref<Node> node;
    InlineVector<Ref<Value>, 8> partials;
    bool useful = false;
    bool wanted = false;

    constexpr void release() {
      for (Ref<Value>& partial : partials) partial = Ref<Value>();
      partials.clear();
    }
  };

  RecycledVector<Entry> entries_;
  Operation* operation_ = nullptr;
};

enum class keep_graph : bool { no, yes };
/// What the gradient of something the loss does not depend on is.
enum class unused : bool { error, zeros };

/// One walk from a loss to the nodes that reach the wanted ones, by falling creation number.
class GradientPass {
 public:
  /// Gradients of a scalar loss, in the order of `wanted`. Saved data is freed on the way unless the graph is kept.
  /// An entry of `wanted` that the loss does not depend on is an error, or null if `unused::zeros` is asked for.
  MTF_NOINLINE static constexpr RecycledVector<Ref<Value>> run(const Ref<Node>& loss, std::span<const Ref<Node>> wanted, keep_graph keep, unused rule) {
    detail::require_open(*loss->backend, "gradients");
    GradientPass pass;
    pass.collect(loss);
    pass.prune(wanted);
    // An error leaves the graph as it was. A freed node has lost its inputs: whatever lies behind it cannot be reached.
    for (const GradientSink::Entry& entry : pass.sink_.entries_) {
      if (entry.node->consumed) {
        pass.forget();
        raise("gradients", std::string("this graph was freed by an earlier gradients(); pass keep_graph::yes there to use it again"));
      }
    }
    for (const Ref<Node>& node : wanted) {
      if (rule == unused::error && node->slot < 0) {
        const std::string name(node->name.empty() ? std::string_view("a watched tensor") : node->name);
        pass.forget();
        raise("gradients", "the loss does not depend on \"" + name + "\"; leave it out, or ask for unused::zeros");
      }
    }
    pass.walk(loss, keep);
    RecycledVector<Ref<Value>> result;
    result.reserve(wanted.size());
    for (const Ref<Node>& node : wanted) {
      result.emplace_back();
      if (node->slot >= 0) result.back() = pass.read(pass.sink_.entries_[static_cast<std::size_t>(node->slot)]);
    }
    pass.forget();
    return result;
  }

 private:
  using Entry = GradientSink::Entry;

  MTF_NOINLINE constexpr void collect(const Ref<Node>& loss) {
    RecycledVector<Node*> nodes{loss.get()};
    loss->slot = 0;
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      const Operation* operation = nodes[i]->operation;
      if (operation == nullptr) continue;
      for (const Ref<Node>& input : operation->inputs) {
        if (!input || input->slot >= 0) continue;
        input->slot = 0;
        nodes.push_back(input.get());
      }
    }
    // By falling creation number. The walk met them nearly so, and then insertion is linear.
    for (std::size_t i = 1; i < nodes.size(); ++i) {
      Node* node = nodes[i];
      std::size_t at = i;
      for (; at > 0 && nodes[at - 1]->id < node->id; --at) nodes[at] = nodes[at - 1];
      nodes[at] = node;
    }
    sink_.entries_ = RecycledVector<Entry>(nodes.size());
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      sink_.entries_[i].node = Ref<Node>(nodes[i]);
      nodes[i]->slot = static_cast<int>(i);
    }
  }

  /// Marks the entries on a path to a wanted node; inputs come after the operations that use them.
  MTF_NOINLINE constexpr void prune(std::span<const Ref<Node>> wanted) {
    RecycledVector<Entry>& entries = sink_.entries_;
    for (const Ref<Node>& node : wanted) {
      if (node->slot >= 0) entries[static_cast<std::size_t>(node->slot)].useful = entries[static_cast<std::size_t>(node->slot)].wanted = true;
    }
    for (std::size_t i = entries.size(); i-- > 0;) {
      const Operation* operation = entries[i].node->operation;
      if (operation == nullptr) continue;
      for (const Ref<Node>& input : operation->inputs) {
        if (input && entries[static_cast<std::size_t>(input->slot)].useful) entries[i].useful = true;
      }
    }
  }

  MTF_NOINLINE constexpr void walk(const Ref<Node>& loss, keep_graph keep) {
    RecycledVector<Entry>& entries = sink_.entries_;
    entries[0].partials.push_back(loss->elements->fill(*loss->backend, loss->placement, 1.0));
    for (std::size_t i = 0; i < entries.size(); ++i) {
      Node& node = *entries[i].node;
      if (node.operation == nullptr || !entries[i].useful) continue;
      if (!entries[i].partials.empty()) {
        const Ref<Value> gradient = read(entries[i]);
        if (!entries[i].wanted) entries[i].release();
        sink_.operation_ = node.operation;
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

  constexpr void forget() {
    for (Entry& entry : sink_.entries_) entry.node->slot = -1;
    sink_.entries_.clear();
  }

  GradientSink sink_;
};

}  // namespace v0
}  // namespace mtf
