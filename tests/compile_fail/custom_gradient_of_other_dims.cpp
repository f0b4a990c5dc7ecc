// A gradient function that does not return a gradient for the input.
// EXPECT-ERROR: custom_gradient
// FIRST-ERROR: mtf: custom_gradient: the gradient function must return a gradient for each input, of its element type
// and dims
// MAX-LINES: 12
#include <mtf/mtf.hpp>

struct Batch : mtf::Dim<"batch", 64> {};
struct Io : mtf::Dim<"io", 1024> {};
struct Mesh : mtf::Mesh<mtf::Axis<"rows", 2>, mtf::Axis<"cols", 2>> {};
struct Layout : mtf::Layout<mtf::Split<"batch", "rows">> {};

struct Double {
  template <class X>
  auto operator()(const X& x) const {
    return x * 2;
  }
};
struct Gradient {
  template <class Dy, class Y, class X>
  auto operator()(const Dy& dy, const Y&, const X&) const {
#ifdef MTF_CONTROL
    return dy * 2;
#else
    return mtf::reduce_sum<Io>(dy * 2);
#endif
  }
};

auto program(mtf::World<Mesh, Layout>& world) {
  auto x = mtf::random_normal<float, Batch, Io>(world, mtf::seed{1});
  return mtf::custom_gradient(Double{}, Gradient{}, x);
}
