// Integers compared with a fraction.
// EXPECT-ERROR: number_loses_fraction<int, double>
// FIRST-ERROR: mtf: an integer tensor and a floating-point number would lose the fraction
// MAX-LINES: 12
#include <mtf/mtf.hpp>

struct Batch : mtf::Dim<"batch", 64> {};
struct Io : mtf::Dim<"io", 1024> {};
struct Hidden : mtf::Dim<"hidden", 4096> {};
struct Mesh : mtf::Mesh<mtf::Axis<"rows", 2>, mtf::Axis<"cols", 2>> {};
struct Layout : mtf::Layout<mtf::Split<"batch", "rows">, mtf::Split<"hidden", "cols">> {};

auto program(mtf::World<Mesh, Layout>& world) {
  auto n = mtf::zeros<std::int32_t>(world, Batch{}, Io{});
#ifdef MTF_CONTROL
  return mtf::less(mtf::cast<float>(n), 0.5);
#else
  return mtf::less(n, 0.5);
#endif
}
