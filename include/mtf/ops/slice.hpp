// slice, pad, split: runs of indices of a dim as a dim of their own.
#pragma once

#include <array>
#include <tuple>

#include <mtf/ops/segments.hpp>

namespace mtf {
inline namespace v0 {

namespace untyped {

namespace detail {

MTF_COLD [[nodiscard]] inline std::string quoted(const DimValue& dim) {
  return mtf::quoted(dim.name.text) + " of extent " + std::to_string(dim.extent);
}

}  // namespace detail

/// y[to = i] = x[from = begin + i * stride].
template <class E, class T>
[[nodiscard]] constexpr Array slice(E& engine, const Array& x, const Name& from, std::int64_t begin,
                                    std::int64_t stride, const DimValue& to) {
  constexpr const char* name = "slice";
  const ShapeValue shape = x.value->placement.shape();
  const std::int64_t extent = shape[find(shape, from)].extent;
  // Written so that nothing can overflow.
  const bool inside =
      begin >= 0 && begin < extent && stride >= 1 && to.extent >= 1 && (to.extent - 1) <= (extent - 1 - begin) / stride;
  if (!inside) {
    raise(
        name,
        "dim " + detail::quoted(to) + ", begin " + std::to_string(begin) + " and stride " + std::to_string(stride) +
            " from dim " + detail::quoted(shape[find(shape, from)]) +
            ": a slice lies within the dim and its stride is positive; pad the operand first, or correct the numbers");
  }
  Route route{.source = from, .target = to.name};
  route.segments.runs.push_back({begin, 0, to.extent});
  route.segments.source_step = stride;
  return move_segments<E, T>(engine, name, x, mtf::detail::replaced(shape, from, to), route);
}

/// y[to = i] = x[from = i - before], else 0.
template <class E, class T>
[[nodiscard]] constexpr Array pad(E& engine, const Array& x, const Name& from, std::int64_t before, std::int64_t after,
                                  const DimValue& to) {
  constexpr const char* name = "pad";
  const ShapeValue shape = x.value->placement.shape();
  const std::int64_t extent = shape[find(shape, from)].extent;
  if (before < 0 || after < 0 || before > to.extent - extent || after != to.extent - extent - before) {
    raise(name, "dim " + detail::quoted(shape[find(shape, from)]) + " with " + std::to_string(before) + " before and " +
                    std::to_string(after) + " after is not dim " + detail::quoted(to) +
                    ": the three have to add up, and none is negative");
  }
  Route route{.source = from, .target = to.name};
  route.segments.runs.push_back({0, before, extent});
  return move_segments<E, T>(engine, name, x, mtf::detail::replaced(shape, from, to), route);
}

template <class E, class T>
[[nodiscard]] constexpr RecycledVector<Array> split(E& engine, const Array& x, const Name& from,
                                                    std::span<const DimValue> parts) {
  constexpr const char* name = "split";
  const ShapeValue shape = x.value->placement.shape();
  RecycledVector<ShapeValue> shapes;
  RecycledVector<Route> routes;
  std::int64_t sum = 0;
  for (const DimValue& part : parts) {
    Route route{.output = static_cast<int>(routes.size()), .source = from, .target = part.name};
    route.segments.runs.push_back({sum, 0, part.extent});
    routes.push_back(route);
    shapes.push_back(mtf::detail::replaced(shape, from, part));
    sum += part.extent;
  }
  if (sum != shape[find(shape, from)].extent) {
    raise(name, "dim " + detail::quoted(shape[find(shape, from)]) + ": the parts add up to " + std::to_string(sum) +
                    "; split takes the dim apart without a rest, slice takes a part");
  }
  return move_segments<E, T>(engine, name, std::span<const Array>(&x, 1), shapes, routes);
}

}  // namespace untyped

namespace detail {

template <class List, class X>
inline constexpr bool placeable_as = Unpack<List>::template placeable<world_of<X>>;
template <class List, class X>
using not_placeable_as = typename Unpack<List>::template not_placeable<world_of<X>>;

/// Says why a tensor cannot be placed, if so.
template <class List, class X>
constexpr void require_placeable() {
  if constexpr (!placeable_as<List, X>) (void)poisoned(not_placeable_as<List, X>{});
}

/// Whether extents that may be `dynamic` can add up to `sum`.
[[nodiscard]] constexpr bool can_add_up(std::initializer_list<std::int64_t> extents, std::int64_t sum) {
  std::int64_t total = 0;
  for (const std::int64_t extent : extents) {
    if (extent == dynamic) return true;
    total += extent;
  }
  return sum == dynamic || total == sum;
}

}  // namespace detail

/// y[..., New = i, ...] = x[..., D = begin + i * stride, ...] for all i of `dim`, which takes the place of D. New may
/// have D's name with another extent: one name may have two extents in an operation whose every tensor has only one of
/// them. A stride picks rows cyclically: the slices that begin at 0, 1, ... stride - 1 share the rows out, and each has
/// rows of every part of a D that is split.
///
/// Errors: a slice that is not within D. Communication: none if D is not split, whatever splits New; else one exchange
/// in which a rank receives the indices of its slice that it does not have. Gradient: zeros around the gradient (pad).
template <dim_like D, operand X, dim_like New>
constexpr auto slice(const X& x, std::int64_t begin, const New& dim, std::int64_t stride = 1) {
  if constexpr (any_poisoned<X>) {
    return poisoned{};
  } else {
    constexpr bool known = contains(dims_of<X>::shape(), D::name);
    static_assert(known, "mtf: slice: " MTF_RULE_MISSING_DIM);
    constexpr std::int64_t extent = detail::known_extent<D, X>;
    constexpr bool fits = extent == dynamic || New::static_extent <= extent;
    static_assert(
        fits,
        "mtf: slice: the slice is longer than the dim it is taken from; pad the operand first, or take a shorter one");
    if constexpr (known && fits) {
      using List = detail::replace_dim<D, New, dims_of<X>>;
      if constexpr (detail::placeable_as<List, X>) {
        return detail::move_named<List>(x, [&]<class E>(E& engine, const Array& array, const ShapeValue&) {
          return untyped::slice<E, element_of<X>>(engine, array, D::name, begin, stride, {New::name, dim.extent()});
        });
      } else {
        return poisoned(detail::not_placeable_as<List, X>{});
      }
    } else {
      return poisoned{};
    }
  }
}
/// The same for a static dim, `slice<Length, Half>(x, 8)`.
template <dim_like D, static_dim New, operand X>
constexpr auto slice(const X& x, std::int64_t begin, std::int64_t stride = 1) {
  return slice<D>(x, begin, New{}, stride);
}
/// The same for a begin that the compiler checks, `slice<Length, 8>(x, Half{})`.
template <dim_like D, std::int64_t Begin, operand X, dim_like New>
constexpr auto slice(const X& x, const New& dim) {
  if constexpr (any_poisoned<X>) {
    return poisoned{};
  } else {
    constexpr std::int64_t extent = detail::known_extent<D, X>;
    constexpr bool inside =
        Begin >= 0 && (extent == dynamic || Begin + (New::static_extent == dynamic ? 1 : New::static_extent) <= extent);
    static_assert(inside,
                  "mtf: slice: the slice is not within the dim it is taken from; pad the operand first, or correct "
                  "begin and extent");
    if constexpr (inside) {
      return slice<D>(x, Begin, dim);
    } else {
      return poisoned{};
    }
  }
}

/// y[..., New, ...] = x[..., D, ...] with `before` and `after` zeros around it; New takes the place of D and may have
/// its name. Errors: before + D's extent + after is not New's extent. Communication: none if D is not split; else one
/// exchange of what is not in place. Gradient: slice.
template <dim_like D, operand X, dim_like New>
constexpr auto pad(const X& x, std::int64_t before, std::int64_t after, const New& dim) {
  if constexpr (any_poisoned<X>) {
    return poisoned{};
  } else {
    constexpr bool known = contains(dims_of<X>::shape(), D::name);
    static_assert(known, "mtf: pad: " MTF_RULE_MISSING_DIM);
    constexpr bool fits = New::static_extent == dynamic || detail::known_extent<D, X> <= New::static_extent;
    static_assert(fits, "mtf: pad: the padded dim is shorter than the dim itself; slice makes a dim shorter");
    if constexpr (known && fits) {
      using List = detail::replace_dim<D, New, dims_of<X>>;
      if constexpr (detail::placeable_as<List, X>) {
        return detail::move_named<List>(x, [&]<class E>(E& engine, const Array& array, const ShapeValue&) {
          return untyped::pad<E, element_of<X>>(engine, array, D::name, before, after, {New::name, dim.extent()});
        });
      } else {
        return poisoned(detail::not_placeable_as<List, X>{});
      }
    } else {
      return poisoned{};
    }
  }
}
/// The same for sizes that the compiler checks, `pad<Length, 1, 2>(x, Longer{})`.
template <dim_like D, std::int64_t Before, std::int64_t After, operand X, dim_like New>
constexpr auto pad(const X& x, const New& dim) {
  if constexpr (any_poisoned<X>) {
    return poisoned{};
  } else {
    constexpr bool adds_up = Before >= 0 && After >= 0 &&
                             detail::can_add_up({Before, detail::known_extent<D, X>, After}, New::static_extent);
    static_assert(
        adds_up,
        "mtf: pad: the extents do not add up; before + the dim + after make the new dim, and none is negative");
    if constexpr (adds_up) {
      return pad<D>(x, Before, After, dim);
    } else {
      return poisoned{};
    }
  }
}

/// x taken apart along D: a std::tuple of one tensor for each of `dims`, which take D's place and may have its name.
/// Errors: extents that do not add up to D's. Communication: none if D is not split, else one exchange for all parts
/// together. Gradient: one exchange for all parts together.
template <dim_like D, operand X, dim_like... New>
constexpr auto split(const X& x, const New&... dims) {
  static_assert(sizeof...(New) > 0, "mtf: split: name at least one part");
  if constexpr (any_poisoned<X>) {
    return std::array<poisoned, sizeof...(New)>{};
  } else {
    constexpr bool known = contains(dims_of<X>::shape(), D::name);
    static_assert(known, "mtf: split: " MTF_RULE_MISSING_DIM);
    constexpr bool adds_up = !known || detail::can_add_up({New::static_extent...}, detail::known_extent<D, X>);
    static_assert(adds_up,
                  "mtf: split: the extents of the parts do not add up to that of the dim; slice takes a part and "
                  "leaves the rest");
    if constexpr (known && adds_up) {
      if constexpr ((detail::placeable_as<detail::replace_dim<D, New, dims_of<X>>, X> && ...)) {
        using E = typename world_of<X>::engine_type;
        const Array& array = detail::array_of(x);
        const std::array<DimValue, sizeof...(New)> parts{DimValue{New::name, dims.extent()}...};
        const RecycledVector<Array> results =
            untyped::split<E, element_of<X>>(static_cast<E&>(array.value->backend()), array, D::name, parts);
        return [&]<std::size_t... I>(std::index_sequence<I...>) {
          return std::tuple(
              tensor_of<world_of<X>, element_of<X>, detail::replace_dim<D, New, dims_of<X>>>(results[I])...);
        }(std::index_sequence_for<New...>{});
      } else {
        (detail::require_placeable<detail::replace_dim<D, New, dims_of<X>>, X>(), ...);
        return std::array<poisoned, sizeof...(New)>{};
      }
    } else {
      return std::array<poisoned, sizeof...(New)>{};
    }
  }
}

}  // namespace v0
}  // namespace mtf
