// The program of the README on a mesh of one processor.
#include <mtf/mtf.hpp>

struct Batch : mtf::Dim<"batch", 64> {};
struct Io : mtf::Dim<"io", 16> {};
struct Hidden : mtf::Dim<"hidden", 32> {};

struct Mesh : mtf::Mesh<mtf::Axis<"rows", 1>, mtf::Axis<"cols", 1>> {};
struct Layout : mtf::Layout<mtf::Split<"batch", "rows">, mtf::Split<"hidden", "cols">> {};

int main(int argc, char** argv) {
  return mtf::run(argc, argv, [] {                   // MPI and Kokkos start and stop here, or are adopted
    mtf::World<Mesh, Layout> world{MPI_COMM_WORLD};  // one communicator per mesh axis
    auto w = mtf::variable<float, Io, Hidden>(world, "w", mtf::init::glorot);
    auto v = mtf::variable<float, Hidden, Io>(world, "v", mtf::init::glorot);
    auto x = mtf::random_normal<float, Batch, Io>(world, mtf::seed{1});
    auto h = mtf::relu(mtf::einsum<Batch, Hidden>(x, w));  // local
    auto y = mtf::einsum<Batch, Io>(h, v);                 // one allreduce over "cols": "hidden" is summed out
    auto loss = mtf::reduce_mean(mtf::square(y - x));
    auto [dw, dv] = mtf::gradients(loss, w, v);  // pending over "rows": one allreduce each, at first use
    mtf::print(world, "loss {}\n", loss);  // asking for a value is collective, so printing is the world's business
  });
}
