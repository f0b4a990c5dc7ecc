#include "two_layers.hpp"

#include <mtf/ops/activation.hpp>
#include <mtf/ops/arithmetic.hpp>
#include <mtf/ops/create.hpp>
#include <mtf/ops/einsum.hpp>
#include <mtf/ops/elementary.hpp>
#include <mtf/ops/gradients.hpp>
#include <mtf/ops/reduce.hpp>
#include <mtf/tensor/dry_run.hpp>

namespace {

struct Batch : mtf::Dim<"batch"> {};
struct Io : mtf::Dim<"io"> {};
struct Hidden : mtf::Dim<"hidden"> {};

}  // namespace

std::array<TwoLayerCase, 5> two_layer_table(const TwoLayerSizes& s) {
  // 2 products forward and 4 backward, each batch io hidden multiply-adds. Along the axis of the batch the gradients of
  // w and v are summed; along that of hidden y forward and the gradient of x backward; along that of io relu(x w) and
  // its gradient.
  const std::int64_t work = 6 * s.batch * s.io * s.hidden;
  const std::int64_t weights = 2 * s.io * s.hidden;
  const std::int64_t outer = 2 * s.batch * s.io;
  const std::int64_t inner = 2 * s.batch * s.hidden;
  return {{
      {"all:1", "", "0", work},
      {"all:16", "batch:all", "n/b", work / 16, weights},
      {"all:16", "hidden:all", "n/dh", work / 16, outer},
      {"rows:4;cols:8", "batch:rows;hidden:cols", "c/dh + r/b", work / 32, 0, weights / 8, outer / 4, 0},
      {"rows:4;cols:8;planes:2", "batch:rows;hidden:cols;io:planes", "c/dh + p/dio + r/b", work / 64, 0,
       weights / (8 * 2), outer / (4 * 2), inner / (4 * 8)},
  }};
}

mtf::Cost plan_two_layers(const TwoLayerSizes& sizes, std::string_view mesh, std::string_view layout) {
  mtf::DryRun<mtf::dynamic_mesh, mtf::dynamic_layout> world({.mesh = mesh, .layout = layout});
  const Batch batch{sizes.batch};
  const Io io{sizes.io};
  const Hidden hidden{sizes.hidden};
  const auto x = mtf::watch(mtf::placeholder<float>(world, batch, io));
  const auto w = mtf::variable<float>(world, "w", mtf::init::glorot, io, hidden);
  const auto v = mtf::variable<float>(world, "v", mtf::init::glorot, hidden, io);
  const auto y = mtf::einsum<Batch, Io>(mtf::relu(mtf::einsum<Batch, Hidden>(x, w)), v);
  const auto loss = mtf::reduce_sum(mtf::square(y));
  const auto [dx, dw, dv] = mtf::gradients(loss, x, w, v);
  // Someone uses them.
  for (const mtf::Array& gradient : {dx.array(), dw.array(), dv.array()}) mtf::complete(*gradient.value, "use");
  return world.cost();
}
