// The new name is split over an axis that the tensor already uses.
// EXPECT-ERROR: axis_used_twice<Batch, Other
// EXPECT-ERROR: "rows"
// FIRST-ERROR: mtf: two dims of one tensor or operation are split over the same mesh axis
// MAX-LINES: 12
#include <mtf/mtf.hpp>

struct Batch : mtf::Dim<"batch", 64> {};
struct Io : mtf::Dim<"io", 1024> {};
struct Hidden : mtf::Dim<"hidden", 4096> {};
struct Other : mtf::Dim<"other", 1024> {};
struct Mesh : mtf::Mesh<mtf::Axis<"rows", 2>, mtf::Axis<"cols", 2>> {};
#ifdef MTF_CONTROL
struct Layout : mtf::Layout<mtf::Split<"batch", "rows">, mtf::Split<"other", "cols">> {};
#else
struct Layout : mtf::Layout<mtf::Split<"batch", "rows">, mtf::Split<"other", "rows">> {};
#endif

auto program(mtf::World<Mesh, Layout>& world) {
  auto x = mtf::random_normal<float, Batch, Io>(world, mtf::seed{1});
  return mtf::rename<Io, Other>(x);
}
