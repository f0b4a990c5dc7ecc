// Plans of reshapes, executed for all processors of a mesh side by side on the host and compared with the direct
// placement of the global array.
#include <algorithm>
#include <random>
#include <set>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <mtf/plan/redistribution.hpp>

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
    for (std::int64_t i = 0; i < inner; ++i)
      part.push_back(slice[static_cast<std::size_t>((o * parts + which) * inner + i)]);
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

/// What all processors together received in the steps that were executed.
std::int64_t received = 0;

/// Global offset of element `index` of a part.
std::int64_t element_of(const mtf::Loop& loop, int operand, std::int64_t index) {
  std::int64_t offset = 0;
  for (int d = loop.dims.size() - 1; d >= 0; --d) {
    offset += index % loop.dims[d].extent * loop.dims[d].strides[operand];
    index /= loop.dims[d].extent;
  }
  return offset;
}

/// Every processor's plan at once: what one sends is what the other receives, in the same order.
Slices exchange(const mtf::Atoms& atoms, const Slices& slices, const mtf::MeshValue& mesh, std::int64_t target_size) {
  std::vector<mtf::ExchangePlan> plans;
  for (std::int64_t processor = 0; processor < mesh.size(); ++processor)
    plans.push_back(mtf::plan_moves(atoms, mesh, mesh.coordinates(processor)));
  Slices result(slices.size(), Slice(static_cast<std::size_t>(target_size), -1));
  const auto member_of = [&](std::int64_t processor, std::int64_t member) {
    for (std::int64_t other = 0; other < mesh.size(); ++other) {
      const auto at = mesh.coordinates(other);
      const mtf::AxisSet axes = plans[0].axes;
      const mtf::AxisSet rest = mesh.all() - axes;
      if (mesh.position(at, axes) == member &&
          mesh.position(at, rest) == mesh.position(mesh.coordinates(processor), rest))
        return other;
    }
    return std::int64_t{-1};
  };
  bool moved = false;
  for (std::int64_t processor = 0; processor < mesh.size(); ++processor) {
    const mtf::ExchangePlan& plan = plans[static_cast<std::size_t>(processor)];
    const std::int64_t size = plan.size_of_part(1);
    const auto move = [&](std::int64_t from, std::int64_t source, std::int64_t target) {
      for (std::int64_t i = 0; i < size; ++i) {
        int& to = result[static_cast<std::size_t>(processor)]
                        [static_cast<std::size_t>(target + element_of(plan.loop, mtf::ExchangePlan::target, i))];
        CHECK(to == -1);  // nothing arrives twice
        to = slices[static_cast<std::size_t>(from)]
                   [static_cast<std::size_t>(source + element_of(plan.loop, mtf::ExchangePlan::source, i))];
      }
    };
    for (const mtf::KeptPart& part : plan.kept) move(processor, part.source, part.target);
    for (const mtf::ExchangePart& part : plan.received) {
      moved = true;
      received += size;
      const std::int64_t from = member_of(processor, part.member);
      const mtf::ExchangePlan& sender = plans[static_cast<std::size_t>(from)];
      const std::int64_t me = mesh.position(mesh.coordinates(processor), plan.axes);
      int found = 0;
      for (const mtf::ExchangePart& sent : sender.sent) {
        if (sent.member != me) continue;
        ++found;
        move(from, sent.offset, part.offset);
      }
      CHECK(found == 1);
    }
  }
  CHECK(moved == plans[0].communicates);
  return result;
}

Slices execute(const mtf::Redistribution& plan, Slices slices, const mtf::MeshValue& mesh, std::int64_t target_size) {
  for (const mtf::RedistributionStep& step : plan.steps) {
    if (step.kind == Kind::exchange) {
      slices = exchange(plan.atoms, slices, mesh, target_size);
      continue;
    }
    const std::int64_t size = mesh.axes[step.axis].size;
    Slices next;
    for (std::int64_t processor = 0; processor < mesh.size(); ++processor) {
      mtf::Coordinates at = mesh.coordinates(processor);
      const std::int64_t own = at[step.axis];
      if (step.kind == Kind::slice) {
        next.push_back(part_of(slices[static_cast<std::size_t>(processor)], step.outer, size, step.inner, own));
        continue;
      }
      received += static_cast<std::int64_t>(slices[0].size()) * (size - 1) / (step.kind == Kind::gather ? 1 : size);
      Slices parts;
      for (std::int64_t member = 0; member < size; ++member) {
        at[step.axis] = member;
        const Slice& from = slices[static_cast<std::size_t>(mesh.processor(at))];
        parts.push_back(step.kind == Kind::gather ? from : part_of(from, step.outer, size, step.inner, own));
      }
      next.push_back(step.kind == Kind::gather ? join(parts, step.outer, step.inner)
                                               : join(parts, step.other_outer, step.other_inner));
    }
    slices = next;
  }
  return slices;
}

const std::vector<std::string> names{"a", "b", "c", "d"};

/// Dims with, for each mesh axis, the number of the dim that it splits (-1: none).
mtf::Placement placement_of(const std::vector<std::int64_t>& extents, const std::vector<int>& dim_of_axis,
                            const mtf::MeshValue& mesh) {
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
    for (const std::int8_t axis : dim.axes)
      text += std::string(mesh.axes[axis].name.text) + std::to_string(mesh.axes[axis].size);
    text += " ";
  }
  return text;
}

/// The steps in order: slice, all-to-all (x), gather, exchange.
std::string kinds(const mtf::Redistribution& plan) {
  std::string text;
  for (const mtf::RedistributionStep& step : plan.steps) text += "sxge"[static_cast<int>(step.kind)];
  return text;
}

/// The run of global indices that an axis chooses from: it selects bits, so to say, from `low` up to `high`. {0, 0}: no
/// dim is split.
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

/// Plans and simulates.
void check(const mtf::Placement& from, const mtf::Placement& to, const mtf::MeshValue& mesh) {
  CAPTURE(describe(from, mesh));
  CAPTURE(describe(to, mesh));
  const mtf::Redistribution plan = mtf::plan_redistribution(from, to, mesh);
  CHECK(execute(plan, place(from, mesh), mesh, to.local_size()) == place(to, mesh));
  if (from == to) CHECK(plan.steps.empty());
}

constexpr bool plans_in_constant_expressions() {
  const mtf::MeshValue mesh = mesh_of(2, 2);
  mtf::Placement from;
  from.dims.push_back({"a", 4, 2, {{0}, 1}});
  mtf::Placement to;
  to.dims.push_back({"b", 4, 1, {}});
  const auto plan = mtf::plan_redistribution(from, to, mesh);
  return plan.steps.size() == 1 && plan.steps[0].kind == Kind::gather;
}
static_assert(plans_in_constant_expressions());

}  // namespace

TEST_CASE("plans in constant expressions and at run time") { CHECK(plans_in_constant_expressions()); }

TEST_CASE("golden reshapes") {
  const mtf::MeshValue mesh = mesh_of(2, 2);
  const auto planned = [&](const std::vector<std::int64_t>& from, const std::vector<int>& old_axes,
                           const std::vector<std::int64_t>& to, const std::vector<int>& new_axes) {
    const auto before = placement_of(from, old_axes, mesh);
    const auto after = placement_of(to, new_axes, mesh);
    check(before, after, mesh);
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
    CHECK(execute(mtf::plan_redistribution(from, to, mesh), place(from, mesh), mesh, to.local_size())[0] ==
          Slice{0, 1, 4, 5, 8, 9, 12, 13});
  }
}

TEST_CASE(
    "reshape, resharding: one axis: every pair of splits is possible, by one collective if its parts are cut neither "
    "by each other nor by the other shape") {
  for (const std::int64_t p : {1, 2, 4}) {
    const mtf::MeshValue mesh = mesh_of(p, 1);
    for (const std::vector<std::int64_t>& from :
         {std::vector<std::int64_t>{4, 8, 4}, {16, 8}, {128}, {4, 4, 8}, {8, 4, 4}}) {
      for (const std::vector<std::int64_t>& to :
           {std::vector<std::int64_t>{4, 8, 4}, {16, 8}, {128}, {4, 4, 8}, {8, 4, 4}}) {
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
            check(before, after, mesh);
            const std::string steps = kinds(mtf::plan_redistribution(before, after, mesh));
            if (cuts(after, old_span) || cuts(before, new_span) || !(same || apart)) continue;
            CHECK(steps == (p == 1 || same ? "" : old_dim < 0 ? "s" : new_dim < 0 ? "g" : "x"));
          }
        }
      }
    }
  }
}

TEST_CASE("two axes: every pair of splits") {
  for (const auto& [p, q] : {std::pair<int, int>{2, 2}, {2, 4}, {4, 2}, {1, 4}}) {
    const mtf::MeshValue mesh = mesh_of(p, q);
    const std::vector<std::int64_t> extents{8, 8, 8};
    for (int choice = 0; choice < 256; ++choice) {
      const int old_p = choice % 4 - 1, old_q = choice / 4 % 4 - 1, new_p = choice / 16 % 4 - 1,
                new_q = choice / 64 - 1;
      CAPTURE(choice);
      const auto from = placement_of(extents, {old_p, old_q}, mesh);
      const auto to = placement_of(extents, {new_p, new_q}, mesh);
      received = 0;
      check(from, to, mesh);
      // No plan can move less than what each processor lacks.
      std::int64_t lacking = 0;
      const Slices old_slices = place(from, mesh);
      const Slices new_slices = place(to, mesh);
      for (std::size_t i = 0; i < new_slices.size(); ++i) {
        const std::set<int> had(old_slices[i].begin(), old_slices[i].end());
        lacking += std::count_if(new_slices[i].begin(), new_slices[i].end(), [&](int x) { return !had.contains(x); });
      }
      CHECK(received == lacking);
    }
  }
}

TEST_CASE("reshape, resharding: two axes that trade places do it in one exchange") {
  for (const auto& [p, q] : {std::pair<int, int>{2, 2}, {2, 4}, {3, 6}, {4, 4}}) {
    const mtf::MeshValue mesh = mesh_of(p, q);
    const auto from = placement_of({12, 24}, {0, 1}, mesh);
    const auto to = placement_of({12, 24}, {1, 0}, mesh);
    if (!divisible(from) || !divisible(to)) continue;
    check(from, to, mesh);
    CHECK(kinds(mtf::plan_redistribution(from, to, mesh)) == "e");
  }
}

TEST_CASE("reshape, resharding: a split that the other shape cuts elsewhere is gathered, and only that") {
  const mtf::MeshValue mesh = mesh_of(3, 2);
  const auto from = placement_of({6, 4}, {0, 1}, mesh);  // 3 of p, 2 local; 2 of q, 2 local
  const auto to = placement_of({4, 6}, {-1, -1}, mesh);
  check(from, to, mesh);
  const auto kept = placement_of({8, 3}, {-1, 0}, mesh);
  check(placement_of({6, 4}, {0}, mesh), kept, mesh);
  CHECK(kinds(mtf::plan_redistribution(placement_of({6, 4}, {0}, mesh), kept, mesh)) == "gs");
}

TEST_CASE("random shapes and meshes of three axes") {
  std::mt19937 random(17);
  const auto draw = [&](int below) { return static_cast<int>(random() % static_cast<unsigned>(below)); };
  int cases = 0;
  for (int round = 0; round < 4000; ++round) {
    const mtf::MeshValue mesh = mesh_of(1 + draw(3), 1 + draw(3), 1 + draw(3));
    // The same factors, grouped differently.
    std::vector<std::int64_t> factors;
    for (int i = 0; i < 4; ++i)
      factors.push_back(std::vector<std::int64_t>{1, 2, 3, 4, 6, 2}[static_cast<std::size_t>(draw(6))]);
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
    ++cases;
    check(from, to, mesh);
    check(from, from, mesh);
    if (round % 4 == 0) {  // sizes that have nothing in common but their product
      std::vector<std::int64_t> others;
      std::int64_t rest = from.size();
      while (rest > 1 && others.size() < 3) {
        std::int64_t divisor = 1 + draw(static_cast<int>(rest));
        while (rest % divisor != 0) --divisor;
        others.push_back(divisor);
        rest /= divisor;
      }
      others.push_back(rest);
      const auto other = placement_of(others, assign(others.size()), mesh);
      if (divisible(other)) check(from, other, mesh);
    }
  }
  CHECK(cases > 500);
}
