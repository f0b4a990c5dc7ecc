// The largest elements along a dim that is not there.
// EXPECT-ERROR: mtf: top_k: an operation names a dim that its operand does not have
// FIRST-ERROR: mtf: top_k: an operation names a dim that its operand does not have
// MAX-LINES: 12
#include <mtf/mtf.hpp>

struct Batch : mtf::Dim<"batch", 64> {};
struct Io : mtf::Dim<"io", 1024> {};
struct Hidden : mtf::Dim<"hidden", 4096> {};
struct Top : mtf::Dim<"top", 8> {};
struct Mesh : mtf::Mesh<mtf::Axis<"rows", 2>, mtf::Axis<"cols", 2>> {};
struct Layout : mtf::Layout<mtf::Split<"batch", "rows">, mtf::Split<"hidden", "cols">> {};

auto program(mtf::World<Mesh, Layout>& world) {
  auto x = mtf::zeros<float>(world, Batch{}, Io{});
#ifdef MTF_CONTROL
  return mtf::top_k<Io, Top>(x).values;
#else
  return mtf::top_k<Hidden, Top>(x).values;
#endif
}
