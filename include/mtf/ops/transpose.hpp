// transpose: the same elements with the dims in another order.
#pragma once

#include <mtf/ops/reduce.hpp>

namespace mtf {
inline namespace v0 {

/// y[Out...] = x, whose dims Out names in another order. Operations match dims by name, so only what looks at memory
/// (local_view, to_host, reshape) tells the two apart. No communication: every dim stays split as it was. Gradient: the
/// transposition back.
template <dim_like... Out, operand X>
constexpr auto transpose(const X& x) {
  if constexpr (any_poisoned<X>) {
    return poisoned{};
  } else {
    constexpr bool permutes = sizeof...(Out) == dims_of<X>::size &&
                              includes(dims_of<X>::shape(), static_shape<Out...>()) &&
                              includes(static_shape<Out...>(), dims_of<X>::shape());
    static_assert(permutes,
                  "mtf: transpose: the dims named must be those of x, each once; reduce_sum takes dims away, broadcast "
                  "adds some");
    if constexpr (permutes) {
      using List = select_dims<positions(dims_of<X>::shape(), static_shape<Out...>()), dims_of<X>>;
      const Array& array = detail::array_of(x);
      using E = typename world_of<X>::engine_type;
      ShapeValue shape;
      const ShapeValue from = array.value->placement.shape();
      (shape.push_back(from[find(from, Out::name)]), ...);
      return tensor_of<world_of<X>, element_of<X>, List>(
          untyped::broadcast<E, element_of<X>>(static_cast<E&>(array.value->backend()), array, shape));
    } else {
      return poisoned{};
    }
  }
}

}  // namespace v0
}  // namespace mtf
