// COUNT times the statement OPERATION, counted by the compiler; with GRADIENT defined as 1, `z` is differentiated at
// the end.
#include <mtf/model.hpp>

struct B : mtf::Dim<"batch", 64> {};
struct H : mtf::Dim<"hidden", 128> {};
struct K : mtf::Dim<"k", 32> {};
struct K2 : mtf::Dim<"k2", 32> {};
struct Mesh : mtf::Mesh<mtf::Axis<"rows", 2>, mtf::Axis<"cols", 4>> {};
struct Layout : mtf::Layout<mtf::Split<"batch", "rows">, mtf::Split<"hidden", "cols">> {};

constexpr auto step = [](auto& world) {
  [[maybe_unused]] const auto x = mtf::placeholder<float>(world, B{}, H{});
  [[maybe_unused]] const auto y = mtf::placeholder<float>(world, B{}, H{});
  [[maybe_unused]] const auto w = mtf::placeholder<float>(world, H{}, K{});
  [[maybe_unused]] const mtf::Scope scope("model");
  [[maybe_unused]] auto z = mtf::watch(x);
  [[maybe_unused]] const auto first = z;
  for (int i = 0; i < COUNT; ++i) {
    OPERATION;
  }
  if constexpr (GRADIENT) (void)mtf::gradients(mtf::reduce_sum(z), first);
};
constexpr mtf::Cost cost = mtf::cost<Mesh, Layout>(step);
static_assert(cost.peak_memory() > 0);

int main() {}
