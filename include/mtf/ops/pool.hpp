// Max and average pooling in one to three spatial dims, of which any may be split.
#pragma once

#include <mtf/ops/cast.hpp>
#include <mtf/ops/window.hpp>

namespace mtf {
inline namespace v0 {

struct PoolOptions {
  PerDim window;
  PerDim stride = {};  ///< that of the window if none is given
};

namespace untyped {

namespace detail {

/// The windows of every output, as a reduction whose input walks through the array with the windows' steps.
struct PoolPlan {
  WindowedSlice slice;
  ReducePlan reduce;
  PoolGradientPlan gradient;
  std::int64_t offset = 0;  ///< of the first window in the slice
};

MTF_NOINLINE [[nodiscard]] constexpr PoolPlan plan_pool(const Backend& backend, const Placement& big,
                                                        const Placement& small, const SpatialDims& spatial) {
  PoolPlan plan;
  plan.slice = plan_slice(backend, big, small, spatial);
  const StridedShape out = row_major(small);
  plan.reduce.kept.operands = plan.reduce.reduced.operands = plan.gradient.loop.operands = 2;
  for (int d = 0; d < out.size(); ++d) {  // the output has the input's dims in their order
    const StridedDim& dim = plan.slice.shape[d];
    LoopDim kept{out[d].extent, {out[d].stride, dim.stride}};
    LoopDim element{dim.extent, {dim.stride, out[d].stride}};
    for (int s = 0; s < spatial.size(); ++s) {
      if (!(spatial[s].big == dim.name)) continue;
      const Window& window = spatial[s].window;
      kept.strides[1] = window.stride * dim.stride;
      element.strides[1] = 0;
      plan.offset += plan.slice.begins[s] * dim.stride;
      plan.reduce.reduced.dims.push_back({window.size, {0, dim.stride}});
      plan.gradient.sliding.push_back(
          {d, plan.slice.begins[s], window.stride, window.size, out[d].extent, out[d].stride});
    }
    plan.reduce.kept.dims.push_back(kept);
    plan.gradient.loop.dims.push_back(element);
  }
  plan.reduce.kept = collapse(plan.reduce.kept);
  plan.reduce.reduced = collapse(plan.reduce.reduced);
  return plan;
}

}  // namespace detail

template <class E, class T>
class PoolGradient final : public Operation {
 public:
  detail::PoolPlan plan;
  Placement x;
  bool average = false;
  Buffer slice;  ///< of x with its halo, and y: for the maximum
  Ref<Value> y;
  constexpr ~PoolGradient() override {}
  constexpr void backward(const Ref<Value>& gradient, GradientSink& sink) override {
    if (!sink.wants(0)) return;
    complete(*gradient, this->name);
    E& engine = static_cast<E&>(gradient->backend());
    Buffer dx(engine.allocate(gradient->type(), plan.slice.size()));
    // The mean needs no values; what stands in for them is not read.
    engine.run(plan.gradient, Out<T>{*dx}, In<T>{average ? *gradient->block : *slice},
               In<T>{average ? *gradient->block : *y->block}, In<T>{*gradient->block});
    Ref<Value> result = detail::give_back<E, T>(engine, plan.slice, std::move(dx), x, this->name);
    result->block->pending = axes_lost(gradient->placement, x);
    sink.add(0, std::move(result));
  }
};

/// The maximum or the mean of every window; windows lie within x.
template <class E, class T>
[[nodiscard]] constexpr Array pool(E& engine, const Array& x, const SpatialList& spatial, const PoolOptions& options,
                                   bool average) {
  const char* name = average ? "average_pool" : "max_pool";
  const KeptPlacement& from = x.value->placement;
  const PerDim& stride = options.stride.values.empty() ? options.window : options.stride;
  detail::require_numbers(name, "window", options.window, spatial.size());
  detail::require_numbers(name, "stride", stride, spatial.size());
  ShapeValue all = from.shape();
  SpatialDims sliding;
  std::int64_t area = 1;
  for (int i = 0; i < spatial.size(); ++i) {
    const SpatialNames& s = spatial[i];
    const std::int64_t input = from.dims[from.find(s.input)].extent;
    const Window window{options.window[i], stride[i], 1, 0};
    const std::int64_t output = output_extent(input, window, Padding::valid);
    if (output < 1 || (s.extent != dynamic && s.extent != output)) detail::raise_extent(name, s, input, window, output);
    area *= window.size;
    sliding.push_back({s.input, {}, s.output, window});
    all.push_back({s.output, output});
  }
  detail::require_windows(engine, name, all, spatial);
  ShapeValue shape;
  for (const int position : mtf::detail::windowed_dims(from.shape(), {}, spatial)) shape.push_back(all[position]);
  Array result{new_value(engine, name, shape, element_type_of<T>::value), {}};
  // A mean of partial sums is a partial sum of the mean, and smaller, unless the output is split where the sum is
  // outstanding.
  const bool stays_pending = average && x.value->block->scattered.empty() &&
                             (x.value->pending() & result.value->placement.split_axes()).empty();
  if (!stays_pending) complete(*x.value, name);

  detail::PoolPlan plan = detail::plan_pool(engine, from, result.value->placement, sliding);
  const Buffer slice = detail::fetch<E, T>(engine, plan.slice, x.value->block, name);
  plan.reduce.combine = average ? Combine::sum : Combine::max;
  engine.run(plan.reduce, out<T>(result.value), In<T>{*slice, plan.offset});
  result.value->block->pending = x.value->pending();
  if constexpr (floating<T>) {
    if (average) {
      const StridedShape shape_of = row_major(result.value->placement);
      engine.run(MapPlan{collapse(loop_over(shape_of, shape_of, shape_of))},
                 mtf::detail::Scale{1.0 / static_cast<double>(area)}, out<T>(result.value), in<T>(result.value));
    }
    if (records(engine, {x})) {
      auto* operation = make<PoolGradient<E, T>>();
      operation->x = from;
      operation->average = average;
      if (!average) operation->slice = slice;
      if (!average) operation->y = result.value;
      operation->plan = std::move(plan);
      operation->plan.gradient.ties = !average;
      operation->plan.gradient.factor = 1.0 / static_cast<double>(area);
      record<E, T>(result, name, operation, {x});
    }
  }
  return result;
}
/// In float, rounded once.
template <class E, class T>
  requires std::same_as<T, bfloat16>
[[nodiscard]] constexpr Array pool(E& engine, const Array& x, const SpatialList& spatial, const PoolOptions& options,
                                   bool average) {
  return cast<E, bfloat16, float>(
      engine, pool<E, float>(engine, cast<E, float, bfloat16>(engine, x), spatial, options, average));
}

}  // namespace untyped

namespace detail {

/// Whether the dims go together, see `checked_windows`.
template <class X, class... S>
struct PoolCheck {
  static consteval auto select() {
    if constexpr (!has_inputs(dims_of<X>::shape(), spatial_list<S...>())) {
      return std::type_identity<Checked>{};  // pool_named says so
    } else {
      return std::type_identity<
          checked_windows<world_of<X>, concatenate<dims_of<X>, DimList<typename SpatialOf<S>::output...>>, S...>>{};
    }
  }
  using type = typename decltype(select())::type;
};
template <class... S>
struct PoolCheck<poisoned, S...> {
  using type = Checked;
};
template <class X, class... S>
using checked_pool = typename PoolCheck<X, S...>::type;

template <bool Average, class... S, class X>
constexpr auto pool_named(const X& x, const PoolOptions& options) {
  if constexpr (any_poisoned<X>) {
    return poisoned{};
  } else {
    using World = world_of<X>;
    using T = element_of<X>;
    constexpr SpatialList spatial = spatial_list<S...>();
    constexpr bool numbers = Average ? floating<T> : !std::same_as<T, bool>;
    static_assert(numbers, "mtf: pooling takes numbers, average_pool float or double; convert with cast<T>(x)");
    constexpr bool two = ((SpatialOf<S>::dims == 2) && ...);
    static_assert(
        two,
        "mtf: pooling: a Spatial names two dims here, Spatial<Input, Output>; the window is a number, {.window = 2}");
    constexpr bool known = has_inputs(dims_of<X>::shape(), spatial);
    static_assert(known || !two, "mtf: pooling: " MTF_RULE_MISSING_DIM);
    constexpr bool apart = names_once(spatial) && names_apart(dims_of<X>::shape(), {}, spatial);
    static_assert(apart || !known, "mtf: pooling: " MTF_RULE_SPATIAL_NAMES);
    if constexpr (numbers && two && known && apart) {
      using All = concatenate<dims_of<X>, DimList<typename SpatialOf<S>::output...>>;
      if constexpr (!window_violations<World, All, S...>.empty()) {
        return poisoned{};
      } else {
        using E = typename World::engine_type;
        constexpr Selection selected = windowed_dims(dims_of<X>::shape(), {}, spatial);
        const Array& array = array_of(x);
        return tensor_of<World, T, select_dims<selected, All>>(
            untyped::pool<E, T>(static_cast<E&>(array.value->backend()), array, spatial, options, Average));
      }
    } else {
      return poisoned{};
    }
  }
}

}  // namespace detail

/// y[x's dims, Output for Input] = the largest element of every window that lies within x; NaN propagates:
///
///     auto y = mtf::max_pool<Spatial<H, OH>, Spatial<W, OW>>(x, {.window = 2});  // stride: that of the window unless
///     given
///
/// Output's extent is (input - window) / stride + 1, rounded down. Errors: more than one dim over an axis, save that
/// Input and Output may be split over the same axes; an Output whose static extent differs or which the axes do not
/// divide. Communication: for a split Input one exchange of what windows reach beyond the own block, none where they do
/// not. Gradient: every element that ties for the maximum of a window receives that window's full gradient; the same
/// exchange backward.
template <class... S, operand X>
  requires(sizeof...(S) > 0 && sizeof...(S) <= max_windows)
constexpr auto max_pool(const X& x, const PoolOptions& options) {
  (void)detail::checked_pool<X, S...>{};
  return detail::pool_named<false, S...>(x, options);
}
/// The mean of every window, otherwise as max_pool; float or double. A pending sum stays pending (that of bfloat16 is
/// completed). Gradient: an equal share for every element of a window.
template <class... S, operand X>
  requires(sizeof...(S) > 0 && sizeof...(S) <= max_windows)
constexpr auto average_pool(const X& x, const PoolOptions& options) {
  (void)detail::checked_pool<X, S...>{};
  return detail::pool_named<true, S...>(x, options);
}

}  // namespace v0
}  // namespace mtf
