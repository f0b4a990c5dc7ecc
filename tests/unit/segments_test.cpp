// Plans of moving indices, executed for all processors of a mesh side by side on the host and compared with the global
// arrays.
#include <random>
#include <set>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <mtf/plan/segments.hpp>

namespace {

using Slice = std::vector<int>;

mtf::MeshValue mesh_of(std::int64_t p, std::int64_t q, std::int64_t r) {
  mtf::MeshValue mesh;
  mesh.axes.push_back({"p", p});
  mesh.axes.push_back({"q", q});
  mesh.axes.push_back({"r", r});
  return mesh;
}

mtf::PlacedDim dim_of(std::int64_t extent, const std::vector<int>& axes, const mtf::MeshValue& mesh) {
  mtf::PlacedDim dim;
  dim.name = mtf::Name("d");
  dim.extent = extent;
  for (const int axis : axes) dim.axes.push_back(static_cast<std::int8_t>(axis));
  dim.parts = mesh.size(mtf::set_of(dim.axes));
  return dim;
}

constexpr std::int64_t outer = 2, inner = 3;

/// [outer, dim, inner] in memory, for source and target.
mtf::SegmentBox box_of(const mtf::PlacedDim& source, const mtf::PlacedDim& target) {
  mtf::SegmentBox box;
  box.loop.operands = 2;
  box.loop.dims.push_back({outer, {target.local() * inner, source.local() * inner}});
  box.loop.dims.push_back({1, {inner, inner}});
  box.loop.dims.push_back({inner, {1, 1}});
  box.varying = 1;
  return box;
}

/// The slice of a global [outer, extent, inner] array.
Slice slice_of(const Slice& global, const mtf::PlacedDim& dim, const mtf::MeshValue& mesh, const mtf::Coordinates& at) {
  Slice slice;
  const std::int64_t begin = mtf::slice_begin(dim, mesh, at);
  for (std::int64_t o = 0; o < outer; ++o) {
    for (std::int64_t i = begin; i < begin + dim.local(); ++i) {
      for (std::int64_t n = 0; n < inner; ++n)
        slice.push_back(global[static_cast<std::size_t>((o * dim.extent + i) * inner + n)]);
    }
  }
  return slice;
}

std::int64_t element_of(const mtf::Loop& loop, int operand, std::int64_t index) {
  std::int64_t offset = 0;
  for (int d = loop.dims.size() - 1; d >= 0; --d) {
    offset += index % loop.dims[d].extent * loop.dims[d].strides[operand];
    index /= loop.dims[d].extent;
  }
  return offset;
}

std::int64_t moved = 0;  // elements that were sent in the last check

/// Plans for every processor, runs the plans, compares.
void check(const mtf::PlacedDim& source, const mtf::PlacedDim& target, const mtf::Segments& segments,
           const mtf::MeshValue& mesh, mtf::AxisSet axes) {
  Slice before(static_cast<std::size_t>(outer * source.extent * inner));
  for (std::size_t i = 0; i < before.size(); ++i) before[i] = static_cast<int>(i) + 1;
  Slice after(static_cast<std::size_t>(outer * target.extent * inner));
  for (const mtf::Segment& run : segments.runs) {
    for (std::int64_t i = 0; i < run.length; ++i) {
      for (std::int64_t o = 0; o < outer; ++o) {
        for (std::int64_t n = 0; n < inner; ++n) {
          after[static_cast<std::size_t>((o * target.extent + run.target + i * segments.target_step) * inner + n)] =
              before[static_cast<std::size_t>((o * source.extent + run.source + i * segments.source_step) * inner + n)];
        }
      }
    }
  }
  std::vector<mtf::ExchangePlan> plans;
  for (std::int64_t processor = 0; processor < mesh.size(); ++processor) {
    plans.push_back(
        mtf::plan_segments(mesh, mesh.coordinates(processor), axes, source, target, box_of(source, target), segments));
  }
  const auto processor_of = [&](const mtf::Coordinates& at, std::int64_t member) {
    for (std::int64_t other = 0; other < mesh.size(); ++other) {
      const auto coordinates = mesh.coordinates(other);
      const mtf::AxisSet rest = mesh.all() - axes;
      if (mesh.position(coordinates, axes) == member && mesh.position(coordinates, rest) == mesh.position(at, rest))
        return static_cast<std::size_t>(other);
    }
    return std::size_t{0};
  };
  moved = 0;
  for (std::int64_t processor = 0; processor < mesh.size(); ++processor) {
    const mtf::Coordinates at = mesh.coordinates(processor);
    const mtf::ExchangePlan& plan = plans[static_cast<std::size_t>(processor)];
    Slice result(static_cast<std::size_t>(outer * target.local() * inner));
    Slice written = result;
    const Slice own = slice_of(before, source, mesh, at);
    const auto put = [&](std::int64_t offset, int value) {
      result[static_cast<std::size_t>(offset)] = value;
      ++written[static_cast<std::size_t>(offset)];
    };
    for (const mtf::KeptPart& part : plan.kept) {
      const mtf::Loop loop = plan.moving(part);
      for (std::int64_t i = 0; i < plan.size_of_part(part); ++i) {
        put(part.target + element_of(loop, 0, i), own[static_cast<std::size_t>(part.source + element_of(loop, 1, i))]);
      }
    }
    // What each other member packs for this one, in its order; what this one unpacks, in its own.
    for (std::int64_t member = 0; member < plan.members; ++member) {
      const std::size_t sender = processor_of(at, member);
      const mtf::ExchangePlan& other = plans[sender];
      const Slice theirs = slice_of(before, source, mesh, mesh.coordinates(static_cast<std::int64_t>(sender)));
      Slice message;
      for (const mtf::ExchangePart& part : other.sent) {
        if (part.member != mesh.position(at, axes) || sender == static_cast<std::size_t>(processor)) continue;
        const mtf::Loop packing = other.packing(part, mtf::ExchangePlan::source, true).loop;
        Slice packed(static_cast<std::size_t>(other.size_of_part(part)));
        for (std::int64_t i = 0; i < std::ssize(packed); ++i) {
          packed[static_cast<std::size_t>(element_of(packing, 0, i))] =
              theirs[static_cast<std::size_t>(part.offset + element_of(packing, 1, i))];
        }
        message.insert(message.end(), packed.begin(), packed.end());
      }
      std::int64_t at_element = 0;
      for (const mtf::ExchangePart& part : plan.received) {
        if (part.member != member) continue;
        const mtf::Loop packing = plan.packing(part, mtf::ExchangePlan::target, false).loop;
        for (std::int64_t i = 0; i < plan.size_of_part(part); ++i) {
          put(part.offset + element_of(packing, 0, i),
              message.at(static_cast<std::size_t>(at_element + element_of(packing, 1, i))));
        }
        at_element += plan.size_of_part(part);
      }
      CHECK(at_element == std::ssize(message));
      moved += at_element;
    }
    CHECK(result == slice_of(after, target, mesh, at));
    // Nothing is written twice, and `written` counts it.
    CHECK(std::set<int>(written.begin(), written.end()).count(2) == 0);
    std::int64_t count = 0;
    for (const int w : written) count += w;
    CHECK(count == plan.written());
    CHECK(plan.communicates == plans[0].communicates);
  }
  CHECK(plans[0].communicates == (moved > 0));
}

/// Elements that the processors need for their targets and do not have.
std::int64_t lacking(const mtf::PlacedDim& source, const mtf::PlacedDim& target, const mtf::Segments& segments,
                     const mtf::MeshValue& mesh) {
  std::int64_t sum = 0;
  const auto has = [&](const mtf::PlacedDim& dim, const mtf::Coordinates& at, std::int64_t index) {
    return index >= mtf::slice_begin(dim, mesh, at) && index < mtf::slice_begin(dim, mesh, at) + dim.local();
  };
  for (std::int64_t processor = 0; processor < mesh.size(); ++processor) {
    const auto at = mesh.coordinates(processor);
    for (const mtf::Segment& run : segments.runs) {
      for (std::int64_t i = 0; i < run.length; ++i) {
        if (has(target, at, run.target + i * segments.target_step) &&
            !has(source, at, run.source + i * segments.source_step))
          sum += outer * inner;
      }
    }
  }
  return sum;
}

constexpr bool plans_in_constant_expressions() {
  mtf::MeshValue mesh;
  mesh.axes.push_back({"p", 2});
  mtf::PlacedDim dim{"a", 4, 2, {{0}, 1}};
  mtf::SegmentBox box;
  box.loop.operands = 2;
  box.loop.dims.push_back({1, {1, 1}});
  mtf::Segments shift;
  shift.runs.push_back({0, 1, 3});
  const auto plan = mtf::plan_segments(mesh, mesh.coordinates(0), mtf::AxisSet::of(0), dim, dim, box, shift);
  return plan.communicates && plan.sent.size() == 1 && plan.sent[0].length == 1 && plan.received.empty() &&
         plan.written() == 1;
}
static_assert(plans_in_constant_expressions());

}  // namespace

TEST_CASE("segments in constant expressions and at run time") { CHECK(plans_in_constant_expressions()); }

TEST_CASE("a shift sends what leaves a slice, and nothing else") {
  const mtf::MeshValue mesh = mesh_of(4, 1, 1);
  const mtf::PlacedDim dim = dim_of(8, {0}, mesh);
  for (std::int64_t offset = -9; offset <= 9; ++offset) {
    mtf::Segments segments;
    if (offset >= 0 && offset < 8) segments.runs.push_back({0, offset, 8 - offset});
    if (offset < 0 && offset > -8) segments.runs.push_back({-offset, 0, 8 + offset});
    CAPTURE(offset);
    check(dim, dim, segments, mesh, mtf::AxisSet::of(0));
    if (offset == 0) CHECK(moved == 0);
    if (offset == 1) CHECK(moved == 3 * outer * inner);
    if (offset == 2) CHECK(moved == 6 * outer * inner);
  }
}

TEST_CASE("random runs between random splits, with steps, on meshes of three axes") {
  std::mt19937 random(5);
  const auto draw = [&](std::int64_t below) {
    return static_cast<std::int64_t>(random() % static_cast<unsigned>(below));
  };
  int cases = 0;
  for (int round = 0; round < 3000; ++round) {
    CAPTURE(round);
    const mtf::MeshValue mesh = mesh_of(1 + draw(3), 1 + draw(3), 1 + draw(2));
    const auto some_axes = [&] {
      std::vector<int> axes;
      for (int axis = 0; axis < 3; ++axis) {
        if (draw(2) == 0) axes.insert(axes.begin() + draw(static_cast<std::int64_t>(axes.size()) + 1), axis);
      }
      return axes;
    };
    const auto source_axes = some_axes();
    const auto target_axes = draw(2) == 0 ? source_axes : some_axes();
    mtf::PlacedDim source = dim_of(1, source_axes, mesh);
    source.extent = source.parts * (1 + draw(4));
    mtf::PlacedDim target = dim_of(1, target_axes, mesh);
    target.extent = target.parts * (1 + draw(4));
    const auto step = [&] { return (1 + draw(2)) * (draw(2) == 0 ? 1 : -1); };
    mtf::Segments segments{.source_step = step(), .target_step = step()};
    // Two runs that share the target: one in its first half, one in its second.
    for (const std::int64_t part : {std::int64_t{0}, std::int64_t{1}}) {
      const std::int64_t low = part == 0 ? 0 : target.extent / 2;
      const std::int64_t high = part == 0 ? target.extent / 2 : target.extent;
      if (low == high) continue;
      const auto room = [](std::int64_t begin, std::int64_t from, std::int64_t to, std::int64_t by) {
        return by > 0 ? (to - 1 - begin) / by + 1 : (begin - from) / -by + 1;
      };
      mtf::Segment run{draw(source.extent), low + draw(high - low), 0};
      const std::int64_t most = std::min(room(run.source, 0, source.extent, segments.source_step),
                                         room(run.target, low, high, segments.target_step));
      run.length = draw(most + 1);
      segments.runs.push_back(run);
    }
    const mtf::AxisSet axes =
        mtf::set_of(source.axes) | mtf::set_of(target.axes) | (draw(3) == 0 ? mtf::AxisSet::of(2) : mtf::AxisSet{});
    check(source, target, segments, mesh, axes);
    CHECK(moved == lacking(source, target, segments, mesh));
    ++cases;
  }
  CHECK(cases == 3000);
}
