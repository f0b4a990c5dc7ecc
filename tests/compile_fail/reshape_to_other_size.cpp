// A reshape to another number of elements.
// EXPECT-ERROR: different_sizes<
// EXPECT-ERROR: DimList<Batch, Io>
// EXPECT-ERROR: DimList<Hidden>
// FIRST-ERROR: mtf: reshape: the sizes differ; a reshape keeps the number of elements
// MAX-LINES: 12
#include <mtf/mtf.hpp>

struct Batch : mtf::Dim<"batch", 64> {};
struct Io : mtf::Dim<"io", 1024> {};
struct Hidden : mtf::Dim<"hidden", 4096> {};
struct All : mtf::Dim<"all", 65536> {};
struct Mesh : mtf::Mesh<mtf::Axis<"rows", 2>, mtf::Axis<"cols", 2>> {};
struct Layout : mtf::Layout<mtf::Split<"batch", "rows">, mtf::Split<"hidden", "cols">> {};

auto program(mtf::World<Mesh, Layout>& world) {
  auto x = mtf::random_normal<float, Batch, Io>(world, mtf::seed{1});
#ifdef MTF_CONTROL
  return mtf::reshape<All>(x) * 2;
#else
  return mtf::reshape<Hidden>(x) * 2;
#endif
}
