// Noise along a dim that is not there.
// EXPECT-ERROR: Hidden
// FIRST-ERROR: mtf: dropout: an operation names a dim that its operand does not have; check the spelling
// MAX-LINES: 12
#include <mtf/mtf.hpp>

struct Batch : mtf::Dim<"batch", 64> {};
struct Io : mtf::Dim<"io", 1024> {};
struct Hidden : mtf::Dim<"hidden", 4096> {};
struct Mesh : mtf::Mesh<mtf::Axis<"rows", 2>, mtf::Axis<"cols", 2>> {};
struct Layout : mtf::Layout<mtf::Split<"batch", "rows">, mtf::Split<"hidden", "cols">> {};

auto program(mtf::World<Mesh, Layout>& world) {
  auto x = mtf::random_normal<float, Batch, Io>(world, mtf::seed{1});
#ifdef MTF_CONTROL
  return mtf::dropout<Io>(x, 0.1, mtf::seed{2}) * 2;
#else
  return mtf::dropout<Hidden>(x, 0.1, mtf::seed{2}) * 2;
#endif
}
