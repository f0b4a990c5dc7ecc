// More elements than the dim has.
// EXPECT-ERROR: k_exceeds_extent<Batch, Many, 64, 65>
// FIRST-ERROR: mtf: top_k: the k dim asks for more elements than the dim has
// MAX-LINES: 12
#include <mtf/mtf.hpp>

struct Batch : mtf::Dim<"batch", 64> {};
struct Io : mtf::Dim<"io", 1024> {};
struct Hidden : mtf::Dim<"hidden", 4096> {};
struct Fewer : mtf::Dim<"k", 32> {};
struct Many : mtf::Dim<"many", 65> {};
struct Mesh : mtf::Mesh<mtf::Axis<"rows", 2>, mtf::Axis<"cols", 2>> {};
struct Layout : mtf::Layout<mtf::Split<"batch", "rows">, mtf::Split<"hidden", "cols">> {};

auto program(mtf::World<Mesh, Layout>& world) {
  auto x = mtf::zeros<float>(world, Batch{}, Io{});
#ifdef MTF_CONTROL
  return mtf::top_k<Io, Fewer>(x).values;
#else
  return mtf::top_k<Batch, Many>(x).values;
#endif
}
