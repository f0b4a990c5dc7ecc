// Windows along a dim that the input does not have.
// FIRST-ERROR: mtf: convolution: an operation names a dim that its operand does not have; check the spelling
// MAX-LINES: 12
#include <mtf/mtf.hpp>

struct Batch : mtf::Dim<"batch", 64> {};
struct Width : mtf::Dim<"width", 32> {};
struct Height : mtf::Dim<"height", 32> {};
struct Steps : mtf::Dim<"steps", 32> {};
struct Tap : mtf::Dim<"tap", 4> {};
struct In : mtf::Dim<"in", 8> {};
struct Out : mtf::Dim<"out", 8> {};
struct Mesh : mtf::Mesh<mtf::Axis<"rows", 2>, mtf::Axis<"cols", 2>> {};
struct Layout : mtf::Layout<mtf::Split<"width", "rows">, mtf::Split<"steps", "rows">> {
};  // one Spatial: the axis may be shared

auto program(mtf::World<Mesh, Layout>& world) {
  auto filter = mtf::variable<float, Tap, In, Out>(world, "filter", mtf::init::glorot);
  auto x = mtf::zeros<float>(world, Batch{}, Width{}, In{});
#ifdef MTF_CONTROL
  return mtf::transposed_convolution<mtf::Spatial<Width, Tap, Steps>>(x, filter) * 2;
#else
  return mtf::transposed_convolution<mtf::Spatial<Height, Tap, Steps>>(x, filter) * 2;
#endif
}
