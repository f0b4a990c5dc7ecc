// Targets with another number of rows than the logits.
// EXPECT-ERROR: unequal_extents<
// EXPECT-ERROR: Less
// EXPECT-ERROR: 32
// EXPECT-ERROR: 64
// FIRST-ERROR: mtf: one dim name has two extents in one operation
// MAX-LINES: 12
#include <mtf/mtf.hpp>

struct Batch : mtf::Dim<"batch", 64> {};
struct Classes : mtf::Dim<"classes", 16> {};
struct Mesh : mtf::Mesh<mtf::Axis<"rows", 2>, mtf::Axis<"cols", 2>> {};
struct Layout : mtf::Layout<mtf::Split<"batch", "rows">> {};

struct Less : mtf::Dim<"batch", 32> {};

auto program(mtf::World<Mesh, Layout>& world) {
  auto logits = mtf::zeros<float>(world, Batch{}, Classes{});
#ifdef MTF_CONTROL
  return mtf::cross_entropy<Classes>(logits, mtf::zeros<std::int32_t>(world, Batch{}));
#else
  return mtf::cross_entropy<Classes>(logits, mtf::zeros<std::int32_t>(world, Less{}));
#endif
}
