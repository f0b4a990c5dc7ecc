// Placement: which slice of a global array each processor holds.
#include <random>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <mtf/core/placement.hpp>

namespace {

struct Mesh : mtf::Mesh<mtf::Axis<"rows", 2>, mtf::Axis<"cols", 4>> {};
struct Batch : mtf::Dim<"batch", 100> {};
struct Rows : mtf::Dim<"rows", 28> {};
struct Cols : mtf::Dim<"cols", 28> {};
struct Channels : mtf::Dim<"channels", 3> {};

template <class Layout>
constexpr mtf::PlacementRules rules() {
  mtf::Violations ignored;
  return mtf::resolve(Layout::value(), Mesh::value(), ignored);
}
constexpr mtf::ShapeValue images = mtf::static_shape<Batch, Rows, Cols, Channels>();

constexpr bool holds(const mtf::Placement& placement, std::int64_t processor, const std::int64_t (&extents)[4],
                     const std::int64_t (&begins)[4]) {
  const mtf::MeshValue mesh = Mesh::value();
  for (int d = 0; d < 4; ++d) {
    if (placement.dims[d].local() != extents[d]) return false;
    if (mtf::slice_begin(placement.dims[d], mesh, mesh.coordinates(processor)) != begins[d]) return false;
  }
  return true;
}

// The example of Mesh-TensorFlow's README.
constexpr bool readme_data_parallel() {
  const mtf::Placement placement = mtf::place(rules<mtf::Layout<mtf::Split<"batch", "cols">>>(), images);
  for (std::int64_t p = 0; p < 8; ++p) {
    if (!holds(placement, p, {25, 28, 28, 3}, {25 * (p % 4), 0, 0, 0})) return false;
  }
  return placement.local_size() == 25 * 28 * 28 * 3 && placement.size() == 100 * 28 * 28 * 3;
}
static_assert(readme_data_parallel());

constexpr bool readme_spatial() {
  const mtf::Placement placement =
      mtf::place(rules<mtf::Layout<mtf::Split<"rows", "rows">, mtf::Split<"cols", "cols">>>(), images);
  return holds(placement, 0, {100, 14, 7, 3}, {0, 0, 0, 0}) && holds(placement, 1, {100, 14, 7, 3}, {0, 0, 7, 0}) &&
         holds(placement, 6, {100, 14, 7, 3}, {0, 14, 14, 0});
}
static_assert(readme_spatial());

}  // namespace

TEST_CASE("the slices of the README example") {
  CHECK(readme_data_parallel());
  CHECK(readme_spatial());
}

TEST_CASE("a dim over two axes is numbered major first") {
  mtf::Violations ignored;
  const mtf::MeshValue mesh = Mesh::value();
  for (const bool rows_major : {true, false}) {
    const auto layout = mtf::parse_layout(rows_major ? "x:rows,cols" : "x:cols,rows", ignored);
    const mtf::PlacedDim dim = mtf::place(mtf::resolve(layout, mesh, ignored), mtf::DimValue{"x", 24});
    CHECK(dim.parts == 8);
    CHECK(dim.local() == 3);
    for (std::int64_t r = 0; r < 2; ++r) {
      for (std::int64_t c = 0; c < 4; ++c) {
        const mtf::Coordinates at = mesh.coordinates(r * 4 + c);
        CHECK(mtf::slice_number(dim, mesh, at) == (rows_major ? r * 4 + c : c * 2 + r));
        CHECK(mtf::slice_begin(dim, mesh, at) == 3 * (rows_major ? r * 4 + c : c * 2 + r));
      }
    }
  }
}

TEST_CASE("slices of any rank tile the array, each as often as the tensor is replicated") {
  std::mt19937 random(7);
  const std::vector<std::string> names{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"};
  const auto draw = [&](int below) { return static_cast<int>(random() % static_cast<unsigned>(below)); };
  for (int round = 0; round < 300; ++round) {
    mtf::MeshValue mesh;
    for (const char* axis : {"u", "v", "w"}) mesh.axes.push_back({axis, 1 + draw(3)});
    const int rank = round % 13;
    // Each axis splits one random dim or none; a dim may be split by several.
    mtf::LayoutValue layout;
    for (int axis = 0; axis < 3; ++axis) {
      const int dim = draw(rank + 1);
      if (dim == rank) continue;
      bool joined = false;
      for (mtf::Rule& rule : layout.rules) {
        if (rule.dim == mtf::Name(names[static_cast<std::size_t>(dim)])) {
          rule.axes.push_back(mesh.axes[axis].name);
          joined = true;
        }
      }
      if (joined) continue;
      mtf::Rule rule;
      rule.dim = mtf::Name(names[static_cast<std::size_t>(dim)]);
      rule.axes.push_back(mesh.axes[axis].name);
      layout.rules.push_back(rule);
    }
    mtf::Violations violations;
    const auto rules = mtf::resolve(layout, mesh, violations);
    mtf::ShapeValue shape;
    for (int d = 0; d < rank; ++d) {
      const mtf::Name name(names[static_cast<std::size_t>(d)]);
      shape.push_back({name, mesh.size(mtf::set_of(rules.axes_of(name))) * (1 + (d < 4 ? draw(3) : 0))});
    }
    REQUIRE(mtf::check(rules, shape, true).empty());
    const mtf::Placement placement = mtf::place(rules, shape);
    CHECK(placement.shape() == shape);
    std::vector<int> holders(static_cast<std::size_t>(placement.size()));
    for (std::int64_t p = 0; p < mesh.size(); ++p) {
      const mtf::Coordinates at = mesh.coordinates(p);
      for (std::int64_t local = 0; local < placement.local_size(); ++local) {
        std::int64_t rest = local;
        std::int64_t global = 0;
        std::int64_t stride = 1;
        for (int d = rank - 1; d >= 0; --d) {
          global += (mtf::slice_begin(placement.dims[d], mesh, at) + rest % placement.dims[d].local()) * stride;
          rest /= placement.dims[d].local();
          stride *= placement.dims[d].extent;
        }
        ++holders[static_cast<std::size_t>(global)];
      }
    }
    const std::int64_t replicas = mesh.size(mesh.all() - placement.split_axes());
    bool tiled = true;
    for (const int count : holders) tiled = tiled && count == replicas;
    CHECK(tiled);
    CHECK(placement.local_size() * mesh.size(placement.split_axes()) == placement.size());
  }
}
