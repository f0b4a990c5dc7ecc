// Split and Layout: which dim is split over which mesh axis, as a type or as a value read from text.
#pragma once

#include <concepts>
#include <limits>
#include <string_view>

#include <mtf/core/mesh.hpp>
#include <mtf/core/text_scanner.hpp>
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

/// Adds that something is wrong with a part of a text.
constexpr void add_part(Violations& violations, std::string_view part, Fault fault) {
  add(violations, {.fault = fault, .dim = Name(part)});
}

/// Reads one rule at the scanner; false where it is none. `fits`: it has no more axes than a rule takes.
constexpr bool scan_rule(TextScanner& scanner, Rule& rule, bool& fits) {
  const std::string_view dim = scanner.word();
  scanner.skip_white_space();
  if (dim.empty() || !scanner.take(':')) return false;
  rule.dim = Name(dim);
  bool is_separated = false;
  do {
    scanner.skip_white_space();
    const std::string_view axis = scanner.word();
    if (axis.empty()) return false;
    fits = fits && !rule.axes.full();
    if (fits) rule.axes.push_back(Name(axis));
    is_separated = scanner.skip_white_space();
  } while (!scanner.is_before_rule(',') && scanner.take(','));
  while (scanner.take('?')) {
    rule.optional = true;
    is_separated = scanner.skip_white_space();
  }
  // The original takes white space and commas between rules, too.
  if (scanner.is_before_rule(',')) is_separated = scanner.take(',');
  scanner.skip_white_space();
  return scanner.done() || is_separated;
}

/// Reads `name:size` at the scanner; false where it is none.
constexpr bool scan_axis(TextScanner& scanner, AxisValue& axis) {
  const std::string_view name = scanner.word();
  scanner.skip_white_space();
  if (name.empty() || !scanner.take(':')) return false;
  scanner.skip_white_space();
  const bool is_negative = scanner.take('-');
  axis = {Name(name), 0};
  int digits = 0;
  for (; !scanner.done() && scanner.next() >= '0' && scanner.next() <= '9'; ++scanner.at) {
    if (++digits > 9) return false;
    axis.size = axis.size * 10 + (scanner.next() - '0');
  }
  if (is_negative) axis.size = -axis.size;
  return digits > 0 && (scanner.done() || is_white_space(scanner.next()) || scanner.is_at(',') || scanner.is_at('.'));
}

}  // namespace detail

/// Reads Mesh-TensorFlow's notation, `"batch:rows;d_ff:cols"`; `dim:major,minor` splits over two axes and a trailing
/// `?` (several are as one) makes the rule optional. White space around names and separators means nothing; rules may
/// also be separated by it alone, or by a comma. What lies between two semicolons and cannot be read, or is too much, is
/// added to `violations` and left out. The result's names refer to `text`.
MTF_NOINLINE [[nodiscard]] constexpr LayoutValue parse_layout(std::string_view text, Violations& violations) {
  LayoutValue layout;
  for (detail::TextParts parts(text); parts.next();) {
    detail::TextScanner scanner{parts.part};
    const int rules_before = layout.rules.count;
    const Violations violations_before = violations;
    while (!scanner.done()) {
      Rule rule;
      bool fits = true;
      const std::size_t begin = scanner.at;
      if (!detail::scan_rule(scanner, rule, fits)) {
        layout.rules.count = rules_before;
        violations = violations_before;
        parts.add_malformed(violations, scanner);
        break;
      }
      const std::string_view read = detail::trim(parts.part.substr(begin, scanner.at - begin));
      if (!fits) {
        detail::add_part(violations, read, Fault::too_many_axes);
      } else if (layout.rules.full()) {
        detail::add_part(violations, read, Fault::too_many_rules);
      } else {
        layout.rules.push_back(rule);
      }
    }
  }
  return layout;
}

/// Reads `"rows:2;cols:4"`. Axes are separated by semicolons, commas, white space or, after a size, periods, as the
/// original has them. What lies between two semicolons and cannot be read is added to `violations` and left out, and so
/// is an axis that is named again, has no positive size or is too much. The result's names refer to `text`.
MTF_NOINLINE [[nodiscard]] constexpr MeshValue parse_mesh(std::string_view text, Violations& violations) {
  MeshValue mesh;
  for (detail::TextParts parts(text); parts.next();) {
    detail::TextScanner scanner{parts.part};
    const int axes_before = mesh.axes.count;
    const Violations violations_before = violations;
    while (true) {
      while (scanner.skip_white_space() || scanner.take(',') || scanner.take('.')) {
      }
      if (scanner.done()) break;
      AxisValue axis;
      const std::size_t begin = scanner.at;
      if (!detail::scan_axis(scanner, axis)) {
        mesh.axes.count = axes_before;
        violations = violations_before;
        parts.add_malformed(violations, scanner);
        break;
      }
      const std::string_view read = parts.part.substr(begin, scanner.at - begin);
      if (axis.size <= 0) {
        detail::add_part(violations, read, Fault::empty_axis);
      } else if (mesh.find(axis.name) >= 0) {
        detail::add_part(violations, read, Fault::repeated_mesh_axis);
      } else if (mesh.axes.full()) {
        detail::add_part(violations, read, Fault::too_many_axes);
      } else if (axis.size > std::numeric_limits<std::int64_t>::max() / mesh.size()) {
        detail::add_part(violations, read, Fault::too_many_processors);
      } else {
        mesh.axes.push_back(axis);
      }
    }
  }
  return mesh;
}

}  // namespace v0
}  // namespace mtf
