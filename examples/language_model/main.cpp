// A byte-level Transformer language model, trained on a text file under a layout of the user's choice.
#include <optional>

#include <mtf/io/file.hpp>

#include "choose_layout.hpp"
#include "options.hpp"
#include "training.hpp"

struct Mesh : mtf::Mesh<mtf::Axis<"rows">, mtf::Axis<"cols">> {};

struct Single : mtf::Layout<> {};
struct Data : mtf::Layout<mtf::Split<"batch", "rows">> {};
struct ModelParallel
    : mtf::Layout<mtf::Split<"heads", "cols">, mtf::Split<"d_ff", "cols">, mtf::Split<"vocab", "cols">> {};
struct Grid : mtf::Layout<mtf::Split<"batch", "rows">, mtf::Split<"heads", "cols">, mtf::Split<"d_ff", "cols">,
                          mtf::Split<"vocab", "cols">> {};

namespace {

template <class MeshType, class Layout>
void train_on(const Options& options) {
  mtf::World<MeshType, Layout> world(MPI_COMM_WORLD,
                                     {.mesh = options.mesh, .layout = options.layout, .seed = options.seed});
  train(world, options);
}

int start(int argc, char** argv) {
  Options options;
  if (const std::optional<int> code = read_options(argc, argv, MPI_COMM_WORLD, options)) return *code;
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  // What the trace is to go into is known to be writable before hours of training.
  if (rank == 0 && !options.trace.empty()) mtf::require_writable(options.trace);
  if (options.layout == "auto") choose_layout(options, MPI_COMM_WORLD);
  if (options.layout == "single") {
    train_on<Mesh, Single>(options);
  } else if (options.layout == "data") {
    train_on<Mesh, Data>(options);
  } else if (options.layout == "model") {
    train_on<Mesh, ModelParallel>(options);
  } else if (options.layout == "grid") {
    train_on<Mesh, Grid>(options);
  } else {
    train_on<mtf::dynamic_mesh, mtf::dynamic_layout>(options);
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return mtf::run(argc, argv, [&] { return start(argc, argv); });
}
