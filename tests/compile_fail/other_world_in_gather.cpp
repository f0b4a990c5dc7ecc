// A table and ids of two worlds.
// EXPECT-ERROR: Layout
// EXPECT-ERROR: None
// FIRST-ERROR: mtf: the operands of an operation belong to different worlds; use from_global(other_world, to_host(x))
// MAX-LINES: 12
#include <mtf/mtf.hpp>

struct Batch : mtf::Dim<"batch", 64> {};
struct Io : mtf::Dim<"io", 1024> {};
struct Hidden : mtf::Dim<"hidden", 4096> {};
struct Mesh : mtf::Mesh<mtf::Axis<"rows", 2>, mtf::Axis<"cols", 2>> {};
struct Layout : mtf::Layout<mtf::Split<"batch", "rows">, mtf::Split<"hidden", "cols">> {};
struct None : mtf::Layout<> {};

auto program(mtf::World<Mesh, Layout>& world, mtf::World<Mesh, None>& other) {
  auto w = mtf::variable<float, Io, Hidden>(world, "w", mtf::init::glorot);
  auto ids = mtf::constant<std::int32_t>(other, 0, Batch{});
#ifdef MTF_CONTROL
  return mtf::gather<Io>(w, mtf::from_global<std::int32_t>(world, mtf::to_host(ids), Batch{}));
#else
  return mtf::gather<Io>(w, ids);
#endif
}
