// Value, Node, Operation, Array: the untyped core of a tensor - data, and its place in the graph.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include <mtf/tensor/backend.hpp>
#include <mtf/tensor/error.hpp>

namespace mtf {
inline namespace v0 {

/// This rank's slice of an immutable global array. Several values may share a block: rename and reshape without
/// communication change the placement only.
struct Value : Counted {
  const KeptPlacement& placement;
  Buffer block;

  constexpr Value(const KeptPlacement& where, const Buffer& memory) : Counted{}, placement(where), block(memory) {}
  constexpr Value(const KeptPlacement& where, Block* memory) : Counted{}, placement(where), block(memory) {}

  [[nodiscard]] constexpr Backend& backend() const { return *block.object->backend; }
  [[nodiscard]] constexpr ElementType type() const { return block.object->type; }
  /// Axes along which the sum is outstanding.
  [[nodiscard]] constexpr AxisSet pending() const { return block.object->pending; }
};

namespace detail {
// Nearly every line of a model ends handles: in constant expressions by the same steps, otherwise out of line.
MTF_RUN_TIME void dispose_at_run_time(Value* value);
MTF_RUN_TIME void dispose_at_run_time(Node* node);
}  // namespace detail

constexpr void dispose(Value* value) { MTF_CONSTANT_EVALUATED ? destroy(value) : detail::dispose_at_run_time(value); }

/// Whether nobody else holds the value or its memory, so that it may be written.
[[nodiscard]] constexpr bool is_sole_owner(const Ref<Value>& value) {
  return value.object->references == 1 && value.object->block.object->references == 1 &&
         !value.object->block.object->lent;
}

class GradientSink;
struct GradientEntry;
class Operation;
class Node;
constexpr void dispose(Node* node);

/// What the untyped graph needs to do with elements.
struct ElementOperations {
  /// a + b, in a's memory if nobody else holds it; equal pending sets.
  Ref<Value> (*add)(Ref<Value>&& a, const Value& b);
  Ref<Value> (*fill)(Backend&, const KeptPlacement&, double);
};

/// A vertex of the graph: a result that depends on variables or watched tensors. Holds no data.
class Node : public Counted {
 public:
  Ref<Backend> backend;
  std::int64_t id = 0;  ///< creation number: inputs have smaller ones
  const KeptPlacement& placement;
  const ElementOperations* elements = nullptr;
  Operation* operation = nullptr;  ///< null for variables and watched tensors
  bool consumed = false;           ///< its operation was freed by a gradient pass
  std::string_view name;           ///< of a variable, for messages
  std::int64_t scope = 0;          ///< the captured function in which it was made, 0 for none
  std::int64_t mark = 0;           ///< the last walk over captured functions that met it
  GradientEntry* entry = nullptr;  ///< what the innermost gradient pass that has met it knows of it
  Node* next_dead = nullptr;

  constexpr Node(Backend& home, const KeptPlacement& where, const ElementOperations* operations)
      : Counted{},
        backend(&home),
        id(home.next_id++),
        placement(where),
        elements(operations),
        scope(home.scope == nullptr ? 0 : home.scope->number) {}
  constexpr ~Node();
};

/// A list of handles of which two have their place here: most operations have no more operands.
template <class T>
class FewRefs {
 public:
  constexpr void push_back(const Ref<T>& ref) {
    if (size_ < near) {
      near_[size_++] = ref;
    } else {
      push_far(ref);
    }
  }
  [[nodiscard]] constexpr std::size_t size() const { return size_; }
  [[nodiscard]] constexpr const Ref<T>* data() const { return size_ <= near ? near_ : far_.data(); }
  [[nodiscard]] constexpr const Ref<T>* begin() const { return data(); }
  [[nodiscard]] constexpr const Ref<T>* end() const { return data() + size_; }
  [[nodiscard]] constexpr const Ref<T>& operator[](std::size_t i) const {
    return i < near && size_ <= near ? near_[i] : far_[i];
  }

 private:
  constexpr void push_far(const Ref<T>& ref) {
    if (size_ == near) {
      for (const Ref<T>& other : near_) far_.push_back(other);
    }
    far_.push_back(ref);
    ++size_;
  }

  static constexpr std::size_t near = 2;
  Ref<T> near_[near];
  RecycledVector<Ref<T>> far_;  ///< all of them, if there are more
  std::size_t size_ = 0;
};

/// How a result was made: the edges to its inputs, and in derived classes what the gradient needs, no more.
class Operation : public Counted {
 public:
  static constexpr int max_inputs = 8;  ///< of the operations that take a list of operands
  const char* name = "";
  FewRefs<Node> inputs;  ///< null where an input needs no gradient

  constexpr virtual ~Operation() {}
  /// Adds the gradient of every input that `sink` asks for. `gradient` may be pending.
  constexpr virtual void backward(const Ref<Value>& gradient, GradientSink& sink) = 0;
};

constexpr Node::~Node() {
  if (operation != nullptr) destroy(operation);
}

namespace detail {
/// Frees nodes through a worklist: recursive release of long chains would overflow the stack.
MTF_NOINLINE constexpr void bury(Node* node) {
  Backend& backend = *node->backend.object;
  node->next_dead = backend.graveyard;
  backend.graveyard = node;
  if (backend.burying) return;
  ++backend.references;  // the nodes may hold the last ones
  backend.burying = true;
  while (backend.graveyard != nullptr) {
    Node* dead = backend.graveyard;
    backend.graveyard = dead->next_dead;
    destroy(dead);
  }
  backend.burying = false;
  if (--backend.references == 0) dispose(&backend);
}

#if MTF_HAS_DEFINITIONS
void dispose_at_run_time(Value* value) { destroy(value); }
void dispose_at_run_time(Node* node) { bury(node); }
#endif
}  // namespace detail

constexpr void dispose(Node* node) { MTF_CONSTANT_EVALUATED ? detail::bury(node) : detail::dispose_at_run_time(node); }

/// A tensor without its types: a value and, if gradients may flow through it, its node. Copied and destroyed by every
/// line of a model, so that is kept out of line.
struct Array {
  Ref<Value> value;
  Ref<Node> node;

  constexpr Array() = default;
  constexpr Array(const Ref<Value>& v, const Ref<Node>& n) : value(v), node(n) {}
  constexpr Array(Ref<Value>&& v, Ref<Node>&& n) : value(std::move(v)), node(std::move(n)) {}
  MTF_NOINLINE constexpr Array(const Array& other) = default;
  constexpr Array(Array&& other) noexcept = default;
  MTF_NOINLINE constexpr Array& operator=(const Array& other) = default;
  constexpr Array& operator=(Array&& other) noexcept = default;
  MTF_NOINLINE constexpr ~Array() {}
};

namespace detail {

MTF_RARE [[noreturn]] MTF_RUN_TIME void raise_ended(const Backend& backend, const char* operation);
#if MTF_HAS_DEFINITIONS
void raise_ended(const Backend& backend, const char* operation) {
  if (backend.ended_by == nullptr)
    raise(operation, "the world of this tensor has ended; only destroying it is allowed");
  raise(operation, "the world has ended, because " + std::string(backend.ended_by) +
                       " was finalized; let the world end before, and finalize then");
}
#endif
constexpr void require_alive(const Backend& backend, const char* operation) {
  if (backend.closed) raise_ended(backend, operation);
}
/// The beginning of every operation: the world must be alive, and what runs from here on is recorded as the
/// operation's.
constexpr void require_open(Backend& backend, const char* operation) {
  require_alive(backend, operation);
  backend.announce(operation);
}

/// A tensor made inside a captured function has no gradient outside of it: the graph there sees the function as a
/// whole.
constexpr void require_visible(const Node& node) {
  if (node.scope == 0) return;
  for (const CaptureScope* scope = node.backend->scope; scope != nullptr; scope = scope->outer) {
    if (scope->number == node.scope) return;
  }
  raise("custom_gradient",
        "a tensor made inside the function of a custom_gradient or recompute is used outside of it, where it has no "
        "gradient; return it from the function, or take stop_gradient(x) of it");
}

}  // namespace detail

namespace detail {

MTF_NOINLINE constexpr void complete_sum(Block& block, const char* operation) {
  Backend& backend = *block.backend;
  if (block.wide) backend.narrow(block);
  if (!block.pending.empty()) {
    detail::require_alive(backend, operation);
    backend.communicate({.collective = Collective::all_reduce,
                         .axes = block.pending,
                         .count = block.count(),
                         .type = block.type,
                         .operation = operation},
                        block, block);
    block.pending = {};
  }
  if (!block.scattered.empty()) {
    detail::require_alive(backend, operation);
    const std::int64_t parts = backend.mesh().size(block.scattered);
    const std::int64_t count = block.count() * parts;
    const Buffer gathered(backend.allocate(block.type, count));
    backend.communicate({.collective = Collective::all_gather,
                         .axes = block.scattered,
                         .count = count,
                         .type = block.type,
                         .operation = operation},
                        *gathered, block);
    const Buffer whole(backend.allocate(block.type, count));
    backend.copy(plan_unpack(block.outer, parts, block.inner), *whole, *gathered);
    std::swap(block.data, whole->data);
    std::swap(block.bytes, whole->bytes);
    block.scattered = {};
  }
}

}  // namespace detail

/// Finishes an outstanding sum: one allreduce of a pending block, one allgather of a scattered one, else nothing.
constexpr void complete(Block& block, const char* operation) {
  if (block.wide || (block.pending.bits | block.scattered.bits) != 0) detail::complete_sum(block, operation);
}
constexpr void complete(const Value& value, const char* operation) { complete(*value.block.object, operation); }

/// The same, but what is held in float for now stays so: for sums that go on, and their terms.
constexpr void complete_unrounded(const Value& value, const char* operation) {
  Block& block = *value.block.object;
  if ((block.pending.bits | block.scattered.bits) == 0) return;
  if (block.wide && block.backend->mesh().size(block.pending) == 1) {
    block.pending = {};  // nobody has another part
  } else {
    detail::complete_sum(block, operation);
  }
}

/// An uninitialised value of this placement.
MTF_NOINLINE [[nodiscard]] constexpr Ref<Value> make_value(Backend& backend, const KeptPlacement& placement,
                                                           ElementType type) {
  Block* block = backend.allocate_slice(type, placement);
  if (backend.is_observed()) backend.observe(placement, type, *block);
  return Ref<Value>(make<Value>(placement, block));
}
[[nodiscard]] constexpr Ref<Value> make_value(Backend& backend, const Placement& placement, ElementType type) {
  return make_value(backend, backend.keep(placement), type);
}
/// An uninitialised sum of bfloat16 that is held in float.
MTF_NOINLINE [[nodiscard]] constexpr Ref<Value> make_wide(Backend& backend, const KeptPlacement& placement) {
  Ref<Value> value = make_value(backend, placement, ElementType::float32);
  value->block->type = ElementType::bfloat16;
  value->block->wide = true;
  return value;
}
/// An uninitialised value of this placement whose elements are held as those of x, if x is a partial sum.
[[nodiscard]] constexpr Ref<Value> make_like(Backend& backend, const KeptPlacement& placement, const Value& x) {
  if (x.block->wide && !x.pending().empty()) return make_wide(backend, placement);
  return make_value(backend, placement, x.type());
}
/// The same data under another placement with an equal local size.
MTF_NOINLINE [[nodiscard]] constexpr Ref<Value> share(const Value& value, const KeptPlacement& placement) {
  return Ref<Value>(make<Value>(placement, value.block));
}

}  // namespace v0
}  // namespace mtf
