// one_hot: indices as rows with one element that differs.
#pragma once

#include <limits>

#include <mtf/ops/map.hpp>

namespace mtf {
inline namespace v0 {

namespace untyped {

namespace detail {

template <class T>
struct OnOff {
  T on, off;
  template <class Id>
  MTF_FUNCTION constexpr T operator()(Id id, Id place) const {
    return id == place ? on : off;
  }
};

}  // namespace detail

template <class E, class T, class Id>
[[nodiscard]] constexpr Array one_hot(E& engine, const Array& ids, const DimValue& dim, T on, T off) {
  constexpr const char* name = "one_hot";
  mtf::detail::require_open(engine, name);
  ShapeValue shape = ids.value->placement.shape();
  shape.push_back(dim);
  Array result{new_value(engine, name, shape, element_type_of<T>::value), {}};
  if (dim.extent - 1 > std::numeric_limits<Id>::max()) {
    raise(name, "dim \"" + std::string(dim.name.text) + "\" has extent " + std::to_string(dim.extent) +
                    ", more than its ids count; use int64 ids");
  }
  complete(*ids.value, name);
  const PlacedDim& placed = result.value->placement.dims.back();
  Placement line;
  line.dims.push_back(placed);
  const Ref<Value> places = make_value(engine, line, element_type_of<Id>::value);
  engine.run(RangePlan{placed.local(), slice_begin(placed, engine.mesh(), engine.coordinates)}, out<Id>(places));
  const StridedShape over = row_major(result.value->placement);
  engine.run(MapPlan{collapse(loop_over(over, over, row_major(ids.value->placement), row_major(line)))},
             detail::OnOff<T>{on, off}, out<T>(result.value), in<Id>(ids.value), in<Id>(places));
  return result;
}

}  // namespace untyped

/// y[dims of ids..., D] = `on` where ids[...] is the place in D, `off` elsewhere, with elements of type T:
/// one_hot<float>(ids, vocabulary). `ids` are int32 or int64; an id outside [0, extent) gives a row of `off`. D may be
/// split. Throws if D has more elements than ids count. No communication, no gradient.
template <element T, operand Ids, dim_like D>
constexpr auto one_hot(const Ids& ids, const D& dim, std::type_identity_t<T> on = T(1),
                       std::type_identity_t<T> off = T(0)) {
  if constexpr (any_poisoned<Ids>) {
    return poisoned{};
  } else {
    constexpr bool integral = std::integral<element_of<Ids>> && !std::same_as<element_of<Ids>, bool>;
    static_assert(integral, "mtf: one_hot: ids must be int32 or int64; convert with cast<std::int32_t>(ids)");
    if constexpr (!integral) {
      return poisoned{};
    } else {
      using World = world_of<Ids>;
      using List = concatenate<dims_of<Ids>, DimList<D>>;
      if constexpr (!detail::Unpack<List>::template placeable<World>) {
        return poisoned(typename detail::Unpack<List>::template not_placeable<World>{});
      } else {
        using E = typename World::engine_type;
        const Array& array = detail::array_of(ids);
        return tensor_of<World, T, List>(untyped::one_hot<E, T, element_of<Ids>>(
            static_cast<E&>(array.value->backend()), array, DimValue{D::name, dim.extent()}, on, off));
      }
    }
  }
}

}  // namespace v0
}  // namespace mtf
