// An extra logit for each element instead of for each row.
// EXPECT-ERROR: without the one that is summed over
// FIRST-ERROR: mtf: softmax: an extra logit is a number, or a tensor
// MAX-LINES: 12
#include <mtf/mtf.hpp>

struct Batch : mtf::Dim<"batch", 64> {};
struct Io : mtf::Dim<"io", 1024> {};
struct Hidden : mtf::Dim<"hidden", 4096> {};
struct Mesh : mtf::Mesh<mtf::Axis<"rows", 2>, mtf::Axis<"cols", 2>> {};
struct Layout : mtf::Layout<mtf::Split<"batch", "rows">, mtf::Split<"hidden", "cols">> {};

auto program(mtf::World<Mesh, Layout>& world) {
  auto x = mtf::zeros<float>(world, Batch{}, Io{});
#ifdef MTF_CONTROL
  return mtf::softmax<Io>(x, mtf::reduce_max<Io>(x));
#else
  return mtf::softmax<Io>(x, x);
#endif
}
