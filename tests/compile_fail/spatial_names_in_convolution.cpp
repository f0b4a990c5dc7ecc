// A convolution whose output dim the filter has already.
// FIRST-ERROR: mtf: convolution: a dim of a Spatial has a name that another dim of the operation has; rename one of the
// two
// MAX-LINES: 12
#include <mtf/mtf.hpp>

struct Batch : mtf::Dim<"batch", 64> {};
struct Width : mtf::Dim<"width", 32> {};
struct Tap : mtf::Dim<"tap", 4> {};
struct In : mtf::Dim<"in", 8> {};
struct Out : mtf::Dim<"out", 8> {};
struct Mesh : mtf::Mesh<mtf::Axis<"rows", 2>, mtf::Axis<"cols", 2>> {};
struct Layout : mtf::Layout<mtf::Split<"width", "rows">> {};

auto program(mtf::World<Mesh, Layout>& world) {
  auto filter = mtf::variable<float, Tap, In, Out>(world, "filter", mtf::init::glorot);
  auto x = mtf::zeros<float>(world, Batch{}, Width{}, In{});
#ifdef MTF_CONTROL
  return mtf::convolution<mtf::Spatial<Width, Tap, Width>>(x, filter) * 2;
#else
  return mtf::convolution<mtf::Spatial<Width, Tap, Out>>(x, filter) * 2;
#endif
}
