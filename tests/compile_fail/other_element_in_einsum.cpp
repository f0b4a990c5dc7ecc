// Operands of two element types.
// EXPECT-ERROR: different_element_types<float, double>
// FIRST-ERROR: mtf: the operands of an operation have different element types; convert one with cast<T>(x)
// MAX-LINES: 12
#include <mtf/mtf.hpp>

struct Batch : mtf::Dim<"batch", 64> {};
struct Io : mtf::Dim<"io", 1024> {};
struct Hidden : mtf::Dim<"hidden", 4096> {};
struct Mesh : mtf::Mesh<mtf::Axis<"rows", 2>, mtf::Axis<"cols", 2>> {};
struct Layout : mtf::Layout<mtf::Split<"batch", "rows">, mtf::Split<"hidden", "cols">> {};

auto program(mtf::World<Mesh, Layout>& world) {
  auto x = mtf::random_normal<float, Batch, Io>(world, mtf::seed{1});
  auto w = mtf::variable<double, Io, Hidden>(world, "w", mtf::init::glorot);
#ifdef MTF_CONTROL
  return mtf::reduce_mean(mtf::einsum<Batch, Hidden>(x, mtf::cast<float>(w)));
#else
  return mtf::reduce_mean(mtf::einsum<Batch, Hidden>(x, w));
#endif
}
