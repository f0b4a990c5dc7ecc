// A tensor of more elements than 64 bits count.
// EXPECT-ERROR: too_many_elements<Wide, 1099511627776, 1099511627776
// FIRST-ERROR: mtf: the extents multiply to more than can be counted in 64 bits
// MAX-LINES: 12
#include <mtf/mtf.hpp>

struct Long : mtf::Dim<"long", 1099511627776> {};
struct Wide : mtf::Dim<"wide", 1099511627776> {};
struct Mesh : mtf::Mesh<mtf::Axis<"rows", 2>, mtf::Axis<"cols", 2>> {};
struct Layout : mtf::Layout<mtf::Split<"long", "rows">> {};

auto program(mtf::World<Mesh, Layout>& world) {
#ifdef MTF_CONTROL
  return mtf::zeros<float>(world, Long{}) + 1;
#else
  return mtf::zeros<float>(world, Long{}, Wide{}) + 1;
#endif
}
