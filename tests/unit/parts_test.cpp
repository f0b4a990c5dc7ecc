// The order of gathered parts, simulated for all processors of meshes whose axes split a dim in either order.
#include <cstdint>
#include <initializer_list>
#include <vector>

#include <doctest/doctest.h>

#include <mtf/plan/parts.hpp>

namespace {

mtf::MeshValue mesh_of(std::initializer_list<std::int64_t> sizes) {
  constexpr std::string_view names[] = {"x", "y", "z"};
  mtf::MeshValue mesh;
  for (const std::int64_t size : sizes) mesh.axes.push_back({mtf::Name(names[mesh.rank()]), size});
  return mesh;
}

std::vector<int> run(const mtf::CopyPlan& plan, const std::vector<int>& in, std::size_t out_size) {
  std::vector<int> out(out_size, -1);
  for (std::int64_t i = 0; i < plan.loop.size(); ++i) {
    std::int64_t to = plan.out_offset;
    std::int64_t from = plan.in_offset;
    std::int64_t rest = i;
    for (int d = plan.loop.dims.size() - 1; d >= 0; --d) {
      to += rest % plan.loop.dims[d].extent * plan.loop.dims[d].strides[0];
      from += rest % plan.loop.dims[d].extent * plan.loop.dims[d].strides[1];
      rest /= plan.loop.dims[d].extent;
    }
    out[static_cast<std::size_t>(to)] = in[static_cast<std::size_t>(from)];
  }
  return out;
}

constexpr bool join_is_constant() {
  mtf::MeshValue mesh;
  mesh.axes.push_back({mtf::Name("x"), 4});
  mtf::PlacedDim dim;
  dim.extent = 8;
  dim.parts = 4;
  dim.axes.push_back(0);
  return mtf::plan_join(mesh, dim, 3, 2).loop.size() == 24;
}
static_assert(join_is_constant());

}  // namespace

TEST_CASE("gathered parts are put into the order of the slices, and back") {
  CHECK(join_is_constant());
  for (const mtf::MeshValue& mesh : {mesh_of({2, 3}), mesh_of({4, 1, 2}), mesh_of({2, 3, 2}), mesh_of({1, 1})}) {
    for (const std::initializer_list<std::int8_t> order :
         {std::initializer_list<std::int8_t>{0}, {1}, {0, 1}, {1, 0}, {2, 0}, {0, 2}, {2, 1, 0}, {1, 2, 0}}) {
      bool exists = true;
      mtf::PlacedDim dim;
      dim.name = mtf::Name("d");
      for (const std::int8_t axis : order) {
        exists = exists && axis < mesh.rank();
        dim.axes.push_back(axis);
      }
      if (!exists) continue;
      dim.parts = mesh.size(mtf::set_of(dim.axes));
      for (const std::int64_t outer : {1, 3}) {
        for (const std::int64_t rest : {1, 2}) {
          dim.extent = dim.parts * rest;
          // The global [outer, extent]; each member of the group of processor 0 holds [outer, rest].
          const auto element = [&](std::int64_t o, std::int64_t i) { return static_cast<int>(100 * o + i); };
          std::vector<int> gathered(static_cast<std::size_t>(outer * dim.extent));
          std::vector<int> expected;
          for (std::int64_t o = 0; o < outer; ++o) {
            for (std::int64_t i = 0; i < dim.extent; ++i) expected.push_back(element(o, i));
          }
          for (std::int64_t processor = 0; processor < mesh.size(); ++processor) {
            const mtf::Coordinates at = mesh.coordinates(processor);
            if (mesh.position(at, mesh.all() - mtf::set_of(dim.axes)) != 0) continue;
            const std::int64_t member = mesh.position(at, mtf::set_of(dim.axes));
            std::vector<int> own;
            for (std::int64_t o = 0; o < outer; ++o) {
              for (std::int64_t i = 0; i < rest; ++i) {
                own.push_back(element(o, mtf::slice_begin(dim, mesh, at) + i));
                gathered[static_cast<std::size_t>((member * outer + o) * rest + i)] = own.back();
              }
            }
            CHECK(run(mtf::plan_part(outer, dim.parts, rest, mtf::slice_number(dim, mesh, at)), expected, own.size()) ==
                  own);
          }
          const mtf::CopyPlan join = mtf::plan_join(mesh, dim, outer, rest);
          CHECK(run(join, gathered, gathered.size()) == expected);
          CHECK(run(mtf::reversed(join), expected, expected.size()) == gathered);
        }
      }
    }
  }
}
