// Errors that pure functions of shapes find: thrown before any side effect, equal on all ranks, catchable.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <string_view>

#include <mtf/tensor/nearest_name.hpp>

namespace mtf {
inline namespace v0 {

/// A plan that cannot be: the message names the operation, dims, sizes and axes. The world stays usable.
class plan_error : public std::invalid_argument {
 public:
  explicit plan_error(const std::string& what) : std::invalid_argument(what) { ++alive_; }
  plan_error(const plan_error& other) noexcept : std::invalid_argument(other) { ++alive_; }
  plan_error& operator=(const plan_error&) = default;
  ~plan_error() override { --alive_; }

  /// Whether such an error is under way on this thread. While one unwinds the ranks still agree, so a world may be
  /// ended collectively; while any other exception does they may not.
  [[nodiscard]] static bool in_flight() { return alive_ > 0; }

 private:
  static inline thread_local int alive_ = 0;
};

/// A text in quotation marks, on one line: control characters as "\\n" or "\\x1b".
MTF_RARE [[nodiscard]] MTF_RUN_TIME std::string quoted(std::string_view text);
[[nodiscard]] inline std::string quoted(const Name& name) { return quoted(std::string_view(name.text)); }
/// "[batch:64, io:1024]".
MTF_RARE [[nodiscard]] MTF_RUN_TIME std::string describe(const ShapeValue& shape);
/// "rows:2;cols:4", in quotation marks; a size not known yet is a question mark.
MTF_RARE [[nodiscard]] MTF_RUN_TIME std::string describe(const MeshValue& mesh);
/// One violated rule with its names and numbers, then the way out. The mesh, if given, tells all axes that divide a dim.
MTF_RARE [[nodiscard]] MTF_RUN_TIME std::string describe(const Violation& v, const MeshValue& mesh = {});

namespace detail {
/// " (did you mean "cols"?)", if an axis of the mesh has a similar name, else nothing.
MTF_RARE [[nodiscard]] MTF_RUN_TIME std::string hint_of_axis(const Name& axis, const MeshValue& mesh);
}  // namespace detail

/// Throws one plan_error that lists every violation.
MTF_RARE [[noreturn]] MTF_RUN_TIME void raise(std::string_view operation, const Violations& violations);
/// The same for what is wrong on a mesh, which the message names.
MTF_RARE [[noreturn]] MTF_RUN_TIME void raise(std::string_view operation, const MeshValue& mesh,
                                              const Violations& violations);
MTF_RARE [[noreturn]] MTF_RUN_TIME void raise(std::string_view operation, const std::string& what);
MTF_RARE [[noreturn]] MTF_RUN_TIME void raise(std::string_view operation, const char* what);

constexpr void require_none(std::string_view operation, const Violations& violations) {
  if (!violations.empty()) raise(operation, violations);
}
constexpr void require_none(std::string_view operation, const MeshValue& mesh, const Violations& violations) {
  if (!violations.empty()) raise(operation, mesh, violations);
}

/// Throws for a number that a parameter cannot be: "mtf: dropout: rate is 1.5; it has to be in [0, 1)".
MTF_RARE [[noreturn]] MTF_RUN_TIME void raise_parameter(std::string_view operation, const char* parameter, double value,
                                                        const char* permitted);

namespace detail {

/// What every operation with a number as parameter asks before it does anything. The number is the same on all ranks,
/// so the error is. `permitted` completes "it has to be ...".
constexpr void require_parameter(std::string_view operation, const char* parameter, double value, bool holds,
                                 const char* permitted) {
  if (!holds) raise_parameter(operation, parameter, value, permitted);
}
/// Neither NaN nor infinite.
[[nodiscard]] constexpr bool is_finite(double value) { return value - value == 0; }
[[nodiscard]] constexpr bool is_finite_and_not_negative(double value) { return value >= 0 && is_finite(value); }

}  // namespace detail

#if MTF_HAS_DEFINITIONS

std::string quoted(std::string_view text) { return "\"" + on_one_line(text) + "\""; }

std::string describe(const ShapeValue& shape) {
  std::string text = "[";
  for (const DimValue& dim : shape) {
    if (text.size() > 1) text += ", ";
    text += on_one_line(dim.name.text) + ":" + (dim.extent == dynamic ? "?" : std::to_string(dim.extent));
  }
  return text + "]";
}

std::string describe(const MeshValue& mesh) {
  std::string text;
  for (const AxisValue& axis : mesh.axes) {
    if (!text.empty()) text += ";";
    text += on_one_line(axis.name.text) + ":" + (axis.size == dynamic ? "?" : std::to_string(axis.size));
  }
  return "\"" + text + "\"";
}

namespace detail {
/// "axis "rows" divides it by 2", or "axes "rows" (2) and "cols" (4) divide it by 8".
MTF_RARE inline std::string describe_division(const Violation& v, const MeshValue& mesh) {
  std::string axes;
  int count = 0;
  for (int i = 0; i < max_axes; ++i) count += AxisSet{v.axes}.has(i) ? 1 : 0;
  if (count <= 1) return "axis " + quoted(v.axis) + " divides it by " + std::to_string(v.other_extent);
  for (int i = 0, left = count; i < mesh.rank(); ++i) {
    if (!AxisSet{v.axes}.has(i)) continue;
    --left;
    axes += quoted(mesh.axes[i].name) + " (" + std::to_string(mesh.axes[i].size) + ")";
    if (left > 0) axes += left > 1 ? ", " : " and ";
  }
  if (axes.empty()) axes = quoted(v.axis) + " and " + std::to_string(count - 1) + " more";
  return "axes " + axes + " divide it by " + std::to_string(v.other_extent);
}
std::string hint_of_axis(const Name& axis, const MeshValue& mesh) {
  std::vector<std::string_view> names;
  for (const AxisValue& known : mesh.axes) names.push_back(known.name.text);
  const NearestName nearest = nearest_name(axis.text, names);
  return nearest.is_similar ? " (did you mean " + quoted(nearest.name) + "?)" : "";
}
/// Where reading a text stopped, and before what.
MTF_RARE inline std::string describe_stop(const Violation& v) {
  const std::string place = "character " + std::to_string(v.position + 1);
  if (v.extent < 0) return "; something is missing at its end, " + place;
  const char stop = static_cast<char>(v.extent);
  return "; reading stops before " + quoted(std::string_view(&stop, 1)) + ", " + place;
}
}  // namespace detail

std::string describe(const Violation& v, const MeshValue& mesh) {
  std::string facts;
  switch (v.fault) {
    case Fault::axis_used_twice:
      facts = "dims " + quoted(v.other_dim) + " and " + quoted(v.dim) + " are both split over axis " + quoted(v.axis);
      break;
    case Fault::unknown_axis:
      facts = "rule for dim " + quoted(v.dim) + ", axis " + quoted(v.axis) + detail::hint_of_axis(v.axis, mesh);
      break;
    case Fault::repeated_axis: facts = "rule for dim " + quoted(v.dim) + ", axis " + quoted(v.axis); break;
    case Fault::repeated_rule: facts = "dim " + quoted(v.dim); break;
    case Fault::indivisible_extent:
      facts = "dim " + quoted(v.dim) + " has extent " + std::to_string(v.extent) + ", " +
              detail::describe_division(v, mesh);
      break;
    case Fault::empty_dim: facts = "dim " + quoted(v.dim) + " has extent " + std::to_string(v.extent); break;
    case Fault::repeated_dim: facts = "dim " + quoted(v.dim); break;
    case Fault::unequal_extents:
      facts = "dim " + quoted(v.dim) + " has extents " + std::to_string(v.other_extent) + " and " +
              std::to_string(v.extent);
      break;
    case Fault::missing_dim: facts = "dim " + quoted(v.dim); break;
    case Fault::too_many_elements:
      facts = "dim " + quoted(v.dim) + " has extent " + std::to_string(v.extent) + ", the dims before it " +
              std::to_string(v.other_extent) + " elements";
      break;
    case Fault::too_many_dims: facts = std::to_string(v.extent) + " dims"; break;
    case Fault::missing_axis_size: facts = "axis " + quoted(v.axis) + " has a dynamic size"; break;
    case Fault::other_axis_size:
      facts = "axis " + quoted(v.axis) + " has static size " + std::to_string(v.other_extent) +
              ", the mesh text says " + std::to_string(v.extent);
      break;
    case Fault::extra_axis: facts = "axis " + quoted(v.axis) + detail::hint_of_axis(v.axis, mesh); break;
    case Fault::malformed_layout:
    case Fault::repeated_mesh_axis:
    case Fault::empty_axis:
    case Fault::too_many_axes:
    case Fault::too_many_processors:
    case Fault::too_many_rules: facts = quoted(v.dim); break;
  }
  const std::string text = facts + ": " + std::string(sentence(v.fault));
  return v.fault == Fault::malformed_layout ? text + detail::describe_stop(v) : text;
}

void raise(std::string_view operation, const Violations& violations) { raise(operation, {}, violations); }

void raise(std::string_view operation, const MeshValue& mesh, const Violations& violations) {
  std::string text = "mtf: " + std::string(operation) + (mesh.axes.empty() ? "" : " on mesh " + describe(mesh)) + ": ";
  for (int i = 0; i < violations.size(); ++i) {
    if (i > 0) text += "\n  and ";
    text += describe(violations[i], mesh);
  }
  if (violations.omitted > 0) text += "\n  and " + std::to_string(violations.omitted) + " more";
  throw plan_error(text);
}

void raise(std::string_view operation, const std::string& what) {
  throw plan_error("mtf: " + std::string(operation) + ": " + what);
}

void raise(std::string_view operation, const char* what) { raise(operation, std::string(what)); }

void raise_parameter(std::string_view operation, const char* parameter, double value, const char* permitted) {
  char text[40];
  for (int digits = 6; digits <= 17; ++digits) {  // the fewest that tell the number from its neighbours
    std::snprintf(text, sizeof text, "%.*g", digits, value);
    if (std::strtod(text, nullptr) == value) break;
  }
  raise(operation, std::string(parameter) + " is " + (value != value ? "nan" : text) + "; it has to be " + permitted);
}

#endif

}  // namespace v0
}  // namespace mtf
