// Meshes of processors: numbers, coordinates, groups.
#include <map>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <mtf/core/layout.hpp>

namespace {

struct Mesh : mtf::Mesh<mtf::Axis<"x", 2>, mtf::Axis<"y", 3>, mtf::Axis<"z", 2>> {};
constexpr mtf::MeshValue mesh = Mesh::value();

constexpr bool processors_are_row_major() {
  const mtf::Coordinates at = mesh.coordinates(7);
  if (at.size() != 3 || at[0] != 1 || at[1] != 0 || at[2] != 1) return false;
  for (std::int64_t p = 0; p < mesh.size(); ++p) {
    if (mesh.processor(mesh.coordinates(p)) != p) return false;
  }
  return mesh.size() == 12 && mesh.rank() == 3;
}
static_assert(processors_are_row_major());

constexpr mtf::AxisSet axes(std::initializer_list<int> list) {
  mtf::AxisSet set;
  for (const int axis : list) set |= mtf::AxisSet::of(axis);
  return set;
}

constexpr bool sets_of_axes_are_sets() {
  const mtf::AxisSet some = axes({0, 2});
  return mtf::AxisSet{}.empty() && !some.empty() && some.has(0) && !some.has(1) && some.has(2) &&
         (some | axes({1})) == mesh.all() && (some & axes({1, 2})) == axes({2}) && (some - axes({2})) == axes({0}) &&
         mesh.size(some) == 4 && mesh.size({}) == 1 && axes({31}).has(31) && !axes({31}).has(30);
}
static_assert(sets_of_axes_are_sets());

using Groups = std::vector<std::vector<std::int64_t>>;

/// Processors that differ along `set` only, by number.
Groups groups(mtf::AxisSet set) {
  std::map<std::int64_t, std::map<std::int64_t, std::int64_t>> found;
  for (std::int64_t p = 0; p < mesh.size(); ++p) {
    const mtf::Coordinates at = mesh.coordinates(p);
    found[mesh.position(at, mesh.all() - set)][mesh.position(at, set)] = p;
  }
  Groups result;
  for (const auto& [group, members] : found) {
    result.emplace_back();
    for (const auto& [position, processor] : members) {
      CHECK(position == static_cast<std::int64_t>(result.back().size()));
      result.back().push_back(processor);
    }
  }
  return result;
}

}  // namespace

TEST_CASE("processors are numbered row-major, last axis fastest") { CHECK(processors_are_row_major()); }
TEST_CASE("sets of axes") { CHECK(sets_of_axes_are_sets()); }

TEST_CASE("groups along axes") {
  CHECK(groups(axes({1})) == Groups{{0, 2, 4}, {1, 3, 5}, {6, 8, 10}, {7, 9, 11}});
  CHECK(groups(axes({0, 2})) == Groups{{0, 1, 6, 7}, {2, 3, 8, 9}, {4, 5, 10, 11}});
  CHECK(groups({}).size() == 12);
  CHECK(groups(mesh.all()) == Groups{{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}});
}

TEST_CASE("a mesh without axes is one processor, an axis of size 1 is an axis") {
  const mtf::MeshValue none = mtf::Mesh<>::value();
  CHECK(none.size() == 1);
  CHECK(none.coordinates(0).size() == 0);
  CHECK(none.processor(none.coordinates(0)) == 0);
  const mtf::MeshValue one = mtf::Mesh<mtf::Axis<"a", 1>, mtf::Axis<"b", 4>, mtf::Axis<"c", 1>>::value();
  CHECK(one.size() == 4);
  CHECK(one.coordinates(3)[1] == 3);
  CHECK(one.coordinates(3)[0] == 0);
  CHECK(one.find("c") == 2);
  CHECK(one.find("d") == -1);
}

TEST_CASE("static and dynamic sizes") {
  CHECK(Mesh::is_static);
  using Mixed = mtf::Mesh<mtf::Axis<"a", 2>, mtf::Axis<"b">>;
  CHECK_FALSE(Mixed::is_static);
  CHECK(Mixed::has_static_names);
  CHECK(Mixed::value().axes[1].size == mtf::dynamic);
  CHECK_FALSE(mtf::dynamic_mesh::has_static_names);
}

TEST_CASE("the text of a mesh says what the type says") {
  mtf::Violations violations;
  CHECK(mtf::parse_mesh("x:2;y:3;z:2", violations).axes == mesh.axes);
  CHECK(mtf::parse_mesh("  x : 2 ; y:3;; z:2 ;", violations).axes == mesh.axes);
  // The original's separators, and what else is white space.
  for (const char* text :
       {"x:2,y:3,z:2", "x:2 y:3 z:2", "x:2.y:3.z:2", "x:2, y:3 ;\n z:2", "\tx:2\r\ny\v:\f3 ,,z:2.", ",x:2;,y:3;.z:2"}) {
    CAPTURE(text);
    CHECK(mtf::parse_mesh(text, violations).axes == mesh.axes);
    CHECK(violations.empty());
  }
  const mtf::MeshValue dotted = mtf::parse_mesh("x.1:2.y.2:3", violations);
  REQUIRE(dotted.rank() == 2);
  CHECK(dotted.axes[0].name == mtf::Name("x.1"));
  CHECK(dotted.axes[1].name == mtf::Name("y.2"));
  CHECK(mtf::parse_mesh("", violations).size() == 1);
  CHECK(violations.empty());
}

TEST_CASE("a mesh text that cannot be read is an error for each part") {
  for (const char* text : {"x",      "x:",    ":2",         "x:-",          "x:--1",
                           "x:two",  "x:2 3", "x:2.5",      "x:1000000000", "x:99999999999999999999",
                           "x:2:3",  "x=2",   "[x:2, y:3]", "\"x:2",        "x y:2",
                           "x:2y:3", "x:+2",  "x:0x2",      "x:2,y",        "x:2 y:",
                           "x\ny:2", "x?:2",  "x:2?",       "x:2e1",        "x\x01:2"}) {
    CAPTURE(text);
    mtf::Violations violations;
    CHECK(mtf::parse_mesh(text, violations).rank() == 0);
    REQUIRE(violations.size() == 1);
    CHECK(violations[0].fault == mtf::Fault::malformed_layout);
    CHECK(violations[0].dim == mtf::Name(text));
  }
  mtf::Violations in_part;
  CHECK(mtf::parse_mesh("x:2, y:0, z:-1 x:3;w:4", in_part).rank() == 2);
  REQUIRE(in_part.size() == 3);
  CHECK(in_part[0].dim == mtf::Name("y:0"));
  CHECK(in_part[1].dim == mtf::Name("z:-1"));
  CHECK(in_part[2].dim == mtf::Name("x:3"));
  CHECK(in_part[2].fault == mtf::Fault::repeated_mesh_axis);
  mtf::Violations violations;
  const mtf::MeshValue read = mtf::parse_mesh("x:2;y;z:3;x:4;u:0;v:-2;x:2", violations);
  CHECK(read.rank() == 2);
  CHECK(read.axes[0].size == 2);
  REQUIRE(violations.size() == 5);
  CHECK(violations[0].dim == mtf::Name("y"));
  CHECK(violations[0].fault == mtf::Fault::malformed_layout);
  CHECK(violations[1].dim == mtf::Name("x:4"));
  CHECK(violations[1].fault == mtf::Fault::repeated_mesh_axis);
  CHECK(violations[2].dim == mtf::Name("u:0"));
  CHECK(violations[2].fault == mtf::Fault::empty_axis);
  CHECK(violations[3].dim == mtf::Name("v:-2"));
  CHECK(violations[3].fault == mtf::Fault::empty_axis);
  CHECK(violations[4].fault == mtf::Fault::repeated_mesh_axis);
}

TEST_CASE("a mesh text with more processors than 64 bits count") {
  mtf::Violations violations;
  const mtf::MeshValue read = mtf::parse_mesh("x:536870912;y:536870912;z:64;u:31;v:1", violations);
  CHECK(read.rank() == 4);
  REQUIRE(violations.size() == 1);
  CHECK(violations[0].fault == mtf::Fault::too_many_processors);
  CHECK(violations[0].dim == mtf::Name("z:64"));
}

TEST_CASE("a mesh text with more axes than a mesh has") {
  std::string text;
  for (int i = 0; i < mtf::max_axes + 2; ++i) text += std::string("a").append(std::to_string(i)).append(":1;");
  mtf::Violations violations;
  CHECK(mtf::parse_mesh(text, violations).rank() == mtf::max_axes);
  REQUIRE(violations.size() == 2);
  CHECK(violations[0].fault == mtf::Fault::too_many_axes);
  CHECK(violations[1].dim == mtf::Name("a33:1"));
}
