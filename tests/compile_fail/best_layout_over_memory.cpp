// A memory cap that no layout keeps.
// EXPECT-ERROR: fits_memory<
// EXPECT-ERROR: 131072
// FIRST-ERROR: mtf: best_layout: no legal layout of the step keeps its memory under the cap
// MAX-LINES: 14
#include <mtf/mtf.hpp>
#include <mtf/tensor/best_layout.hpp>

struct Batch : mtf::Dim<"batch", 512> {};
struct Io : mtf::Dim<"io", 512> {};
struct Mesh : mtf::Mesh<mtf::Axis<"rows", 2>, mtf::Axis<"cols", 2>> {};

constexpr auto step = [](auto& world) { (void)mtf::variable<float, Batch, Io>(world, "w", mtf::init::zeros); };

// A quarter of 1 MiB is the least that a processor holds.
struct Options : mtf::BestLayoutOptions {
#ifdef MTF_CONTROL
  static constexpr std::int64_t memory_cap = 256 * 1024;
#else
  static constexpr std::int64_t memory_cap = 128 * 1024;
#endif
};

using Layout = mtf::best_layout<Mesh, step, Options>;
#ifdef MTF_CONTROL
constexpr mtf::Cost cost = mtf::cost<Mesh, Layout>(step);
#endif
