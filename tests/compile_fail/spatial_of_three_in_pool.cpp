// Pooling with a window dim, as if it had a filter.
// FIRST-ERROR: mtf: pooling: a Spatial names two dims here, Spatial<Input, Output>; the window is a number, {.window =
// 2}
// MAX-LINES: 12
#include <mtf/mtf.hpp>

struct Batch : mtf::Dim<"batch", 64> {};
struct Width : mtf::Dim<"width", 32> {};
struct Tap : mtf::Dim<"tap", 2> {};
struct Half : mtf::Dim<"half", 16> {};
struct Mesh : mtf::Mesh<mtf::Axis<"rows", 2>, mtf::Axis<"cols", 2>> {};
struct Layout : mtf::Layout<mtf::Split<"width", "rows">, mtf::Split<"half", "rows">> {};

auto program(mtf::World<Mesh, Layout>& world) {
  auto x = mtf::zeros<float>(world, Batch{}, Width{});
#ifdef MTF_CONTROL
  return mtf::average_pool<mtf::Spatial<Width, Half>>(x, {.window = 2}) * 2;
#else
  return mtf::average_pool<mtf::Spatial<Width, Tap, Half>>(x, {.window = 2}) * 2;
#endif
}
