// Reverse-mode differentiation of the untyped graph.
#pragma once

#include <span>

#include <mtf/tensor/node.hpp>

namespace mtf {
inline namespace v0 {

/// What a gradient pass knows of a node that it has met.
struct GradientEntry : Counted {
  Ref<Node> node;
  std::int64_t pass;
  GradientEntry* outer;           ///< the node's entry in the pass during which this one runs
  GradientEntry* next = nullptr;  ///< by falling creation number of the nodes
  GradientEntry* previous = nullptr;
  bool useful = false;  ///< on a path to a wanted node
  bool wanted = false;
  bool reached = false;  ///< has its turn without a contribution
  Ref<Value> sum;        ///< of the contributions that are pending over one set of axes, null if there are none
  RecycledVector<Ref<Value>> others;  ///< those over other sets, rarely any

  constexpr GradientEntry(Node* met, std::int64_t number) : Counted{}, node(met), pass(number), outer(met->entry) {}
};

/// Receives the gradients of an operation's inputs during `Operation::backward`.
class GradientSink {
 public:
  /// Whether the gradient of input i is needed: an operation skips the work otherwise.
  [[nodiscard]] constexpr bool wants(int input) const {
    const Node* node = operation_->inputs[static_cast<std::size_t>(input)].object;
    return node != nullptr && node->entry != nullptr && node->entry->pass == pass_ && node->entry->useful;
  }
  /// Adds a contribution. One partial sum is kept per set of axes that it is pending over: adding in order of arrival
  /// would complete a sum for every branch, this completes one per set when the gradient is read.
  constexpr void add(int input, const Ref<Value>& contribution) {
    Ref<Value> copy = contribution;
    add_to(entry_of(input), std::move(copy), operation_->name);
  }
  constexpr void add(int input, Ref<Value>&& contribution) {
    add_to(entry_of(input), std::move(contribution), operation_->name);
  }
  /// Lets the operation of input i have its turn although it receives no contribution here.
  constexpr void reach(int input) { entry_of(input).reached = true; }

 private:
  friend class GradientPass;
  static constexpr std::size_t max_others = 7;

  [[nodiscard]] constexpr bool met(const Node& node) const {
    return node.entry != nullptr && node.entry->pass == pass_;
  }
  [[nodiscard]] constexpr GradientEntry& entry_of(int input) {
    return *operation_->inputs[static_cast<std::size_t>(input)].object->entry;
  }
  MTF_NOINLINE static constexpr void add_to(GradientEntry& entry, Ref<Value>&& contribution, const char* name) {
    if (contribution.object->block.object->scattered.bits != 0) complete_unrounded(*contribution, name);
    if (entry.sum.object == nullptr) {
      entry.sum = std::move(contribution);
      return;
    }
    if (joins(entry, entry.sum, contribution, name)) return;
    for (Ref<Value>& other : entry.others) {
      if (joins(entry, other, contribution, name)) return;
    }
    if (entry.others.size() == max_others) {
      // More sets than one operand of a sensible program meets; complete this one to bound the list.
      complete_unrounded(*contribution, name);
      complete_unrounded(*entry.sum, name);
      entry.sum = entry.node->elements->add(std::move(entry.sum), *contribution);
      return;
    }
    entry.others.push_back(std::move(contribution));
  }
  /// Adds a contribution to a partial sum if both are pending over the same axes.
  static constexpr bool joins(const GradientEntry& entry, Ref<Value>& partial, Ref<Value>& contribution,
                              const char* name) {
    // Another holder of the block may have scattered it since.
    const Block& mine = *partial->block;
    const Block& other = *contribution->block;
    if (mine.scattered.bits != 0) complete_unrounded(*partial, name);
    if (mine.pending.bits != other.pending.bits) return false;
    // The memory of whichever is not held by anyone else takes the sum, which needs that of floats for bfloat16.
    if (contribution->references == 1 && other.references == 1 && (other.wide || !mine.wide))
      std::swap(partial, contribution);
    partial = entry.node->elements->add(std::move(partial), *contribution);
    return true;
  }

  Operation* operation_ = nullptr;
  std::int64_t pass_ = 0;
};

enum class keep_graph : bool { no, yes };
/// What the gradient of something the loss does not depend on is.
enum class unused : bool { error, zeros };

/// One walk from a loss to the nodes that reach the wanted ones, by falling creation number. Passes nest: the gradient
/// of an operation may run one of its own.
class GradientPass {
 public:
  GradientPass(const GradientPass&) = delete;
  GradientPass& operator=(const GradientPass&) = delete;
  /// Gives the nodes back to the pass during which this one ran, also when an exception ends it.
  constexpr ~GradientPass() {
    for (GradientEntry* list : {operations_, leaves_}) {
      while (list != nullptr) {
        GradientEntry* const entry = list;
        list = list->next;
        entry->node.object->entry = entry->outer;
        destroy(entry);
      }
    }
    backend_->activity.operation = outer_.operation;
    backend_->activity.is_gradient = outer_.is_gradient;
  }

  /// Gradients of a scalar loss, in the order of `wanted`. Saved data is freed on the way unless the graph is kept.
  /// An entry of `wanted` that the loss does not depend on is an error, or null if `unused::zeros` is asked for.
  MTF_NOINLINE static constexpr RecycledVector<Ref<Value>> run(const Ref<Node>& loss,
                                                               std::span<const Ref<Node>> targets, keep_graph keep,
                                                               unused rule) {
    const Handles wanted(targets);
    detail::require_open(*loss->backend, "gradients");
    detail::require_visible(*loss);
    for (const Ref<Node>& node : wanted) {
      if (node.object->scope != 0) detail::require_visible(*node);
    }
    GradientPass pass(*loss->backend, 0);
    pass.collect({&loss, 1});
    pass.prune(wanted);
    // An error leaves the graph as it was. A freed node has lost its inputs: whatever lies behind it cannot be reached.
    for (const GradientEntry* entry = pass.leaves_; entry != nullptr; entry = entry->next) {
      if (entry->node.object->consumed) {
        raise("gradients",
              "this graph was freed by an earlier gradients(); pass keep_graph::yes there to use it again");
      }
    }
    for (const Ref<Node>& node : wanted) {
      if (rule == unused::error && !pass.sink_.met(*node.object)) {
        const std::string name(node->name.empty() ? std::string_view("a watched tensor") : node->name);
        raise("gradients", "the loss does not depend on \"" + name + "\"; leave it out, or ask for unused::zeros");
      }
    }
    loss->entry->sum = loss->elements->fill(*loss->backend, loss->placement, 1.0);
    pass.walk(keep);
    pass.backend_->announce("gradients");
    return pass.results(wanted);
  }

  /// Gradients of the results of a captured function, whose own gradients are `seeds` (null for none), with respect to
  /// `wanted`, null where no result depends on one. The walk stays inside the scope, and frees its graph.
  MTF_NOINLINE static constexpr RecycledVector<Ref<Value>> pull(const CaptureScope& scope,
                                                                std::span<const Ref<Node>> roots,
                                                                std::span<const Ref<Value>> seeds,
                                                                std::span<const Ref<Node>> targets) {
    const Handles wanted(targets);
    GradientPass pass(*roots[0]->backend, scope.number);
    pass.collect(roots);
    pass.prune(wanted);
    for (std::size_t i = 0; i < roots.size(); ++i) {
      if (!seeds[i]) continue;
      Ref<Value> seed = seeds[i];
      GradientSink::add_to(*roots[i]->entry, std::move(seed), scope.operation);
    }
    pass.walk(keep_graph::no);
    return pass.results(wanted);
  }

 private:
  /// A span whose iterators are pointers: those of std::span take ten times the steps in constant expressions.
  struct Handles {
    const Ref<Node>* first;
    const Ref<Node>* last;
    constexpr explicit Handles(std::span<const Ref<Node>> nodes) : first(nodes.data()), last(first + nodes.size()) {}
    [[nodiscard]] constexpr const Ref<Node>* begin() const { return first; }
    [[nodiscard]] constexpr const Ref<Node>* end() const { return last; }
  };

  constexpr GradientPass(Backend& backend, std::int64_t scope)
      : scope_(scope), backend_(&backend), outer_(backend.activity) {
    sink_.pass_ = backend.next_pass++;
    backend.activity.is_gradient = true;
  }

  /// The operation that made a node, if the walk goes through it.
  [[nodiscard]] constexpr Operation* operation_of(const Node& node) const {
    return scope_ == 0 || node.scope == scope_ ? node.operation : nullptr;
  }

  /// Puts a node among those whose turn has not come.
  constexpr void meet(Node* node) {
    if (node == nullptr || (node->entry != nullptr && node->entry->pass == sink_.pass_)) return;
    auto* entry = make<GradientEntry>(node, sink_.pass_);
    node->entry = entry;
    GradientEntry** at = &leaves_;
    if (operation_of(*node) != nullptr) {
      // The newest is next; few are open at a time.
      for (at = &open_; *at != nullptr && (*at)->node.object->id > node->id;) at = &(*at)->next;
    }
    entry->next = *at;
    *at = entry;
  }

  /// Meets all nodes that the walk goes through.
  MTF_NOINLINE constexpr void collect(std::span<const Ref<Node>> roots) {
    for (const Ref<Node>& root : roots) meet(root.get());
    while (open_ != nullptr) {
      GradientEntry* const entry = open_;
      open_ = entry->next;
      entry->next = nullptr;
      entry->previous = last_;
      (last_ == nullptr ? operations_ : last_->next) = entry;
      last_ = entry;
      const FewRefs<Node>& inputs = entry->node.object->operation->inputs;
      const Ref<Node>* const end = inputs.end();
      for (const Ref<Node>* input = inputs.data(); input != end; ++input) meet(input->object);
    }
  }

  /// Marks the entries on a path to a wanted node; inputs come after the operations that use them.
  MTF_NOINLINE constexpr void prune(const Handles& wanted) {
    for (const Ref<Node>& node : wanted) {
      if (sink_.met(*node.object)) node.object->entry->useful = node.object->entry->wanted = true;
    }
    for (GradientEntry* entry = last_; entry != nullptr; entry = entry->previous) {
      const FewRefs<Node>& inputs = entry->node.object->operation->inputs;
      const Ref<Node>* const end = inputs.end();
      for (const Ref<Node>* input = inputs.data(); input != end; ++input) {
        if (input->object != nullptr && input->object->entry->useful) entry->useful = true;
      }
    }
  }

  MTF_NOINLINE constexpr void walk(keep_graph keep) {
    for (GradientEntry* entry = operations_; entry != nullptr; entry = entry->next) {
      if (!entry->useful) continue;
      Node& node = *entry->node.object;
      if (entry->sum.object != nullptr || entry->reached) {
        if (!entry->others.empty()) (void)read(*entry);
        Ref<Value> gradient;
        if (entry->wanted) {
          gradient = entry->sum;
        } else {
          gradient = std::move(entry->sum);
        }
        sink_.operation_ = node.operation;
        backend_->announce(node.operation->name);
        node.operation->backward(gradient, sink_);
      }
      if (keep == keep_graph::no) {
        destroy(node.operation);
        node.operation = nullptr;
        node.consumed = true;
      }
    }
  }

  /// The sum of the partial sums. A single set stays pending.
  MTF_NOINLINE static constexpr Ref<Value> read(GradientEntry& entry) {
    if (entry.sum.object == nullptr)
      return entry.node->elements->fill(*entry.node->backend, entry.node->placement, 0.0);
    while (!entry.others.empty()) {
      const Ref<Value> last = std::move(entry.others.back());
      entry.others.pop_back();
      complete_unrounded(*last, "gradients");
      complete_unrounded(*entry.sum, "gradients");
      entry.sum = entry.node->elements->add(std::move(entry.sum), *last);
    }
    return entry.sum;
  }

  [[nodiscard]] constexpr RecycledVector<Ref<Value>> results(const Handles& wanted) {
    RecycledVector<Ref<Value>> result;
    result.reserve(static_cast<std::size_t>(wanted.last - wanted.first));
    for (const Ref<Node>& node : wanted) {
      result.emplace_back();
      if (sink_.met(*node.object) && (scope_ == 0 || node.object->entry->sum))
        result.back() = read(*node.object->entry);
    }
    return result;
  }

  GradientSink sink_;
  std::int64_t scope_;
  Backend* backend_;
  Activity outer_;                       ///< what ran when the pass began
  GradientEntry* open_ = nullptr;        ///< operations that were met and have not had their turn
  GradientEntry* operations_ = nullptr;  ///< those that have, in order
  GradientEntry* last_ = nullptr;
  GradientEntry* leaves_ = nullptr;  ///< nodes behind which the walk does not go
};

}  // namespace v0
}  // namespace mtf
