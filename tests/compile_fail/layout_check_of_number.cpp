// A number of ranks where a layout is wanted.
// EXPECT-ERROR: layout
// FIRST-ERROR: mtf: check_layouts: a layout is an object of a struct derived from mtf::Layout<...>, or a text
// MAX-LINES: 12
#include <mtf/testing.hpp>

struct Batch : mtf::Dim<"batch", 64> {};
struct Mesh : mtf::Mesh<mtf::Axis<"rows", 2>, mtf::Axis<"cols", 2>> {};
struct Layout : mtf::Layout<mtf::Split<"batch", "rows">> {};

auto program() {
  auto step = [](auto& world) { return mtf::random_normal<float, Batch>(world, mtf::seed{1}); };
#ifdef MTF_CONTROL
  return mtf::check_layouts<Mesh>(step, Layout{}, "batch:cols");
#else
  return mtf::check_layouts<Mesh>(step, Layout{}, 4);
#endif
}
