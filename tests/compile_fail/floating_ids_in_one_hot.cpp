// Ids that are not whole numbers.
// EXPECT-ERROR: mtf: one_hot: ids must be int32 or int64
// FIRST-ERROR: mtf: one_hot: ids must be int32 or int64
// MAX-LINES: 12
#include <mtf/mtf.hpp>

struct Batch : mtf::Dim<"batch", 64> {};
struct Io : mtf::Dim<"io", 1024> {};
struct Hidden : mtf::Dim<"hidden", 4096> {};
struct Mesh : mtf::Mesh<mtf::Axis<"rows", 2>, mtf::Axis<"cols", 2>> {};
struct Layout : mtf::Layout<mtf::Split<"batch", "rows">, mtf::Split<"hidden", "cols">> {};

auto program(mtf::World<Mesh, Layout>& world) {
  auto n = mtf::zeros<std::int32_t>(world, Batch{}, Io{});
  auto x = mtf::zeros<float>(world, Batch{}, Io{});
#ifdef MTF_CONTROL
  return mtf::one_hot<float>(n, Hidden{});
#else
  return mtf::one_hot<float>(x, Hidden{});
#endif
}
