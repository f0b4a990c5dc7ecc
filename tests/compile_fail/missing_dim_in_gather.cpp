// Gathering along a dim that is not there.
// EXPECT-ERROR: Batch
// FIRST-ERROR: mtf: gather: an operation names a dim that its operand does not have; check the spelling
// MAX-LINES: 12
#include <mtf/mtf.hpp>

struct Batch : mtf::Dim<"batch", 64> {};
struct Io : mtf::Dim<"io", 1024> {};
struct Hidden : mtf::Dim<"hidden", 4096> {};
struct Mesh : mtf::Mesh<mtf::Axis<"rows", 2>, mtf::Axis<"cols", 2>> {};
struct Layout : mtf::Layout<mtf::Split<"batch", "rows">, mtf::Split<"hidden", "cols">> {};

auto program(mtf::World<Mesh, Layout>& world) {
  auto w = mtf::variable<float, Io, Hidden>(world, "w", mtf::init::glorot);
  auto ids = mtf::constant<std::int32_t>(world, 0, Batch{});
#ifdef MTF_CONTROL
  return mtf::gather<Io>(w, ids) * 2;
#else
  return mtf::gather<Batch>(w, ids) * 2;
#endif
}
