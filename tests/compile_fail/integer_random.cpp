// Normal numbers that are whole.
// EXPECT-ERROR: not_random<int>
// FIRST-ERROR: mtf: random tensors are floating point, random_uniform also int32 or int64 with both bounds; convert
// with cast<T>(x)
// MAX-LINES: 12
#include <mtf/mtf.hpp>

struct Batch : mtf::Dim<"batch", 64> {};
struct Io : mtf::Dim<"io", 1024> {};
struct Hidden : mtf::Dim<"hidden", 4096> {};
struct Mesh : mtf::Mesh<mtf::Axis<"rows", 2>, mtf::Axis<"cols", 2>> {};
struct Layout : mtf::Layout<mtf::Split<"batch", "rows">, mtf::Split<"hidden", "cols">> {};

auto program(mtf::World<Mesh, Layout>& world) {
#ifdef MTF_CONTROL
  return mtf::random_uniform<std::int32_t, Batch>(world, mtf::seed{1}, 0, 9);
#else
  return mtf::random_normal<std::int32_t, Batch>(world, mtf::seed{1}, 0, 9);
#endif
}
