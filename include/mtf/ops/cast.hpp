// cast: another element type.
#pragma once

#include <mtf/ops/map.hpp>

namespace mtf {
inline namespace v0 {

namespace untyped {

template <class E, class To, class From>
class CastGradient final : public Operation {
 public:
  constexpr ~CastGradient() override {}
  constexpr void backward(const Ref<Value>& gradient, GradientSink& sink) override {
    if (sink.wants(0)) sink.add(0, convert<E, From, To>(static_cast<E&>(gradient->backend()), gradient));
  }
};

}  // namespace untyped

/// x with elements of type To, by static_cast. No communication; a pending sum is completed first, so that it is rounded
/// once. The gradient is cast back; between integers and floating point there is none.
template <element To, operand X>
constexpr auto cast(const X& x) {
  if constexpr (any_poisoned<X>) {
    return poisoned{};
  } else {
    using From = element_of<X>;
    using E = typename world_of<X>::engine_type;
    const Array& array = detail::array_of(x);
    if constexpr (std::same_as<To, From>) {
      return tensor_of<world_of<X>, To, dims_of<X>>(array);
    } else {
      E& engine = static_cast<E&>(array.value->backend());
      detail::require_open(engine, "cast");
      Array result{untyped::convert<E, To, From>(engine, array.value), {}};
      if constexpr (floating<To> && floating<From>) {
        if (records(engine, {array})) record<E, To>(result, "cast", make<untyped::CastGradient<E, To, From>>(), {array});
      }
      return tensor_of<world_of<X>, To, dims_of<X>>(std::move(result));
    }
  }
}

}  // namespace v0
}  // namespace mtf
