// More different dims in one operation than the library takes.
// EXPECT-ERROR: too_many_dims<25>
// FIRST-ERROR: mtf: more dims than the library takes: 12 in a tensor, 24 in an operation
// MAX-LINES: 12
#include <mtf/mtf.hpp>

template <mtf::FixedString Name>
using D = mtf::Dim<Name, 2>;
struct Mesh : mtf::Mesh<mtf::Axis<"rows", 2>, mtf::Axis<"cols", 2>> {};
struct Layout : mtf::Layout<mtf::Split<"a", "rows">> {};
using World = mtf::World<Mesh, Layout>;
using A = mtf::Tensor<World, float, D<"a">, D<"b">, D<"c">, D<"d">, D<"e">, D<"f">, D<"g">, D<"h">, D<"i">, D<"j">>;
using B = mtf::Tensor<World, float, D<"k">, D<"l">, D<"m">, D<"n">, D<"o">, D<"p">, D<"q">, D<"r">, D<"s">, D<"t">>;
using C = mtf::Tensor<World, float, D<"u">, D<"v">, D<"w">, D<"x">, D<"y">>;

auto program(const A& a, const B& b, const C& c) {
#ifdef MTF_CONTROL
  return mtf::reduce_sum(mtf::einsum<D<"a">>(a, b, a) + mtf::einsum<D<"u">>(c));
#else
  return mtf::reduce_sum(mtf::einsum<D<"a">>(a, b, a, c));
#endif
}
