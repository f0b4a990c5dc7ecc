// Convolution and transposed convolution in one to three spatial dims, of which any may be split.
#pragma once

#include <mtf/ops/cast.hpp>
#include <mtf/ops/einsum.hpp>
#include <mtf/ops/window.hpp>
#include <mtf/tensor/patches.hpp>

namespace mtf {
inline namespace v0 {

struct ConvolutionOptions {
  PerDim stride = 1;
  PerDim dilation = 1;  ///< distance of neighbouring elements of the window
  Padding padding = Padding::same;
};

namespace untyped {

namespace detail {

/// In another order of the same dims; what is pending stays so.
template <class E>
[[nodiscard]] constexpr Ref<Value> in_order(E& engine, const Ref<Value>& x, const Placement& to) {
  Ref<Value> result = reorder(engine, x, engine.keep(to));
  result->block->pending = x->pending();
  return result;
}

}  // namespace detail

template <class E, class T>
class ConvolutionGradient final : public Operation {
 public:
  detail::ConvolutionPlan plan;
  const KeptPlacement* x = nullptr;  ///< of the inputs
  const KeptPlacement* filter = nullptr;
  bool transposed = false;
  Buffer slice;             ///< of x with its halo, if the filter needs a gradient and x is the big side
  Ref<Value> small;         ///< x, if the filter needs a gradient and x is the small side
  Ref<Value> filter_value;  ///< if x needs a gradient
  constexpr ~ConvolutionGradient() override {}
  constexpr void backward(const Ref<Value>& gradient, GradientSink& sink) override {
    complete(*gradient, this->name);
    E& engine = static_cast<E&>(gradient->backend());
    if (!sink.wants(0) && !sink.wants(1)) return;
    if (!transposed) {
      const Ref<Value> dy = detail::reorder(engine, gradient, engine.keep(plan.small));
      if (sink.wants(0))
        sink.add(0, detail::convolve_back<E, T>(engine, plan, *dy->block, *filter_value->block, this->name));
      if (sink.wants(1)) add_filter(engine, detail::filter_gradient<E, T>(engine, plan, *slice, *dy->block), sink);
    } else {
      const Ref<Value> whole = detail::reorder(engine, gradient, engine.keep(plan.big));
      const Buffer dy = detail::fetch<E, T>(engine, plan.slice, whole->block, this->name);
      if (sink.wants(0)) {
        Ref<Value> dx = detail::convolve<E, T>(engine, plan, *dy, *filter_value->block);
        dx->block->pending = plan.filter.split_axes() - plan.small.split_axes();
        sink.add(0, detail::in_order(engine, dx, *x));
      }
      if (sink.wants(1)) add_filter(engine, detail::filter_gradient<E, T>(engine, plan, *dy, *small->block), sink);
    }
  }

 private:
  constexpr void add_filter(E& engine, const Ref<Value>& gradient, GradientSink& sink) const {
    sink.add(1, detail::in_order(engine, gradient, *filter));
  }
};

/// Both directions: the windows slide over x, or if `transposed` over the result.
template <class E, class T>
[[nodiscard]] constexpr Array convolution(E& engine, const Array& x, const Array& filter, const SpatialList& spatial,
                                          const ConvolutionOptions& options, bool transposed) {
  const char* name = transposed ? "transposed_convolution" : "convolution";
  const KeptPlacement& from = x.value->placement;
  const KeptPlacement& weights = filter.value->placement;
  detail::require_numbers(name, "stride", options.stride, spatial.size());
  detail::require_numbers(name, "dilation", options.dilation, spatial.size());
  UnionValue all;  // with repeated names: windowed_dims counts them
  for (const DimValue& dim : from.shape()) all.push_back(dim);
  for (const DimValue& dim : weights.shape()) all.push_back(dim);
  SpatialDims sliding;
  for (int i = 0; i < spatial.size(); ++i) {
    const SpatialNames& s = spatial[i];
    const PlacedDim& along = weights.dims[weights.find(s.window)];
    if (engine.survey != nullptr) engine.survey->keep_whole(name, {along.name, along.extent});
    if (!along.axes.empty()) {
      raise(name, "dim " + quoted(s.window) + " of the filter is split: " + MTF_RULE_SPLIT_WINDOW);
    }
    const std::int64_t input = from.dims[from.find(s.input)].extent;
    Window window{along.extent, options.stride[i], options.dilation[i], 0};
    std::int64_t output =
        transposed ? input_extent(input, window, options.padding) : output_extent(input, window, options.padding);
    // Windows of several extents leave as many outputs, so a transposed convolution may choose.
    if (transposed && s.extent != dynamic && output_extent(s.extent, window, options.padding) == input)
      output = s.extent;
    if (output < 1 || (s.extent != dynamic && s.extent != output)) detail::raise_extent(name, s, input, window, output);
    window.before = padding_before(transposed ? output : input, transposed ? input : output, window, options.padding);
    sliding.push_back(transposed ? SpatialDim{s.output, s.window, s.input, window}
                                 : SpatialDim{s.input, s.window, s.output, window});
    all.push_back({s.output, output});
  }
  detail::require_windows(engine, name, all, spatial);
  ShapeValue shape;
  for (const int position : mtf::detail::windowed_dims(from.shape(), weights.shape(), spatial))
    shape.push_back(all[position]);
  const KeptPlacement& to = place(engine, name, shape);
  complete(*x.value, name);
  complete(*filter.value, name);

  detail::ConvolutionPlan plan =
      detail::plan_convolution(engine, transposed ? to : from, transposed ? from : to, weights, sliding);
  const Ref<Value> matrix = detail::reorder(engine, filter.value, engine.keep(plan.filter));
  Buffer slice;
  Ref<Value> small;
  Array result;
  if (transposed) {
    small = detail::reorder(engine, x.value, engine.keep(plan.small));
    result.value = detail::convolve_back<E, T>(engine, plan, *small->block, *matrix->block, name);
  } else {
    slice = detail::fetch<E, T>(engine, plan.slice, x.value->block, name);
    result.value = detail::convolve<E, T>(engine, plan, *slice, *matrix->block);
    result.value->block->pending = plan.filter.split_axes() - plan.small.split_axes();
    result.value = detail::in_order(engine, result.value, engine.keep(to));
  }
  if constexpr (floating<T>) {
    if (records(engine, {x, filter})) {
      auto* operation = make<ConvolutionGradient<E, T>>();
      operation->x = &from;
      operation->filter = &weights;
      operation->transposed = transposed;
      if (filter.node) operation->slice = slice;
      if (filter.node) operation->small = small;
      if (x.node) operation->filter_value = matrix;
      operation->plan = std::move(plan);
      record<E, T>(result, name, operation, {x, filter});
    }
  }
  return result;
}
/// In float, rounded once.
template <class E, class T>
  requires std::same_as<T, bfloat16>
[[nodiscard]] constexpr Array convolution(E& engine, const Array& x, const Array& filter, const SpatialList& spatial,
                                          const ConvolutionOptions& options, bool transposed) {
  const Array wide_x = cast<E, float, bfloat16>(engine, x);
  const Array wide_filter = cast<E, float, bfloat16>(engine, filter);
  return cast<E, bfloat16, float>(engine,
                                  convolution<E, float>(engine, wide_x, wide_filter, spatial, options, transposed));
}

}  // namespace untyped

namespace detail {

/// Whether operands and dims go together, see `checked_windows`.
template <class X, class Filter, class... S>
struct ConvolutionCheck {
  static consteval auto select() {
    if constexpr (any_poisoned<X, Filter>) {
      return std::type_identity<Checked>{};
    } else if constexpr (!compatible<X, Filter>) {
      return std::type_identity<not_operable<X, Filter>>{};
    } else if constexpr (!has_inputs(dims_of<X>::shape(), spatial_list<S...>()) ||
                         !has_windows(dims_of<Filter>::shape(), spatial_list<S...>())) {
      return std::type_identity<Checked>{};  // convolve_named says so
    } else {
      return std::type_identity<checked_windows<
          world_of<X>, concatenate<dims_of<X>, dims_of<Filter>, DimList<typename SpatialOf<S>::output...>>, S...>>{};
    }
  }
  using type = typename decltype(select())::type;
};
template <class X, class Filter, class... S>
using checked_convolution = typename ConvolutionCheck<X, Filter, S...>::type;

template <bool Transposed, class... S, class X, class Filter>
constexpr auto convolve_named(const X& x, const Filter& filter, const ConvolutionOptions& options) {
  if constexpr (any_poisoned<X, Filter>) {
    return poisoned{};
  } else if constexpr (!compatible<X, Filter>) {
    return poisoned{};
  } else {
    using World = world_of<X>;
    using T = element_of<X>;
    using Outputs = DimList<typename SpatialOf<S>::output...>;
    constexpr SpatialList spatial = spatial_list<S...>();
    constexpr bool numbers = !std::same_as<T, bool>;
    static_assert(numbers, "mtf: convolution takes numbers; convert with cast<T>(x)");
    constexpr bool three = ((SpatialOf<S>::dims == 3) && ...);
    static_assert(three,
                  "mtf: convolution: a Spatial names three dims here, Spatial<Input, Window, Output>, of which the "
                  "filter has Window");
    constexpr bool known = has_inputs(dims_of<X>::shape(), spatial) && has_windows(dims_of<Filter>::shape(), spatial);
    static_assert(known || !three, "mtf: convolution: " MTF_RULE_MISSING_DIM);
    constexpr bool apart = names_once(spatial) && names_apart(dims_of<X>::shape(), dims_of<Filter>::shape(), spatial);
    static_assert(apart || !known, "mtf: convolution: " MTF_RULE_SPATIAL_NAMES);
    constexpr bool whole = windows_whole(rules_of<World>, spatial);
    static_assert(whole, "mtf: convolution: " MTF_RULE_SPLIT_WINDOW);
    if constexpr (numbers && three && known && apart && whole) {
      using All = concatenate<dims_of<X>, dims_of<Filter>, Outputs>;
      if constexpr (!window_violations<World, All, S...>.empty()) {
        return poisoned{};
      } else {
        using E = typename World::engine_type;
        constexpr Selection selected = windowed_dims(dims_of<X>::shape(), dims_of<Filter>::shape(), spatial);
        const std::array<Array, 2> arrays{array_of(x), array_of(filter)};
        E& engine = static_cast<E&>(arrays[0].value->backend());
        require_same_backend(engine, Transposed ? "transposed_convolution" : "convolution", arrays);
        return tensor_of<World, T, select_dims<selected, All>>(
            untyped::convolution<E, T>(engine, arrays[0], arrays[1], spatial, options, Transposed));
      }
    } else {
      return poisoned{};
    }
  }
}

}  // namespace detail

/// y[x's dims, Output for Input, filter's new dims] = sum over the windows, and over the dims that x and filter share,
/// of x filter:
///
///     auto y = mtf::convolution<Spatial<H, KH, OH>, Spatial<W, KW, OW>>(x, filter, {.stride = 2});
///     // x[batch, h, w, in], filter[kh, kw, in, out] -> y[batch, oh, ow, out]
///
/// x and filter take any order of dims; of a dim that only x has, such as the batch, there may be any number. One to
/// three Spatial. Output's extent is ceil(input / stride) under Padding::same (half of the zeros, the smaller if they
/// are odd, before the first index), and (input - span) / stride + 1, rounded down, under Padding::valid, where span =
/// (window - 1) dilation + 1.
///
/// Errors: as for einsum, save that Input and Output may be split over the same axes; a window dim that is split; an
/// Output whose static extent differs, or whose extent is not a multiple of the axes that split it. At compile time
/// where the types know it.
/// Communication: a dim that both operands have and that is split leaves the result pending over its axes. A split
/// Input costs one exchange of the elements that windows reach beyond the own block, in however many neighbours'
/// blocks; if Output is not split as well, of all of Input. Gradient: the same exchange backward for x, pending over
/// the axes of the filter's new dims; none for the filter, pending over the axes of batch and Output. Work: matrix
/// products by BLAS.
template <class... S, operand X, operand Filter>
  requires(sizeof...(S) > 0 && sizeof...(S) <= max_windows)
constexpr auto convolution(const X& x, const Filter& filter, const ConvolutionOptions& options = {}) {
  (void)detail::checked_convolution<X, Filter, S...>{};
  return detail::convolve_named<false, S...>(x, filter, options);
}

/// y[x's dims, Output for Input, filter's new dims]: every element of x adds a window's worth of x filter to y. It is
/// the gradient of the convolution that leads from y to x with this filter, stride and padding:
///
///     auto y = mtf::transposed_convolution<Spatial<H, KH, OH>, Spatial<W, KW, OW>>(x, filter, {.stride = 2});
///     // x[batch, h, w, in], filter[kh, kw, out, in] -> y[batch, oh, ow, out]
///
/// Output's extent is input stride under Padding::same and (input - 1) stride + span under Padding::valid, or that of
/// its type if the convolution leads from there to the same Input. Errors as for convolution. Communication: one
/// exchange for a split spatial dim; the result is pending over the axes of dims summed, and of an Input whose Output
/// is not split over them. Gradient: a convolution.
template <class... S, operand X, operand Filter>
  requires(sizeof...(S) > 0 && sizeof...(S) <= max_windows)
constexpr auto transposed_convolution(const X& x, const Filter& filter, const ConvolutionOptions& options = {}) {
  (void)detail::checked_convolution<X, Filter, S...>{};
  return detail::convolve_named<true, S...>(x, filter, options);
}

}  // namespace v0
}  // namespace mtf
