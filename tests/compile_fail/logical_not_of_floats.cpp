// The opposite of a number.
// EXPECT-ERROR: not_boolean<float>
// FIRST-ERROR: mtf: a logical operation takes bool; compare first
// MAX-LINES: 12
#include <mtf/mtf.hpp>

struct Batch : mtf::Dim<"batch", 64> {};
struct Io : mtf::Dim<"io", 1024> {};
struct Hidden : mtf::Dim<"hidden", 4096> {};
struct Mesh : mtf::Mesh<mtf::Axis<"rows", 2>, mtf::Axis<"cols", 2>> {};
struct Layout : mtf::Layout<mtf::Split<"batch", "rows">, mtf::Split<"hidden", "cols">> {};

auto program(mtf::World<Mesh, Layout>& world) {
  auto x = mtf::zeros<float>(world, Batch{}, Io{});
#ifdef MTF_CONTROL
  return mtf::logical_not(mtf::not_equal(x, 0));
#else
  return mtf::logical_not(x);
#endif
}
