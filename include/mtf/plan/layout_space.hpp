// LayoutSpace: the layouts of a surveyed step on a mesh, their legality, and lower bounds for parts of the space.
#pragma once

#include <mtf/plan/survey.hpp>

namespace mtf {
inline namespace v0 {

/// What a search considers.
struct SpaceOptions {
  InlineVector<Name, max_rules> dims;  ///< dims that may be split; none named: all
  InlineVector<Name, max_axes> axes;   ///< axes that may split them; none named: all
  LayoutValue fixed;                   ///< rules that every candidate has
  bool several_axes = false;  ///< a dim may also be split over several axes, major first in the order of the mesh
};

/// For each dim of a space, in its order, the axes that split it. Fewer than the dims of the space: a part of it, the
/// rest undecided.
using Splits = InlineVector<AxisSet, max_rules>;

struct SpaceDim {
  int surveyed = 0;  ///< position in the survey
  Name name;
  AxisSet reach;   ///< the axes of all choices
  AxisList order;  ///< of a fixed rule; others go by the mesh
  InlineVector<AxisSet, 64> choices;
};

/// What every layout of a part of a space costs at least.
struct LowerBound {
  struct Products {
    ElementType type{};
    std::int64_t count = 0;
    std::int64_t multiply_adds = 0;
    std::int64_t bytes = 0;  ///< that they read and write
  };
  InlineVector<Products, 4> products;  ///< contractions, by element type
  std::int64_t persistent = 0;         ///< bytes of variables

  constexpr Products& of(ElementType type) {
    for (Products& known : products) {
      if (known.type == type) return known;
    }
    products.push_back({type, 0, 0, 0});
    return products.back();
  }
};

/// The candidates of a search: every dim that may be split, with the axes that divide all its extents.
class LayoutSpace {
 public:
  MeshValue mesh;
  InlineVector<SpaceDim, max_rules>
      dims;                 ///< those with a choice, the ones with most work first: bounds then decide early
  double candidates = 1;    ///< all assignments of axes to the dims considered, the illegal ones included
  bool overflowed = false;  ///< more dims with a choice than a layout has rules, or more choices than 64 for a dim

  /// Dims of `options` that the survey does not know and axes that the mesh does not have are ignored here; who takes
  /// them from a user reports them. The axes of fixed rules are the mesh's.
  MTF_NOINLINE constexpr LayoutSpace(const Survey& survey, const MeshValue& mesh_value, const SpaceOptions& options)
      : mesh(mesh_value) {
    for (int i = 0; i < survey.dims.size(); ++i) {
      const SurveyedDim& known = survey.dims[i];
      SpaceDim dim;
      dim.surveyed = i;
      dim.name = known.name;
      const int rule = find(options.fixed, known.name);
      if (rule >= 0) {
        for (const Name& axis : options.fixed.rules[rule].axes)
          dim.order.push_back(static_cast<std::int8_t>(mesh.find(axis)));
        dim.choices.push_back(set_of(dim.order));
      } else if (options.dims.empty() || contains(options.dims, known.name)) {
        choose(dim, known, options);
      }
      for (const AxisSet choice : dim.choices) dim.reach |= choice;
      if (dim.reach.empty()) continue;
      if (dims.full()) {
        overflowed = true;
      } else {
        insert(survey, dim);
      }
    }
  }

  /// Whether the next dim may be split so, beside those decided.
  [[nodiscard]] constexpr bool allows(const Survey& survey, const Splits& decided, AxisSet choice) const {
    if (choice.empty()) return true;
    const SurveyedDim& dim = survey.dims[dims[decided.size()].surveyed];
    for (int i = 0; i < decided.size(); ++i) {
      const AxisSet common = decided[i] & choice;
      if (common.empty()) continue;
      const int other = dims[i].surveyed;
      if (has(dim.meets, other)) return false;
      if (has(dim.follows, other) && !(decided[i] == choice)) return false;
    }
    return true;
  }

  /// A lower bound for all layouts that begin with `decided`.
  ///
  /// Proof. A product of arrays whose dims are the set s takes multiply-adds(s) / p of a rank, p being the product of
  /// the sizes of the axes that split a dim of s. Every layout makes the same products: layouts change slices and
  /// collectives, not the operations. (An einsum of three or more operands is multiplied in an order that depends on
  /// the layout; the survey has of it only what holds in every order.) In a legal layout an axis splits at most one dim of s. So p is at most the
  /// product over the axes that split a decided dim of s, or that an undecided dim of s may take; an undecided dim may
  /// not take an axis that splits a decided dim it meets. Each quotient is therefore at most what the layout costs, and
  /// so is their sum. The same holds for the bytes of each operand, and for those of each variable, all of which live
  /// at the end of the step, so that no peak of memory is smaller than their sum. Products that the survey had no room
  /// for count 0.
  MTF_NOINLINE [[nodiscard]] constexpr LowerBound bound(const Survey& survey, const Splits& decided) const {
    const Reach reach = reach_of(survey, decided);
    LowerBound result;
    for (const SurveyedWork& row : survey.products) {
      LowerBound::Products& products = result.of(row.type);
      products.count += row.count;
      products.multiply_adds += row.amount / parts(reach, row.dims);
    }
    for (const SurveyedWork& row : survey.operands) result.of(row.type).bytes += row.amount / parts(reach, row.dims);
    for (const SurveyedWork& row : survey.persistent) result.persistent += row.amount / parts(reach, row.dims);
    return result;
  }

  /// For each axis the dims that it splits or may split in layouts that begin with `decided`.
  struct Reach {
    InlineVector<DimSet, max_axes> dims;
  };
  MTF_NOINLINE [[nodiscard]] constexpr Reach reach_of(const Survey& survey, const Splits& decided) const {
    Reach reach;
    for (int axis = 0; axis < mesh.rank(); ++axis) {
      DimSet split = 0;
      DimSet blocked = 0;
      for (int i = 0; i < decided.size(); ++i) {
        if (!decided[i].has(axis)) continue;
        split |= bit(dims[i].surveyed);
        blocked |= survey.dims[dims[i].surveyed].meets;
      }
      DimSet open = 0;
      for (int i = decided.size(); i < dims.size(); ++i) {
        if (dims[i].reach.has(axis)) open |= bit(dims[i].surveyed);
      }
      reach.dims.push_back(split | (open & ~blocked));
    }
    return reach;
  }
  /// Slices of an array of these dims, at most; exactly if all dims are decided.
  [[nodiscard]] constexpr std::int64_t parts(const Reach& reach, DimSet set) const {
    std::int64_t result = 1;
    for (int axis = 0; axis < mesh.rank(); ++axis) {
      if ((reach.dims[axis] & set) != 0) result *= mesh.axes[axis].size;
    }
    return result;
  }

  /// The rules of a layout, in the order in which the step met the dims.
  MTF_NOINLINE [[nodiscard]] constexpr LayoutValue layout(const Splits& splits) const {
    LayoutValue result;
    for (int surveyed = 0; surveyed < max_surveyed_dims; ++surveyed) {
      for (int i = 0; i < dims.size(); ++i) {
        if (dims[i].surveyed != surveyed || splits[i].empty()) continue;
        Rule rule;
        rule.dim = dims[i].name;
        for (const std::int8_t axis : dims[i].order) rule.axes.push_back(mesh.axes[axis].name);
        for (int axis = 0; axis < mesh.rank() && dims[i].order.empty(); ++axis) {
          if (splits[i].has(axis)) rule.axes.push_back(mesh.axes[axis].name);
        }
        result.rules.push_back(rule);
      }
    }
    return result;
  }
  [[nodiscard]] constexpr PlacementRules rules(const Splits& splits) const {
    Violations none;  // dims and axes are the space's own
    return resolve(layout(splits), mesh, none);
  }

  [[nodiscard]] static constexpr int find(const LayoutValue& layout, const Name& dim) {
    for (int i = 0; i < layout.rules.size(); ++i) {
      if (layout.rules[i].dim == dim) return i;
    }
    return -1;
  }
  template <int Capacity>
  [[nodiscard]] static constexpr bool contains(const InlineVector<Name, Capacity>& names, const Name& name) {
    for (const Name& known : names) {
      if (known == name) return true;
    }
    return false;
  }

 private:
  /// Splits first, the largest first, then none: good layouts are met early.
  constexpr void choose(SpaceDim& dim, const SurveyedDim& known, const SpaceOptions& options) {
    AxisSet usable;
    int axes = 0;
    for (int axis = 0; axis < mesh.rank(); ++axis) {
      if (!options.axes.empty() && !contains(options.axes, mesh.axes[axis].name)) continue;
      ++axes;
      usable |= AxisSet::of(axis);
    }
    double choices = 1;
    for (int axis = 0; axis < axes; ++axis) choices = options.several_axes ? choices * 2 : choices + 1;
    candidates *= choices;
    const std::uint64_t last = std::uint64_t{1} << mesh.rank();
    for (std::uint64_t bits = 1; known.whole == nullptr && bits < last; ++bits) {
      const AxisSet set{static_cast<std::uint32_t>(bits)};
      const bool is_single = (bits & (bits - 1)) == 0;
      if (!(set - usable).empty() || (!is_single && !options.several_axes)) continue;
      if (known.divisor % mesh.size(set) != 0) continue;
      if (dim.choices.size() + 1 == dim.choices.capacity) {
        overflowed = true;
        break;
      }
      dim.choices.push_back(set);
    }
    dim.choices.push_back({});
  }
  constexpr void insert(const Survey& survey, const SpaceDim& dim) {
    const auto work = [&](const SpaceDim& of) {
      std::int64_t sum = 0;
      for (const SurveyedWork& row : survey.products) sum += has(row.dims, of.surveyed) ? row.amount : 0;
      return sum;
    };
    dims.push_back(dim);
    for (int i = dims.size() - 1; i > 0 && work(dims[i]) > work(dims[i - 1]); --i) {
      const SpaceDim earlier = dims[i - 1];
      dims[i - 1] = dims[i];
      dims[i] = earlier;
    }
  }
};

/// Walks over the legal layouts of a space, depth first: `enter(splits)` says whether to go on below a part of it,
/// `leaf(splits)` meets each layout. Legality needs no more than this, because it holds for pairs of dims.
template <class Visitor>
constexpr void walk(const LayoutSpace& space, const Survey& survey, Splits& splits, Visitor& visitor) {
  if (splits.size() == space.dims.size()) {
    visitor.leaf(splits);
    return;
  }
  for (const AxisSet choice : space.dims[splits.size()].choices) {
    if (!space.allows(survey, splits, choice)) continue;
    splits.push_back(choice);
    if (visitor.enter(splits)) walk(space, survey, splits, visitor);
    --splits.count;
  }
}

}  // namespace v0
}  // namespace mtf
