// What a trace keeps beside its records: the dims of matrix products and lookups, and the kinds of tensors that
// occurred.
#pragma once

#include <mtf/core/placement.hpp>
#include <mtf/plan/record.hpp>

namespace mtf {
inline namespace v0 {

/// Where a dim of a product of two operands occurs: in both and the result, in the first and the result, in the second
/// and the result, in both operands only.
enum class ProductGroup : std::uint8_t { batch, first, second, summed };

/// A product of two operands with the dims of their union, or a lookup of rows (`gather` and its gradient), as if it
/// were the product with a one-hot matrix.
struct TracedProduct {
  struct Dim {
    PlacedDim dim;
    ProductGroup group{};

    friend constexpr bool operator==(const Dim&, const Dim&) = default;
  };
  std::int64_t record = 0;  ///< position of its record
  bool is_lookup = false;
  InlineVector<Dim, max_union_rank> dims;

  /// Global extents of the dims of a group, multiplied.
  [[nodiscard]] constexpr std::int64_t extent(ProductGroup group) const {
    std::int64_t product = 1;
    for (const Dim& each : dims) {
      if (each.group == group) product *= each.dim.extent;
    }
    return product;
  }
  /// Slices that they are cut into.
  [[nodiscard]] constexpr std::int64_t parts(ProductGroup group) const {
    std::int64_t product = 1;
    for (const Dim& each : dims) {
      if (each.group == group) product *= each.dim.parts;
    }
    return product;
  }
  /// The axes that split some dim; along all others every rank repeats the same product.
  [[nodiscard]] constexpr AxisSet axes() const {
    AxisSet set;
    for (const Dim& each : dims) set |= set_of(each.dim.axes);
    return set;
  }
  /// Multiply-adds of a rank.
  [[nodiscard]] constexpr std::int64_t work() const {
    std::int64_t product = 1;
    for (const Dim& each : dims) product *= each.dim.local();
    return product;
  }
};

/// The product of a and b with the dims of c.
MTF_COLD [[nodiscard]] constexpr TracedProduct traced_product(const Placement& c, const Placement& a,
                                                              const Placement& b) {
  TracedProduct result;
  for (const Placement* operand : {&a, &b}) {
    for (const PlacedDim& dim : operand->dims) {
      bool known = false;
      for (const TracedProduct::Dim& each : result.dims) known = known || each.dim.name == dim.name;
      if (known || result.dims.full()) continue;
      const bool both = a.find(dim.name) >= 0 && b.find(dim.name) >= 0;
      const bool kept = c.find(dim.name) >= 0;
      TracedProduct::Dim each;
      each.dim = dim;
      each.group = both ? (kept ? ProductGroup::batch : ProductGroup::summed)
                        : (operand == &a ? ProductGroup::first : ProductGroup::second);
      result.dims.push_back(each);
    }
  }
  return result;
}

/// Tensors of the same dims: how many there were, and which operation made the first.
struct TracedTensor {
  Placement placement;
  ElementType type{};
  std::string_view operation;
  bool is_gradient = false;
  std::int64_t count = 0;
};

}  // namespace v0
}  // namespace mtf
