// What convolution and pooling share: how windows are named, checked and placed, and the neighbours' elements they
// need.
#pragma once

#include <initializer_list>
#include <string>

#include <mtf/plan/window.hpp>
#include <mtf/tensor/halo.hpp>
#include <mtf/tensor/tensor.hpp>

namespace mtf {
inline namespace v0 {

/// A dim along which windows slide. Of a convolution `Spatial<Input, Window, Output>`: the input's dim, the filter's,
/// the result's; of pooling, where no filter has the window as a dim, `Spatial<Input, Output>`. Input and Output may be
/// one dim if their extents are equal. A static extent of Output is checked, a dynamic one found.
template <dim_like Input, dim_like... Rest>
  requires(sizeof...(Rest) == 1 || sizeof...(Rest) == 2)
struct Spatial;

/// One number for each Spatial of an operation, or one for all.
struct PerDim {
  InlineVector<std::int64_t, max_windows> values;

  constexpr PerDim(std::int64_t all) { values.push_back(all); }
  constexpr PerDim(std::initializer_list<std::int64_t> each) {
    for (const std::int64_t value : each) values.push_back(values.full() ? 0 : value);
  }
  [[nodiscard]] constexpr std::int64_t operator[](int i) const { return values[values.size() == 1 ? 0 : i]; }
  /// Whether there is a positive number for each of `count` dims.
  [[nodiscard]] constexpr bool fits(int count) const {
    if (values.size() != 1 && values.size() != count) return false;
    for (const std::int64_t value : values) {
      if (value < 1) return false;
    }
    return true;
  }
};

/// Spatial as a value.
struct SpatialNames {
  Name input, window, output;
  std::int64_t extent = dynamic;  ///< of the output, where its type says it
};
using SpatialList = InlineVector<SpatialNames, max_windows>;

namespace detail {

template <class S>
struct SpatialOf;
template <class In, class Result>
struct SpatialOf<Spatial<In, Result>> {
  static constexpr int dims = 2;
  using output = Result;
  static constexpr SpatialNames value{In::name, {}, Result::name, Result::static_extent};
};
template <class In, class Filter, class Result>
struct SpatialOf<Spatial<In, Filter, Result>> {
  static constexpr int dims = 3;
  using output = Result;
  static constexpr SpatialNames value{In::name, Filter::name, Result::name, Result::static_extent};
};
template <class... S>
[[nodiscard]] constexpr SpatialList spatial_list() {
  SpatialList list;
  (list.push_back(SpatialOf<S>::value), ...);
  return list;
}

/// Whether every dim is named once, save that an output may be its own input.
[[nodiscard]] constexpr bool names_once(const SpatialList& spatial) {
  for (int i = 0; i < spatial.size(); ++i) {
    for (int j = 0; j < i; ++j) {
      for (const Name& a : {spatial[i].input, spatial[i].output}) {
        if (a == spatial[j].input || a == spatial[j].output) return false;
      }
      if (spatial[i].window == spatial[j].window && !(spatial[i].window == Name{})) return false;
    }
  }
  return true;
}

[[nodiscard]] constexpr bool has_inputs(const ShapeValue& x, const SpatialList& spatial) {
  for (const SpatialNames& s : spatial) {
    if (!contains(x, s.input)) return false;
  }
  return true;
}
[[nodiscard]] constexpr bool has_windows(const ShapeValue& filter, const SpatialList& spatial) {
  for (const SpatialNames& s : spatial) {
    if (!contains(filter, s.window)) return false;
  }
  return true;
}
/// Whether the spatial dims of x are none of the filter's, its windows none of x, and the outputs new.
[[nodiscard]] constexpr bool names_apart(const ShapeValue& x, const ShapeValue& filter, const SpatialList& spatial) {
  for (const SpatialNames& s : spatial) {
    if (contains(filter, s.input) || contains(filter, s.output) || contains(x, s.window)) return false;
    if (contains(x, s.output) && !(s.output == s.input)) return false;
  }
  return true;
}
[[nodiscard]] constexpr bool windows_whole(const PlacementRules& rules, const SpatialList& spatial) {
  for (const SpatialNames& s : spatial) {
    if (!rules.axes_of(s.window).empty()) return false;
  }
  return true;
}

/// Positions of the result's dims in the concatenation of x, filter and outputs: x's dims, the spatial ones replaced,
/// without those that the filter has too, then the filter's new ones.
[[nodiscard]] constexpr Selection windowed_dims(const ShapeValue& x, const ShapeValue& filter,
                                                const SpatialList& spatial) {
  Selection result;
  for (int i = 0; i < x.size(); ++i) {
    int slides = -1;
    for (int s = 0; s < spatial.size(); ++s) slides = spatial[s].input == x[i].name ? s : slides;
    if (slides >= 0) {
      result.push_back(x.size() + filter.size() + slides);
    } else if (!contains(filter, x[i].name)) {
      result.push_back(i);
    }
  }
  for (int i = 0; i < filter.size(); ++i) {
    bool is_window = false;
    for (const SpatialNames& s : spatial) is_window = is_window || s.window == filter[i].name;
    if (!is_window && !contains(x, filter[i].name)) result.push_back(x.size() + i);
  }
  return result;
}

/// What is illegal in an operation with these dims. Its rule is that of the union of all dims with one exception: the
/// input and the output of one Spatial are never whole on one rank at once, so both may be split over the same axes, in
/// the same order.
MTF_NOINLINE [[nodiscard]] constexpr Violations check_windows(const PlacementRules& rules, DimsView dims,
                                                              const SpatialList& spatial) {
  Violations result;
  const Violations all = check(rules, dims, false);
  result.omitted = all.omitted;
  for (const Violation& violation : all) {
    bool shared = false;
    for (const SpatialNames& s : spatial) {
      const bool pair = (violation.dim == s.input && violation.other_dim == s.output) ||
                        (violation.dim == s.output && violation.other_dim == s.input);
      shared = shared || (pair && rules.axes_of(s.input) == rules.axes_of(s.output));
    }
    if (violation.fault != Fault::axis_used_twice || !shared) add(result, violation);
  }
  return result;
}

template <class World, class List, class... S>
inline constexpr Violations window_violations = check_windows(rules_of<World>, List::shape(), spatial_list<S...>());

template <class World, class List, class... S>
struct OfWindows {
  static consteval const Violations& found() { return window_violations<World, List, S...>; }
  static consteval const PlacementRules& rules() { return rules_of<World>; }
};
template <class World, class List, class... S>
struct FirstOfWindows;
template <class World, class... Dims, class... S>
struct FirstOfWindows<World, DimList<Dims...>, S...> {
  using type = typename FirstOf<OfWindows<World, DimList<Dims...>, S...>, Dims...>::type;
};

/// An empty type if windows may slide along the dims of x, a filter's and the outputs together, otherwise the rule that
/// is violated. The public function makes an object of it in its own body: every function in between would add lines to
/// the message.
template <class World, class List, class... S>
using checked_windows =
    typename std::conditional_t<window_violations<World, List, S...>.empty(), std::type_identity<Checked>,
                                FirstOfWindows<World, List, S...>>::type;

}  // namespace detail

namespace untyped {

namespace detail {

MTF_COLD inline void require_numbers(const char* operation, const char* what, const PerDim& numbers, int count) {
  if (numbers.fits(count)) return;
  raise(operation, std::string(what) + " must be positive, one number for all " + std::to_string(count) +
                       " spatial dims or one for each");
}

/// Throws unless the dims together are legal.
MTF_NOINLINE constexpr void require_windows(Backend& backend, const char* operation, DimsView dims,
                                            const SpatialList& spatial) {
  mtf::detail::require_open(backend, operation);
  if (backend.survey != nullptr) {
    InlineVector<DimPair, max_windows> alike;
    for (const SpatialNames& s : spatial) alike.push_back({s.input, s.output});
    backend.survey->meet(operation, dims, {alike.begin(), static_cast<std::size_t>(alike.size())});
  }
  require_none(operation, backend.mesh(), mtf::detail::check_windows(backend.rules, dims, spatial));
}

MTF_COLD inline void raise_extent(const char* operation, const SpatialNames& s, std::int64_t input,
                                  const Window& window, std::int64_t found) {
  const std::string facts = "windows that span " + std::to_string(window.span()) + " of the " + std::to_string(input) +
                            " indices of dim " + quoted(s.input) + ", stride " + std::to_string(window.stride) + ",";
  if (found < 1) raise(operation, facts + " leave no output; pad with Padding::same, or shorten the window");
  raise(operation, facts + " give dim " + quoted(s.output) + " the extent " + std::to_string(found) +
                       ", but its type says " + std::to_string(s.extent));
}

}  // namespace detail

}  // namespace untyped

}  // namespace v0
}  // namespace mtf
