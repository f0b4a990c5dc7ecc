// Plans of reshapes, executed for all processors of a mesh side by side on the host and compared with the direct
// placement of the global array.
#include <algorithm>
#include <random>
#include <set>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <mtf/plan/moves.hpp>
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

/// Every processor's plan at once: what one sends, packed, is what the other unpacks.
Slices exchange(const mtf::Redistribution& moved, const Slices& slices, const mtf::MeshValue& mesh,
                std::int64_t target_size) {
  std::vector<mtf::ExchangePlan> plans;
  for (std::int64_t processor = 0; processor < mesh.size(); ++processor)
    plans.push_back(mtf::plan_moves(moved.factors, mesh, mesh.coordinates(processor)));
  Slices result(slices.size(), Slice(static_cast<std::size_t>(target_size), -1));
  bool moves = false;
  for (std::int64_t processor = 0; processor < mesh.size(); ++processor) {
    const mtf::ExchangePlan& plan = plans[static_cast<std::size_t>(processor)];
    Slice& target = result[static_cast<std::size_t>(processor)];
    const auto put = [&](std::int64_t offset, int element) {
      REQUIRE(offset >= 0);
      REQUIRE(offset < target_size);
      CHECK(target[static_cast<std::size_t>(offset)] == -1);  // nothing arrives twice
      target[static_cast<std::size_t>(offset)] = element;
    };
    const auto got = [](const Slice& slice, std::int64_t offset) { return slice.at(static_cast<std::size_t>(offset)); };
    for (const mtf::KeptPart& part : plan.kept) {
      const mtf::Loop loop = plan.moving(part);
      for (std::int64_t i = 0; i < plan.size_of_part(part); ++i) {
        put(part.target + element_of(loop, mtf::ExchangePlan::target, i),
            got(slices[static_cast<std::size_t>(processor)],
                part.source + element_of(loop, mtf::ExchangePlan::source, i)));
      }
    }
    const std::int64_t me = mesh.position(mesh.coordinates(processor), plan.axes);
    for (std::int64_t member = 0; member < plan.members; ++member) {
      const auto from =
          static_cast<std::size_t>(mesh.processor(mesh.member(mesh.coordinates(processor), plan.axes, member)));
      Slice message;
      for (const mtf::ExchangePart& part : plans[from].sent) {
        if (part.member != me) continue;
        const mtf::Loop loop = plan.packing(part, mtf::ExchangePlan::source, true).loop;
        const std::size_t begin = message.size();
        message.resize(begin + static_cast<std::size_t>(plan.size_of_part(part)));
        for (std::int64_t i = 0; i < plan.size_of_part(part); ++i) {
          message[begin + static_cast<std::size_t>(element_of(loop, 0, i))] =
              got(slices[from], part.offset + element_of(loop, 1, i));
        }
      }
      std::int64_t unpacked = 0;
      for (const mtf::ExchangePart& part : plan.received) {
        if (part.member != member) continue;
        moves = true;
        const mtf::Loop loop = plan.packing(part, mtf::ExchangePlan::target, false).loop;
        for (std::int64_t i = 0; i < plan.size_of_part(part); ++i)
          put(part.offset + element_of(loop, 0, i), got(message, unpacked + element_of(loop, 1, i)));
        unpacked += plan.size_of_part(part);
      }
      CHECK(unpacked == std::ssize(message));
      received += unpacked;
    }
  }
  CHECK(moves == plans[0].communicates);
  return result;
}

Slices execute(const mtf::Redistribution& plan, Slices slices, const mtf::MeshValue& mesh, std::int64_t target_size) {
  for (const mtf::RedistributionStep& step : plan.steps) {
    if (step.kind == Kind::exchange) {
      slices = exchange(plan, slices, mesh, target_size);
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

/// What the processors lack, all together.
std::int64_t lacking(const Slices& old_slices, const Slices& new_slices) {
  std::int64_t sum = 0;
  for (std::size_t i = 0; i < new_slices.size(); ++i) {
    const std::set<int> had(old_slices[i].begin(), old_slices[i].end());
    sum += std::count_if(new_slices[i].begin(), new_slices[i].end(), [&](int x) { return !had.contains(x); });
  }
  return sum;
}

/// Plans and simulates: every slice is right, and nothing is received that was there, or twice.
void check(const mtf::Placement& from, const mtf::Placement& to, const mtf::MeshValue& mesh) {
  CAPTURE(describe(from, mesh));
  CAPTURE(describe(to, mesh));
  const mtf::Redistribution plan = mtf::plan_redistribution(from, to, mesh);
  CAPTURE(kinds(plan));
  received = 0;
  const Slices old_slices = place(from, mesh);
  const Slices new_slices = place(to, mesh);
  CHECK(execute(plan, old_slices, mesh, to.local_size()) == new_slices);
  CHECK(received == lacking(old_slices, new_slices));
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

/// [3, 4] with 4 split as [12] split: each of four processors keeps one of its three elements.
constexpr bool plans_exchanges_in_constant_expressions() {
  mtf::MeshValue mesh;
  mesh.axes.push_back({"p", 4});
  mtf::Placement from;
  from.dims.push_back({"c", 3, 1, {}});
  from.dims.push_back({"a", 4, 4, {{0}, 1}});
  mtf::Placement to;
  to.dims.push_back({"m", 12, 4, {{0}, 1}});
  const auto plan = mtf::plan_redistribution(from, to, mesh);
  if (plan.steps.size() != 1 || plan.steps[0].kind != Kind::exchange) return false;
  const auto moves = mtf::plan_moves(plan.factors, mesh, mesh.coordinates(0));
  return moves.communicates && moves.kept.size() == 1 && moves.written() == 3;
}
static_assert(plans_exchanges_in_constant_expressions());

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
      check(from, to, mesh);
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

TEST_CASE("reshape, resharding: where the other shape cuts a split elsewhere, what is lacked moves in one exchange") {
  const auto planned = [](const mtf::MeshValue& mesh, const std::vector<std::int64_t>& from,
                          const std::vector<int>& old_axes, const std::vector<std::int64_t>& to,
                          const std::vector<int>& new_axes) {
    const auto before = placement_of(from, old_axes, mesh);
    const auto after = placement_of(to, new_axes, mesh);
    check(before, after, mesh);
    check(after, before, mesh);
    check(before, after, mesh);
    return kinds(mtf::plan_redistribution(before, after, mesh)) + " " + std::to_string(received);
  };
  const mtf::MeshValue mesh = mesh_of(3, 2);
  CHECK(planned(mesh, {6, 4}, {0, 1}, {4, 6}, {-1, -1}) == "gg 120");  // all is lacked, which gathers bring
  CHECK(planned(mesh, {6, 4}, {0}, {8, 3}, {1}) == "e 32");
  CHECK(planned(mesh, {6, 4}, {0}, {4, 6}, {-1, 1}) == "e 48");
  CHECK(planned(mesh_of(4, 1), {3, 4}, {1}, {12}, {0}) == "e 8");
  CHECK(planned(mesh_of(3, 2), {6, 4, 6, 4}, {0, 2}, {4, 6, 4, 6}, {1, 3}).starts_with("e "));
  CHECK(planned(mesh_of(2, 3), {4, 9, 5}, {0, 1}, {6, 6, 5}, {1, 0}).starts_with("e "));
}

TEST_CASE("what slices have in common is found in groups of runs, without walking through elements") {
  // 3 N as [N, 3] with 3 split and as [3, N] with 3 split, and N has no factor 3.
  const std::int64_t n = (std::int64_t{1} << 40) + 1;
  const mtf::MeshValue mesh = mesh_of(3, 1);
  REQUIRE(n % 3 != 0);
  const auto plan = mtf::plan_redistribution(placement_of({n, 3}, {1}, mesh), placement_of({3, n}, {0}, mesh), mesh);
  CHECK(kinds(plan) == "e");
  std::int64_t written = 0;
  for (std::int64_t processor = 0; processor < 3; ++processor) {
    const auto moves = mtf::plan_moves(plan.factors, mesh, mesh.coordinates(processor));
    CHECK(moves.kept.size() + moves.received.size() <= 9);
    CHECK(moves.sent.size() <= 6);
    written += moves.written();
  }
  CHECK(written == 3 * n);
  // Both split in the middle: the pattern of 12 repeats.
  const std::int64_t rows = 1000;
  const mtf::MeshValue two = mesh_of(3, 4);
  const auto wide =
      mtf::plan_redistribution(placement_of({4 * rows, 3}, {1}, two), placement_of({3 * rows, 4}, {-1, 1}, two), two);
  CHECK(kinds(wide) == "e");
  CHECK(wide.factors.atoms[wide.factors.tangled].extent == 12);
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
      if (divisible(other)) {
        check(from, other, mesh);
        check(other, from, mesh);
      }
    }
  }
  CHECK(cases > 500);
}

TEST_CASE("random shapes without common factors, on meshes of three axes") {
  std::mt19937 random(29);
  const auto draw = [&](int below) { return static_cast<int>(random() % static_cast<unsigned>(below)); };
  int cases = 0;
  int tangled = 0;
  for (int round = 0; round < 6000; ++round) {
    const mtf::MeshValue mesh = mesh_of(1 + draw(4), 1 + draw(3), 1 + draw(2));
    const std::int64_t size =
        std::vector<std::int64_t>{24, 36, 60, 72, 90, 120, 144, 180}[static_cast<std::size_t>(draw(8))];
    const auto cut_up = [&] {
      std::vector<std::int64_t> extents;
      std::int64_t rest = size;
      while (rest > 1 && extents.size() < 3) {
        std::int64_t divisor = 1 + draw(12);
        while (rest % divisor != 0) --divisor;
        extents.push_back(divisor);
        rest /= divisor;
      }
      extents.push_back(rest);
      std::shuffle(extents.begin(), extents.end(), random);
      return extents;
    };
    const auto placed = [&] {
      const std::vector<std::int64_t> extents = cut_up();
      std::vector<int> axes;
      for (int axis = 0; axis < 3; ++axis) axes.push_back(draw(static_cast<int>(extents.size()) + 1) - 1);
      mtf::Placement placement = placement_of(extents, axes, mesh);
      for (mtf::PlacedDim& dim : placement.dims) std::shuffle(dim.axes.begin(), dim.axes.end(), random);
      return placement;
    };
    const mtf::Placement from = placed();
    const mtf::Placement to = placed();
    if (!divisible(from) || !divisible(to)) continue;
    ++cases;
    if (mtf::plan_redistribution(from, to, mesh).factors.tangled >= 0) ++tangled;
    check(from, to, mesh);
  }
  CHECK(cases > 500);
  CHECK(tangled > 100);
}
