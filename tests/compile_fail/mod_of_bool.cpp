// The remainder of true and false.
// EXPECT-ERROR: not_divisible<bool>
// FIRST-ERROR: mtf: floor_divide and mod take numbers, not bool
// MAX-LINES: 12
#include <mtf/mtf.hpp>

struct Batch : mtf::Dim<"batch", 64> {};
struct Io : mtf::Dim<"io", 1024> {};
struct Hidden : mtf::Dim<"hidden", 4096> {};
struct Mesh : mtf::Mesh<mtf::Axis<"rows", 2>, mtf::Axis<"cols", 2>> {};
struct Layout : mtf::Layout<mtf::Split<"batch", "rows">, mtf::Split<"hidden", "cols">> {};

auto program(mtf::World<Mesh, Layout>& world) {
  auto c = mtf::greater(mtf::zeros<float>(world, Batch{}), 0);
#ifdef MTF_CONTROL
  return mtf::mod(mtf::cast<std::int32_t>(c), 2);
#else
  return mtf::mod(c, 2);
#endif
}
