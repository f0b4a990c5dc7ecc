// A gradient with respect to integers.
// EXPECT-ERROR: not_differentiable<float, float, int>
// FIRST-ERROR: mtf: gradients: gradients exist only from and with respect to floating-point tensors
// MAX-LINES: 12
#include <mtf/mtf.hpp>

struct Batch : mtf::Dim<"batch", 64> {};
struct Io : mtf::Dim<"io", 1024> {};
struct Hidden : mtf::Dim<"hidden", 4096> {};
struct Mesh : mtf::Mesh<mtf::Axis<"rows", 2>, mtf::Axis<"cols", 2>> {};
struct Layout : mtf::Layout<mtf::Split<"batch", "rows">, mtf::Split<"hidden", "cols">> {};

auto program(mtf::World<Mesh, Layout>& world) {
  auto x = mtf::random_normal<float, Batch, Io>(world, mtf::seed{1});
  auto w = mtf::variable<float, Io, Hidden>(world, "w", mtf::init::glorot);
  auto n = mtf::cast<std::int32_t>(w);
  auto loss = mtf::reduce_mean(mtf::square(mtf::einsum<Batch, Hidden>(x, w)));
#ifdef MTF_CONTROL
  auto [dx, dw] = mtf::gradients(loss, mtf::watch(x), w);
#else
  auto [dx, dw] = mtf::gradients(loss, mtf::watch(x), n);
#endif
  return mtf::reduce_sum(dw) + mtf::reduce_sum(dx);
}
