// The k dim and another dim are split over one axis.
// EXPECT-ERROR: axis_used_twice<Batch, Split8
// FIRST-ERROR: mtf: two dims of one tensor or operation are split over the same mesh axis
// MAX-LINES: 12
#include <mtf/mtf.hpp>

struct Batch : mtf::Dim<"batch", 64> {};
struct Io : mtf::Dim<"io", 1024> {};
struct Hidden : mtf::Dim<"hidden", 4096> {};
struct Top : mtf::Dim<"top", 8> {};
struct Split8 : mtf::Dim<"split", 8> {};
struct Mesh : mtf::Mesh<mtf::Axis<"rows", 2>, mtf::Axis<"cols", 2>> {};
struct Layout : mtf::Layout<mtf::Split<"batch", "rows">, mtf::Split<"split", "rows">> {};

auto program(mtf::World<Mesh, Layout>& world) {
  auto x = mtf::zeros<float>(world, Batch{}, Io{});
#ifdef MTF_CONTROL
  return mtf::top_k<Io, Top>(x).values;
#else
  return mtf::top_k<Io, Split8>(x).values;
#endif
}
