// JointOperation: one operation that makes several results, whose gradients it takes together.
#pragma once

#include <span>
#include <utility>

#include <mtf/tensor/form.hpp>

namespace mtf {
inline namespace v0 {

/// The operation of several results at once. Its node holds no data; each result's node hands its gradient over, and
/// when all have, `pull` is called once.
class JointOperation : public Operation {
 public:
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

/// Makes `operation`, whose name and inputs are set, the origin of those results that have a node: they get another,
/// which belongs to the function that is captured now, if any.
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
