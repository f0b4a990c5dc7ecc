// A number added to bools.
// FIRST-ERROR: mtf: a sum of bools would be a bool; cast<std::int32_t>(x) to count
// MAX-LINES: 12
#include <mtf/mtf.hpp>

struct Batch : mtf::Dim<"batch", 64> {};
struct Classes : mtf::Dim<"classes", 16> {};
struct Mesh : mtf::Mesh<mtf::Axis<"rows", 2>, mtf::Axis<"cols", 2>> {};
struct Layout : mtf::Layout<mtf::Split<"batch", "rows">> {};

auto program(mtf::World<Mesh, Layout>& world) {
  auto b = mtf::zeros<bool>(world, Batch{});
#ifdef MTF_CONTROL
  return mtf::cast<std::int32_t>(b) + 1;
#else
  return b + 1;
#endif
}
