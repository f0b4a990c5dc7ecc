// The rules of a world: from its types, and from the texts it is given at run time.
#pragma once

#include <cstdint>
#include <limits>
#include <string_view>
#include <vector>

#include <mtf/tensor/error.hpp>

namespace mtf {
inline namespace v0 {

/// What happens when a layout has a rule whose dim no tensor has, most likely a misspelt one: found when an optimizer
/// makes its first step, or when the world ends without one.
enum class UnusedRules : std::uint8_t {
  ignore,  ///< nothing; `world.unused_rules()` tells
  warn,    ///< one line on stderr, by the first rank
  error    ///< the optimizer's step throws a plan_error, before it changes anything; the end of a world ends the job
};

/// What a World takes at run time.
struct WorldOptions {
  std::string_view mesh{};  ///< sizes of dynamic axes, "rows:2;cols:2"; of a dynamic_mesh also the axes and their order
  std::string_view layout{};  ///< the rules of a dynamic_layout, "batch:rows;d_ff:cols"
  std::uint64_t seed = 0;     ///< of the initial values of variables
  UnusedRules unused_rules = UnusedRules::warn;
  /// Memory that `from_local` lends is hashed when the loan begins and when it ends; a difference ends the job with one
  /// line. For tests: it reads the memory twice.
  bool check_lent = false;
  /// Seconds that ranks wait for each other before one line says who has not arrived. MTF_PATIENCE goes before it.
  double patience = 30;
  /// Seconds since a wait began after which the job ends, with that line; infinite for never. MTF_ABORT_AFTER goes
  /// before it.
  double abort_after = std::numeric_limits<double>::infinity();
};

namespace detail {

/// Rules and the texts their names refer to.
struct WorldRules {
  std::vector<char> mesh_text;
  std::vector<char> layout_text;
  PlacementRules rules;
};

/// What the types of a world say of its rules, as values.
struct StaticRules {
  bool has_names = false;   ///< the axes are types; only dynamic sizes are read
  bool has_layout = false;  ///< the layout is a type; no text is read
  MeshValue mesh;
  LayoutValue layout;
};
template <class Mesh, class Layout>
[[nodiscard]] constexpr StaticRules static_rules_of() {
  StaticRules rules;
  rules.has_names = Mesh::has_static_names;
  rules.has_layout = Layout::is_static;
  if constexpr (Mesh::has_static_names) rules.mesh = Mesh::value();
  if constexpr (Layout::is_static) rules.layout = Layout::value();
  return rules;
}

/// Reads and checks all that is known at start; throws one plan_error with every violated rule.
MTF_COLD [[nodiscard]] inline WorldRules read_rules(const StaticRules& types, const WorldOptions& options) {
  WorldRules result;
  result.mesh_text.assign(options.mesh.begin(), options.mesh.end());
  result.layout_text.assign(options.layout.begin(), options.layout.end());
  Violations violations;
  const MeshValue given = parse_mesh({result.mesh_text.data(), result.mesh_text.size()}, violations);
  MeshValue mesh = types.has_names ? types.mesh : given;
  if (types.has_names) {
    for (AxisValue& axis : mesh.axes) {
      const int at = given.find(axis.name);
      if (at >= 0 && (axis.size == dynamic || axis.size == given.axes[at].size)) {
        axis.size = given.axes[at].size;
      } else if (at >= 0) {
        add(violations, {.fault = Fault::other_axis_size,
                         .axis = axis.name,
                         .extent = given.axes[at].size,
                         .other_extent = axis.size});
      } else if (axis.size == dynamic) {
        add(violations, {.fault = Fault::missing_axis_size, .axis = axis.name});
      }
    }
    for (const AxisValue& axis : given.axes) {
      if (mesh.find(axis.name) < 0) add(violations, {.fault = Fault::extra_axis, .axis = axis.name});
    }
  }
  const LayoutValue layout = types.has_layout
                                 ? types.layout
                                 : parse_layout({result.layout_text.data(), result.layout_text.size()}, violations);
  result.rules = resolve(layout, mesh, violations);
  require_none("World", mesh, violations);
  return result;
}

}  // namespace detail

}  // namespace v0
}  // namespace mtf
