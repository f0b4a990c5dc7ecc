// Split and Layout: which dim is split over which mesh axis, as a type or as a value read from text.
#pragma once

#include <concepts>
#include <limits>
#include <string_view>

#include <mtf/core/mesh.hpp>
#include <mtf/core/violation.hpp>

namespace mtf {
inline namespace v0 {

inline constexpr int max_axes_of_dim = 6;  ///< axes that one dim can be split over
inline constexpr int max_rules = 32;       ///< rules of a layout

/// One rule as a value: `dim` is split over `axes`, major first.
struct Rule {
  Name dim;
  InlineVector<Name, max_axes_of_dim> axes;
  bool optional = false;  ///< may name an axis that the mesh lacks; then it does nothing
};

/// The rules of a layout as values.
struct LayoutValue {
  InlineVector<Rule, max_rules> rules;
};

/// `Split<"batch", "rows">`: the dim is divided evenly over the axis; over several axes major first.
template <FixedString Dim, FixedString... Axes>
struct Split {
  static_assert(sizeof...(Axes) > 0, "mtf: a Split names a dim and at least one mesh axis");
  static_assert(sizeof...(Axes) <= max_axes_of_dim, "mtf: a dim is split over at most 6 axes");
  [[nodiscard]] static constexpr Rule value() {
    Rule rule;
    rule.dim = Name(Dim.view());
    (rule.axes.push_back(Name(Axes.view())), ...);
    return rule;
  }
};

/// A rule that does nothing on a mesh without its axes: one layout serves several meshes. Text form: `batch:rows?`.
template <class SplitRule>
struct optional_rule {
  [[nodiscard]] static constexpr Rule value() {
    Rule rule = SplitRule::value();
    rule.optional = true;
    return rule;
  }
};

struct LayoutBase {};

/// A rule set. `struct Layout : mtf::Layout<mtf::Split<"batch", "rows">, mtf::Split<"hidden", "cols">> {};`
/// Dims without a rule are replicated. Many dims may name one axis, but one tensor may not use an axis twice.
template <class... Rules>
struct Layout : LayoutBase {
  static_assert(sizeof...(Rules) <= max_rules, "mtf: a layout has at most 32 rules");
  static constexpr bool is_static = true;
  [[nodiscard]] static constexpr LayoutValue value() {
    LayoutValue result;
    (result.rules.push_back(Rules::value()), ...);
    return result;
  }
};

/// A layout known at run time only: the World is given its text or value.
struct dynamic_layout : LayoutBase {
  static constexpr bool is_static = false;
  [[nodiscard]] static constexpr LayoutValue value() { return {}; }
};

template <class L>
concept layout_like = std::derived_from<L, LayoutBase>;

namespace detail {

[[nodiscard]] constexpr std::string_view trim(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

/// Cuts the part before `separator` off the front of `rest`.
[[nodiscard]] constexpr std::string_view cut(std::string_view& rest, char separator) {
  const auto at = rest.find(separator);
  const std::string_view part = rest.substr(0, at);
  rest = at == std::string_view::npos ? std::string_view{} : rest.substr(at + 1);
  return trim(part);
}

/// Adds that something is wrong with a part of a text.
constexpr void add_part(Violations& violations, std::string_view part, Fault fault = Fault::malformed_layout) {
  add(violations, {.fault = fault, .dim = Name(part)});
}

}  // namespace detail

/// Reads Mesh-TensorFlow's notation, `"batch:rows;d_ff:cols"`; `dim:major,minor` splits over two axes and a trailing
/// `?` makes the rule optional. Parts that cannot be read or are too many are added to `violations` and left out.
/// The result's names refer to `text`.
MTF_NOINLINE [[nodiscard]] constexpr LayoutValue parse_layout(std::string_view text, Violations& violations) {
  LayoutValue layout;
  while (!text.empty()) {
    const std::string_view part = detail::cut(text, ';');
    if (part.empty()) continue;
    std::string_view axes = part;
    const std::string_view dim = detail::cut(axes, ':');
    Rule rule;
    rule.dim = Name(dim);
    if (!axes.empty() && axes.back() == '?') {
      rule.optional = true;
      axes.remove_suffix(1);
    }
    bool good = !dim.empty() && !detail::trim(axes).empty();
    bool fits = true;
    while (good && !axes.empty()) {
      const std::string_view axis = detail::cut(axes, ',');
      good = !axis.empty() && axis.find(':') == std::string_view::npos;
      fits = fits && !(good && rule.axes.full());
      if (good && fits) rule.axes.push_back(Name(axis));
    }
    if (!good) {
      detail::add_part(violations, part);
    } else if (!fits) {
      detail::add_part(violations, part, Fault::too_many_axes);
    } else if (layout.rules.full()) {
      detail::add_part(violations, part, Fault::too_many_rules);
    } else {
      layout.rules.push_back(rule);
    }
  }
  return layout;
}

/// Reads `"rows:2;cols:4"`. Parts that cannot be read, name an axis again, have no positive size or are too many are
/// added to `violations` and left out. The result's names refer to `text`.
MTF_NOINLINE [[nodiscard]] constexpr MeshValue parse_mesh(std::string_view text, Violations& violations) {
  MeshValue mesh;
  while (!text.empty()) {
    const std::string_view part = detail::cut(text, ';');
    if (part.empty()) continue;
    std::string_view digits = part;
    const std::string_view name = detail::cut(digits, ':');
    digits = detail::trim(digits);
    const bool negative = !digits.empty() && digits.front() == '-';
    if (negative) digits.remove_prefix(1);
    std::int64_t size = 0;
    bool good = !name.empty() && !digits.empty() && digits.size() <= 9;
    for (const char c : digits) {
      good = good && c >= '0' && c <= '9';
      if (good) size = size * 10 + (c - '0');
    }
    if (!good) {
      detail::add_part(violations, part);
    } else if (negative || size == 0) {
      detail::add_part(violations, part, Fault::empty_axis);
    } else if (mesh.find(Name(name)) >= 0) {
      detail::add_part(violations, part, Fault::repeated_mesh_axis);
    } else if (mesh.axes.full()) {
      detail::add_part(violations, part, Fault::too_many_axes);
    } else if (size > std::numeric_limits<std::int64_t>::max() / mesh.size()) {
      detail::add_part(violations, part, Fault::too_many_processors);
    } else {
      mesh.axes.push_back({Name(name), size});
    }
  }
  return mesh;
}

}  // namespace v0
}  // namespace mtf
