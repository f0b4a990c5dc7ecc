// A search while compiling over more layouts than a compiler should cost: five dims that never meet, over two axes.
// EXPECT-ERROR: few_legal_layouts<
// FIRST-ERROR: mtf: best_layout: the step has more than 100 legal layouts on this mesh
// EXPECT-ERROR: search_layout(step, mesh)
// MAX-LINES: 14
#include <mtf/mtf.hpp>
#include <mtf/tensor/best_layout.hpp>

struct A : mtf::Dim<"a", 8> {};
struct B : mtf::Dim<"b", 8> {};
struct C : mtf::Dim<"c", 8> {};
struct D : mtf::Dim<"d", 8> {};
struct E : mtf::Dim<"e", 8> {};
struct Mesh : mtf::Mesh<mtf::Axis<"rows", 2>, mtf::Axis<"cols", 2>> {};

constexpr auto step = [](auto& world) {
  (void)mtf::zeros<float>(world, A{});
  (void)mtf::zeros<float>(world, B{});
  (void)mtf::zeros<float>(world, C{});
  (void)mtf::zeros<float>(world, D{});
  (void)mtf::zeros<float>(world, E{});
};

struct Options : mtf::BestLayoutOptions {
#ifdef MTF_CONTROL
  static constexpr auto dims = mtf::names("a", "b", "c", "d");
#endif
};

using Layout = mtf::best_layout<Mesh, step, Options>;
#ifdef MTF_CONTROL
constexpr mtf::Cost cost = mtf::cost<Mesh, Layout>(step);
#endif
