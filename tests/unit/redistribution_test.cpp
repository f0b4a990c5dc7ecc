// Plans of reshapes, executed for all processors of a mesh side by side on the host and compared with the direct placement of
// the global array.
#include <mtf/plan/redistribution.hpp>

#include <doctest/doctest.h>

#include <random>
#include <string>
#include <vector>

namespace {

using Slice = std::vector<int>;
using Slices = std::vector<Slice>;  // one for each processor
using Kind = mtf::RedistributionStep::Kind;

constexpr mtf::MeshValue mesh_of(std::int64_t p, std::int64_t q, std::int64_t r = 1) {
  mtf::MeshValue mesh;
  mesh.axes.push_back({"p", p});
  mesh.axes.push_back({"q", q});
  mesh.axes.push_back({"r", r});
  return mesh;
}

/// The slices of the array 0, 1, 2, ...
Slices place(const mtf::Placement& placement, const mtf::MeshValue& mesh) {
  Slices slices;
  for (std::int64_t processor = 0; processor < mesh.size(); ++processor) {
    const mtf::Coordinates at = mesh.coordinates(processor);
    Slice slice;
    for (std::int64_t local = 0; local < placement.local_size(); ++local) {
      std::int64_t rest = local;
      std::int64_t global = 0;
      std::int64_t stride = 1;
      for (int d = placement.rank() - 1; d >= 0; --d) {
        const mtf::PlacedDim& dim = placement.dims[d];
        global += (mtf::slice_begin(dim, mesh, at) + rest % dim.local()) * stride;
        rest /= dim.local();
        stride *= dim.extent;
      }
      slice.push_back(static_cast<int>(global));
    }
    slices.push_back(slice);
  }
  return slices;
}

/// Part `which` of the middle dim of [outer, parts, inner].
Slice part_of(const Slice& slice, std::int64_t outer, std::int64_t parts, std::int64_t inner, std::int64_t which) {
  REQUIRE(static_cast<std::int64_t>(slice.size()) == outer * parts * inner);
  Slice part;
  for (std::int64_t o = 0; o < outer; ++o) {
    for (std::int64_t i = 0; i < inner; ++i) part.push_back(slice[static_cast<std::size_t>((o * parts + which) * inner + i)]);
  }
  return part;
}
/// [outer, parts, inner] from its parts.
Slice join(const Slices& parts, std::int64_t outer, std::int64_t inner) {
  Slice slice;
  for (std::int64_t o = 0; o < outer; ++o) {
    for (const Slice& part : parts) {
      REQUIRE(static_cast<std::int64_t>(part.size()) == outer * inner);
      for (std::int64_t i = 0; i < inner; ++i) slice.push_back(part[static_cast<std::size_t>(o * inner + i)]);
    }
  }
  return slice;
}

Slices execute(const mtf::Redistribution& plan, Slices slices, const mtf::MeshValue& mesh) {
  for (const mtf::RedistributionStep& step : plan.steps) {
    const std::int64_t size = mesh.axes[step.axis].size;
    Slices next;
    for (std::int64_t processor = 0; processor < mesh.size(); ++processor) {
      mtf::Coordinates at = mesh.coordinates(processor);
      const std::int64_t own = at[step.axis];
      if (step.kind == Kind::slice) {
        next.push_back(part_of(slices[static_cast<std::size_t>(processor)], step.outer, size, step.inner, own));
        continue;
      }
      Slices parts;
      for (std::int64_t member = 0; member < size; ++member) {
        at[step.axis] = member;
        const Slice& from = slices[static_cast<std::size_t>(mesh.processor(at))];
        parts.push_back(step.kind == Kind::gather ? from : part_of(from, step.outer, size, step.inner, own));
      }
      next.push_back(step.kind == Kind::gather ? join(parts, step.outer, step.inner) : join(parts, step.other_outer, step.other_inner));
    }
    slices = next;
  }
  return slices;
}

const std::vector<std::string> names{"a", "b", "c", "d"};

/// Dims with, for each mesh axis, the number of the dim that it splits (-1: none).
mtf::Placement placement_of(const std::vector<std::int64_t>& extents, const std::vector<int>& dim_of_axis, const mtf::MeshValue& mesh) {
  mtf::Placement placement;
  for (std::size_t d = 0; d < extents.size(); ++d) {
    mtf::PlacedDim dim;
    dim.name = mtf::Name(names[d]);
    dim.extent = extents[d];
    for (std::size_t axis = 0; axis < dim_of_axis.size(); ++axis) {
      if (dim_of_axis[axis] == static_cast<int>(d)) dim.axes.push_back(static_cast<std::int8_t>(axis));
    }
    dim.parts = mesh.size(mtf::set_of(dim.axes));
    placement.dims.push_back(dim);
  }
  return placement;
}

bool divisible(const mtf::Placement& placement) {
  for (const mtf::PlacedDim& dim : placement.dims) {
    if (dim.extent % dim.parts != 0) return false;
  }
  return true;
}

std::string describe(const mtf::Placement& placement, const mtf::MeshValue& mesh) {
  std::string text;
  for (const mtf::PlacedDim& dim : placement.dims) {
    text += std::to_string(dim.extent);
    for (const std::int8_t axis : dim.axes) text += std::string(mesh.axes[axis].name.text) + std::to_string(mesh.axes[axis].size);
    text += " ";
  }
  return text;
}

/// Number of steps of each kind, in the order slice, all-to-all, gather.
std::string kinds(const mtf::Redistribution& plan) {
  std::string text;
  for (const mtf::RedistributionStep& step : plan.steps) text += step.kind == Kind::slice ? "s" : step.kind == Kind::all_to_all ? "x" : "g";
  return text;
}

/// The run of global indices that an axis chooses from: it selects bits, so to say, from `low` up to `high`. {0, 0}: no dim is split.
struct Span {
  std::int64_t low = 0, high = 0;
};
Span span_of(const mtf::Placement& placement, int axis, const mtf::MeshValue& mesh) {
  std::int64_t below = 1;
  for (int d = placement.rank() - 1; d >= 0; --d) {
    const mtf::PlacedDim& dim = placement.dims[d];
    std::int64_t stride = below * dim.local();
    for (int i = dim.axes.size() - 1; i >= 0; --i) {
      const std::int64_t size = mesh.axes[dim.axes[i]].size;
      if (dim.axes[i] == axis) return {stride, stride * size};
      stride *= size;
    }
    below *= dim.extent;
  }
  return {};
}

/// Whether a dim of the placement begins or ends inside the span.
bool cuts(const mtf::Placement& placement, const Span& span) {
  std::int64_t below = 1;
  for (int d = placement.rank() - 1; d >= 0; --d) {
    below *= placement.dims[d].extent;
    if (span.low < below && below < span.high) return true;
  }
  return false;
}

/// Plans and simulates; whether the plan was possible.
bool check(const mtf::Placement& from, const mtf::Placement& to, const mtf::MeshValue& mesh) {
  CAPTURE(describe(from, mesh));
  CAPTURE(describe(to, mesh));
  const mtf::Redistribution plan = mtf::plan_redistribution(from, to, mesh);
  if (!plan.possible) return false;
  CHECK(execute(plan, place(from, mesh), mesh) == place(to, mesh));
  if (from == to) CHECK(plan.steps.empty());
  return true;
}

constexpr bool plans_in_constant_expressions() {
  const mtf::MeshValue mesh = mesh_of(2, 2);
  mtf::Placement from;
  from.dims.push_back({"a", 4, 2, {{0}, 1}});
  mtf::Placement to;
  to.dims.push_back({"b", 4, 1, {}});
  const auto plan = mtf::plan_redistribution(from, to, mesh);
  return plan.possible && plan.steps.size() == 1 && plan.steps[0].kind == Kind::gather;
}
static_assert(plans_in_constant_expressions());

}  // namespace

TEST_CASE("plans in constant expressions and at run time") { CHECK(plans_in_constant_expressions()); }

TEST_CASE("golden reshapes") {
  const mtf::MeshValue mesh = mesh_of(2, 2);
  const auto planned = [&](const std::vector<std::int64_t>& from, const std::vector<int>& old_axes, const std::vector<std::int64_t>& to,
                           const std::vector<int>& new_axes) {
    const auto before = placement_of(from, old_axes, mesh);
    const auto after = placement_of(to, new_axes, mesh);
    CHECK(check(before, after, mesh));
    return kinds(mtf::plan_redistribution(before, after, mesh));
  };
  CHECK(planned({4, 4}, {0}, {4, 4}, {-1}) == "g");
  CHECK(planned({4, 4}, {0}, {4, 4}, {1}) == "x");
  CHECK(planned({4, 4}, {0}, {4, 4}, {0}).empty());
  CHECK(planned({4, 4}, {0}, {2, 8}, {0}).empty());
  CHECK(planned({4, 3}, {0}, {12}, {0}).empty());
  CHECK(planned({4, 4}, {-1}, {4, 4}, {1}) == "s");
  CHECK(planned({4, 4}, {0, 1}, {4, 4}, {-1, 1}) == "g");
  CHECK(planned({4, 4}, {0, 1}, {4, 4}, {-1, -1}) == "gg");
  CHECK(planned({4, 4}, {0, 0}, {4, 4}, {0, 0}).empty());
  SUBCASE("the slice of processor 0 after the all-to-all") {
    const auto from = placement_of({4, 4}, {0}, mesh);
    const auto to = placement_of({4, 4}, {1}, mesh);
    CHECK(execute(mtf::plan_redistribution(from, to, mesh), place(from, mesh), mesh)[0] == Slice{0, 1, 4, 5, 8, 9, 12, 13});
  }
}

TEST_CASE("one axis: every pair of splits is possible whose parts are cut neither by each other nor by the other shape") {
  for (const std::int64_t p : {1, 2, 4}) {
    const mtf::MeshValue mesh = mesh_of(p, 1);
    for (const std::vector<std::int64_t>& from : {std::vector<std::int64_t>{4, 8, 4}, {16, 8}, {128}, {4, 4, 8}, {8, 4, 4}}) {
      for (const std::vector<std::int64_t>& to : {std::vector<std::int64_t>{4, 8, 4}, {16, 8}, {128}, {4, 4, 8}, {8, 4, 4}}) {
        for (int old_dim = -1; old_dim < static_cast<int>(from.size()); ++old_dim) {
          for (int new_dim = -1; new_dim < static_cast<int>(to.size()); ++new_dim) {
            const auto before = placement_of(from, {old_dim}, mesh);
            const auto after = placement_of(to, {new_dim}, mesh);
            const Span old_span = span_of(before, 0, mesh);
            const Span new_span = span_of(after, 0, mesh);
            const bool same = old_span.low == new_span.low;
            const bool apart = old_span.high <= new_span.low || new_span.high <= old_span.low;
            CAPTURE(old_dim);
            CAPTURE(new_dim);
            if (!check(before, after, mesh)) {
              CHECK((cuts(after, old_span) || cuts(before, new_span) || !(same || apart)));
              continue;
            }
            const std::string steps = kinds(mtf::plan_redistribution(before, after, mesh));
            CHECK(steps == (p == 1 || same ? "" : old_dim < 0 ? "s" : new_dim < 0 ? "g" : "x"));
          }
        }
      }
    }
  }
}

TEST_CASE("two axes: every pair of splits is right or refused, and only what must be is refused") {
  for (const auto& [p, q] : {std::pair<int, int>{2, 2}, {2, 4}, {4, 2}, {1, 4}}) {
    const mtf::MeshValue mesh = mesh_of(p, q);
    const std::vector<std::int64_t> extents{8, 8, 8};
    for (int choice = 0; choice < 256; ++choice) {
      const int old_p = choice % 4 - 1, old_q = choice / 4 % 4 - 1, new_p = choice / 16 % 4 - 1, new_q = choice / 64 - 1;
      const auto from = placement_of(extents, {old_p, old_q}, mesh);
      const auto to = placement_of(extents, {new_p, new_q}, mesh);
      const bool done = check(from, to, mesh);
      // The dims are the same, so each axis moves from dim to dim. Only a trade of places, or a dim where the other axis
      // stands in the way, may be refused.
      const bool in_the_way = (old_p == new_q && old_p >= 0) || (old_q == new_p && old_q >= 0) || (old_p == old_q && old_p >= 0) ||
                              (new_p == new_q && new_p >= 0);
      CAPTURE(choice);
      if (!in_the_way) CHECK(done);
    }
  }
}

TEST_CASE("two axes that trade places are refused, not corrupted") {
  const mtf::MeshValue mesh = mesh_of(2, 2);
  const auto from = placement_of({4, 4}, {0, 1}, mesh);
  const auto to = placement_of({4, 4}, {1, 0}, mesh);
  CHECK_FALSE(mtf::plan_redistribution(from, to, mesh).possible);
}

TEST_CASE("random shapes and meshes of three axes") {
  std::mt19937 random(17);
  const auto draw = [&](int below) { return static_cast<int>(random() % static_cast<unsigned>(below)); };
  int possible = 0;
  for (int round = 0; round < 4000; ++round) {
    const mtf::MeshValue mesh = mesh_of(1 + draw(3), 1 + draw(3), 1 + draw(3));
    // The same factors, grouped differently.
    std::vector<std::int64_t> factors;
    for (int i = 0; i < 4; ++i) factors.push_back(std::vector<std::int64_t>{1, 2, 3, 4, 6, 2}[static_cast<std::size_t>(draw(6))]);
    const auto group = [&] {
      std::vector<std::int64_t> extents{1};
      for (std::size_t i = 0; i < factors.size(); ++i) {
        if (i > 0 && draw(2) == 0) extents.push_back(1);
        extents.back() *= factors[i];
      }
      return extents;
    };
    const auto assign = [&](std::size_t rank) {
      std::vector<int> axes;
      for (int axis = 0; axis < 3; ++axis) axes.push_back(draw(static_cast<int>(rank) + 1) - 1);
      return axes;
    };
    const auto old_extents = group();
    const auto new_extents = group();
    const auto from = placement_of(old_extents, assign(old_extents.size()), mesh);
    const auto to = placement_of(new_extents, assign(new_extents.size()), mesh);
    if (!divisible(from) || !divisible(to)) continue;
    possible += check(from, to, mesh) ? 1 : 0;
    CHECK(check(from, from, mesh));
  }
  CHECK(possible > 500);
}
