// A training step in parts of a dim that no input has.
// EXPECT-ERROR: Bach
// FIRST-ERROR: mtf: serialize_training_step: no input has the batch dim; check the spelling of its name
// MAX-LINES: 14
#include <mtf/mtf.hpp>

struct Batch : mtf::Dim<"batch", 64> {};
struct Part : mtf::Dim<"batch", 8> {};
struct Bach : mtf::Dim<"bach", 8> {};
struct Io : mtf::Dim<"io", 1024> {};
struct Mesh : mtf::Mesh<mtf::Axis<"rows", 2>> {};
struct Layout : mtf::Layout<mtf::Split<"batch", "rows">> {};

#ifdef MTF_CONTROL
using Name = Part;
#else
using Name = Bach;
#endif

auto program(mtf::World<Mesh, Layout>& world) {
  auto w = mtf::variable<float, Io>(world, "w", mtf::init::ones);
  auto x = mtf::random_normal<float, Batch, Io>(world, mtf::seed{1});
  return mtf::serialize_training_step(
      world, Name{}, [&](mtf::Microbatch part, const auto& u) { return mtf::reduce_mean(u * w) / part.count; }, x);
}
