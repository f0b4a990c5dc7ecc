// recompute: functions of which only the inputs are kept, and that run again for their gradient.
#pragma once

#include <mtf/tensor/custom_gradient.hpp>

namespace mtf {
inline namespace v0 {

namespace untyped {

/// The gradient of a function found by running it again on its inputs.
template <class F, class... Xs>
class RecomputeGradient final : public FunctionOperation {
 public:
  constexpr explicit RecomputeGradient(const F& function) : f(function) {}
  F f;
  constexpr ~RecomputeGradient() override {}

  constexpr void pull(std::span<const Ref<Value>> arrived, GradientSink& sink) override {
    Backend& backend = values[0]->backend();
    const Capture capture(backend, this->name, true);
    const Replaying replaying(backend, this->name);
    RecycledVector<Array> xs;
    for (std::size_t i = 0; i < sizeof...(Xs); ++i) xs.push_back(capture.enter(values[i], this->inputs[i]));
    RecycledVector<Ref<Node>> roots;
    {
      const auto again = mtf::detail::call_on<Xs...>(f, xs);
      const auto results = mtf::detail::Results<std::remove_cvref_t<decltype(again)>>::arrays(again);
      require_same_references(capture.references(results));
      for (const Array& result : results) roots.push_back(result.node);
    }  // the results themselves are not needed
    give_back(capture, roots, arrived, xs, sink);
  }

 private:
  /// A variable that was assigned in between would give the gradient of another function.
  constexpr void require_same_references(const RecycledVector<Ref<Node>>& used) const {
    for (const Ref<Node>& reference : used) {
      bool known = false;
      for (std::size_t i = sizeof...(Xs); i < this->inputs.size(); ++i) known = known || this->inputs[i] == reference;
      if (!known) {
        raise(this->name, "run again for its gradient, the function uses " + name_of_reference(*reference) +
                              ", which it did not use before: a variable must not be assigned, nor a captured tensor "
                              "replaced, between a function "
                              "and its gradient");
      }
    }
  }
  constexpr void give_back(const Capture& capture, std::span<const Ref<Node>> roots,
                           std::span<const Ref<Value>> arrived, RecycledVector<Array>& xs, GradientSink& sink) const {
    RecycledVector<Ref<Node>> wanted;
    RecycledVector<int> input_of;
    for (std::size_t i = 0; i < this->inputs.size(); ++i) {
      if (!sink.wants(static_cast<int>(i))) continue;
      wanted.push_back(i < sizeof...(Xs) ? xs[i].node : this->inputs[i]);
      input_of.push_back(static_cast<int>(i));
    }
    xs.clear();
    RecycledVector<Ref<Node>> some_roots;
    RecycledVector<Ref<Value>> seeds;
    for (std::size_t i = 0; i < roots.size(); ++i) {
      if (!roots[i] || !arrived[i]) continue;
      some_roots.push_back(roots[i]);
      seeds.push_back(arrived[i]);
    }
    if (some_roots.empty()) return;
    RecycledVector<Ref<Value>> found = GradientPass::pull(capture.scope(), some_roots, seeds, wanted);
    for (std::size_t i = 0; i < found.size(); ++i) {
      if (found[i]) sink.add(input_of[i], std::move(found[i]));
    }
  }
};

}  // namespace untyped

/// f(xs...), of which only the inputs are kept for the gradient: gradients() runs f again and differentiates that.
/// Costs one more forward pass of f; saves the memory of everything in between. f takes tensors and returns a tensor or
/// a std::tuple of them.
///
/// f is copied and called later: what it captures by reference must live until gradients() has run, so capture handles
/// by value. It must do the same both times: random numbers come from keys that it captures, and no variable may be
/// made or assigned in between, which throws. Variables and tensors that f refers to receive their gradients, as the xs
/// do. May be nested.
/// Communication: that of f, twice, and that of its gradient.
template <class F, operand X, operand... Xs>
constexpr auto recompute(const F& f, const X& x, const Xs&... xs) {
  if constexpr (any_poisoned<X, Xs...>) {
    return poisoned{};
  } else {
    constexpr bool one_world = (std::same_as<world_of<X>, world_of<Xs>> && ...);
    static_assert(one_world, "mtf: " MTF_RULE_DIFFERENT_WORLDS);
    constexpr bool callable = std::invocable<const F&, detail::plain_t<X>, detail::plain_t<Xs>...>;
    static_assert(callable, "mtf: recompute: the function cannot be called with the inputs as tensors");
    if constexpr (one_world && callable) {
      using R = std::remove_cvref_t<std::invoke_result_t<const F&, detail::plain_t<X>, detail::plain_t<Xs>...>>;
      if constexpr (detail::check_results<R>()) {
        constexpr const char* name = "recompute";
        const std::array<Array, 1 + sizeof...(Xs)> arrays{detail::array_of(x), detail::array_of(xs)...};
        Backend& backend = arrays[0].value->backend();
        detail::require_same_backend(backend, name, arrays);
        detail::require_open(backend, name);
        (void)records(backend, arrays);
        if (!backend.recording)
          return R(f(detail::plain_t<X>(arrays[0]), detail::plain_t<Xs>(detail::array_of(xs))...));
        std::array<Array, detail::Results<R>::size> results;
        RecycledVector<Ref<Node>> references;
        {
          const Capture capture(backend, name, true);
          std::array<Array, 1 + sizeof...(Xs)> inner;
          for (std::size_t i = 0; i < inner.size(); ++i) inner[i] = capture.enter(arrays[i].value, arrays[i].node);
          results = detail::Results<R>::arrays(detail::call_on<detail::plain_t<X>, detail::plain_t<Xs>...>(f, inner));
          references = capture.references(results);
        }
        bool differentiable = false;
        for (const Array& result : results) differentiable = differentiable || result.node;
        if (differentiable) {
          auto* operation = make<untyped::RecomputeGradient<F, detail::plain_t<X>, detail::plain_t<Xs>...>>(f);
          detail::set_inputs<X, Xs...>(*operation, name, arrays);
          for (const Ref<Node>& reference : references) operation->inputs.push_back(reference);
          join(backend, operation, results);
        }
        return detail::Results<R>::of(results);
      } else {
        return poisoned{};
      }
    } else {
      return poisoned{};
    }
  }
}

}  // namespace v0
}  // namespace mtf
