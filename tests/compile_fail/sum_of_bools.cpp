// Counting in bools.
// EXPECT-ERROR: cast<std::int32_t>(x) to count, or use reduce_any or reduce_all
// FIRST-ERROR: mtf: reduce_sum: a sum of bools would be a bool
// MAX-LINES: 12
#include <mtf/mtf.hpp>

struct Batch : mtf::Dim<"batch", 64> {};
struct Mesh : mtf::Mesh<mtf::Axis<"rows", 2>> {};
struct Layout : mtf::Layout<mtf::Split<"batch", "rows">> {};

struct IsPositive {
  bool operator()(float x) const { return x > 0; }
};

auto program(mtf::World<Mesh, Layout>& world) {
  auto positive = mtf::map(IsPositive{}, mtf::random_normal<float, Batch>(world, mtf::seed{1}));
#ifdef MTF_CONTROL
  return mtf::reduce_sum(mtf::cast<std::int32_t>(positive));
#else
  return mtf::reduce_sum(positive);
#endif
}
