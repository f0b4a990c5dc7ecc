// The order in which an einsum of three or more operands is multiplied, two at a time.
#pragma once

#include <span>

#include <mtf/core/placement.hpp>
#include <mtf/core/recycled.hpp>

namespace mtf {
inline namespace v0 {

/// How an einsum of three or more operands, and each of its gradients, chooses which two to multiply next.
enum class einsum_order : std::uint8_t {
  fastest,     ///< the least estimated time, then the least memory
  as_written,  ///< the first two, then their product with the third, and so on
};

inline constexpr int max_factors = 8;  ///< operands of an einsum, and factors of each of its gradients

/// The products of pairs that make an einsum. The factors of a product are numbered: first the operands, then the
/// products in the order in which they are made. The last product is the result.
struct ContractionOrder {
  struct Product {
    int first = 0, second = 0;
    friend constexpr bool operator==(const Product&, const Product&) = default;
  };
  InlineVector<Product, max_factors - 1> products;
  std::int64_t multiply_adds = 0;  ///< of a rank
  std::int64_t peak = 0;           ///< elements of a rank's products that live at once, the result included
  bool fits = true;                ///< no product in between has more dims than a tensor may have
};

namespace detail {

/// Dims of an einsum: bit d is dim d of their union.
using DimBits = std::uint32_t;
static_assert(max_union_rank <= 32);

[[nodiscard]] constexpr std::int64_t add_saturated(std::int64_t a, std::int64_t b) {
  constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
  return a > most - b ? most : a + b;
}

/// An einsum as sets of dims, and the products that have been decided so far.
class ContractionPlanner {
 public:
  /// What is still to be multiplied, in the order of the first operand that each holds.
  struct Term {
    int factor = 0;
    DimBits dims = 0;  ///< those that the output or another term has: all others are summed
  };

  MTF_NOINLINE constexpr ContractionPlanner(std::span<const Placement* const> operands, const Placement& to) {
    InlineVector<const PlacedDim*, max_union_rank> all;
    const auto bits_of = [&](const Placement& placement) {
      DimBits bits = 0;
      for (int i = 0; i < placement.dims.count; ++i) {
        const PlacedDim& dim = placement.dims.items[i];
        int at = 0;
        while (at < all.count && all.items[at]->name.hash != dim.name.hash) ++at;
        while (at < all.count && !(all.items[at]->name == dim.name)) ++at;  // names of equal hash
        if (at == all.count) {
          extents_[at] = dim.extent / dim.parts;
          all.push_back(&dim);
        }
        bits |= DimBits{1} << at;
      }
      return bits;
    };
    output_ = bits_of(to);
    for (const Placement* operand : operands) terms_.push_back({terms_.count, bits_of(*operand)});
    for (int i = 0; i < terms_.count; ++i) sizes_[i] = 0;  // the caller's
    DimBits once = 0, twice = output_;
    for (const Term& term : terms_) {
      twice |= once & term.dims;
      once |= term.dims;
    }
    for (Term& term : terms_) term.dims &= twice;
    factors_ = terms_.count;
  }

  /// From the left.
  constexpr const ContractionOrder& as_written() {
    while (terms_.count > 1) multiply(0, 1);
    return order_;
  }
  /// The best of all orders, for few terms; for more, the cheapest pairs first until few are left, if that is
  /// better than from the left.
  constexpr const ContractionOrder& fastest() {
    if (terms_.count > exact_) return greedy();
    multiply_best();
    return order_;
  }

 private:
  static constexpr int exact_ = 5;  ///< terms of which all orders are compared

  constexpr const ContractionOrder& greedy() {
    ContractionPlanner from_left = *this;
    ContractionPlanner thorough = *this;
    while (terms_.count > exact_) multiply_cheapest();
    multiply_best();
    if (!better(order_, from_left.as_written())) order_ = from_left.order_;
    if (order_.fits) return order_;
    thorough.multiply_best();  // of all orders, to find one that has no product of too many dims
    order_ = thorough.order_;
    return order_;
  }

  /// Of a set of terms: what its product costs at least, and how that is reached.
  struct Best {
    DimBits dims = 0;  ///< of its terms
    DimBits kept = 0;  ///< of its product
    std::int64_t work = 0;
    std::int64_t size = 0;  ///< of its product, if that is not an operand
    std::int64_t peak = 0;
    unsigned first = 0;  ///< the factor made first, a set of terms; the second is the rest
    bool fits = true;
  };

  [[nodiscard]] static constexpr bool better(const ContractionOrder& a, const ContractionOrder& b) {
    if (a.fits != b.fits) return a.fits;
    if (!a.fits) return false;
    return a.multiply_adds != b.multiply_adds ? a.multiply_adds < b.multiply_adds : a.peak < b.peak;
  }
  /// Elements of the slice of an array of these dims.
  [[nodiscard]] constexpr std::int64_t size(DimBits dims) const {
    std::int64_t product = 1;
    for (; dims != 0; dims &= dims - 1) product *= extents_[__builtin_ctz(dims)];
    return product;
  }
  [[nodiscard]] static constexpr bool is_tensor(DimBits dims) { return __builtin_popcount(dims) <= max_rank; }
  /// The dims of the product of two terms that something else has.
  [[nodiscard]] constexpr DimBits kept(int i, int j) const {
    DimBits others = output_;
    for (int t = 0; t < terms_.count; ++t) others |= t == i || t == j ? 0 : terms_[t].dims;
    return (terms_[i].dims | terms_[j].dims) & others;
  }

  constexpr int make(int first, int second, DimBits dims, DimBits kept_dims) {
    const std::int64_t made = size(kept_dims);
    order_.products.push_back({first, second});
    order_.multiply_adds = add_saturated(order_.multiply_adds, size(dims));
    live_ = add_saturated(live_, made);
    if (live_ > order_.peak) order_.peak = live_;
    live_ -= sizes_[first] + sizes_[second];
    sizes_[factors_] = made;
    if (!is_tensor(kept_dims)) order_.fits = false;
    return factors_++;
  }
  constexpr void multiply(int i, int j) {
    const DimBits left = kept(i, j);
    terms_[i] = {make(terms_[i].factor, terms_[j].factor, terms_[i].dims | terms_[j].dims, left), left};
    terms_.erase(j);
  }

  /// The pair of least work, and of those the one whose product is smallest beside what it replaces; the first such.
  constexpr void multiply_cheapest() {
    int first = 0, second = 1;
    bool fits = false;
    std::int64_t least_growth = 0, least_work = 0;
    for (int i = 0; i < terms_.count; ++i) {
      for (int j = i + 1; j < terms_.count; ++j) {
        const DimBits left = kept(i, j);
        const std::int64_t growth = size(left) - size(terms_[i].dims) - size(terms_[j].dims);
        const std::int64_t work = size(terms_[i].dims | terms_[j].dims);
        const bool is_less = work != least_work ? work < least_work : growth < least_growth;
        const bool is_first = i == 0 && j == 1;
        if (!is_first && (is_tensor(left) != fits ? fits : !is_less)) continue;
        first = i;
        second = j;
        fits = is_tensor(left);
        least_growth = growth;
        least_work = work;
      }
    }
    multiply(first, second);
  }

  /// The best order of all, by dynamic programming over the sets of terms. Where two are equally good the one from the
  /// left is taken, or else the one that was met first.
  constexpr void multiply_best() {
    const unsigned sets = 1U << terms_.count;
    RecycledVector<Best> best(sets);
    for (unsigned set = 1; set < sets; ++set) {
      Best& whole = best[set];
      const unsigned rest = set & (set - 1);
      if (rest == 0) {
        const Term& term = terms_[__builtin_ctz(set)];
        whole.dims = whole.kept = term.dims;
        whole.size = sizes_[term.factor];
        continue;
      }
      whole.dims = best[rest].dims | best[set ^ rest].dims;
      DimBits others = output_;
      for (unsigned left = (sets - 1) ^ set; left != 0; left &= left - 1) others |= terms_[__builtin_ctz(left)].dims;
      whole.kept = whole.dims & others;
      whole.size = size(whole.kept);
      const unsigned last = 1U << (31 - __builtin_clz(set));
      choose(best, whole, set ^ last, last);
      for (unsigned second = rest; second != 0; second = (second - 1) & rest) {
        if (second != last) choose(best, whole, set ^ second, second, true);
      }
      if (set != sets - 1 && !is_tensor(whole.kept)) whole.fits = false;
    }
    terms_[0] = {build(best, sets - 1), output_};
    terms_.count = 1;
  }
  /// Takes these two factors for the product, unless (`compares`) the one before is as good.
  constexpr void choose(const RecycledVector<Best>& best, Best& whole, unsigned a, unsigned b,
                        bool compares = false) const {
    const Best& x = best[a];
    const Best& y = best[b];
    const bool fits = x.fits && y.fits;
    const std::int64_t work = add_saturated(add_saturated(x.work, y.work), size(x.kept | y.kept));
    if (compares && (fits != whole.fits ? whole.fits : work > whole.work)) return;
    const std::int64_t x_first = larger(x.peak, add_saturated(x.size, y.peak));
    const std::int64_t y_first = larger(y.peak, add_saturated(y.size, x.peak));
    const std::int64_t peak =
        larger(y_first < x_first ? y_first : x_first, add_saturated(add_saturated(x.size, y.size), whole.size));
    if (compares && fits == whole.fits && work == whole.work && peak >= whole.peak) return;
    whole.work = work;
    whole.peak = peak;
    whole.first = y_first < x_first ? b : a;
    whole.fits = fits;
  }
  [[nodiscard]] static constexpr std::int64_t larger(std::int64_t a, std::int64_t b) { return a > b ? a : b; }

  constexpr int build(const RecycledVector<Best>& best, unsigned set) {
    if ((set & (set - 1)) == 0) return terms_[__builtin_ctz(set)].factor;
    const unsigned first = best[set].first;
    const unsigned second = set ^ first;
    int a = build(best, first);
    int b = build(best, second);
    // The operand that comes first is the first factor, whichever of the two is made first.
    if ((second & (set & (~set + 1))) != 0) std::swap(a, b);
    return make(a, b, best[first].kept | best[second].kept, best[set].kept);
  }

  std::int64_t extents_[max_union_rank]{};  ///< of the slices
  DimBits output_ = 0;
  InlineVector<Term, max_factors> terms_;
  std::int64_t sizes_[2 * max_factors]{};  ///< of the products among the factors
  int factors_ = 0;
  std::int64_t live_ = 0;
  ContractionOrder order_;
};

}  // namespace detail

/// The order in which an einsum is multiplied: a function of the placements of its operands and its result alone, so the
/// same on all ranks, and for all element types.
///
/// Time is the multiply-adds of a rank, on the slices that the layout gives it. What is sent takes the same time in any
/// order, because no product in between is sent: a sum over a split dim stays outstanding until the result is used.
/// Among orders of equal time the one whose products take least memory at once is chosen, among those that still are
/// equal the one from the left or the one that the search meets first. Up to five operands all orders are compared, by
/// dynamic programming over their subsets (90 products); of more, pairs go greedily until five are left, or all go from
/// the left if that is better.
MTF_NOINLINE [[nodiscard]] constexpr ContractionOrder plan_contraction_order(std::span<const Placement* const> operands,
                                                                             const Placement& to, einsum_order order) {
  detail::ContractionPlanner planner(operands, to);
  return order == einsum_order::fastest ? planner.fastest() : planner.as_written();
}

}  // namespace v0
}  // namespace mtf
