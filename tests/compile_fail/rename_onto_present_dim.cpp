// A rename to a name that the tensor has.
// EXPECT-ERROR: Batch
// FIRST-ERROR: mtf: rename: the new name is already a dim of the tensor; choose another name
// MAX-LINES: 12
#include <mtf/mtf.hpp>

struct Batch : mtf::Dim<"batch", 64> {};
struct Io : mtf::Dim<"io", 1024> {};
struct Hidden : mtf::Dim<"hidden", 4096> {};
struct Other : mtf::Dim<"other", 1024> {};
struct Mesh : mtf::Mesh<mtf::Axis<"rows", 2>, mtf::Axis<"cols", 2>> {};
struct Layout : mtf::Layout<mtf::Split<"batch", "rows">, mtf::Split<"hidden", "cols">> {};

auto program(mtf::World<Mesh, Layout>& world) {
  auto x = mtf::random_normal<float, Batch, Io>(world, mtf::seed{1});
#ifdef MTF_CONTROL
  return mtf::rename<Io, Other>(x) * 2;
#else
  return mtf::rename<Io, Batch>(x) * 2;
#endif
}
