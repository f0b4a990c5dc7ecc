// Functions whose graph is cut off from its surroundings.
#pragma once

#include <span>

#include <mtf/tensor/joint_operation.hpp>

namespace mtf {
inline namespace v0 {

/// While it lives, nodes belong to the graph of one function.
class Capture {
 public:
  constexpr Capture(Backend& backend, const char* operation, bool recording)
      : backend_(&backend),
        scope_{backend.next_scope++, backend.scope, operation},
        recorded_(std::exchange(backend.recording, recording)) {
    backend.scope = &scope_;
  }
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;
  constexpr ~Capture() {
    backend_->scope = scope_.outer;
    backend_->recording = recorded_;
  }

  [[nodiscard]] constexpr const CaptureScope& scope() const { return scope_; }

  /// An input of the function: the value with a node of its own, if `outside`, its node in the surroundings, is one.
  [[nodiscard]] constexpr Array enter(const Ref<Value>& value, const Ref<Node>& outside) const {
    Array inside(value, {});
    if (outside) inside.node = make_node(*backend_, value->placement, outside->elements);
    return inside;
  }

  /// The nodes of the surroundings on which the results depend other than through the inputs: variables and tensors
  /// that the function refers to.
  [[nodiscard]] constexpr RecycledVector<Ref<Node>> references(std::span<const Array> results) const {
    RecycledVector<Node*> inner;
    RecycledVector<Ref<Node>> outer;
    const auto meet = [&](const Ref<Node>& node) {
      if (!node || node->mark == scope_.number) return;
      node->mark = scope_.number;
      if (node->scope == scope_.number) {
        inner.push_back(node.get());
      } else {
        outer.push_back(node);
      }
    };
    for (const Array& result : results) meet(result.node);
    for (std::size_t i = 0; i < inner.size(); ++i) {
      if (inner[i]->operation == nullptr) continue;
      for (const Ref<Node>& input : inner[i]->operation->inputs) meet(input);
    }
    return outer;
  }

 private:
  Backend* backend_;
  CaptureScope scope_;
  bool recorded_;
};

/// While it lives, a gradient runs code of the user's, which must not make variables: they would be made in every step.
class Replaying {
 public:
  constexpr Replaying(Backend& backend, const char* operation)
      : backend_(&backend), before_(std::exchange(backend.replaying, operation)) {}
  Replaying(const Replaying&) = delete;
  Replaying& operator=(const Replaying&) = delete;
  constexpr ~Replaying() { backend_->replaying = before_; }

 private:
  Backend* backend_;
  const char* before_;
};

[[nodiscard]] MTF_COLD inline std::string name_of_reference(const Node& node) {
  return node.name.empty() ? std::string("a tensor made outside of it") : quoted(node.name);
}

/// The operation of a function's results, seen from outside.
class FunctionOperation : public JointOperation {
 public:
  RecycledVector<Ref<Value>> values;  ///< the function's inputs

  constexpr ~FunctionOperation() override {}
};

}  // namespace v0
}  // namespace mtf
