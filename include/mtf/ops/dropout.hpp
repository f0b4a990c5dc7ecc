// dropout: elements set to 0 at random, by key and global index.
#pragma once

#include <mtf/ops/random.hpp>

namespace mtf {
inline namespace v0 {

namespace untyped {

namespace detail {
/// x where the mask is 1, scaled; else 0, whatever x is: chosen, not multiplied.
struct Keep {
  double scale;
  template <class X>
  MTF_FUNCTION constexpr X operator()(const X& x, const X& mask) const {
    const X scaled = x * (mask * static_cast<X>(scale));
    return mask == X(0) ? X(0) : scaled;
  }
};
}  // namespace detail

template <class E, class T>
class DropoutGradient final : public Operation {
 public:
  Ref<Value> mask;
  double scale = 1;
  constexpr ~DropoutGradient() override {}
  constexpr void backward(const Ref<Value>& gradient, GradientSink& sink) override {
    E& engine = static_cast<E&>(gradient->backend());
    if (sink.wants(0)) sink.add(0, apply_mask(engine, gradient, mask, scale));
  }

  /// x * mask * scale. The mask is the same on all replicas, so a sum stays pending.
  [[nodiscard]] static constexpr Ref<Value> apply_mask(E& engine, const Ref<Value>& x, const Ref<Value>& mask,
                                                       double scale) {
    if (!x->block->scattered.empty() || !(x->pending() & mask->placement.split_axes()).empty()) complete(*x, "dropout");
    if constexpr (std::same_as<T, bfloat16>) {
      if (!x->pending().empty()) {
        const Ref<Value> sum = mtf::detail::widened(engine, x);
        Ref<Value> kept = make_wide(engine, x->placement);
        kept->block->pending = x->pending();
        engine.run(plan_map(engine, x->placement, x->placement, mask->placement), detail::Keep{scale}, out<float>(kept),
                   in<float>(sum), in<bfloat16>(mask));
        return kept;
      }
    }
    Ref<Value> result = make_value(engine, x->placement, element_type_of<T>::value);
    result->block->pending = x->pending();
    engine.run(plan_map(engine, x->placement, x->placement, mask->placement), detail::Keep{scale}, out<T>(result),
               in<T>(x), in<T>(mask));
    return result;
  }
};

template <class E, class T>
[[nodiscard]] constexpr Array dropout(E& engine, const Array& x, double rate, const Key& key, const ShapeValue& noise) {
  constexpr const char* name = "dropout";
  mtf::detail::require_open(engine, name);
  if (rate == 0) return x;
  mtf::detail::require_parameter(name, "rate", rate, rate > 0 && rate < 1, "in [0, 1)");
  if (!includes(x.value->placement.shape(), noise)) {
    raise(name, "the noise has dims " + describe(noise) + " that x " + describe(x.value->placement.shape()) +
                    " lacks; draw noise over dims of x only");
  }
  const double keep = 1 - rate;
  const Ref<Value> mask = random<E, T>(engine, engine.place(noise), key, Distribution::keep, keep, 1);
  Array result{DropoutGradient<E, T>::apply_mask(engine, x.value, mask, 1 / keep), {}};
  if (records(engine, {x})) {
    auto* operation = make<DropoutGradient<E, T>>();
    operation->mask = mask;
    operation->scale = 1 / keep;
    record<E, T>(result, name, operation, {x});
  }
  return result;
}

}  // namespace untyped

/// x with elements set to 0 with probability `rate` and the others scaled by 1 / (1 - rate). `Noise` names the dims
/// along which the noise varies (all of x's if none is named); along the others it is shared. The mask depends on `key`
/// and the global index only. No communication; a sum stays pending. Throws unless 0 <= rate < 1.
template <dim_like... Noise, operand X>
constexpr auto dropout(const X& x, double rate, const Key& key) {
  if constexpr (any_poisoned<X>) {
    return poisoned{};
  } else {
    constexpr bool known = includes(dims_of<X>::shape(), static_shape<Noise...>());
    static_assert(known, "mtf: dropout: " MTF_RULE_MISSING_DIM);
    constexpr bool real = floating<element_of<X>>;
    static_assert(real, "mtf: dropout takes float or double; convert with cast<T>(x)");
    if constexpr (known && real) {
      const Array& array = detail::array_of(x);
      using E = typename world_of<X>::engine_type;
      ShapeValue noise;
      if (rate != 0) {
        for (const DimValue& dim : array.value->placement.shape()) {
          if (sizeof...(Noise) == 0 || contains(static_shape<Noise...>(), dim.name)) noise.push_back(dim);
        }
      }
      return tensor_of<world_of<X>, element_of<X>, dims_of<X>>(
          untyped::dropout<E, element_of<X>>(static_cast<E&>(array.value->backend()), array, rate, key, noise));
    } else {
      return poisoned{};
    }
  }
}

}  // namespace v0
}  // namespace mtf
