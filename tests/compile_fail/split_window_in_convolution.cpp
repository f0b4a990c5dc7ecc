// A convolution with a filter whose window dim is split.
// FIRST-ERROR: mtf: convolution: the window dim of a filter is split, but every rank needs the whole window
// EXPECT-ERROR: rename<Window, Whole>(filter)
// MAX-LINES: 12
#include <mtf/mtf.hpp>

struct Batch : mtf::Dim<"batch", 64> {};
struct Width : mtf::Dim<"width", 32> {};
struct Steps : mtf::Dim<"steps", 32> {};
struct Tap : mtf::Dim<"tap", 4> {};
struct Whole : mtf::Dim<"whole", 4> {};
struct In : mtf::Dim<"in", 8> {};
struct Out : mtf::Dim<"out", 8> {};
struct Mesh : mtf::Mesh<mtf::Axis<"rows", 2>, mtf::Axis<"cols", 2>> {};
struct Layout : mtf::Layout<mtf::Split<"batch", "rows">, mtf::Split<"tap", "cols">> {};

auto program(mtf::World<Mesh, Layout>& world) {
  auto filter = mtf::variable<float, Tap, In, Out>(world, "filter", mtf::init::glorot);
  auto x = mtf::zeros<float>(world, Batch{}, Width{}, In{});
#ifdef MTF_CONTROL
  return mtf::convolution<mtf::Spatial<Width, Whole, Steps>>(x, mtf::rename<Tap, Whole>(filter)) * 2;
#else
  return mtf::convolution<mtf::Spatial<Width, Tap, Steps>>(x, filter) * 2;
#endif
}
