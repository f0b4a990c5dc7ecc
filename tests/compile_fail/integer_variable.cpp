// A variable of integers.
// EXPECT-ERROR: not_trainable<int>
// FIRST-ERROR: mtf: a variable is float or double
// MAX-LINES: 12
#include <mtf/mtf.hpp>

struct Batch : mtf::Dim<"batch", 64> {};
struct Io : mtf::Dim<"io", 1024> {};
struct Hidden : mtf::Dim<"hidden", 4096> {};
struct Mesh : mtf::Mesh<mtf::Axis<"rows", 2>, mtf::Axis<"cols", 2>> {};
struct Layout : mtf::Layout<mtf::Split<"batch", "rows">, mtf::Split<"hidden", "cols">> {};

auto program(mtf::World<Mesh, Layout>& world) {
#ifdef MTF_CONTROL
  return mtf::relu(mtf::variable<float, Io, Hidden>(world, "w", mtf::init::ones));
#else
  return mtf::relu(mtf::variable<int, Io, Hidden>(world, "w", mtf::init::ones));
#endif
}
