// Functions whose graph is cut off from its surroundings, and joined to them by one operation for all their results.
#pragma once

#include <span>

#include <mtf/tensor/form.hpp>

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

/// The joint operation of a function's results. Its node holds no data; each result's node hands its gradient over, and
/// when all have, `pull` is called once.
class JointOperation : public Operation {
 public:
  RecycledVector<Ref<Value>> values;     ///< the function's inputs
  RecycledVector<Ref<Value>> gradients;  ///< of the results, null where none has arrived

  constexpr ~JointOperation() override {}
  constexpr void backward(const Ref<Value>&, GradientSink& sink) final {
    RecycledVector<Ref<Value>> arrived(gradients.size());
    std::swap(arrived, gradients);
    pull(arrived, sink);
  }
  /// Adds the gradients of the inputs that `sink` asks for.
  constexpr virtual void pull(std::span<const Ref<Value>> arrived, GradientSink& sink) = 0;
};

class ResultOperation final : public Operation {
 public:
  std::size_t result = 0;
  constexpr ~ResultOperation() override {}
  constexpr void backward(const Ref<Value>& gradient, GradientSink& sink) override {
    static_cast<JointOperation&>(*inputs[0]->operation).gradients[result] = gradient;
    sink.reach(0);
  }
};

/// Makes `operation`, whose inputs are set, the origin of the results: those that have a node get one in the
/// surroundings.
MTF_NOINLINE constexpr void join(Backend& backend, JointOperation* operation, std::span<Array> results) {
  const Ref<Node> joint = make_node(backend, backend.place({}), nullptr);
  joint->operation = operation;
  operation->gradients = RecycledVector<Ref<Value>>(results.size());
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (!results[i].node) continue;
    auto* part = make<ResultOperation>();
    part->name = operation->name;
    part->result = i;
    part->inputs.push_back(joint);
    Ref<Node> node = make_node(backend, results[i].value->placement, results[i].node->elements);
    node->operation = part;
    results[i].node = std::move(node);
  }
}

}  // namespace v0
}  // namespace mtf
