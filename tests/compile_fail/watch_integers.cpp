// Watching integers.
// EXPECT-ERROR: int
// FIRST-ERROR: mtf: watch: gradients exist only from and with respect to floating-point tensors
// MAX-LINES: 12
#include <mtf/mtf.hpp>

struct Batch : mtf::Dim<"batch", 64> {};
struct Io : mtf::Dim<"io", 1024> {};
struct Hidden : mtf::Dim<"hidden", 4096> {};
struct Mesh : mtf::Mesh<mtf::Axis<"rows", 2>, mtf::Axis<"cols", 2>> {};
struct Layout : mtf::Layout<mtf::Split<"batch", "rows">, mtf::Split<"hidden", "cols">> {};

auto program(mtf::World<Mesh, Layout>& world) {
  auto w = mtf::variable<float, Io, Hidden>(world, "w", mtf::init::glorot);
  auto n = mtf::cast<std::int32_t>(w);
#ifdef MTF_CONTROL
  return mtf::watch(mtf::cast<float>(n));
#else
  return mtf::watch(n);
#endif
}
