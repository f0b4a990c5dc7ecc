// Mesh and layout in the wrong order.
// EXPECT-ERROR: World<Layout, Mesh>
// FIRST-ERROR: mtf: World<Mesh, Layout> takes a mesh, then a layout
// MAX-LINES: 12
#include <mtf/mtf.hpp>

struct Batch : mtf::Dim<"batch", 64> {};
struct Io : mtf::Dim<"io", 1024> {};
struct Hidden : mtf::Dim<"hidden", 4096> {};
struct Mesh : mtf::Mesh<mtf::Axis<"rows", 2>, mtf::Axis<"cols", 2>> {};
struct Layout : mtf::Layout<mtf::Split<"batch", "rows">, mtf::Split<"hidden", "cols">> {};

auto program(MPI_Comm comm) {
#ifdef MTF_CONTROL
  mtf::World<Mesh, Layout> world{comm};
  auto w = mtf::variable<float, Io, Hidden>(world, "w", mtf::init::glorot);
  auto x = mtf::random_normal<float, Batch, Io>(world, mtf::seed{1});
  mtf::print(world, "{}\n", mtf::einsum<Batch, Hidden>(x, w));
#else
  mtf::World<Layout, Mesh> world{comm};
  auto w = mtf::variable<float, Io, Hidden>(world, "w", mtf::init::glorot);
  auto x = mtf::random_normal<float, Batch, Io>(world, mtf::seed{1});
  mtf::print(world, "{}\n", mtf::einsum<Batch, Hidden>(x, w));
#endif
}
