// check_layouts: a program under layouts against the program on one rank.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <mtf/testing/host_results.hpp>
#include <mtf/testing/layout_report.hpp>
#include <mtf/world/world.hpp>

namespace mtf {
inline namespace v0 {

struct LayoutCheck {
  std::string_view mesh{};  ///< sizes of the dynamic axes of a mesh that is a type
  /// Of floating-point results, relative to the largest magnitude in each; left out: by the element type of the result,
  /// 1e-12 for double, 1e-5 for float, 2e-2 for bfloat16. Long sums, and results of a finer type than what they were
  /// computed in, want more.
  std::optional<double> tolerance{};
  /// Layouts that the program refuses are counted and not an error: for lists that serve several meshes.
  bool skip_illegal = false;
  MPI_Comm comm = MPI_COMM_WORLD;
  std::uint64_t seed = 0;  ///< of the worlds: of the initial values of variables
};

/// A list of texts, made of one in braces or of strings.
class Texts {
 public:
  Texts(std::initializer_list<std::string_view> items) : items_(items.begin(), items.end()) {}
  Texts(std::vector<std::string> items) : items_(std::move(items)) {}
  [[nodiscard]] auto begin() const { return items_.begin(); }
  [[nodiscard]] auto end() const { return items_.end(); }

 private:
  std::vector<std::string> items_;
};

/// Every mesh of so many processors with these axes, in this order, sizes of 1 among them: "rows:1;cols:4",
/// "rows:2;cols:2", "rows:4;cols:1".
[[nodiscard]] inline Texts all_meshes(std::int64_t processors, std::initializer_list<std::string_view> axes) {
  std::vector<std::string> meshes{{}};
  std::vector<std::int64_t> rest{processors};
  for (std::size_t axis = 0; axis < axes.size(); ++axis) {
    std::vector<std::string> longer;
    std::vector<std::int64_t> left;
    for (std::size_t i = 0; i < meshes.size(); ++i) {
      for (std::int64_t size = 1; size <= rest[i]; ++size) {
        if (rest[i] % size != 0 || (axis + 1 == axes.size() && size != rest[i])) continue;
        longer.push_back(fmt::format("{}{}{}:{}", meshes[i], axis > 0 ? ";" : "", axes.begin()[axis], size));
        left.push_back(rest[i] / size);
      }
    }
    meshes = std::move(longer);
    rest = std::move(left);
  }
  return meshes;
}

namespace detail {

using OneRankWorld = World<dynamic_mesh, dynamic_layout>;

/// The axes of a mesh, each of size 1, as text.
[[nodiscard]] inline std::string one_rank_mesh(const MeshValue& mesh) {
  std::string text;
  for (const AxisValue& axis : mesh.axes) text += std::string(axis.name.text) + ":1;";
  return text;
}
template <class Program>
HostResults on_one_rank(const Program& program, const std::string& mesh, const LayoutCheck& options) {
  OneRankWorld alone(MPI_COMM_SELF, {.mesh = mesh, .seed = options.seed});
  return results_of_program(program(alone));
}
[[nodiscard]] inline std::string one_rank_mesh(std::string_view mesh) {
  Violations violations;  // which the world of this mesh tells
  return one_rank_mesh(parse_mesh(mesh, violations));
}

/// Takes over the difference of the rank that has the first, so that all ranks tell the same.
inline void take_first(FirstDifference& mine, MPI_Comm comm, std::string_view rank_text) {
  int rank = 0, ranks = 1;
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &ranks);
  const std::int64_t here[2] = {mine.result, mine.element};
  std::vector<std::int64_t> all(2 * static_cast<std::size_t>(ranks));
  check_mpi(MPI_Allgather(here, 2, MPI_INT64_T, all.data(), 2, MPI_INT64_T, comm), "check_layouts");
  int first = -1;
  for (int r = 0; r < ranks; ++r) {
    const auto at = [&](int of) {
      return std::pair(all[2 * static_cast<std::size_t>(of)], all[2 * static_cast<std::size_t>(of) + 1]);
    };
    if (at(r).first >= 0 && (first < 0 || at(r) < at(first))) first = r;
  }
  check_mpi(MPI_Allreduce(MPI_IN_PLACE, &mine.worst, 1, MPI_DOUBLE, MPI_MAX, comm), "check_layouts");
  if (first < 0) return;
  mine.result = all[2 * static_cast<std::size_t>(first)];
  if (rank == first && ranks > 1) mine.what += ", seen by " + std::string(rank_text);
  auto length = static_cast<int>(mine.what.size());
  check_mpi(MPI_Bcast(&length, 1, MPI_INT, first, comm), "check_layouts");
  mine.what.resize(static_cast<std::size_t>(length));
  check_mpi(MPI_Bcast(mine.what.data(), length, MPI_CHAR, first, comm), "check_layouts");
}

/// Runs the program in a world of this type and adds what differs to the report.
template <class WorldType, class Program>
void compare_with_one_rank(const Program& program, const HostResults& expected, const std::string& place,
                           const WorldOptions& world_options, const LayoutCheck& options, LayoutReport& report) {
  try {
    WorldType world(options.comm, world_options);
    FirstDifference found =
        first_difference(results_of_program(program(world)), expected, options.tolerance ? *options.tolerance : -1);
    const bool together = world.verify_replicas();
    ++report.compared;
    take_first(found, world.comm(), world.describe_rank());
    if (!together) {
      if (found.result >= 0) found.what += "; and ";
      found.what += "ranks have run different collectives, or replicas of a variable differ";
    }
    if (found.worst > report.worst) report.worst = found.worst;
    if (found.result >= 0 || !together) report.differences.push_back({place, found.what});
  } catch (const check_failure&) {
    throw;
  } catch (const plan_error& error) {
    std::string why = error.what();
    if (why.starts_with("mtf: ")) why.erase(0, 5);
    if (!options.skip_illegal) throw plan_error("mtf: check_layouts: " + place + ": " + why);
    report.refused.push_back(place + ": " + why);
  }
}

[[nodiscard]] inline std::string place_text(std::string_view mesh, std::string_view layout) {
  return "mesh " + quoted(mesh) + ", layout " + quoted(layout);
}
/// The rules as text.
[[nodiscard]] inline std::string layout_text(const LayoutValue& layout) {
  std::string text;
  for (const Rule& rule : layout.rules) {
    text += (text.empty() ? "" : ";") + std::string(rule.dim.text);
    for (int i = 0; i < rule.axes.size(); ++i) text += (i > 0 ? "," : ":") + std::string(rule.axes[i].text);
    if (rule.optional) text += "?";
  }
  return text;
}
[[nodiscard]] inline std::string mesh_text(const MeshValue& mesh, std::string_view given) {
  if (!given.empty()) return std::string(given);
  const std::string text = describe(mesh);
  return text.substr(1, text.size() - 2);
}

template <class Mesh, class Program, class Layout>
void compare_layout(const Program& program, const HostResults& expected, const LayoutCheck& options,
                    const Layout& layout, LayoutReport& report) {
  const std::string mesh = mesh_text(Mesh::value(), options.mesh);
  if constexpr (layout_like<Layout>) {
    compare_with_one_rank<World<Mesh, Layout>>(program, expected, place_text(mesh, layout_text(Layout::value())),
                                               {.mesh = options.mesh, .seed = options.seed}, options, report);
  } else {
    const std::string_view text = layout;
    compare_with_one_rank<World<Mesh, dynamic_layout>>(program, expected, place_text(mesh, text),
                                                       {.mesh = options.mesh, .layout = text, .seed = options.seed},
                                                       options, report);
  }
}

}  // namespace detail

/// Runs program(world) on one rank without a layout, and in a world of each mesh with each layout; compares what it
/// returns. Meshes and layouts are texts, "rows:2;cols:2" and "batch:rows"; a mesh has as many processors as
/// `options.comm` has ranks. The program takes any world (`[](auto& world) {...}`, or one of
/// World<dynamic_mesh, dynamic_layout>) and returns tensors, numbers, ranges of numbers, or tuples and ranges of these.
/// Every world is new, so it makes its own variables.
///
/// Equal are integers and bools that are, and floating-point elements that are within the tolerance of the largest
/// magnitude in their result. All ranks must have the same results, run the same collectives, and end with the same
/// variables. The report, the same on all ranks, has the first difference under each layout; `report.require()` throws
/// a check_failure unless all is well.
///
/// Throws a plan_error that names mesh and layout where a layout is illegal, unless `options.skip_illegal`.
/// Communication: collective over `options.comm`; what the program sends, its results gathered on every rank, and a
/// few numbers. The program on one rank runs on every rank, alone.
template <class Program>
LayoutReport check_layouts(const Program& program, const Texts& meshes, const Texts& layouts,
                           const LayoutCheck& options = {}) {
  LayoutReport report;
  std::string alone;
  detail::HostResults expected;
  for (const std::string& mesh : meshes) {
    const std::string same_axes = detail::one_rank_mesh(mesh);
    if (same_axes != alone) expected = detail::on_one_rank(program, same_axes, options);
    alone = same_axes;
    for (const std::string& layout : layouts) {
      detail::compare_with_one_rank<detail::OneRankWorld>(program, expected, detail::place_text(mesh, layout),
                                                          {.mesh = mesh, .layout = layout, .seed = options.seed},
                                                          options, report);
    }
  }
  return report;
}

/// The same on a mesh that is a type: `check_layouts<Mesh>(program, DataParallel{}, ModelParallel{}, "batch:rows")`.
/// Each layout is an object of a layout's type, for worlds that the compiler knows, or a text. `options.mesh` has the
/// sizes of dynamic axes.
template <mesh_like Mesh, class Program, class... Layouts>
LayoutReport check_layouts(const Program& program, const LayoutCheck& options, const Layouts&... layouts) {
  static_assert(sizeof...(Layouts) > 0,
                "mtf: check_layouts<Mesh>(program, layouts...) takes at least one layout: an object of its type, or a "
                "text");
  constexpr bool are_layouts =
      ((layout_like<Layouts> || std::is_convertible_v<const Layouts&, std::string_view>) && ...);
  static_assert(are_layouts,
                "mtf: check_layouts: a layout is an object of a struct derived from mtf::Layout<...>, or a text");
  LayoutReport report;
  if constexpr (are_layouts) {
    const detail::HostResults expected = detail::on_one_rank(
        program, Mesh::has_static_names ? detail::one_rank_mesh(Mesh::value()) : detail::one_rank_mesh(options.mesh),
        options);
    (detail::compare_layout<Mesh>(program, expected, options, layouts, report), ...);
  }
  return report;
}
template <mesh_like Mesh, class Program, class First, class... Layouts>
  requires(!std::same_as<First, LayoutCheck>)
LayoutReport check_layouts(const Program& program, const First& first, const Layouts&... layouts) {
  return check_layouts<Mesh>(program, LayoutCheck{}, first, layouts...);
}

}  // namespace v0
}  // namespace mtf
