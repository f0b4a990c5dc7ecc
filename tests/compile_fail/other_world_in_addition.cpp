// Operands of two worlds.
// EXPECT-ERROR: different_worlds<
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
  auto x = mtf::random_normal<float, Batch, Io>(world, mtf::seed{1});
  auto y = mtf::random_normal<float, Batch, Io>(other, mtf::seed{1});
#ifdef MTF_CONTROL
  return mtf::reduce_sum(x + mtf::from_global<float>(world, mtf::to_host(y), Batch{}, Io{}));
#else
  return mtf::reduce_sum(x + y);
#endif
}
