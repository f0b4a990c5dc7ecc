// An output dim that no operand has.
// EXPECT-ERROR: output_dim_in_no_operand<Hiden,
// EXPECT-ERROR: use broadcast(x, dim)
// FIRST-ERROR: mtf: einsum: an output dim occurs in no operand
// MAX-LINES: 12
#include <mtf/mtf.hpp>

struct Batch : mtf::Dim<"batch", 64> {};
struct Io : mtf::Dim<"io", 1024> {};
struct Hidden : mtf::Dim<"hidden", 4096> {};
struct Hiden : mtf::Dim<"hiden", 4096> {};
struct Mesh : mtf::Mesh<mtf::Axis<"rows", 2>, mtf::Axis<"cols", 2>> {};
struct Layout : mtf::Layout<mtf::Split<"batch", "rows">, mtf::Split<"hidden", "cols">> {};

auto program(mtf::World<Mesh, Layout>& world) {
  auto x = mtf::random_normal<float, Batch, Io>(world, mtf::seed{1});
  auto w = mtf::variable<float, Io, Hidden>(world, "w", mtf::init::glorot);
#ifdef MTF_CONTROL
  return mtf::reduce_mean(mtf::einsum<Batch, Hidden>(x, w));
#else
  return mtf::reduce_mean(mtf::einsum<Batch, Hiden>(x, w));
#endif
}
