// Operands that differ in dims that are not joined.
// EXPECT-ERROR: Length
// FIRST-ERROR: mtf: concat: the operands differ in other dims than those that are joined
// MAX-LINES: 12
#include <mtf/mtf.hpp>

struct Batch : mtf::Dim<"batch", 64> {};
struct Length : mtf::Dim<"length", 16> {};
struct Half : mtf::Dim<"length", 8> {};
struct Longer : mtf::Dim<"longer", 20> {};
struct Hidden : mtf::Dim<"hidden", 4096> {};
struct Mesh : mtf::Mesh<mtf::Axis<"rows", 2>, mtf::Axis<"cols", 2>> {};
struct Layout : mtf::Layout<mtf::Split<"batch", "rows">, mtf::Split<"hidden", "cols">> {};

auto program(mtf::World<Mesh, Layout>& world) {
  auto x = mtf::random_normal<float, Batch, Length>(world, mtf::seed{1});
#ifdef MTF_CONTROL
  return mtf::concat<Length>(mtf::Dim<"longer", 32>{}, x, x) * 2;
#else
  return mtf::concat<Length>(mtf::Dim<"longer", 32>{}, x, mtf::rename<Batch, mtf::Dim<"hidden", 64>>(x)) * 2;
#endif
}
