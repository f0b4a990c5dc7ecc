// A derived gradient for a kernel that is not pointwise.
// EXPECT-ERROR: pointwise
// FIRST-ERROR: mtf: local_map: pointwise needs a result whose dims are those of the inputs together; pass a gradient
// function
// MAX-LINES: 14
#include <mtf/mtf.hpp>

struct Batch : mtf::Dim<"batch", 64> {};
struct Io : mtf::Dim<"io", 1024> {};
struct Mesh : mtf::Mesh<mtf::Axis<"rows", 2>> {};
struct Layout : mtf::Layout<mtf::Split<"batch", "rows">> {};

struct Kernel {
  template <class Space, class Y, class X>
  void operator()(const Space&, const Y&, const X&) const {}
};

auto program(mtf::World<Mesh, Layout>& world) {
  auto x = mtf::random_normal<float, Batch, Io>(world, mtf::seed{1});
#ifdef MTF_CONTROL
  return mtf::local_map(mtf::local_result<float>(Batch{}, Io{}), Kernel{}, mtf::pointwise, x);
#else
  return mtf::local_map(mtf::local_result<float>(Batch{}), Kernel{}, mtf::pointwise, x);
#endif
}
