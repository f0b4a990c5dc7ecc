// The condition and a branch are split over one axis.
// EXPECT-ERROR: axis_used_twice<Batch, Hidden
// FIRST-ERROR: mtf: two dims of one tensor or operation are split over the same mesh axis
// MAX-LINES: 12
#include <mtf/mtf.hpp>

struct Batch : mtf::Dim<"batch", 64> {};
struct Io : mtf::Dim<"io", 1024> {};
struct Hidden : mtf::Dim<"hidden", 4096> {};
struct Mesh : mtf::Mesh<mtf::Axis<"rows", 2>, mtf::Axis<"cols", 2>> {};
struct Layout : mtf::Layout<mtf::Split<"batch", "rows">, mtf::Split<"hidden", "rows">> {};

auto program(mtf::World<Mesh, Layout>& world) {
  auto h = mtf::zeros<float>(world, Hidden{});
  auto c = mtf::greater(mtf::zeros<float>(world, Batch{}), 0);
#ifdef MTF_CONTROL
  return mtf::where(c, mtf::zeros<float>(world, Io{}), 0);
#else
  return mtf::where(c, h, 0);
#endif
}
