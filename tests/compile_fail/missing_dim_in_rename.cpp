// Renaming a dim that is not there.
// EXPECT-ERROR: Hidden
// FIRST-ERROR: mtf: rename: an operation names a dim that its operand does not have; check the spelling
// MAX-LINES: 12
#include <mtf/mtf.hpp>

struct Batch : mtf::Dim<"batch", 64> {};
struct Io : mtf::Dim<"io", 1024> {};
struct Hidden : mtf::Dim<"hidden", 4096> {};
struct Other : mtf::Dim<"other"> {
  using Dim::Dim;
};
struct Mesh : mtf::Mesh<mtf::Axis<"rows", 2>, mtf::Axis<"cols", 2>> {};
struct Layout : mtf::Layout<mtf::Split<"batch", "rows">, mtf::Split<"hidden", "cols">> {};

auto program(mtf::World<Mesh, Layout>& world) {
  auto x = mtf::random_normal<float, Batch, Io>(world, mtf::seed{1});
#ifdef MTF_CONTROL
  return mtf::rename<Io, Other>(x) * 2;
#else
  return mtf::rename<Hidden, Other>(x) * 2;
#endif
}
