// Padding a dim that is not there.
// EXPECT-ERROR: Hidden
// FIRST-ERROR: mtf: pad: an operation names a dim that its operand does not have; check the spelling
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
  return mtf::pad<Length>(x, 2, 2, Longer{}) * 2;
#else
  return mtf::pad<Hidden>(x, 2, 2, Longer{}) * 2;
#endif
}
