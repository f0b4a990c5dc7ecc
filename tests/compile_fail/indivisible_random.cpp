// Random numbers along a split dim that has no even parts.
// EXPECT-ERROR: indivisible_extent<Odd, 63, 2
// EXPECT-ERROR: "rows"
// FIRST-ERROR: mtf: the extent of a split dim is not a multiple of the size of its mesh axes
// MAX-LINES: 12
#include <mtf/mtf.hpp>

struct Batch : mtf::Dim<"batch", 64> {};
struct Io : mtf::Dim<"io", 1024> {};
struct Hidden : mtf::Dim<"hidden", 4096> {};
struct Odd : mtf::Dim<"batch", 63> {};
struct Mesh : mtf::Mesh<mtf::Axis<"rows", 2>, mtf::Axis<"cols", 2>> {};
struct Layout : mtf::Layout<mtf::Split<"batch", "rows">, mtf::Split<"hidden", "cols">> {};

auto program(mtf::World<Mesh, Layout>& world) {
#ifdef MTF_CONTROL
  return mtf::relu(mtf::random_normal<float, Batch, Io>(world, mtf::seed{1}));
#else
  return mtf::relu(mtf::random_normal<float, Odd, Io>(world, mtf::seed{1}));
#endif
}
