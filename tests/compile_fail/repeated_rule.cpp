// Two rules for one dim.
// EXPECT-ERROR: repeated_rule<
// EXPECT-ERROR: "batch"
// FIRST-ERROR: mtf: two layout rules name the same dim
// MAX-LINES: 12
#include <mtf/mtf.hpp>

struct Batch : mtf::Dim<"batch", 64> {};
struct Io : mtf::Dim<"io", 1024> {};
struct Hidden : mtf::Dim<"hidden", 4096> {};
struct Mesh : mtf::Mesh<mtf::Axis<"rows", 2>, mtf::Axis<"cols", 2>> {};
#ifdef MTF_CONTROL
struct Layout : mtf::Layout<mtf::Split<"batch", "rows", "cols">> {};
#else
struct Layout : mtf::Layout<mtf::Split<"batch", "rows">, mtf::Split<"batch", "cols">> {};
#endif

auto program(MPI_Comm comm) {
  mtf::World<Mesh, Layout> world{comm};
  auto w = mtf::variable<float, Io, Hidden>(world, "w", mtf::init::glorot);
  auto x = mtf::random_normal<float, Batch, Io>(world, mtf::seed{1});
  mtf::print(world, "{}\n", mtf::einsum<Batch, Hidden>(x, w));
}
