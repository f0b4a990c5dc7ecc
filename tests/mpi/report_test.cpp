// The report of a running world: what its dry run says, with times that were measured.
#include <mtf/io/make_report.hpp>
#include <mtf/io/report_html.hpp>
#include <mtf/io/report_json.hpp>

#include "support.hpp"

namespace {

using namespace support;

struct Hidden : mtf::Dim<"hidden"> {};

/// A step of two layers with an embedding; `world` traces the second of two.
template <class W>
void two_steps(W& world, const mtf::Tensor<W, std::int32_t, B>& ids) {
  const Hidden hidden{32};
  const auto table = mtf::variable<double>(world, "table", mtf::init::glorot, v, k);
  const auto w = mtf::variable<double>(world, "layer/0/w", mtf::init::glorot, k, hidden);
  const auto u = mtf::variable<double>(world, "layer/1/w", mtf::init::glorot, hidden, k);
  mtf::Adam<W, double> adam(world);
  for (int i = 0; i < 2; ++i) {
    if (i == 1) world.start_tracing();
    const auto x = mtf::gather<V>(table, ids);
    const auto y = mtf::einsum<B, K>(mtf::relu(mtf::einsum<B, Hidden>(x, w)), u);
    adam.apply(mtf::gradients_of_variables(world, mtf::reduce_mean(mtf::square(y - x))), 0.01);
  }
}

}  // namespace

TEST_CASE("a world reports what its dry run reports, and measures") {
  for (const std::string& mesh : meshes()) {
    for (const std::string_view layout :
         {std::string_view{}, std::string_view{"b:rows;hidden:cols"}, std::string_view{"b:rows;v:cols;k:cols"}}) {
      const std::string place = fmt::format("mesh {}, layout {}", mesh, layout);
      mtf::DryRun<mtf::dynamic_mesh, mtf::dynamic_layout> dry({.mesh = mesh, .layout = layout});
      World world(MPI_COMM_WORLD, {.mesh = mesh, .layout = layout});
      if (layout == "b:rows;v:cols;k:cols") {
        // Two dims of one table over one axis: both refuse.
        CHECK_THROWS_AS(two_steps(dry, mtf::placeholder<std::int32_t>(dry, b)), mtf::plan_error);
        CHECK_THROWS_AS(two_steps(world, mtf::from_global(world, Ids(16, 3), b)), mtf::plan_error);
        continue;
      }
      two_steps(dry, mtf::placeholder<std::int32_t>(dry, b));
      two_steps(world, mtf::from_global(world, Ids(16, 3), b));
      const mtf::Report planned = mtf::make_report(dry);
      const mtf::Report done = mtf::make_report(world);
      CHECK_MESSAGE(done.is_measured, place);
      CHECK_FALSE(planned.is_measured);
      CHECK(done.layout == planned.layout);
      CHECK(done.findings == planned.findings);
      CHECK(done.cost.collective_costs == planned.cost.collective_costs);
      CHECK(done.cost.parameters_per_rank == planned.cost.parameters_per_rank);
      CHECK(done.cost.state_bytes == planned.cost.state_bytes);
      CHECK(done.counters == planned.counters);
      CHECK(done.einsum == planned.einsum);
      CHECK_MESSAGE(done.tensors.size() == planned.tensors.size(), place);
      REQUIRE(done.operations.size() == planned.operations.size());
      for (std::size_t i = 0; i < done.operations.size(); ++i) {
        CHECK(done.operations[i].name == planned.operations[i].name);
        CHECK(done.operations[i].phase == planned.operations[i].phase);
        CHECK(done.operations[i].multiply_adds == planned.operations[i].multiply_adds);
        CHECK(done.operations[i].bytes == planned.operations[i].bytes);
      }
      REQUIRE(done.communication.size() == planned.communication.size());
      for (std::size_t i = 0; i < done.communication.size(); ++i)
        CHECK(done.communication[i].operation == planned.communication[i].operation);
      REQUIRE(done.events.size() == planned.events.size());
      for (std::size_t i = 0; i < done.events.size(); ++i) {
        CHECK(done.events[i].seconds >= 0);
        if (i > 0) CHECK(done.events[i].begin >= done.events[i - 1].begin + done.events[i - 1].seconds - 1e-9);
      }
      CHECK(mtf::json_of(done)["time"].contains("measured"));
      CHECK(done.outside_seconds() > 0);  // clocks tick between plans
      CHECK(done.local_seconds() + done.communication_seconds() + done.outside_seconds() ==
            doctest::Approx(done.seconds()));
      CHECK(mtf::to_html(done).find("measured") != std::string::npos);
      CHECK(mtf::to_text(done).find("measured") != std::string::npos);
    }
  }
}
