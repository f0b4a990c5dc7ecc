// A smooth function of integers.
// EXPECT-ERROR: not_floating<int>
// FIRST-ERROR: mtf: this function takes float or double; convert with cast<float>(x)
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
  return mtf::gelu(mtf::cast<float>(n));
#else
  return mtf::gelu(n);
#endif
}
