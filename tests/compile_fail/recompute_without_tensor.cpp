// A function to run again that returns no tensor.
// EXPECT-ERROR: std::tuple
// FIRST-ERROR: mtf: the function given to recompute or custom_gradient must return a tensor or a std::tuple of tensors
// MAX-LINES: 12
#include <mtf/mtf.hpp>

struct Batch : mtf::Dim<"batch", 64> {};
struct Io : mtf::Dim<"io", 1024> {};
struct Mesh : mtf::Mesh<mtf::Axis<"rows", 2>, mtf::Axis<"cols", 2>> {};
struct Layout : mtf::Layout<mtf::Split<"batch", "rows">> {};

struct Size {
  template <class X>
  auto operator()(const X& x) const {
#ifdef MTF_CONTROL
    return x * 2;
#else
    return x.size();
#endif
  }
};

auto program(mtf::World<Mesh, Layout>& world) {
  auto x = mtf::random_normal<float, Batch, Io>(world, mtf::seed{1});
  return mtf::recompute(Size{}, x);
}
