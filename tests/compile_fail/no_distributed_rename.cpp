// The dim would change the axis that splits it.
// EXPECT-ERROR: no_distributed_form<
// EXPECT-ERROR: DimList<A>
// EXPECT-ERROR: DimList<C>
// FIRST-ERROR: mtf: this move of split dims has no distributed form; rename the split dims
// MAX-LINES: 12
#include <mtf/mtf.hpp>

struct Batch : mtf::Dim<"batch", 64> {};
struct Io : mtf::Dim<"io", 1024> {};
struct Hidden : mtf::Dim<"hidden", 4096> {};
struct A : mtf::Dim<"a", 4> {};
struct B : mtf::Dim<"b", 4> {};
struct C : mtf::Dim<"c", 4> {};
struct D : mtf::Dim<"d", 4> {};
struct E : mtf::Dim<"e", 4> {};
struct Mesh : mtf::Mesh<mtf::Axis<"rows", 2>, mtf::Axis<"cols", 2>> {};
struct Layout : mtf::Layout<mtf::Split<"a", "rows">, mtf::Split<"b", "cols">, mtf::Split<"c", "cols">, mtf::Split<"d", "rows">> {};

auto program(mtf::World<Mesh, Layout>& world) {
  auto x = mtf::random_normal<float, A>(world, mtf::seed{1});
#ifdef MTF_CONTROL
  return mtf::rename<E, C>(mtf::rename<A, E>(x));
#else
  return mtf::rename<A, C>(x);
#endif
}
