// sample_with_temperature: a random choice by logits.
#pragma once

#include <mtf/ops/argmax.hpp>
#include <mtf/ops/random.hpp>

namespace mtf {
inline namespace v0 {

namespace untyped {

namespace detail {

/// x plus noise of the Gumbel distribution: the largest of such sums is a draw from softmax(x / temperature) (Gumbel,
/// 1954).
struct AddGumbel {
  double temperature;
  template <class X>
  MTF_FUNCTION X operator()(const X& x, const X& uniform) const {
    return x - static_cast<X>(temperature) * log(-log(uniform));
  }
};

}  // namespace detail

template <class E, class T>
[[nodiscard]] constexpr Array sample_with_temperature(E& engine, const Array& x, const Name& dim, double temperature,
                                                      const Key& key) {
  constexpr const char* name = "sample_with_temperature";
  mtf::detail::require_open(engine, name);
  mtf::detail::require_parameter(name, "temperature", temperature, temperature >= 0 && temperature <= 1e30,
                                 "in [0, 1e30]; 0 takes the largest logit");
  if (temperature == 0) return arg_extreme<E, T>(engine, x, dim, Combine::max, name);
  const KeptPlacement& placement = x.value->placement;
  require_indices(name, placement.dims[placement.find(dim)]);
  complete(*x.value, name);
  const Ref<Value> uniform = random<E, T>(engine, placement, key, Distribution::uniform, 0, 1);
  Ref<Value> noisy = make_value(engine, placement, element_type_of<T>::value);
  const StridedShape shape = row_major(placement);
  engine.run(MapPlan{collapse(loop_over(shape, shape, shape, shape))}, detail::AddGumbel{temperature}, out<T>(noisy),
             in<T>(x.value), in<T>(uniform));
  return arg_extreme<E, T>(engine, {noisy, {}}, dim, Combine::max, name);
}
/// In float: bfloat16 has so few numbers near 1 that many elements would get the same largest noise.
template <class E, class T>
  requires std::same_as<T, bfloat16>
[[nodiscard]] constexpr Array sample_with_temperature(E& engine, const Array& x, const Name& dim, double temperature,
                                                      const Key& key) {
  const Array logits{convert<E, float, bfloat16>(engine, x.value), {}};
  return sample_with_temperature<E, float>(engine, logits, dim, temperature, key);
}

}  // namespace untyped

/// y[rest] = an int32 index along D drawn with the probabilities softmax(logits / temperature); the largest logit's if
/// the temperature is 0 (argmax). The draw depends on `key` and the global indices only: the same on any mesh and
/// layout. Throws unless 0 <= temperature <= 1e30 (that is a uniform choice already), or as argmax does. Communication: that of argmax. No gradient.
template <dim_like D, operand X>
constexpr auto sample_with_temperature(const X& logits, double temperature, const Key& key) {
  if constexpr (any_poisoned<X>) {
    return poisoned{};
  } else {
    constexpr bool known = detail::has_dim<D, X>;
    static_assert(known, "mtf: sample_with_temperature: " MTF_RULE_MISSING_DIM);
    if constexpr (!known) {
      return poisoned{};
    } else if constexpr (!floating<element_of<X>>) {
      return poisoned(not_floating<element_of<X>>{});
    } else {
      using E = typename world_of<X>::engine_type;
      return tensor_of<world_of<X>, std::int32_t, detail::dims_without<X, D>>(
          untyped::sample_with_temperature<E, element_of<X>>(detail::engine_of(logits), detail::array_of(logits),
                                                             D::name, temperature, key));
    }
  }
}

}  // namespace v0
}  // namespace mtf
