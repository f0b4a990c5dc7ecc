// The gradients of a loss that is an array.
// EXPECT-ERROR: loss_not_scalar<
// EXPECT-ERROR: Batch
// FIRST-ERROR: mtf: gradients: the loss must be a scalar; reduce_mean or reduce_sum it over its dims
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
  auto h = mtf::einsum<Batch, Hidden>(x, w);
#ifdef MTF_CONTROL
  auto [dw] = mtf::gradients(mtf::reduce_sum(h), w);
#else
  auto [dw] = mtf::gradients(mtf::reduce_sum<Hidden>(h), w);
#endif
  return mtf::reduce_sum(dw);
}
