// Random tensors: values depend on seed, stream and global element index only.
#pragma once

#include <limits>

#include <mtf/ops/arithmetic.hpp>
#include <mtf/ops/reduce.hpp>
#include <mtf/plan/random.hpp>

namespace mtf {
inline namespace v0 {

namespace untyped {

namespace detail {

/// Where this rank's elements are in the global array, for drawing them. Of a microbatch, the rows it has of the whole.
struct DrawnSlice {
  Loop loop;
  std::int64_t index = 0;  ///< of the first
};
MTF_NOINLINE [[nodiscard]] constexpr DrawnSlice plan_draw(const Backend& backend, const KeptPlacement& placement) {
  DrawnSlice slice;
  StridedShape global = row_major(placement);
  std::int64_t stride = 1;
  for (int i = placement.rank() - 1; i >= 0; --i) {
    const PlacedDim& dim = placement.dims[i];
    const bool strided = backend.rows != nullptr && dim.name == backend.rows->dim && dim.extent == backend.rows->extent;
    const std::int64_t count = strided ? backend.rows->count : 1;
    global[i].stride = stride * count;
    slice.index +=
        stride * (slice_begin(dim, backend.mesh(), backend.coordinates) * count + (strided ? backend.rows->first : 0));
    stride *= dim.extent * count;
  }
  const StridedShape local = row_major(placement);
  slice.loop = collapse(loop_over(local, local, global));
  return slice;
}

/// Whether numbers of type T can be drawn with these parameters: ends of an interval, or mean and deviation.
template <class T>
[[nodiscard]] constexpr bool can_draw(Distribution distribution, double a, double b) {
  constexpr auto largest = static_cast<double>(std::numeric_limits<computed<T>>::max());
  const double least_b = distribution == Distribution::uniform ? a : 0;
  const bool ordered = b > least_b || (b == 0 && distribution != Distribution::uniform);
  return a >= -largest && a <= largest && ordered && b <= largest && mtf::detail::is_finite(b - a);
}
/// Throws with the parameter that is in the way.
template <class T>
constexpr void require_distribution(std::string_view name, Distribution distribution, double a, double b) {
  constexpr auto largest = static_cast<double>(std::numeric_limits<computed<T>>::max());
  const bool uniform = distribution == Distribution::uniform;
  mtf::detail::require_parameter(name, uniform ? "low" : "mean", a, a >= -largest && a <= largest,
                                 "a finite number of the element type");
  if (uniform) {
    mtf::detail::require_parameter(name, "high", b, can_draw<T>(distribution, a, b),
                                   "above low by a finite number, else the interval is empty");
  } else {
    mtf::detail::require_parameter(name, "stddev", b, can_draw<T>(distribution, a, b), "a finite number, at least 0");
  }
}

}  // namespace detail

/// A random value of this placement: no communication, replicas are equal, slices are those of one global array.
template <class E, class T>
[[nodiscard]] constexpr Ref<Value> random(E& engine, const KeptPlacement& placement, RandomPlan plan) {
  Ref<Value> result = make_value(engine, placement, element_type_of<T>::value);
  const auto set_slice = [&](const detail::DrawnSlice& slice) {
    plan.loop = slice.loop;
    plan.index = slice.index;
  };
  if (engine.rows == nullptr) {
    set_slice(engine.plans.template get<detail::DrawnSlice>(PlanKey(placement.number),
                                                            [&] { return detail::plan_draw(engine, placement); }));
  } else {
    set_slice(detail::plan_draw(engine, placement));
  }
  engine.run(plan, out<T>(result));
  return result;
}
template <class E, class T>
[[nodiscard]] constexpr Ref<Value> random(E& engine, const KeptPlacement& placement, const Key& key,
                                          Distribution distribution, double a, double b) {
  return random<E, T>(engine, placement, RandomPlan{.key = key, .distribution = distribution, .a = a, .b = b});
}
/// Whole numbers in [low, high).
template <class E, class T>
[[nodiscard]] constexpr Ref<Value> random_integers(E& engine, const KeptPlacement& placement, const Key& key,
                                                   std::int64_t low, std::int64_t high) {
  if (low >= high) {
    raise("random_uniform", "the interval [" + std::to_string(low) + ", " + std::to_string(high) +
                                ") is empty; integers are drawn from low to high - 1");
  }
  if (low < std::numeric_limits<T>::min() || high - 1 > std::numeric_limits<T>::max()) {
    raise("random_uniform", "the interval [" + std::to_string(low) + ", " + std::to_string(high) +
                                ") has numbers that are no " + std::string(name_of(element_type_of<T>::value)) +
                                "; draw int64, or take a smaller interval");
  }
  // The difference may exceed int64, but not the unsigned type.
  const std::uint64_t count = static_cast<std::uint64_t>(high) - static_cast<std::uint64_t>(low);
  return random<E, T>(engine, placement,
                      RandomPlan{.key = key, .distribution = Distribution::integers, .low = low, .count = count});
}

template <class E, class T>
[[nodiscard]] constexpr Array random_tensor(E& engine, const char* name, const ShapeValue& shape, const Key& key,
                                            Distribution distribution, double a, double b) {
  detail::require_distribution<T>(name, distribution, a, b);
  return {random<E, T>(engine, place_legally(engine, name, shape), key, distribution, a, b), {}};
}

}  // namespace untyped

namespace detail {

template <class T>
struct not_random {
  static_assert(always_false<T>,
                "mtf: random tensors are floating point, random_uniform also int32 or int64 with both bounds; convert "
                "with cast<T>(x)");
};

template <class T, class World, class... Dims>
constexpr auto random_tensor(World& world, const char* name, const Key& key, Distribution distribution, double a,
                             double b, const Dims&... dims) {
  using E = typename World::engine_type;
  return Tensor<World, T, Dims...>(
      untyped::random_tensor<E, T>(world.engine(), name, Shape<Dims...>(dims...).value(), key, distribution, a, b));
}

template <class T, class World, class... Dims>
constexpr auto random_integer_tensor(World& world, const Key& key, std::int64_t low, std::int64_t high,
                                     const Dims&... dims) {
  using E = typename World::engine_type;
  E& engine = world.engine();
  const KeptPlacement& placement = place_legally(engine, "random_uniform", Shape<Dims...>(dims...).value());
  return Tensor<World, T, Dims...>(Array{untyped::random_integers<E, T>(engine, placement, key, low, high), {}});
}

}  // namespace detail

/// Element types of random whole numbers.
template <class T>
concept drawn_whole = std::same_as<T, std::int32_t> || std::same_as<T, std::int64_t>;

/// A tensor of shape [Dims...] of independent normal numbers (mean, standard deviation). The value of an element
/// depends on `key` and its global index only: the same on any mesh and layout, in float (rounded) and double. Throws
/// unless the mean is finite and the deviation is and at least 0. No communication.
template <element T, static_dim... Dims, class World>
constexpr auto random_normal(World& world, const Key& key, double mean = 0, double stddev = 1) {
  if constexpr (!floating<T>) {
    return poisoned(detail::not_random<T>{});
  } else if constexpr (!placeable<World, Dims...>) {
    return poisoned(not_placeable<World, Dims...>{});
  } else {
    return detail::random_tensor<T>(world, "random_normal", key, Distribution::normal, mean, stddev, Dims{}...);
  }
}
template <element T, class World, dim_like... Dims>
constexpr auto random_normal_of(World& world, const Key& key, double mean, double stddev, const Dims&... dims) {
  if constexpr (!floating<T>) {
    return poisoned(detail::not_random<T>{});
  } else if constexpr (!placeable<World, Dims...>) {
    return poisoned(not_placeable<World, Dims...>{});
  } else {
    return detail::random_tensor<T>(world, "random_normal", key, Distribution::normal, mean, stddev, dims...);
  }
}
/// Uniform numbers in (low, high), never an end; throws unless both are finite and low < high; otherwise as
/// random_normal. Each is one of 2^32 equidistant numbers,
/// in double too: 32 random bits, not 53.
template <element T, static_dim... Dims, class World>
  requires(!drawn_whole<T>)
constexpr auto random_uniform(World& world, const Key& key, double low = 0, double high = 1) {
  if constexpr (!floating<T>) {
    return poisoned(detail::not_random<T>{});
  } else if constexpr (!placeable<World, Dims...>) {
    return poisoned(not_placeable<World, Dims...>{});
  } else {
    return detail::random_tensor<T>(world, "random_uniform", key, Distribution::uniform, low, high, Dims{}...);
  }
}
template <element T, class World, dim_like... Dims>
  requires(!drawn_whole<T>)
constexpr auto random_uniform_of(World& world, const Key& key, double low, double high, const Dims&... dims) {
  if constexpr (!floating<T>) {
    return poisoned(detail::not_random<T>{});
  } else if constexpr (!placeable<World, Dims...>) {
    return poisoned(not_placeable<World, Dims...>{});
  } else {
    return detail::random_tensor<T>(world, "random_uniform", key, Distribution::uniform, low, high, dims...);
  }
}

/// Uniform whole numbers in [low, high), int32 or int64, which are the same in either; no number is likelier than
/// another by more than 2^-64. Throws if the interval is empty or has numbers that T lacks; otherwise as random_normal.
template <drawn_whole T, static_dim... Dims, class World>
constexpr auto random_uniform(World& world, const Key& key, std::int64_t low, std::int64_t high) {
  if constexpr (!placeable<World, Dims...>) {
    return poisoned(not_placeable<World, Dims...>{});
  } else {
    return detail::random_integer_tensor<T>(world, key, low, high, Dims{}...);
  }
}
template <drawn_whole T, class World, dim_like... Dims>
constexpr auto random_uniform_of(World& world, const Key& key, std::int64_t low, std::int64_t high,
                                 const Dims&... dims) {
  if constexpr (!placeable<World, Dims...>) {
    return poisoned(not_placeable<World, Dims...>{});
  } else {
    return detail::random_integer_tensor<T>(world, key, low, high, dims...);
  }
}

/// Normal numbers redrawn outside two standard deviations (`stddev` is that of the distribution before); otherwise as
/// random_normal.
template <element T, static_dim... Dims, class World>
constexpr auto random_truncated_normal(World& world, const Key& key, double mean = 0, double stddev = 1) {
  if constexpr (!floating<T>) {
    return poisoned(detail::not_random<T>{});
  } else if constexpr (!placeable<World, Dims...>) {
    return poisoned(not_placeable<World, Dims...>{});
  } else {
    return detail::random_tensor<T>(world, "random_truncated_normal", key, Distribution::truncated_normal, mean, stddev,
                                    Dims{}...);
  }
}
template <element T, class World, dim_like... Dims>
constexpr auto random_truncated_normal_of(World& world, const Key& key, double mean, double stddev,
                                          const Dims&... dims) {
  if constexpr (!floating<T>) {
    return poisoned(detail::not_random<T>{});
  } else if constexpr (!placeable<World, Dims...>) {
    return poisoned(not_placeable<World, Dims...>{});
  } else {
    return detail::random_tensor<T>(world, "random_truncated_normal", key, Distribution::truncated_normal, mean, stddev,
                                    dims...);
  }
}

}  // namespace v0
}  // namespace mtf
