// A tensor of integers divided by a number.
// EXPECT-ERROR: division_of_integers<int, int>
// FIRST-ERROR: mtf: integers are not divided by the operator /; write floor_divide(x, y)
// MAX-LINES: 12
#include <mtf/mtf.hpp>

struct Batch : mtf::Dim<"batch", 64> {};
struct Io : mtf::Dim<"io", 1024> {};
struct Hidden : mtf::Dim<"hidden", 4096> {};
struct Mesh : mtf::Mesh<mtf::Axis<"rows", 2>, mtf::Axis<"cols", 2>> {};
struct Layout : mtf::Layout<mtf::Split<"batch", "rows">, mtf::Split<"hidden", "cols">> {};

auto program(mtf::World<Mesh, Layout>& world) {
  auto n = mtf::constant<std::int32_t>(world, 6, Batch{});
#ifdef MTF_CONTROL
  return mtf::cast<std::int32_t>(mtf::cast<float>(n) / 2);
#else
  return mtf::cast<std::int32_t>(n / 2);
#endif
}
