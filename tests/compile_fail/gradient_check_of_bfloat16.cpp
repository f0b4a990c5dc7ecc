// Difference quotients in bfloat16.
// EXPECT-ERROR: bfloat16
// FIRST-ERROR: mtf: check_gradients: the xs must be of float or double, bfloat16 is too coarse for differences; check the function in one of them
// MAX-LINES: 12
#include <mtf/testing.hpp>

struct Batch : mtf::Dim<"batch", 64> {};
struct Io : mtf::Dim<"io", 1024> {};
struct Mesh : mtf::Mesh<mtf::Axis<"rows", 2>, mtf::Axis<"cols", 2>> {};
struct Layout : mtf::Layout<mtf::Split<"batch", "rows">> {};

auto program(mtf::World<Mesh, Layout>& world) {
  auto x = mtf::random_normal<mtf::bfloat16, Batch, Io>(world, mtf::seed{1});
  auto f = [](const auto& u) { return mtf::square(u); };
#ifdef MTF_CONTROL
  return mtf::check_gradients(world, f, mtf::cast<float>(x));
#else
  return mtf::check_gradients(world, f, x);
#endif
}
