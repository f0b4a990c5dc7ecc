// A fraction added to integers.
// EXPECT-ERROR: number_loses_fraction<int, double>
// FIRST-ERROR: mtf: an integer tensor and a floating-point number would lose the fraction
// MAX-LINES: 12
#include <mtf/mtf.hpp>

struct Batch : mtf::Dim<"batch", 64> {};
struct Classes : mtf::Dim<"classes", 16> {};
struct Mesh : mtf::Mesh<mtf::Axis<"rows", 2>, mtf::Axis<"cols", 2>> {};
struct Layout : mtf::Layout<mtf::Split<"batch", "rows">> {};

auto program(mtf::World<Mesh, Layout>& world) {
  auto n = mtf::zeros<std::int32_t>(world, Batch{});
#ifdef MTF_CONTROL
  return mtf::cast<float>(n) + 0.5;
#else
  return n + 0.5;
#endif
}
