// A convolution whose output dim is split over the axis of another dim than its input.
// EXPECT-ERROR: Steps
// EXPECT-ERROR: Out
// FIRST-ERROR: mtf: two dims of one tensor or operation are split over the same mesh axis
// MAX-LINES: 12
#include <mtf/mtf.hpp>

struct Batch : mtf::Dim<"batch", 64> {};
struct Width : mtf::Dim<"width", 32> {};
struct Steps : mtf::Dim<"steps", 32> {};
struct Whole : mtf::Dim<"whole", 32> {};
struct Tap : mtf::Dim<"tap", 4> {};
struct In : mtf::Dim<"in", 8> {};
struct Out : mtf::Dim<"out", 8> {};
struct Mesh : mtf::Mesh<mtf::Axis<"rows", 2>, mtf::Axis<"cols", 2>> {};
struct Layout : mtf::Layout<mtf::Split<"batch", "rows">, mtf::Split<"out", "cols">, mtf::Split<"steps", "cols">> {};

auto program(mtf::World<Mesh, Layout>& world) {
  auto filter = mtf::variable<float, Tap, In, Out>(world, "filter", mtf::init::glorot);
  auto x = mtf::zeros<float>(world, Batch{}, Width{}, In{});
#ifdef MTF_CONTROL
  return mtf::convolution<mtf::Spatial<Width, Tap, Whole>>(x, filter) * 2;
#else
  return mtf::convolution<mtf::Spatial<Width, Tap, Steps>>(x, filter) * 2;
#endif
}
