// A search while compiling on a mesh whose size is known when the program starts.
// EXPECT-ERROR: static_mesh_size<
// FIRST-ERROR: mtf: best_layout: the mesh has an axis of dynamic size
// MAX-LINES: 14
#include <mtf/mtf.hpp>
#include <mtf/tensor/best_layout.hpp>

struct Batch : mtf::Dim<"batch", 512> {};
#ifdef MTF_CONTROL
struct Mesh : mtf::Mesh<mtf::Axis<"rows", 2>> {};
#else
struct Mesh : mtf::Mesh<mtf::Axis<"rows">> {};
#endif

constexpr auto step = [](auto& world) { (void)mtf::zeros<float>(world, Batch{}); };

using Layout = mtf::best_layout<Mesh, step>;
#ifdef MTF_CONTROL
constexpr bool is_static = Layout::is_static;
#endif
