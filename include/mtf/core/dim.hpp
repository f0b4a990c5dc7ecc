// Dim: a named tensor dimension, of static or dynamic extent.
#pragma once

#include <concepts>
#include <cstdint>
#include <limits>
#include <type_traits>

#include <mtf/core/inline_vector.hpp>
#include <mtf/core/name.hpp>

namespace mtf {
inline namespace v0 {

/// The extent of a dim (or the size of an axis) that is known at run time only: a number that no miscounted extent is.
inline constexpr std::int64_t dynamic = std::numeric_limits<std::int64_t>::min();

struct DimBase {};  ///< Base of every Dim; `dim_like` asks for it.

namespace detail {

// What differs between static and dynamic dims, without their name: nvcc finds no partial specialisation that has a text
// among its arguments.
template <std::int64_t Extent>
struct ExtentOf {
  static_assert(Extent > 0, "mtf: the extent of a dim must be positive; an empty tensor has no meaning here");
  static constexpr std::int64_t static_extent = Extent;
  [[nodiscard]] static constexpr std::int64_t extent() { return Extent; }
};
template <>
struct ExtentOf<dynamic> {
  static constexpr std::int64_t static_extent = dynamic;

  // A value is known: not even the number that stands for an unknown one passes for it.
  constexpr ExtentOf(std::int64_t extent) : value(extent == dynamic ? -1 : extent) {}
  [[nodiscard]] constexpr std::int64_t extent() const { return value; }

 private:
  std::int64_t value;
};

}  // namespace detail

/// A tensor dimension: a name and an extent. Its identity is the name; the C++ type that carries it does not matter.
/// Derive a struct to give errors and symbols a short spelling:
///
///     struct Batch  : mtf::Dim<"batch", 64> {};   // static extent: the type says it all
///     struct Length : mtf::Dim<"length"> {};      // dynamic extent: a value, Length length{512};
template <FixedString Text, std::int64_t Extent = dynamic>
struct Dim : DimBase, detail::ExtentOf<Extent> {
  using detail::ExtentOf<Extent>::ExtentOf;
  static constexpr Name name{Text.view()};
};

/// A Dim, or a struct derived from one, of static or dynamic extent.
template <class D>
concept dim_like = std::derived_from<std::remove_cvref_t<D>, DimBase>;

/// A dim whose type has the extent: `D{}` is all there is to say.
template <class D>
concept static_dim = dim_like<D> && std::remove_cvref_t<D>::static_extent != dynamic;

/// Two dims of one name, which makes them one dim, whatever their types and extents.
template <class A, class B>
concept same_name = dim_like<A> && dim_like<B> && A::name == B::name;

/// A dim as a value: what the untyped core works with.
struct DimValue {
  Name name;
  std::int64_t extent = 0;

  friend constexpr bool operator==(const DimValue&, const DimValue&) = default;
};

inline constexpr int max_rank = 12;        ///< dims of one tensor
inline constexpr int max_union_rank = 24;  ///< dims of an einsum or a broadcasting operation together
inline constexpr int max_axes = 32;        ///< axes of a mesh

/// Elements of one tensor: as many as leave its bytes countable, of the widest element type.
inline constexpr std::int64_t max_elements = std::numeric_limits<std::int64_t>::max() / 8;
/// Product of all extents of an operation, which is what a product of its operands computes.
inline constexpr std::int64_t max_union_elements = std::numeric_limits<std::int64_t>::max();

}  // namespace v0
}  // namespace mtf
