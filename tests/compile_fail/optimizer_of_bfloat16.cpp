// An optimizer that would update bfloat16, and lose the updates.
// EXPECT-ERROR: ElementTypes<float, float, bfloat16>
// FIRST-ERROR: mtf: an optimizer updates float or double
// MAX-LINES: 12
#include <mtf/mtf.hpp>

struct Mesh : mtf::Mesh<mtf::Axis<"rows", 2>> {};
struct Layout : mtf::Layout<> {};
using World = mtf::World<Mesh, Layout>;

#ifdef MTF_CONTROL
using Slice = float;
#else
using Slice = mtf::bfloat16;
#endif

void program(World& world) { mtf::Sgd<World, Slice> optimizer(world); }
