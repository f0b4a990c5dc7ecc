// Pooling of neighbouring indices of one dim.
#pragma once

#include <mtf/ops/concat.hpp>

namespace mtf {
inline namespace v0 {

namespace detail {
struct Window : Dim<"pooling window"> {
  using Dim::Dim;
};
}  // namespace detail

/// What pooling makes of a window, as an argument of `pool_tensor_1d`. A type of yours does as well: it reduces the dim
/// Low of x.
namespace pooling {
struct Mean {
  template <dim_like Low, operand X>
  constexpr auto reduce(const X& x) const {
    return reduce_mean<Low>(x);
  }
};
struct Max {
  template <dim_like Low, operand X>
  constexpr auto reduce(const X& x) const {
    return reduce_max<Low>(x);
  }
};
struct Min {
  template <dim_like Low, operand X>
  constexpr auto reduce(const X& x) const {
    return reduce_min<Low>(x);
  }
};
struct Sum {
  template <dim_like Low, operand X>
  constexpr auto reduce(const X& x) const {
    return reduce_sum<Low>(x);
  }
};
inline constexpr Mean mean{};
inline constexpr Max max{};
inline constexpr Min min{};
inline constexpr Sum sum{};
}  // namespace pooling

/// y[rest] = x[rest, D = 0]. Communication: none if D is not split, else one exchange in which the rank that has index
/// 0 sends it to the others.
/// Gradient: zeros elsewhere, no communication.
template <dim_like D, operand X>
constexpr auto reduce_first(const X& x) {
  if constexpr (any_poisoned<X>) {
    return poisoned{};
  } else {
    constexpr bool known = contains(dims_of<X>::shape(), D::name);
    static_assert(known, "mtf: reduce_first: " MTF_RULE_MISSING_DIM);
    if constexpr (known) {
      return detail::move_named<detail::dims_without<X, D>>(
          x, [&]<class E>(E& engine, const Array& array, ShapeValue shape) {
            untyped::Route route{.source = D::name};
            route.segments.runs.push_back({0, 0, 1});
            shape.erase(find(shape, D::name));
            return untyped::move_segments<E, element_of<X>>(engine, "reduce_first", array, shape, route);
          });
    } else {
      return poisoned{};
    }
  }
}

namespace pooling {
struct First {
  template <dim_like Low, operand X>
  constexpr auto reduce(const X& x) const {
    return reduce_first<Low>(x);
  }
};
inline constexpr First first{};
}  // namespace pooling

namespace detail {

template <class D, class New, class List>
struct Windowed;
template <class D, class New, class... Dims>
struct Windowed<D, New, DimList<Dims...>> {
  using type = concatenate<std::conditional_t<same_name<Dims, D>, DimList<New, Window>, DimList<Dims>>...>;
};

/// `shape` with the dim `from` cut into windows.
[[nodiscard]] constexpr ShapeValue windows(const ShapeValue& shape, const Name& from, const Name& to, std::int64_t size,
                                           const char* name) {
  ShapeValue result;
  for (const DimValue& dim : shape) {
    if (dim.name != from) {
      result.push_back(dim);
      continue;
    }
    if (size < 1 || dim.extent % size != 0) {
      raise(name, "dim " + untyped::detail::quoted(dim) + " is not cut into windows of " + std::to_string(size) +
                      ": the extent has to be a multiple; pad it first");
    }
    result.push_back({to, dim.extent / size});
    result.push_back({Window::name, size});
  }
  return result;
}

}  // namespace detail

/// y[..., New = i, ...] = what `reduction` (pooling::mean, max, min, sum, first) makes of x[..., D = i * size ... i *
/// size + size - 1, ...]. New has D's name unless another dim is named.
///
/// Errors: D's extent is not a multiple of `size`; D or New is split and New's extent not divisible by its axes.
/// Communication: none if D and New are split alike; else that of the reshape of [D] to [New, window]. Gradient: that
/// of the reduction.
template <dim_like D, dim_like New = detail::dynamic_dim<D>, operand X, class Reduction = pooling::Mean>
constexpr auto pool_tensor_1d(const X& x, std::int64_t size = 2, const Reduction& reduction = {}) {
  if constexpr (any_poisoned<X>) {
    return poisoned{};
  } else {
    constexpr bool known = contains(dims_of<X>::shape(), D::name);
    static_assert(known, "mtf: pool_tensor_1d: " MTF_RULE_MISSING_DIM);
    if constexpr (known) {
      using List = typename detail::Windowed<D, New, dims_of<X>>::type;
      if constexpr (detail::placeable_as<List, X>) {
        const auto cut = detail::move_named<List>(x, [&]<class E>(E&, const Array& array, const ShapeValue& shape) {
          const ShapeValue wanted = detail::windows(shape, D::name, New::name, size, "pool_tensor_1d");
          const DimValue& pooled = wanted[find(wanted, New::name)];
          if (New::static_extent != dynamic && New::static_extent != pooled.extent) {
            raise("pool_tensor_1d", "the pooled dim is " + untyped::detail::quoted(pooled) + ", not of extent " +
                                        std::to_string(New::static_extent));
          }
          return untyped::reshape(array, wanted, "pool_tensor_1d");
        });
        return reduction.template reduce<detail::Window>(cut);
      } else {
        return poisoned(detail::not_placeable_as<List, X>{});
      }
    } else {
      return poisoned{};
    }
  }
}

/// Every `size`-th index of D from 0 on: pool_tensor_1d with pooling::first.
template <dim_like D, dim_like New = detail::dynamic_dim<D>, operand X>
constexpr auto stride_tensor_1d(const X& x, std::int64_t size = 2) {
  return pool_tensor_1d<D, New>(x, size, pooling::first);
}

}  // namespace v0
}  // namespace mtf
