#include "choose_layout.hpp"

#include <mtf/io/layout_report.hpp>
#include <mtf/io/machine.hpp>

#include "training.hpp"

namespace {

/// The machine of a file that rank 0 reads: what is wrong with it is said once, and it may be a pipe.
mtf::Machine shared_machine(const std::string& path, MPI_Comm comm) {
  int rank = 0;
  MPI_Comm_rank(comm, &rank);
  std::string text;
  if (rank == 0) text = mtf::json_of(mtf::read_machine(path)).dump();
  std::int64_t size = static_cast<std::int64_t>(text.size());
  MPI_Bcast(&size, 1, MPI_INT64_T, 0, comm);
  text.resize(static_cast<std::size_t>(size));
  MPI_Bcast(text.data(), static_cast<int>(size), MPI_CHAR, 0, comm);
  return mtf::machine_of(nlohmann::json::parse(text), path);
}

}  // namespace

void choose_layout(Options& options, MPI_Comm comm) {
  int rank = 0;
  int ranks = 1;
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &ranks);
  const ModelDims dims = model_dims(options);
  const auto step = [&](auto& world) {
    using World = std::remove_reference_t<decltype(world)>;
    const ByteModel<World> model(world, dims, {.layers = options.layers, .dropout = options.dropout});
    const auto inputs = mtf::placeholder<std::int32_t>(world, dims.batch, dims.length);
    const auto targets = mtf::placeholder<std::int32_t>(world, dims.batch, dims.length);
    mtf::Adam<World, float> adam(world);
    adam.apply(mtf::gradients_of_variables(world, model.loss(inputs, targets, true, mtf::seed{options.seed})),
               options.learning_rate);
  };
  mtf::SearchOptions search{.axis_names = {"rows", "cols"}};
  if (!options.machine.empty()) search.machine = shared_machine(options.machine, comm);
  mtf::Violations malformed;
  const mtf::MeshValue mesh = mtf::parse_mesh(options.mesh, malformed);
  mtf::require_none("--mesh", malformed);
  const mtf::LayoutSearch found =
      options.mesh.empty() ? mtf::search(step, ranks, search) : mtf::search_layout(step, mesh, search);
  if (rank == 0) fmt::print("{}", mtf::report(found));
  const std::string mesh_text = found.best().mesh_text();
  options.layout = found.best().layout_text();
  options.mesh = mesh_text;
}
