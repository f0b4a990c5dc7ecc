// Pooling along a dim that is not there.
// FIRST-ERROR: mtf: pooling: an operation names a dim that its operand does not have; check the spelling
// MAX-LINES: 12
#include <mtf/mtf.hpp>

struct Batch : mtf::Dim<"batch", 64> {};
struct Width : mtf::Dim<"width", 32> {};
struct Height : mtf::Dim<"height", 32> {};
struct Half : mtf::Dim<"half", 16> {};
struct Mesh : mtf::Mesh<mtf::Axis<"rows", 2>, mtf::Axis<"cols", 2>> {};
struct Layout : mtf::Layout<mtf::Split<"width", "rows">, mtf::Split<"half", "rows">> {};

auto program(mtf::World<Mesh, Layout>& world) {
  auto x = mtf::zeros<float>(world, Batch{}, Width{});
#ifdef MTF_CONTROL
  return mtf::max_pool<mtf::Spatial<Width, Half>>(x, {.window = 2}) * 2;
#else
  return mtf::max_pool<mtf::Spatial<Height, Half>>(x, {.window = 2}) * 2;
#endif
}
