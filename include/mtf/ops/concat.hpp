// concat, stack, unstack: several arrays as one, and back.
#pragma once

#include <array>

#include <mtf/ops/slice.hpp>

namespace mtf {
inline namespace v0 {

namespace untyped {

/// The inputs' dims `from`, one after the other, as the dim `to`; empty names are a dim of extent 1 that an input does
/// not have. The result has the other dims in the order of `shape`.
template <class E, class T>
[[nodiscard]] constexpr Array concat(E& engine, const char* name, std::span<const Array> inputs,
                                     std::span<const Name> from, const DimValue& to, const ShapeValue& shape) {
  RecycledVector<Route> routes;
  ShapeValue all;
  std::int64_t sum = 0;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const ShapeValue own = inputs[i].value->placement.shape();
    const int position = find(own, from[i]);
    const std::int64_t extent = position < 0 ? 1 : own[position].extent;
    Route route{.input = static_cast<int>(i), .source = from[i], .target = to.name};
    route.segments.runs.push_back({0, sum, extent});
    routes.push_back(route);
    sum += extent;
    for (const DimValue& dim : own) {
      if (dim.name == from[i]) continue;
      const int other = find(all, dim.name);
      if (other < 0) {
        all.push_back(dim);
      } else if (all[other].extent != dim.extent) {
        raise(name, "dim " + detail::quoted(all[other]) + " has extent " + std::to_string(dim.extent) +
                        " in another operand: only the dims that are joined may differ");
      }
    }
  }
  if (sum != to.extent) {
    raise(name, "dim " + detail::quoted(to) + ": the extents of the operands add up to " + std::to_string(sum) +
                    "; give the new dim this extent");
  }
  return move_segments<E, T>(engine, name, inputs, std::span<const ShapeValue>(&shape, 1), routes)[0];
}

template <class E, class T>
[[nodiscard]] constexpr RecycledVector<Array> unstack(E& engine, const Array& x, const Name& from) {
  const ShapeValue shape = x.value->placement.shape();
  const int position = find(shape, from);
  ShapeValue rest = shape;
  rest.erase(position);
  RecycledVector<ShapeValue> shapes;
  RecycledVector<Route> routes;
  for (std::int64_t i = 0; i < shape[position].extent; ++i) {
    Route route{.output = static_cast<int>(i), .source = from};
    route.segments.runs.push_back({i, 0, 1});
    routes.push_back(route);
    shapes.push_back(rest);
  }
  return move_segments<E, T>(engine, "unstack", std::span<const Array>(&x, 1), shapes, routes);
}

}  // namespace untyped

namespace detail {

template <class A, class B>
inline constexpr bool same_name_sets = includes(A::shape(), B::shape()) && includes(B::shape(), A::shape());

/// What is joined: a dim of each operand.
template <class First, class... Rest>
struct Joined {
  template <class X, class... Xs>
  static constexpr bool known =
      contains(dims_of<X>::shape(), First::name) && (contains(dims_of<Xs>::shape(), Rest::name) && ...);
  template <class X, class... Xs>
  static constexpr bool alike = (same_name_sets<dims_without<X, First>, dims_without<Xs, Rest>> && ...);
  template <class X, class... Xs>
  using rests = concatenate<dims_without<X, First>, dims_without<Xs, Rest>...>;
  template <class New, class X, class... Xs>
  static constexpr bool adds_up = can_add_up({known_extent<First, X>, known_extent<Rest, Xs>...}, New::static_extent);
  template <class New, class X>
  using result = replace_dim<First, New, dims_of<X>>;
  static constexpr std::array<Name, 1 + sizeof...(Rest)> names{First::name, Rest::name...};
};
template <class Indices, class... D>
struct Spread;
template <std::size_t... I, class... D>
struct Spread<std::index_sequence<I...>, D...> {
  using type = Joined<dim_at<(sizeof...(D) == 1 ? 0 : I), D...>...>;
};

template <class E, std::size_t N>
[[nodiscard]] constexpr E& engine_of(const char* name, const std::array<Array, N>& arrays) {
  E& engine = static_cast<E&>(arrays[0].value->backend());
  require_same_backend(engine, name, arrays);
  return engine;
}

}  // namespace detail

/// y[..., New, ...] = the operands one after the other along D: one dim that all have by name, or one for each operand.
/// The joined dims may have different extents, which add up to New's; New takes the place of the first operand's and
/// may have its name. The other dims are the same in all operands, in any order; the result has them in the order of
/// the first. At most 8 operands.
///
/// Errors: extents that do not add up, other dims that differ. Communication: none if the joined dims are not split,
/// else one exchange for all operands together. Gradient: each operand's part, in one exchange.
template <dim_like... D, dim_like New, operand X, operand... Xs>
constexpr auto concat(const New& dim, const X& x, const Xs&... xs) {
  if constexpr (any_poisoned<X, Xs...>) {
    return poisoned{};
  } else {
    constexpr std::size_t count = 1 + sizeof...(Xs);
    constexpr bool named = sizeof...(D) == 1 || sizeof...(D) == count;
    static_assert(named, "mtf: concat: name one dim that all operands have, or one for each operand");
    static_assert(count <= Operation::max_inputs, "mtf: concat takes at most 8 operands; join some of them first");
    if constexpr (!named || count > Operation::max_inputs) {
      return poisoned{};
    } else if constexpr (!compatible<X, Xs...>) {
      return poisoned(not_operable<X, Xs...>{});
    } else {
      using Joined = typename detail::Spread<std::make_index_sequence<count>, D...>::type;
      constexpr bool known = Joined::template known<X, Xs...>;
      static_assert(known, "mtf: concat: " MTF_RULE_MISSING_DIM);
      constexpr bool alike = Joined::template alike<X, Xs...>;
      static_assert(
          !known || alike,
          "mtf: concat: the operands differ in other dims than those that are joined; rename or broadcast them first");
      constexpr bool adds_up = Joined::template adds_up<New, X, Xs...>;
      static_assert(
          !known || adds_up,
          "mtf: concat: the extents of the operands do not add up to that of the new dim; give the new dim their sum");
      using Rests = typename Joined::template rests<X, Xs...>;
      using List = typename Joined::template result<New, X>;
      if constexpr (!known || !alike || !adds_up) {
        return poisoned{};
      } else if constexpr (!detail::Unpack<Rests>::template uniteable<world_of<X>>) {
        return poisoned(typename detail::Unpack<Rests>::template not_uniteable<world_of<X>>{});
      } else if constexpr (!detail::placeable_as<List, X>) {
        return poisoned(detail::not_placeable_as<List, X>{});
      } else {
        using T = element_of<X>;
        const std::array<Array, count> arrays{detail::array_of(x), detail::array_of(xs)...};
        auto& engine = detail::engine_of<typename world_of<X>::engine_type>("concat", arrays);
        const DimValue to{New::name, dim.extent()};
        const ShapeValue shape = detail::replaced(arrays[0].value->placement.shape(), Joined::names[0], to);
        return tensor_of<world_of<X>, T, List>(
            untyped::concat<typename world_of<X>::engine_type, T>(engine, "concat", arrays, Joined::names, to, shape));
      }
    }
  }
}

/// y[New = i, dims...] = the i-th operand. All have the same dims, in any order; the result has New, then those of the
/// first. New's extent is the number of operands, of which there are at most 8. New may be split: each rank keeps the
/// operands in its slice. No communication; the gradient of a split New takes one exchange.
template <dim_like New, operand X, operand... Xs>
constexpr auto stack(const New& dim, const X& x, const Xs&... xs) {
  if constexpr (any_poisoned<X, Xs...>) {
    return poisoned{};
  } else {
    constexpr std::size_t count = 1 + sizeof...(Xs);
    static_assert(count <= Operation::max_inputs, "mtf: stack takes at most 8 operands; concat several stacks");
    constexpr bool adds_up = New::static_extent == dynamic || New::static_extent == static_cast<std::int64_t>(count);
    static_assert(adds_up, "mtf: stack: the extent of the new dim is not the number of operands; give it this extent");
    if constexpr (count > Operation::max_inputs || !adds_up) {
      return poisoned{};
    } else if constexpr (!compatible<X, Xs...>) {
      return poisoned(not_operable<X, Xs...>{});
    } else {
      constexpr bool alike = (detail::same_name_sets<dims_of<X>, dims_of<Xs>> && ...);
      static_assert(alike, "mtf: stack: the operands have different dims; rename or broadcast them first");
      using List = concatenate<DimList<New>, dims_of<X>>;
      if constexpr (!alike) {
        return poisoned{};
      } else if constexpr (!operable<X, Xs...>) {
        return poisoned(not_operable<X, Xs...>{});
      } else if constexpr (!detail::placeable_as<List, X>) {
        return poisoned(detail::not_placeable_as<List, X>{});
      } else {
        using T = element_of<X>;
        const std::array<Array, count> arrays{detail::array_of(x), detail::array_of(xs)...};
        auto& engine = detail::engine_of<typename world_of<X>::engine_type>("stack", arrays);
        const std::array<Name, count> none{};
        const DimValue to{New::name, dim.extent()};
        ShapeValue shape;
        shape.push_back(to);
        for (const DimValue& own : arrays[0].value->placement.shape()) shape.push_back(own);
        return tensor_of<world_of<X>, T, List>(
            untyped::concat<typename world_of<X>::engine_type, T>(engine, "stack", arrays, none, to, shape));
      }
    }
  }
}

/// A std::array of the tensors x[..., D = i, ...], without D, whose extent is static. Communication: none if D is not
/// split, else one exchange for all together, after which every rank has them whole. Gradient: no communication.
template <dim_like D, operand X>
constexpr auto unstack(const X& x) {
  if constexpr (any_poisoned<X>) {
    return std::array<poisoned, 1>{};
  } else {
    constexpr bool known = contains(dims_of<X>::shape(), D::name);
    static_assert(known, "mtf: unstack: " MTF_RULE_MISSING_DIM);
    constexpr std::int64_t extent = detail::known_extent<D, X>;
    static_assert(!known || extent != dynamic,
                  "mtf: unstack: the extent of the dim is dynamic, so the number of results is not known; rename it to "
                  "a dim of static extent");
    if constexpr (known && extent != dynamic) {
      using E = typename world_of<X>::engine_type;
      using Result = tensor_of<world_of<X>, element_of<X>, detail::dims_without<X, D>>;
      const Array& array = detail::array_of(x);
      const RecycledVector<Array> results =
          untyped::unstack<E, element_of<X>>(static_cast<E&>(array.value->backend()), array, D::name);
      return [&]<std::size_t... I>(std::index_sequence<I...>) {
        return std::array<Result, sizeof...(I)>{Result(results[I])...};
      }(std::make_index_sequence<static_cast<std::size_t>(extent)>{});
    } else {
      return std::array<poisoned, 1>{};
    }
  }
}

}  // namespace v0
}  // namespace mtf
