// check_gradients: gradients against difference quotients, in any world.
#pragma once

#include <array>
#include <concepts>
#include <functional>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <mtf/ops/arithmetic.hpp>
#include <mtf/ops/cast.hpp>
#include <mtf/ops/gradients.hpp>
#include <mtf/ops/random.hpp>
#include <mtf/ops/reduce.hpp>
#include <mtf/testing/difference_quotients.hpp>
#include <mtf/world/transfer.hpp>

namespace mtf {
inline namespace v0 {

namespace detail {

/// This rank's slice, complete, as double.
template <class T, class E>
std::vector<double> slice_of(E& engine, const Value& value) {
  complete(value, "check_gradients");
  std::vector<T> elements(static_cast<std::size_t>(value.placement.local_size()));
  engine.read(*value.block, elements.data());
  return {elements.begin(), elements.end()};
}
template <class T, class E>
Ref<Value> value_of_slice(E& engine, const KeptPlacement& placement, const std::vector<double>& elements) {
  Ref<Value> value = make_value(engine, placement, element_type_of<T>::value);
  std::vector<T> rounded;
  rounded.reserve(elements.size());
  for (const double element : elements) rounded.push_back(static_cast<T>(element));
  engine.write(*value->block, rounded.data());
  return value;
}

/// Whether differences can be taken of this type: bfloat16 is too coarse.
template <class T>
inline constexpr bool fine = std::same_as<T, float> || std::same_as<T, double>;

/// Whether X is a variable whose slices, too, can be moved by little.
template <class X>
concept variable_like = requires(const X& x) { x.state(); };
template <class X>
inline constexpr bool movable = fine<element_of<X>>;
template <variable_like X>
inline constexpr bool movable<X> = fine<element_of<X>> && fine<typename X::types::slice>;

/// x at the moment: a tensor is replaced, a variable assigned to, and given its own value back in the end.
template <class X>
class Moved {
 public:
  using type = decltype(plain(std::declval<const X&>()));
  explicit Moved(const X& x) : array_(array_of(x).value, {}) {}
  void assign(const Ref<Value>& value) { array_ = Array(value, {}); }
  [[nodiscard]] type read() const { return type(array_); }
  [[nodiscard]] type watched() const { return watch(type(array_)); }

 private:
  Array array_;
};
template <variable_like X>
class Moved<X> {
 public:
  using type = decltype(plain(std::declval<const X&>()));
  explicit Moved(const X& x) : variable_(x), before_(x.state().slice()) {}
  Moved(const Moved&) = delete;
  Moved& operator=(const Moved&) = delete;
  ~Moved() { variable_.state().assign(before_); }
  void assign(const Ref<Value>& value) { variable_.assign(type(Array(value, {}))); }
  [[nodiscard]] type read() const { return variable_.read(); }
  [[nodiscard]] type watched() const { return variable_.read(); }

 private:
  X variable_;
  Ref<Value> before_;
};

/// f of all xs, or of those that are tensors: then it refers to the variables itself.
template <class F, class... Xs, class... Ts>
auto call_checked(const F& f, std::type_identity<std::tuple<Xs...>>, const Ts&... xs) {
  if constexpr (std::invocable<const F&, const Ts&...>) {
    return f(xs...);
  } else {
    const auto kept = []<class X, class T>(std::type_identity<X>, const T& x) {
      if constexpr (variable_like<X>) {
        return std::tuple<>();
      } else {
        return std::tuple<T>(x);
      }
    };
    return std::apply(f, std::tuple_cat(kept(std::type_identity<Xs>{}, xs)...));
  }
}

/// The sum of all elements with random weights, as double, of which a scalar's is 1; and the sum of the squared terms.
template <class World>
class WeightedSum {
 public:
  explicit WeightedSum(World& world, std::uint64_t seed) : world_(&world), key_(mtf::seed{seed} / "check_gradients") {}

  template <class Y>
  void add(const Y& y) {
    if constexpr (operand<Y>) {
      static_assert(!std::same_as<element_of<Y>, bfloat16>,
                    "mtf: check_gradients: bfloat16 is too coarse for differences; check f in float or double");
      if constexpr (floating<element_of<Y>>) add_tensor(read(y));
      ++count_;
    } else if constexpr (requires { y.values, y.indices; }) {  // of top_k and sort
      add(y.values);
    } else {
      std::apply([&](const auto&... parts) { (add(parts), ...); }, y);
    }
  }
  [[nodiscard]] const Tensor<World, double>& sum() const { return sum_; }
  [[nodiscard]] const Tensor<World, double>& squares() const { return squares_; }
  [[nodiscard]] bool empty() const { return !sum_.array().value; }
  [[nodiscard]] double roundoff() const { return roundoff_; }

 private:
  template <class Y>
  static auto read(const Y& y) {
    return decltype(plain(y))(array_of(y));
  }
  template <class T, class... Dims>
  void add_tensor(const Tensor<World, T, Dims...>& y) {
    using E = typename World::engine_type;
    const Tensor<World, double, Dims...> values = cast<double>(y);
    if constexpr (std::same_as<T, float>) roundoff_ = 0x1p-24;
    if constexpr (sizeof...(Dims) == 0) {
      add_term(values, values * values);
    } else {
      const Tensor<World, double, Dims...> weights(
          Array{untyped::random<E, double>(y.engine(), y.placement(), key_ / count_, Distribution::normal, 0, 1), {}});
      const auto terms = values * weights;
      add_term(reduce_sum(terms), reduce_sum(stop_gradient(terms) * stop_gradient(terms)));
    }
  }
  void add_term(const Tensor<World, double>& term, const Tensor<World, double>& squares) {
    sum_ = empty() ? term : sum_ + term;
    squares_ = squares_.array().value ? squares_ + squares : squares;
  }

  World* world_;
  Key key_;
  int count_ = 0;
  double roundoff_ = 0x1p-53;
  Tensor<World, double> sum_{poisoned{}}, squares_{poisoned{}};
};

template <class X>
std::string name_of_checked(int number, const X& x) {
  std::string name = "x " + std::to_string(number);
  if constexpr (variable_like<X>) name = "variable " + quoted(x.path());
  return name + ", " + std::string(name_of(element_type_of<element_of<X>>::value)) + " " + describe(x.shape());
}

/// What check_gradients does once it is known to be possible.
template <class World, class F, class... Xs>
GradientReport compare_gradients(World& world, const GradientCheck& options, const F& f, const Xs&... xs) {
  auto& engine = world.engine();
  const std::array<Array, sizeof...(Xs)> given{array_of(xs)...};
  require_same_backend(engine, "check_gradients", given);
  require_open(engine, "check_gradients");
  for (const Array& x : given) complete(*x.value, "check_gradients");
  std::tuple<Moved<Xs>...> moved(xs...);
  constexpr std::type_identity<std::tuple<Xs...>> types{};
  const auto weighted = [&](const auto&... current) {
    WeightedSum<World> sum(world, options.seed);
    sum.add(call_checked(f, types, current...));
    return sum;
  };

  GradientReport report;
  int number = 0;
  ((report.xs.push_back(name_of_checked(number++, xs)), report.extents.emplace_back()), ...);
  for (std::size_t i = 0; i < given.size(); ++i) {
    for (const DimValue& dim : given[i].value->placement.shape()) report.extents[i].push_back(dim.extent);
  }
  std::vector<MovedArray> arrays;
  double value = 0, magnitude = 0, roundoff = (std::same_as<element_of<Xs>, float> || ...) ? 0x1p-24 : 0x1p-53;
  const Together together{world.comm(), world.mesh(), world.coordinates()};
  std::apply(
      [&](auto&... x) {
        // Braces fix the order; a tensor is watched once.
        const std::tuple<typename Moved<Xs>::type...> watched{x.watched()...};
        const WeightedSum<World> sum = std::apply(weighted, watched);
        if (sum.empty()) raise("check_gradients", "f has no floating-point result");
        value = together.agree(item(sum.sum()));
        magnitude = std::sqrt(together.agree(item(sum.squares())));
        roundoff = std::max(roundoff, sum.roundoff());
        const auto keep = [&]<class T>(const Array& at, std::type_identity<T>, const Ref<Value>& gradient, auto& here) {
          MovedArray array;
          array.placement = at.value->placement;
          array.values = slice_of<T>(engine, *at.value);
          array.gradient = gradient ? slice_of<T>(engine, *gradient) : std::vector<double>(array.values.size());
          array.assign = [&here, &engine, like = at.value](const std::vector<double>& elements) {
            here.assign(value_of_slice<T>(engine, like->placement, elements));
          };
          arrays.push_back(std::move(array));
        };
        std::apply(
            [&](const auto&... w) {
              if (!sum.sum().array().node) {
                (keep(array_of(w), std::type_identity<element_of<Xs>>{}, {}, x), ...);
                return;
              }
              const auto gradients_of_xs = gradients({.when_unused = unused::zeros}, sum.sum(), w...);
              std::apply(
                  [&](const auto&... g) {
                    (keep(array_of(w), std::type_identity<element_of<Xs>>{}, array_of(g).value, x), ...);
                  },
                  gradients_of_xs);
            },
            watched);
      },
      moved);

  const std::function<double()> loss = [&] {
    const inference off(world);
    return std::apply([&](const auto&... x) { return static_cast<double>(item(weighted(x.read()...).sum())); }, moved);
  };
  const bool coarse = roundoff > 0x1p-53;
  report.tolerance = options.tolerance > 0 ? options.tolerance : coarse ? 1e-2 : 1e-6;
  const double step = options.step > 0 ? options.step : coarse ? 0x1p-7 : 0x1p-17;
  const double again = together.agree(loss());
  if (!std::isfinite(value)) {
    report.problem = fmt::format("f is {} at the xs", value);
  } else if (!(std::abs(again - value) <= 64 * roundoff * (magnitude + std::abs(value)))) {
    report.problem = fmt::format(
        "f gives {:.17g} and, called again with the same xs, {:.17g}; it must depend on nothing else (random numbers: "
        "on a key)",
        value, again);
  } else {
    const DifferenceQuotients quotients(together, loss, again, magnitude, roundoff);
    for (std::size_t i = 0; i < arrays.size(); ++i)
      quotients.compare(arrays[i], static_cast<int>(i), options, step, report);
  }
  return report;
}

}  // namespace detail

/// Compares the gradients of f with central differences, under the layout of the world. f(xs...) gives a tensor, or a
/// tuple of them, of any dims: the gradients are those of the sum of all floating-point elements with random weights
/// (of a scalar: of itself). The xs are tensors or variables of float or double; f takes all of them, or the tensors
/// among them and refers to the variables itself. It depends on the xs alone: it is called many times.
///
/// In each x some elements are moved one by one (all, where there are no more than `elements`), and all together along
/// random `directions`: the gradient, times the direction, is the slope. A derivative is equal if it is within
/// `tolerance` of the larger of the two, or of a thousandth of the largest slope of x, and what rounding adds. Where f
/// has a kink (relu at 0, ties at a maximum) or ends, there is no derivative: such points are counted apart, and are no
/// failures unless the gradient is NaN.
///
/// The report is the same on all ranks; `report.require()` throws a check_failure unless all is well. Variables have
/// their values again afterwards. Throws what f throws, and a plan_error if the xs are of another world.
/// Communication: collective; what f sends, times 2 + 2 * (elements + directions) for each x (up to five times that
/// at kinks and where it fails), with one allreduce and one broadcast of a number each time; no array is gathered.
/// Source: central differences with a relative step near the cube root of the roundoff (Press et al., Numerical
/// Recipes, 2007, section 5.7).
template <class World, class F, operand... Xs>
GradientReport check_gradients(World& world, const GradientCheck& options, const F& f, const Xs&... xs) {
  static_assert(sizeof...(Xs) > 0, "mtf: check_gradients takes the xs after f: check_gradients(world, f, x, w)");
  constexpr bool one_world = (std::same_as<world_of<Xs>, World> && ...);
  static_assert(one_world, "mtf: " MTF_RULE_DIFFERENT_WORLDS);
  if constexpr (one_world) {
    constexpr bool possible = (detail::movable<Xs> && ...);
    static_assert(possible,
                  "mtf: check_gradients: the xs must be of float or double, bfloat16 is too coarse for differences; "
                  "check the function in one of them");
    if constexpr (possible) return detail::compare_gradients(world, options, f, xs...);
  }
  return {};
}
template <class World, class F, operand... Xs>
  requires(!std::same_as<F, GradientCheck>)
GradientReport check_gradients(World& world, const F& f, const Xs&... xs) {
  return check_gradients(world, GradientCheck{}, f, xs...);
}

}  // namespace v0
}  // namespace mtf
