// One name with two extents.
// EXPECT-ERROR: unequal_extents<
// EXPECT-ERROR: SmallIo
// EXPECT-ERROR: 1024
// EXPECT-ERROR: 512
// FIRST-ERROR: mtf: one dim name has two extents in one operation
// MAX-LINES: 12
#include <mtf/mtf.hpp>

struct Batch : mtf::Dim<"batch", 64> {};
struct Io : mtf::Dim<"io", 1024> {};
struct Hidden : mtf::Dim<"hidden", 4096> {};
struct SmallIo : mtf::Dim<"io", 512> {};
struct Mesh : mtf::Mesh<mtf::Axis<"rows", 2>, mtf::Axis<"cols", 2>> {};
struct Layout : mtf::Layout<mtf::Split<"batch", "rows">, mtf::Split<"hidden", "cols">> {};

auto program(mtf::World<Mesh, Layout>& world) {
  auto w = mtf::variable<float, Io, Hidden>(world, "w", mtf::init::glorot);
  auto small = mtf::random_normal<float, Batch, SmallIo>(world, mtf::seed{1});
  auto x = mtf::random_normal<float, Batch, Io>(world, mtf::seed{1});
#ifdef MTF_CONTROL
  return mtf::einsum<Batch, Hidden>(x, w);
#else
  return mtf::einsum<Batch, Hidden>(small, w);
#endif
}
