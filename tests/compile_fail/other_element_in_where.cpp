// Branches of different element types.
// EXPECT-ERROR: different_element_types<float, int>
// FIRST-ERROR: mtf: the operands of an operation have different element types
// MAX-LINES: 12
#include <mtf/mtf.hpp>

struct Batch : mtf::Dim<"batch", 64> {};
struct Io : mtf::Dim<"io", 1024> {};
struct Hidden : mtf::Dim<"hidden", 4096> {};
struct Mesh : mtf::Mesh<mtf::Axis<"rows", 2>, mtf::Axis<"cols", 2>> {};
struct Layout : mtf::Layout<mtf::Split<"batch", "rows">, mtf::Split<"hidden", "cols">> {};

auto program(mtf::World<Mesh, Layout>& world) {
  auto x = mtf::zeros<float>(world, Batch{}, Io{});
  auto n = mtf::zeros<std::int32_t>(world, Batch{}, Io{});
  auto c = mtf::greater(mtf::zeros<float>(world, Batch{}), 0);
#ifdef MTF_CONTROL
  return mtf::where(c, x, mtf::cast<float>(n));
#else
  return mtf::where(c, x, n);
#endif
}
