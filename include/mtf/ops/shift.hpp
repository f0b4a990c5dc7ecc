// shift, dynamic_shift, reverse: indices of a dim move within it.
#pragma once

#include <mtf/ops/segments.hpp>
#include <mtf/plan/gather.hpp>

namespace mtf {
inline namespace v0 {

namespace untyped {

/// y[i] = x[i - offset].
template <class E, class T>
[[nodiscard]] constexpr Array shift(E& engine, const Array& x, const Name& dim, std::int64_t offset,
                                    WrapOptions options) {
  mtf::detail::require_open(engine, "shift");
  const ShapeValue shape = x.value->placement.shape();
  const std::int64_t extent = shape[find(shape, dim)].extent;
  Route route{.source = dim, .target = dim};
  if (options.wrap) {
    offset = (offset % extent + extent) % extent;
    if (offset != 0) route.segments.runs.push_back({extent - offset, 0, offset});
  }
  if (offset == 0) return x;
  if (offset > 0 && offset < extent) route.segments.runs.push_back({0, offset, extent - offset});
  if (offset < 0 && offset > -extent) route.segments.runs.push_back({-offset, 0, extent + offset});
  return move_segments<E, T>(engine, "shift", x, shape, route);
}

template <class E, class T>
[[nodiscard]] constexpr Array reverse(E& engine, const Array& x, const Name& dim) {
  const ShapeValue shape = x.value->placement.shape();
  const std::int64_t extent = shape[find(shape, dim)].extent;
  Route route{.source = dim, .target = dim};
  route.segments.runs.push_back({extent - 1, 0, extent});
  route.segments.source_step = -1;
  return move_segments<E, T>(engine, "reverse", x, shape, route);
}

namespace detail {

/// The index that element t of a shifted dim comes from; outside of the dim where a zero is to be.
template <class Offset>
struct ShiftedIndex {
  std::int64_t extent = 1;
  std::int64_t sign = 1;
  bool wrap = false;
  MTF_FUNCTION constexpr std::int64_t operator()(std::int64_t t, Offset by) const {
    auto offset = static_cast<std::int64_t>(by);
    if (wrap) {
      const std::int64_t index = (t - sign * (offset % extent)) % extent;
      return index < 0 ? index + extent : index;
    }
    return offset >= extent || offset <= -extent ? -1 : t - sign * offset;
  }
};

/// x moved by sign * offsets along `dim`. x and the offsets are complete.
template <class E, class T, class Offset>
[[nodiscard]] constexpr Ref<Value> shift_by(E& engine, const Ref<Value>& x, const Ref<Value>& offsets, const Name& dim,
                                            std::int64_t sign, bool wrap) {
  Placement whole = x->placement;
  const int position = whole.find(dim);
  const PlacedDim moving = whole.dims[position];
  whole.dims[position].axes = {};
  whole.dims[position].parts = 1;
  const Ref<Value> table = redistribute(x, engine.keep(whole));

  Placement indexed = offsets->placement;
  indexed.dims.push_back(moving);
  Placement line;
  line.dims.push_back(moving);
  const Ref<Value> own = make_value(engine, line, ElementType::int64);
  engine.run(RangePlan{moving.local(), slice_begin(moving, engine.mesh(), engine.coordinates)}, out<std::int64_t>(own));
  const Ref<Value> indices = make_value(engine, indexed, ElementType::int64);
  const StridedShape index_shape = row_major(indexed);
  engine.run(MapPlan{collapse(loop_over(index_shape, index_shape, row_major(line), row_major(offsets->placement)))},
             ShiftedIndex<Offset>{moving.extent, sign, wrap}, out<std::int64_t>(indices), in<std::int64_t>(own),
             in<Offset>(offsets));

  Ref<Value> result = make_value(engine, x->placement, element_type_of<T>::value);
  const StridedShape shape = row_major(x->placement);
  StridedShape rest = row_major(whole);
  GatherPlan plan;
  plan.length = moving.extent;
  plan.stride = rest[position].stride;
  rest.erase(position);
  plan.loop = collapse(loop_over(shape, shape, rest, index_shape));
  engine.run(plan, out<T>(result), in<T>(table), in<std::int64_t>(indices));
  return result;
}

}  // namespace detail

template <class E, class T, class Offset>
class DynamicShiftGradient final : public Operation {
 public:
  Ref<Value> offsets;
  Name dim;
  bool wrap = false;
  constexpr ~DynamicShiftGradient() override {}
  constexpr void backward(const Ref<Value>& gradient, GradientSink& sink) override {
    if (!sink.wants(0)) return;
    complete(*gradient, this->name);
    sink.add(0, detail::shift_by<E, T, Offset>(static_cast<E&>(gradient->backend()), gradient, offsets, dim, -1, wrap));
  }
};

template <class E, class T, class Offset>
[[nodiscard]] constexpr Array dynamic_shift(E& engine, const Array& x, const Array& offsets, const Name& dim,
                                            WrapOptions options) {
  constexpr const char* name = "dynamic_shift";
  UnionValue all;
  add_dims(all, x.value->placement.shape());
  add_dims(all, offsets.value->placement.shape());
  require_legal(engine, name, all, false);
  complete(*x.value, name);
  complete(*offsets.value, name);
  Array result{detail::shift_by<E, T, Offset>(engine, x.value, offsets.value, dim, 1, options.wrap), {}};
  if constexpr (floating<T>) {
    if (records(engine, {x})) {
      auto* operation = make<DynamicShiftGradient<E, T, Offset>>();
      operation->offsets = offsets.value;
      operation->dim = x.value->placement.dims[x.value->placement.find(dim)].name;
      operation->wrap = options.wrap;
      record<E, T>(result, name, operation, {x});
    }
  }
  return result;
}

}  // namespace untyped

/// y[..., i, ...] = x[..., i - offset, ...] along D: to the right by a positive offset, to the left by a negative one.
/// What comes in from beyond the end is 0, or with `wrap` the other end; any offset will do.
///
/// Communication: none if D is not split, or if the offset is 0 (then y is x); else one exchange, in which a rank sends
/// each index that leaves its slice to the rank that needs it. Gradient: the shift back.
template <dim_like D, operand X>
constexpr auto shift(const X& x, std::int64_t offset, WrapOptions options = {}) {
  if constexpr (any_poisoned<X>) {
    return poisoned{};
  } else {
    constexpr bool known = contains(dims_of<X>::shape(), D::name);
    static_assert(known, "mtf: shift: " MTF_RULE_MISSING_DIM);
    if constexpr (known) {
      return detail::move_named<dims_of<X>>(x, [&]<class E>(E& engine, const Array& array, const ShapeValue&) {
        return untyped::shift<E, element_of<X>>(engine, array, D::name, offset, options);
      });
    } else {
      return poisoned{};
    }
  }
}

/// y[..., i, ...] = x[..., n - 1 - i, ...] along D of extent n. Communication: none if D is not split, else one
/// exchange of the slice with the rank opposite. Gradient: the reverse.
template <dim_like D, operand X>
constexpr auto reverse(const X& x) {
  if constexpr (any_poisoned<X>) {
    return poisoned{};
  } else {
    constexpr bool known = contains(dims_of<X>::shape(), D::name);
    static_assert(known, "mtf: reverse: " MTF_RULE_MISSING_DIM);
    if constexpr (known) {
      return detail::move_named<dims_of<X>>(x, [&]<class E>(E& engine, const Array& array, const ShapeValue&) {
        return untyped::reverse<E, element_of<X>>(engine, array, D::name);
      });
    } else {
      return poisoned{};
    }
  }
}

/// y[b, i, ...] = x[b, i - offsets[b], ...] along D: a shift whose offset differs from row to row. The dims of
/// `offsets`, which are int32 or int64, are dims of x other than D, in any order; else as shift. No matrix product: a
/// lookup of the elements.
///
/// Communication: none if D is not split, else an allgather of x along each axis that splits it. Gradient: the shift
/// back by the same offsets, with the same communication; the offsets have none.
template <dim_like D, operand X, operand Offsets>
constexpr auto dynamic_shift(const X& x, const Offsets& offsets, WrapOptions options = {}) {
  if constexpr (any_poisoned<X, Offsets>) {
    return poisoned{};
  } else {
    constexpr bool known = contains(dims_of<X>::shape(), D::name);
    static_assert(known, "mtf: dynamic_shift: " MTF_RULE_MISSING_DIM);
    constexpr bool one_world = std::same_as<world_of<X>, world_of<Offsets>>;
    static_assert(one_world, "mtf: " MTF_RULE_DIFFERENT_WORLDS);
    constexpr bool integral = std::integral<element_of<Offsets>> && !std::same_as<element_of<Offsets>, bool>;
    static_assert(integral,
                  "mtf: dynamic_shift: offsets must be int32 or int64; convert with cast<std::int32_t>(offsets)");
    constexpr bool within =
        includes(dims_of<X>::shape(), dims_of<Offsets>::shape()) && !contains(dims_of<Offsets>::shape(), D::name);
    static_assert(within,
                  "mtf: dynamic_shift: the dims of the offsets must be dims of the operand other than the shifted one; "
                  "broadcast the operand first");
    if constexpr (known && one_world && integral && within) {
      using All = concatenate<dims_of<X>, dims_of<Offsets>>;
      if constexpr (detail::Unpack<All>::template uniteable<world_of<X>>) {
        return detail::move_named<dims_of<X>>(x, [&]<class E>(E& engine, const Array& array, const ShapeValue&) {
          const std::array<Array, 2> arrays{array, detail::array_of(offsets)};
          detail::require_same_backend(engine, "dynamic_shift", arrays);
          return untyped::dynamic_shift<E, element_of<X>, element_of<Offsets>>(engine, arrays[0], arrays[1], D::name,
                                                                               options);
        });
      } else {
        return poisoned(typename detail::Unpack<All>::template not_uniteable<world_of<X>>{});
      }
    } else {
      return poisoned{};
    }
  }
}

}  // namespace v0
}  // namespace mtf
