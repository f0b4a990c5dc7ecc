// The ids and the table are split over one axis.
// EXPECT-ERROR: axis_used_twice<Batch, Hidden
// EXPECT-ERROR: "rows"
// FIRST-ERROR: mtf: two dims of one tensor or operation are split over the same mesh axis
// MAX-LINES: 12
#include <mtf/mtf.hpp>

struct Batch : mtf::Dim<"batch", 64> {};
struct Io : mtf::Dim<"io", 1024> {};
struct Hidden : mtf::Dim<"hidden", 4096> {};
struct Mesh : mtf::Mesh<mtf::Axis<"rows", 2>, mtf::Axis<"cols", 2>> {};
#ifdef MTF_CONTROL
struct Layout : mtf::Layout<mtf::Split<"batch", "rows">, mtf::Split<"hidden", "cols">> {};
#else
struct Layout : mtf::Layout<mtf::Split<"batch", "rows">, mtf::Split<"hidden", "rows">> {};
#endif

auto program(mtf::World<Mesh, Layout>& world) {
  auto w = mtf::variable<float, Io, Hidden>(world, "w", mtf::init::glorot);
  auto ids = mtf::constant<std::int32_t>(world, 0, Batch{});
  return mtf::gather<Io>(w, ids);
}
