// local_map: the user's own Kokkos kernel on the slices of this rank.
#pragma once

#include <array>
#include <string>
#include <string_view>

#include <mtf/tensor/custom_gradient.hpp>
#include <mtf/world/local_view.hpp>

namespace mtf {
inline namespace v0 {

/// What a local_map makes: element type, dims, and where the ranks' results are parts of a sum. Along an axis the
/// result is
///
/// * split, if the axis splits one of its dims;
/// * a partial sum, if the axis splits a dim named in `summed`, or is named in `summed_over`;
/// * replicated otherwise: all ranks along the axis must write the same.
template <element T, class Dims, class Summed = DimList<>>
struct LocalResult {
  ShapeValue shape;
  InlineVector<Name, max_axes> axes;  ///< named in summed_over

  /// The kernel sums over these dims of its inputs, of each rank's part: a sum over whatever axes split them. The
  /// declaration is right under every layout.
  template <dim_like... More>
  [[nodiscard]] constexpr LocalResult<T, Dims, concatenate<Summed, DimList<More...>>> summed() const {
    return {shape, axes};
  }
  /// What the ranks along these axes write is added up, whatever it is: for kernels that read data of the program's
  /// own.
  template <std::convertible_to<std::string_view>... Axes>
  [[nodiscard]] constexpr LocalResult summed_over(const Axes&... more) const {
    LocalResult result = *this;
    (result.axes.push_back(Name(std::string_view(more))), ...);
    return result;
  }
};
template <element T, dim_like... Dims>
[[nodiscard]] constexpr LocalResult<T, DimList<Dims...>> local_result(const Dims&... dims) {
  return {Shape<Dims...>(dims...).value(), {}};
}

/// Gradient of a local_map whose every element depends only on the inputs' elements at the same index: the kernel runs
/// on dual numbers. It must then be generic in the element type of its views.
struct pointwise_t {};
inline constexpr pointwise_t pointwise{};

namespace detail {

inline constexpr const char* local_map_name = "local_map";

/// The axes along which the result is a partial sum; throws if the declaration cannot be right.
MTF_COLD [[nodiscard]] inline AxisSet summed_axes(Backend& backend, const ShapeValue& result, const ShapeValue& summed,
                                                  const InlineVector<Name, max_axes>& axes, std::span<const Array> xs) {
  UnionValue all;
  add_dims(all, result);
  for (const Array& x : xs) add_dims(all, x.value->placement.shape());
  require_legal(backend, local_map_name, result);
  require_legal(backend, local_map_name, all, false);
  AxisSet set;
  for (const Name& axis : axes) {
    const int at = backend.mesh().find(axis);
    if (at < 0)
      raise(local_map_name, "the mesh " + describe(backend.mesh()) + " has no axis " + quoted(axis) + " to sum over");
    set |= AxisSet::of(at);
  }
  for (const DimValue& dim : summed) {
    if (contains(result, dim.name))
      raise(local_map_name,
            "dim " + quoted(dim.name) + " is summed and also a dim of the result; it can be one of both");
    if (!contains(all, dim.name))
      raise(local_map_name, "the summed dim " + quoted(dim.name) + " is in no input: " MTF_RULE_MISSING_DIM);
    set |= set_of(backend.rules.axes_of(dim.name));
  }
  for (const DimValue& dim : result) {
    for (const std::int8_t axis : backend.rules.axes_of(dim.name)) {
      if (set.has(axis)) {
        raise(local_map_name,
              "axis " + quoted(backend.mesh().axes[axis].name) + " splits dim " + quoted(dim.name) +
                  " of the result and is summed over; a slice cannot be a part of a sum over the axis that splits it");
      }
    }
  }
  for (const DimValue& dim : all) {
    if (contains(result, dim.name)) continue;
    for (const std::int8_t axis : backend.rules.axes_of(dim.name)) {
      if (set.has(axis)) continue;
      raise(local_map_name,
            "dim " + quoted(dim.name) + " of an input is split over axis " + quoted(backend.mesh().axes[axis].name) +
                ", along which the result " + describe(result) +
                " is declared replicated: each rank would write something else. Name the "
                "dim in summed<>() if the kernel sums over it, else rename it to a name without a layout rule first");
    }
  }
  return set;
}

template <class X, class E>
auto input_view(const E& engine, const Array& x) {
  return view_of<const element_of<X>, static_cast<std::size_t>(dims_of<X>::size)>(engine, x.value->placement,
                                                                                  x.value->block->data);
}

template <class T, class Dims, class Summed, class F, class... Xs>
auto run_local(const LocalResult<T, Dims, Summed>& result, const F& kernel, const Xs&... xs) {
  using World = std::common_type_t<world_of<Xs>...>;
  using E = typename World::engine_type;
  const std::array<Array, sizeof...(Xs)> arrays{array_of(xs)...};
  E& engine = static_cast<E&>(arrays[0].value->backend());
  require_same_backend(engine, local_map_name, arrays);
  require_open(engine, local_map_name);
  const AxisSet pending = summed_axes(engine, result.shape, Summed::shape(), result.axes, arrays);
  for (const Array& x : arrays) complete(*x.value, local_map_name);
  Ref<Value> value = make_value(engine, engine.place(result.shape), element_type_of<T>::value);
  value->block->pending = pending;
  {
    const Region region(local_map_name);
    std::int64_t bytes = value->block->bytes;
    for (const Array& x : arrays) bytes += x.value->block->bytes;
    engine.run_recorded(
        {.plan = local_map_name, .type = element_type_of<T>::value, .work = value->block->count(), .bytes = bytes},
        [&] {
          [&]<std::size_t... I>(std::index_sequence<I...>) {
            kernel(engine.space(),
                   view_of<T, static_cast<std::size_t>(Dims::size)>(engine, value->placement, value->block->data),
                   input_view<Xs>(engine, arrays[I])...);
          }(std::index_sequence_for<Xs...>{});
        });
  }
  return tensor_of<World, T, Dims>(Array{std::move(value), {}});
}

template <class T>
struct Seed {
  Dual<T>* duals;
  const T* values;
  T slope;
  MTF_FUNCTION void operator()(std::int64_t i) const { duals[i] = Dual<T>(values[i], slope); }
};
template <class T>
struct TimesSlope {
  T* out;
  const T* dy;
  const Dual<T>* duals;
  /// 0 where dy is 0, whatever the slope, as in `map`.
  MTF_FUNCTION void operator()(std::int64_t i) const { out[i] = dy[i] == T(0) ? T(0) : dy[i] * duals[i].slope; }
};

template <class E, class T, class F, class... Xs>
class PointwiseGradient final : public Operation {
 public:
  explicit PointwiseGradient(const F& function) : f(function) {}
  F f;
  std::array<Ref<Value>, sizeof...(Xs)> xs;
  void backward(const Ref<Value>& gradient, GradientSink& sink) override {
    complete(*gradient, this->name);
    E& engine = static_cast<E&>(gradient->backend());
    const auto allocate = [&](const Placement& placement) {
      return Buffer(engine.allocate(element_type_of<T>::value, 2 * placement.local_size()));
    };
    const Buffer out_duals = allocate(gradient->placement);
    std::array<Buffer, sizeof...(Xs)> duals;
    for (std::size_t i = 0; i < xs.size(); ++i) duals[i] = allocate(xs[i]->placement);
    for (std::size_t which = 0; which < xs.size(); ++which) {
      if (!sink.wants(static_cast<int>(which))) continue;
      for (std::size_t i = 0; i < xs.size(); ++i) {
        kernels::for_blocks(engine.space(), "mtf::seed", xs[i]->placement.local_size(),
                            Seed<T>{static_cast<Dual<T>*>(duals[i]->data), static_cast<const T*>(xs[i]->block->data),
                                    i == which ? T(1) : T(0)});
      }
      [&]<std::size_t... I>(std::index_sequence<I...>) {
        f(engine.space(), view_of<Dual<T>, rank_of(0)>(engine, gradient->placement, out_duals->data),
          view_of<const Dual<T>, rank_of(1 + I)>(engine, xs[I]->placement, duals[I]->data)...);
      }(std::index_sequence_for<Xs...>{});
      Ref<Value> full = make_value(engine, gradient->placement, element_type_of<T>::value);
      kernels::for_blocks(
          engine.space(), "mtf::local_map'", gradient->placement.local_size(),
          TimesSlope<T>{static_cast<T*>(full->block->data), static_cast<const T*>(gradient->block->data),
                        static_cast<const Dual<T>*>(out_duals->data)});
      sink.add(static_cast<int>(which), untyped::sum_to<E, T>(engine, full, xs[which]->placement));
    }
  }
  static constexpr std::size_t result_rank = [] {
    ShapeValue all;
    ((all = unite(all, dims_of<Xs>::shape())), ...);
    return static_cast<std::size_t>(all.size());
  }();
  static constexpr std::size_t rank_of(std::size_t operand) {
    constexpr std::size_t ranks[] = {result_rank, static_cast<std::size_t>(dims_of<Xs>::size)...};
    return ranks[operand];
  }
};

template <class Dims, class... Xs>
inline constexpr bool views_exist = Dims::size <= 8 && ((dims_of<Xs>::size <= 8) && ...);

}  // namespace detail

/// A tensor that the user's kernel makes from the slices of this rank. `kernel(space, y, xs...)` is called once on
/// every rank with the world's execution-space instance and a LocalView of each slice: `view`, a Kokkos view of the
/// local extents, and `begin`, the global index of its first element by dim. It writes every element of y.view.
///
/// `result` declares type, dims and partial sums, see LocalResult. Errors (thrown, with dim and axis): dims whose union
/// cannot be placed; an input split over an axis along which the result is declared replicated; a sum over an axis that
/// splits the result. Without a gradient the inputs must not need one: an input with a graph throws. Communication:
/// completes pending inputs; the result is pending over the summed axes.
template <class T, class Dims, class Summed, class F, operand X, operand... Xs>
auto local_map(const LocalResult<T, Dims, Summed>& result, const F& kernel, const X& x, const Xs&... xs) {
  if constexpr (any_poisoned<X, Xs...>) {
    return poisoned{};
  } else {
    static_assert((std::same_as<world_of<X>, world_of<Xs>> && ...), "mtf: " MTF_RULE_DIFFERENT_WORLDS);
    static_assert(detail::views_exist<Dims, X, Xs...>, "mtf: local_map: a Kokkos view has at most 8 dims");
    if (records(detail::array_of(x).value->backend(), {detail::array_of(x), detail::array_of(xs)...})) {
      raise(detail::local_map_name,
            "an input has a gradient and the kernel has none; pass a gradient function, or `pointwise`, after the "
            "kernel, or take stop_gradient(x) of the input");
    }
    return detail::run_local(result, kernel, x, xs...);
  }
}

/// The same with a gradient of the user's, `gradient(dy, y, xs...)` as for custom_gradient: by operations, or by
/// local_map with a kernel of its own.
template <class T, class Dims, class Summed, class F, class G, operand X, operand... Xs>
  requires(!operand<G> && !std::same_as<G, pointwise_t>)
auto local_map(const LocalResult<T, Dims, Summed>& result, const F& kernel, const G& gradient, const X& x,
               const Xs&... xs) {
  if constexpr (any_poisoned<X, Xs...>) {
    return poisoned{};
  } else {
    static_assert(detail::views_exist<Dims, X, Xs...>, "mtf: local_map: a Kokkos view has at most 8 dims");
    return custom_gradient([&](const auto&... inner) { return detail::run_local(result, kernel, inner...); }, gradient,
                           x, xs...);
  }
}

/// The same with the gradient derived: y at an index depends on the xs at that index only (an x may lack dims of y),
/// and the kernel takes views of any element type, of `Dual<T>` for the gradient.
template <class T, class Dims, class Summed, class F, operand X, operand... Xs>
auto local_map(const LocalResult<T, Dims, Summed>& result, const F& kernel, pointwise_t, const X& x, const Xs&... xs) {
  if constexpr (any_poisoned<X, Xs...>) {
    return poisoned{};
  } else {
    constexpr bool one_world = (std::same_as<world_of<X>, world_of<Xs>> && ...);
    static_assert(one_world, "mtf: " MTF_RULE_DIFFERENT_WORLDS);
    constexpr bool exist = detail::views_exist<Dims, X, Xs...>;
    static_assert(exist, "mtf: local_map: a Kokkos view has at most 8 dims");
    constexpr bool pointwise_dims = Summed::size == 0 &&
                                    includes(Dims::shape(), concatenate<dims_of<X>, dims_of<Xs>...>::shape()) &&
                                    includes(concatenate<dims_of<X>, dims_of<Xs>...>::shape(), Dims::shape());
    static_assert(pointwise_dims,
                  "mtf: local_map: pointwise needs a result whose dims are those of the inputs together; pass a "
                  "gradient function");
    constexpr bool one_type =
        std::same_as<T, element_of<X>> && (std::same_as<T, element_of<Xs>> && ...) && std::floating_point<T>;
    static_assert(
        one_type,
        "mtf: local_map: pointwise needs inputs and a result of one type, float or double; pass a gradient function");
    if constexpr (one_world && exist && pointwise_dims && one_type) {
      if (!result.axes.empty())
        raise(detail::local_map_name, "a pointwise result is not a sum over axes; pass a gradient function");
      auto made = detail::run_local(result, kernel, x, xs...);
      const std::array<Array, 1 + sizeof...(Xs)> arrays{detail::array_of(x), detail::array_of(xs)...};
      Array array = made.array();
      if (records(array.value->backend(), arrays)) {
        using E = typename world_of<X>::engine_type;
        auto* operation = make<detail::PointwiseGradient<E, T, F, X, Xs...>>(kernel);
        for (std::size_t i = 0; i < arrays.size(); ++i) operation->xs[i] = arrays[i].value;
        record<E, T>(array, detail::local_map_name, operation, arrays);
      }
      return decltype(made)(std::move(array));
    } else {
      return poisoned{};
    }
  }
}

}  // namespace v0
}  // namespace mtf
