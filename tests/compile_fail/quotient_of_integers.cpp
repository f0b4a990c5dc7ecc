// Integers divided by integers.
// EXPECT-ERROR: division_of_integers<int, int>
// FIRST-ERROR: mtf: integers are not divided by the operator /; write floor_divide(x, y)
// MAX-LINES: 12
#include <mtf/mtf.hpp>

struct Batch : mtf::Dim<"batch", 64> {};
struct Classes : mtf::Dim<"classes", 16> {};
struct Mesh : mtf::Mesh<mtf::Axis<"rows", 2>, mtf::Axis<"cols", 2>> {};
struct Layout : mtf::Layout<mtf::Split<"batch", "rows">> {};

auto program(mtf::World<Mesh, Layout>& world) {
  auto n = mtf::constant<std::int32_t>(world, 6, Batch{});
#ifdef MTF_CONTROL
  return mtf::floor_divide(n, n);
#else
  return n / n;
#endif
}
