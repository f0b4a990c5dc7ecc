// Creation of tensors and variables.
#pragma once

#include <mtf/ops/random.hpp>

namespace mtf {
inline namespace v0 {

namespace init {

/// How the first value of a variable is made. Random initial values depend on the world's seed and the variable's path,
/// so they do not depend on the mesh or on the order of creation.
struct Initializer {
  enum class Kind : std::uint8_t { constant, uniform, normal, truncated_normal, glorot, function } kind{};
  double a = 0, b = 0;
  double (*function)(std::int64_t) = nullptr;
};

/// All elements 0; for biases.
inline constexpr Initializer zeros{.kind = Initializer::Kind::constant, .a = 0};
/// All elements 1; for the scales of norms.
inline constexpr Initializer ones{.kind = Initializer::Kind::constant, .a = 1};
/// All elements `value`, rounded to the element type.
[[nodiscard]] constexpr Initializer constant(double value) { return {.kind = Initializer::Kind::constant, .a = value}; }
/// Independent uniform numbers in (low, high).
[[nodiscard]] constexpr Initializer uniform(double low, double high) {
  return {.kind = Initializer::Kind::uniform, .a = low, .b = high};
}
/// Independent normal numbers of mean 0 and this standard deviation.
[[nodiscard]] constexpr Initializer normal(double stddev) { return {.kind = Initializer::Kind::normal, .b = stddev}; }
/// Normal numbers, redrawn beyond two standard deviations; `stddev` is that of the normal distribution before.
[[nodiscard]] constexpr Initializer truncated_normal(double stddev) {
  return {.kind = Initializer::Kind::truncated_normal, .b = stddev};
}
/// Glorot's uniform distribution on +-sqrt(6 / (fan_in + fan_out)); the last dim counts as fan_out, the product of the
/// others as fan_in (Glorot and Bengio, 2010).
inline constexpr Initializer glorot{.kind = Initializer::Kind::glorot};
/// f(row-major index in the global array), for reference values.
[[nodiscard]] constexpr Initializer function(double (*f)(std::int64_t)) {
  return {.kind = Initializer::Kind::function, .function = f};
}

}  // namespace init

namespace untyped {

template <class E, class T>
[[nodiscard]] constexpr Ref<Value> initial(E& engine, const KeptPlacement& placement,
                                           const init::Initializer& initializer, const Key& key) {
  using Kind = init::Initializer::Kind;
  switch (initializer.kind) {
    case Kind::constant: return mtf::detail::Elements<E, T>::fill(engine, placement, initializer.a);
    case Kind::uniform:
      return random<E, T>(engine, placement, key, Distribution::uniform, initializer.a, initializer.b);
    case Kind::normal: return random<E, T>(engine, placement, key, Distribution::normal, 0, initializer.b);
    case Kind::truncated_normal:
      return random<E, T>(engine, placement, key, Distribution::truncated_normal, 0, initializer.b);
    case Kind::glorot: {
      const double out_units = placement.rank() == 0 ? 1.0 : static_cast<double>(placement.dims.back().extent);
      const double limit = mtf::sqrt(6.0 / (static_cast<double>(placement.size()) / out_units + out_units));
      return random<E, T>(engine, placement, key, Distribution::uniform, -limit, limit);
    }
    case Kind::function: {
      Ref<Value> value = make_value(engine, placement, element_type_of<T>::value);
      engine.template write<T>(*value->block, placement, initializer.function);
      return value;
    }
  }
  return {};
}

/// Throws for parameters of an initializer that no values can be drawn with, naming the variable.
template <class T>
constexpr void require_initializer(const Scope& path, const init::Initializer& initializer) {
  using Kind = init::Initializer::Kind;
  const bool uniform = initializer.kind == Kind::uniform;
  if (!uniform && initializer.kind != Kind::normal && initializer.kind != Kind::truncated_normal) return;
  const Distribution distribution = uniform ? Distribution::uniform : Distribution::normal;
  if (!detail::can_draw<T>(distribution, initializer.a, initializer.b)) {
    detail::require_distribution<T>("variable " + quoted(path.view()), distribution, initializer.a, initializer.b);
  }
}

template <class E, class T>
[[nodiscard]] constexpr Array placeholder(E& engine, const ShapeValue& shape) {
  return {make_value(engine, place_legally(engine, "placeholder", shape), element_type_of<T>::value), {}};
}

template <class E, class T>
[[nodiscard]] constexpr Array range(E& engine, const ShapeValue& shape) {
  Ref<Value> value = make_value(engine, place_legally(engine, "range", shape), element_type_of<T>::value);
  const PlacedDim& dim = value->placement.dims[0];
  engine.run(RangePlan{dim.local(), slice_begin(dim, engine.mesh(), engine.coordinates)}, out<T>(value));
  return {std::move(value), {}};
}

template <class E, class T>
[[nodiscard]] constexpr Array constant(E& engine, const ShapeValue& shape, T value) {
  return {mtf::detail::Elements<E, T>::filled(engine, place_legally(engine, "constant", shape), value), {}};
}

/// `T` is an element type or ElementTypes<master, slice, activation>.
template <class E, class T>
MTF_NOINLINE constexpr VariableState& variable(E& engine, Registry& registry, const Scope& path,
                                               const init::Initializer& initializer, const ShapeValue& shape,
                                               std::uint64_t seed) {
  using M = typename mtf::detail::TypesOf<T>::master;
  using S = typename mtf::detail::TypesOf<T>::slice;
  using A = typename mtf::detail::TypesOf<T>::activation;
  const KeptPlacement& placement = place_legally(engine, "variable", shape);
  registry.require_new(engine, path);
  require_initializer<M>(path, initializer);
  const Key key{seed, path.hash()};
  // Drawn in the master type, so that a program that starts from a checkpoint starts alike.
  const Ref<Value> value = convert<E, S, M>(engine, initial<E, M>(engine, placement, initializer, key));
  SliceOperations operations{.elements = &element_operations<E, S>, .master = element_type_of<M>::value};
  if constexpr (!std::same_as<S, A>) {
    operations.to_activation = [](const Ref<Value>& x) { return convert<E, A, S>(static_cast<E&>(x->backend()), x); };
    operations.to_slice = [](const Ref<Value>& x) { return as_slice<E, S, A>(static_cast<E&>(x->backend()), x); };
  }
  return registry.add(path, value, &element_operations<E, A>, operations);
}

}  // namespace untyped

namespace detail {

template <class T>
struct not_trainable {
  static_assert(always_false<T>,
                "mtf: a variable is float or double; integers are tensors, see constant and from_global");
};

template <class T>
inline constexpr bool trainable_types = floating<typename TypesOf<T>::master> && floating<typename TypesOf<T>::slice> &&
                                        floating<typename TypesOf<T>::activation>;

template <class T, class World, class... Dims>
constexpr auto make_variable(World& world, const Scope& path, const init::Initializer& initializer,
                             const Dims&... dims) {
  using E = typename World::engine_type;
  return Variable<World, T, Dims...>(untyped::variable<E, T>(world.engine(), world.registry(), path, initializer,
                                                             Shape<Dims...>(dims...).value(), world.seed()));
}

}  // namespace detail

/// A new variable of shape [Dims...], named by its path in the world's registry; `T` is one element type, or three:
/// ElementTypes<master, slice, activation>. Errors: a path already in use; dims that cannot be placed; an initializer
/// with a deviation that is negative or no number, or bounds in the wrong order. No communication: each rank draws its own slice of the one global initial value.
template <variable_element T, static_dim... Dims, class World>
constexpr auto variable(World& world, const Scope& path, const init::Initializer& initializer) {
  if constexpr (!detail::trainable_types<T>) {
    return poisoned(detail::not_trainable<T>{});
  } else if constexpr (!placeable<World, Dims...>) {
    return poisoned(not_placeable<World, Dims...>{});
  } else {
    return detail::make_variable<T>(world, path, initializer, Dims{}...);
  }
}
/// The same for dims given as values: `variable<float>(world, "w", init::glorot, d_model, d_ff)`.
template <variable_element T, class World, dim_like... Dims>
  requires(sizeof...(Dims) > 0)
constexpr auto variable(World& world, const Scope& path, const init::Initializer& initializer, const Dims&... dims) {
  if constexpr (!detail::trainable_types<T>) {
    return poisoned(detail::not_trainable<T>{});
  } else if constexpr (!placeable<World, Dims...>) {
    return poisoned(not_placeable<World, Dims...>{});
  } else {
    return detail::make_variable<T>(world, path, initializer, dims...);
  }
}

/// A tensor of shape [Dims...] whose elements all are `value`. No communication.
template <element T, class World, dim_like... Dims>
constexpr auto constant(World& world, T value, const Dims&... dims) {
  if constexpr (!placeable<World, Dims...>) {
    return poisoned(not_placeable<World, Dims...>{});
  } else {
    using E = typename World::engine_type;
    return Tensor<World, T, Dims...>(untyped::constant<E, T>(world.engine(), Shape<Dims...>(dims...).value(), value));
  }
}
/// A tensor of shape [Dims...] of zeros: `zeros<float>(world, batch, d_model)`. No communication.
template <element T, class World, dim_like... Dims>
constexpr auto zeros(World& world, const Dims&... dims) {
  if constexpr (!placeable<World, Dims...>) {
    return poisoned(not_placeable<World, Dims...>{});
  } else {
    return constant<T>(world, T(0), dims...);
  }
}
/// A tensor of shape [Dims...] of ones. No communication.
template <element T, class World, dim_like... Dims>
constexpr auto ones(World& world, const Dims&... dims) {
  if constexpr (!placeable<World, Dims...>) {
    return poisoned(not_placeable<World, Dims...>{});
  } else {
    return constant<T>(world, T(1), dims...);
  }
}

namespace detail {
template <class X>
constexpr auto constant_like(const X& x, int value) {
  if constexpr (any_poisoned<X>) {
    return poisoned{};
  } else {
    const Array& array = array_of(x);
    using T = element_of<X>;
    using E = typename world_of<X>::engine_type;
    return tensor_of<world_of<X>, T, dims_of<X>>(untyped::constant<E, T>(
        static_cast<E&>(array.value->backend()), array.value->placement.shape(), static_cast<T>(value)));
  }
}
}  // namespace detail

/// Zeros, or ones, of the dims and the element type of x. No communication.
template <operand X>
constexpr auto zeros_like(const X& x) {
  return detail::constant_like(x, 0);
}
template <operand X>
constexpr auto ones_like(const X& x) {
  return detail::constant_like(x, 1);
}

/// A tensor of shape [Dims...] of unspecified elements: stands for data in a dry run. No communication.
template <element T, class World, dim_like... Dims>
constexpr auto placeholder(World& world, const Dims&... dims) {
  if constexpr (!placeable<World, Dims...>) {
    return poisoned(not_placeable<World, Dims...>{});
  } else {
    using E = typename World::engine_type;
    return Tensor<World, T, Dims...>(untyped::placeholder<E, T>(world.engine(), Shape<Dims...>(dims...).value()));
  }
}

/// x[dim] = 0, 1, 2, ... No communication; `dim` may be split.
template <element T, class World, dim_like D>
constexpr auto range(World& world, const D& dim) {
  if constexpr (!placeable<World, D>) {
    return poisoned(not_placeable<World, D>{});
  } else {
    using E = typename World::engine_type;
    return Tensor<World, T, D>(untyped::range<E, T>(world.engine(), Shape<D>(dim).value()));
  }
}

}  // namespace v0
}  // namespace mtf
