// The concepts that generic code asks before it calls an operation: they answer, where the operation would stop the
// compiler.
#include <cstdint>

#include <doctest/doctest.h>

#include <mtf/mtf.hpp>

namespace {

struct Batch : mtf::Dim<"batch", 64> {};
struct OddBatch : mtf::Dim<"batch", 63> {};
struct Io : mtf::Dim<"io", 1024> {};
struct SmallIo : mtf::Dim<"io", 512> {};
struct Hidden : mtf::Dim<"hidden", 4096> {};
struct Heads : mtf::Dim<"heads", 16> {};
struct Width : mtf::Dim<"width", 64> {};
struct Length : mtf::Dim<"length"> {
  using Dim::Dim;
};

struct Mesh : mtf::Mesh<mtf::Axis<"rows", 2>, mtf::Axis<"cols", 2>> {};
struct Layout : mtf::Layout<mtf::Split<"batch", "rows">, mtf::Split<"hidden", "cols">, mtf::Split<"heads", "rows">> {};
struct UnknownAxis : mtf::Layout<mtf::Split<"batch", "planes">> {};
struct OptionalAxis : mtf::Layout<mtf::optional_rule<mtf::Split<"batch", "planes">>> {};
struct RepeatedRule : mtf::Layout<mtf::Split<"batch", "rows">, mtf::Split<"batch", "cols">> {};
struct RepeatedAxis : mtf::Layout<mtf::Split<"batch", "rows", "rows">> {};

using World = mtf::World<Mesh, Layout>;
using OtherWorld = mtf::World<Mesh, mtf::Layout<>>;
template <class... Dims>
using Floats = mtf::Tensor<World, float, Dims...>;
using Input = Floats<Batch, Io>;
using Weight = mtf::Variable<World, float, Io, Hidden>;

// A layout and a mesh.
static_assert(mtf::applicable<Mesh, Layout>);
static_assert(mtf::applicable<Mesh, OptionalAxis>);
static_assert(mtf::applicable<Mesh, mtf::dynamic_layout>);
static_assert(!mtf::applicable<Mesh, UnknownAxis>);
static_assert(!mtf::applicable<Mesh, RepeatedRule>);
static_assert(!mtf::applicable<Mesh, RepeatedAxis>);

// The dims of one tensor.
static_assert(mtf::placeable<World>);
static_assert(mtf::placeable<World, Batch, Hidden>);
static_assert(mtf::placeable<World, Length, Io>);
static_assert(!mtf::placeable<World, Batch, Heads>);    // both over rows
static_assert(!mtf::placeable<World, OddBatch>);        // 63 in two parts
static_assert(!mtf::placeable<World, Io, Hidden, Io>);  // one name twice
static_assert(mtf::placeable<OtherWorld, Batch, Heads>);

// The dims of an operation.
static_assert(mtf::uniteable<World, Batch, Io, Io, Hidden>);
static_assert(!mtf::uniteable<World, Batch, Io, Heads>);
static_assert(!mtf::uniteable<World, Batch, Io, SmallIo>);

// Operands.
static_assert(mtf::compatible<Input, Weight>);
static_assert(!mtf::compatible<Input, mtf::Tensor<World, double, Io>>);
static_assert(!mtf::compatible<Input, mtf::Tensor<OtherWorld, float, Io>>);
static_assert(!mtf::compatible<Input, mtf::poisoned>);
static_assert(!mtf::compatible<Input, int>);
static_assert(mtf::operable<Input, Weight>);
static_assert(mtf::operable<const Input&, Weight&>);
static_assert(!mtf::operable<Input, Floats<Heads>>);
static_assert(!mtf::operable<Input, Floats<SmallIo>>);
static_assert(!mtf::operable<Input, mtf::Tensor<World, std::int32_t, Io>>);
static_assert(!mtf::operable<>);

// An einsum.
static_assert(mtf::contractible<mtf::DimList<Batch, Hidden>, Input, Weight>);
static_assert(mtf::contractible<mtf::DimList<>, Input, Weight>);
static_assert(!mtf::contractible<mtf::DimList<Batch, Width>, Input, Weight>);   // a dim of no operand
static_assert(!mtf::contractible<mtf::DimList<Batch, Batch>, Input, Weight>);   // a dim twice
static_assert(!mtf::contractible<mtf::DimList<SmallIo>, Input, Weight>);        // another extent
static_assert(!mtf::contractible<mtf::DimList<Io>, Input, Floats<Io, Heads>>);  // batch and heads over rows
static_assert(!mtf::contractible<mtf::DimList<Io>, Input, mtf::poisoned>);

// A reshape.
static_assert(mtf::reshapable<World, mtf::DimList<Io>, mtf::DimList<Heads, Width>>);
static_assert(!mtf::reshapable<World, mtf::DimList<Io>, mtf::DimList<Hidden>>);        // another size
static_assert(!mtf::reshapable<World, mtf::DimList<Io>, mtf::DimList<Heads, Batch>>);  // both over rows
static_assert(mtf::reshapable<World, mtf::DimList<Length>, mtf::DimList<Hidden>>);     // known at run time

// What generic code does with the answer.
template <class X, class Y>
constexpr bool can_be_multiplied(const X*, const Y*) {
  if constexpr (mtf::operable<X, Y>) {
    return true;
  } else {
    return false;
  }
}

}  // namespace

TEST_CASE("concepts answer at run time what they answer the compiler") {
  const Input* x = nullptr;
  const Weight* w = nullptr;
  const Floats<Heads>* heads = nullptr;
  CHECK(can_be_multiplied(x, w));
  CHECK_FALSE(can_be_multiplied(x, heads));
  CHECK(mtf::check(mtf::detail::rules_of<World>, mtf::static_shape<Batch, Heads>(), true).size() == 1);
}
