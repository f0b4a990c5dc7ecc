// What the families of random programs share: drawing, naive arrays that carry derivatives and error bounds, and what a
// drawn program is.
#pragma once

#include <array>
#include <cmath>
#include <functional>
#include <random>
#include <span>

#include "../mpi/support.hpp"

namespace property {

using support::World;
using Engine = World::engine_type;
using mtf::Array;
using mtf::DimValue;
using mtf::ElementType;
using mtf::Name;
using mtf::ShapeValue;

/// The dims that programs draw from; each is named by one letter, so that a naive loop finds an index without a search.
inline constexpr std::string_view names[]{"a", "b", "c", "d", "e", "f"};

/// The same numbers on every rank.
class Draw {
 public:
  explicit Draw(std::uint64_t seed) : random_(seed) {}
  /// In [low, high].
  std::int64_t number(std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(high - low + 1));
  }
  bool chance(int percent) { return number(1, 100) <= percent; }
  double normal() { return normal_(random_); }
  template <class T>
  T of(std::initializer_list<T> items) {
    return items.begin()[number(0, std::ssize(items) - 1)];
  }

 private:
  std::mt19937_64 random_;
  std::normal_distribution<double> normal_;
};

/// Where an element is, by the letter of each dim.
class Index {
 public:
  std::int64_t& operator[](std::string_view name) { return at_[static_cast<std::size_t>(name[0] - 'a')]; }
  std::int64_t operator[](std::string_view name) const { return at_[static_cast<std::size_t>(name[0] - 'a')]; }
  [[nodiscard]] Index with(std::string_view name, std::int64_t i) const {
    Index other = *this;
    other[name] = i;
    return other;
  }

 private:
  std::array<std::int64_t, 26> at_{};
};

/// A number of a naive loop, its derivative in one direction, and for both the sum of the magnitudes that were added
/// up: an operation that adds them in any order, with unit roundoff u, differs by at most (number of terms) * u *
/// magnitude (Higham, Accuracy and Stability of Numerical Algorithms, 2002, section 4.2).
struct Scalar {
  double value = 0, slope = 0;
  double size = 0, slope_size = 0;

  Scalar() = default;
  Scalar(double v) : value(v), size(std::abs(v)) {}
  Scalar(double v, double s, double of_value, double of_slope)
      : value(v), slope(s), size(of_value), slope_size(of_slope) {}
};
inline Scalar operator+(const Scalar& a, const Scalar& b) {
  return {a.value + b.value, a.slope + b.slope, a.size + b.size, a.slope_size + b.slope_size};
}
inline Scalar operator-(const Scalar& a, const Scalar& b) {
  return {a.value - b.value, a.slope - b.slope, a.size + b.size, a.slope_size + b.slope_size};
}
inline Scalar operator*(const Scalar& a, const Scalar& b) {
  return {a.value * b.value, a.slope * b.value + a.value * b.slope, a.size * b.size,
          a.slope_size * b.size + a.size * b.slope_size};
}
inline Scalar operator/(const Scalar& a, const Scalar& b) {
  const double v = a.value / b.value;
  const double grown = b.size / std::abs(b.value);  // how much the divisor's error counts
  return {v, (a.slope - v * b.slope) / b.value, a.size * grown / std::abs(b.value),
          (a.slope_size + std::abs(v) * b.slope_size) * grown / std::abs(b.value)};
}
inline Scalar exp(const Scalar& x) {
  const double v = std::exp(x.value);
  return {v, v * x.slope, v * (1 + x.size), v * x.slope_size * (1 + x.size)};
}
inline Scalar log(const Scalar& x) {
  const double grown = x.size / x.value;
  return {std::log(x.value), x.slope / x.value, std::abs(std::log(x.value)) + grown, x.slope_size / x.value * grown};
}

/// A global array in a naive loop: row-major elements.
struct Dense {
  ShapeValue shape;
  std::vector<Scalar> elements;

  [[nodiscard]] const Scalar& operator()(const Index& index) const { return elements[offset(index)]; }
  [[nodiscard]] std::size_t offset(const Index& index) const {
    std::int64_t result = 0;
    for (const DimValue& dim : shape) result = result * dim.extent + index[dim.name.text];
    return static_cast<std::size_t>(result);
  }
};

/// Calls f(index) for every element of the shape, in row-major order.
template <class F>
void for_each(const ShapeValue& shape, const F& f, Index index = {}) {
  for (const DimValue& dim : shape) index[dim.name.text] = 0;
  const std::int64_t size = mtf::size_of(shape);
  for (std::int64_t i = 0; i < size; ++i) {
    f(std::as_const(index));
    for (int d = shape.size() - 1; d >= 0; --d) {
      if (++index[shape[d].name.text] < shape[d].extent) break;
      index[shape[d].name.text] = 0;
    }
  }
}
template <class F>
Dense make(const ShapeValue& shape, const F& f) {
  Dense result{shape, {}};
  result.elements.reserve(static_cast<std::size_t>(mtf::size_of(shape)));
  for_each(shape, [&](const Index& index) { result.elements.push_back(f(index)); });
  return result;
}
/// The sum of f(index) over all dims of `over` that `kept` lacks.
template <class F>
Dense sum(const ShapeValue& kept, const ShapeValue& over, const F& f) {
  Dense result{kept, std::vector<Scalar>(static_cast<std::size_t>(mtf::size_of(kept)))};
  for_each(over, [&](const Index& index) {
    Scalar& element = result.elements[result.offset(index)];
    element = element + f(index);
  });
  return result;
}
/// The extreme elements of x over the dims that `kept` lacks, NaN if there is one among them. Its derivative is that of
/// all elements that tie, as the original has it; NaN ties with nothing.
inline Dense extreme(const ShapeValue& kept, const Dense& x, bool largest) {
  Dense result{
      kept, std::vector<Scalar>(static_cast<std::size_t>(mtf::size_of(kept)), Scalar(largest ? -HUGE_VAL : HUGE_VAL))};
  for_each(x.shape, [&](const Index& index) {
    Scalar& best = result.elements[result.offset(index)];
    const Scalar& element = x(index);
    if (std::isnan(element.value)) {
      best = Scalar(element.value);
    } else if (largest ? element.value > best.value : element.value < best.value) {
      best = element;
    } else if (element.value == best.value) {
      best.slope += element.slope;
      best.slope_size += element.slope_size;
    }
  });
  return result;
}

inline std::int64_t extent_of(const ShapeValue& shape, std::string_view name) {
  const int at = mtf::find(shape, Name(name));
  return at < 0 ? 0 : shape[at].extent;
}
inline ShapeValue without(const ShapeValue& shape, std::string_view name) {
  ShapeValue result;
  for (const DimValue& dim : shape) {
    if (dim.name.text != name) result.push_back(dim);
  }
  return result;
}
inline ShapeValue replaced(const ShapeValue& shape, std::string_view name, const DimValue& by) {
  ShapeValue result;
  for (const DimValue& dim : shape) result.push_back(dim.name.text == name ? by : dim);
  return result;
}
inline ShapeValue some_of(Draw& draw, const ShapeValue& shape, int percent) {
  ShapeValue result;
  for (const DimValue& dim : shape) {
    if (draw.chance(percent)) result.push_back(dim);
  }
  return result;
}
inline ShapeValue shuffled(Draw& draw, ShapeValue shape) {
  for (int i = shape.size() - 1; i > 0; --i) std::swap(shape[i], shape[static_cast<int>(draw.number(0, i))]);
  return shape;
}
/// The largest of whole numbers, of which each term of a sum is a product of so many: in most cases such that bfloat16
/// holds the sums of some ranks' terms and not that of all.
inline std::int64_t draw_high(Draw& draw, std::int64_t terms, int factors) {
  const std::int64_t part = 256 * support::ranks() / draw.of<std::int64_t>({1, 1, 2}) / terms;
  const auto high = static_cast<std::int64_t>(std::pow(static_cast<double>(part), 1.0 / factors));
  return std::clamp<std::int64_t>(high, 2, factors == 1 ? 250 : 15);
}
inline std::string_view dim_of(Draw& draw, const ShapeValue& shape) {
  return shape[static_cast<int>(draw.number(0, shape.size() - 1))].name.text;
}
/// At least `least` of the dims, at most four, in any order.
inline ShapeValue draw_shape(Draw& draw, const ShapeValue& dims, int least = 1) {
  ShapeValue shape;
  while (shape.size() < least) shape = some_of(draw, dims, 50);
  while (shape.size() > 4 || (shape.size() > least && mtf::size_of(shape) > 4096))
    shape.erase(static_cast<int>(draw.number(0, shape.size() - 1)));
  return shuffled(draw, shape);
}

/// What an input holds. Where the type is no floating one, whole numbers in [low, high].
enum class Content {
  normal,    ///< normal numbers
  integers,  ///< in [low, high]: ties, indices, conditions
  special,   ///< zeros of either sign, ties, large numbers, and in most arrays infinities, NaN or both
  far,       ///< numbers whose exponentials overflow
  halves,    ///< half-way between two bfloat16, or nearly so
};
struct Input {
  ShapeValue shape;
  ElementType type = ElementType::float64;
  Content content = Content::normal;
  std::int64_t low = -4, high = 4;
};

/// A collective that an operation sends for a reason: what is not listed must not be sent. Groups of one rank are left
/// out.
struct Sent {
  mtf::Collective kind{};
  mtf::AxisSet axes{};      ///< nothing is sent if there are none, unless any will do
  std::int64_t count = -1;  ///< elements; -1: any number
  bool any_axes = false;
  bool may = false;  ///< or nothing, where all that is needed may be at hand
  bool any_kind = false;
};
using Collectives = std::vector<Sent>;

/// How a layout cuts shapes.
class Slices {
 public:
  explicit Slices(const mtf::PlacementRules& rules) : rules_(rules) {}
  /// The axes of more than one rank that split the dims.
  [[nodiscard]] mtf::AxisSet axes(const ShapeValue& shape) const {
    mtf::AxisSet result;
    for (const DimValue& dim : shape) {
      for (const std::int8_t axis : rules_.axes_of(dim.name)) {
        if (rules_.mesh.axes[axis].size > 1) result |= mtf::AxisSet::of(axis);
      }
    }
    return result;
  }
  [[nodiscard]] mtf::AxisSet axes(std::string_view name) const {
    ShapeValue one;
    one.push_back({Name(name), 1});
    return axes(one);
  }
  [[nodiscard]] std::int64_t local(const ShapeValue& shape) const { return mtf::place(rules_, shape).local_size(); }
  [[nodiscard]] std::int64_t parts(mtf::AxisSet axes) const { return rules_.mesh.size(axes); }

  /// A sum over what splits `from` and not `to`: one allreduce of the slice of `to`.
  [[nodiscard]] Sent sum(const ShapeValue& from, const ShapeValue& to) const {
    return reduction(axes(from) - axes(to), to);
  }
  [[nodiscard]] Sent reduction(mtf::AxisSet over, const ShapeValue& to) const {
    return {.kind = mtf::Collective::all_reduce, .axes = over, .count = local(to)};
  }
  /// Whether a sum of whole numbers up to `high` has no rounding but that of the result: there are no parts of several
  /// ranks, or every part fits into the 8 bits of bfloat16. float holds all the sums that are drawn.
  [[nodiscard]] bool rounds_once(const ShapeValue& from, const ShapeValue& to, ElementType type,
                                 std::int64_t high) const {
    return type != ElementType::bfloat16 || (axes(from) - axes(to)).empty() || local(from) / local(to) * high <= 256;
  }
  /// One exchange at most, if any of these dims is split.
  [[nodiscard]] Sent exchange(const ShapeValue& dims) const {
    return {.kind = mtf::Collective::exchange, .axes = axes(dims), .any_axes = !axes(dims).empty(), .may = true};
  }
  [[nodiscard]] Sent exchange(std::string_view name) const {
    ShapeValue one;
    one.push_back({Name(name), 1});
    return exchange(one);
  }

 private:
  mtf::PlacementRules rules_;
};

/// An operation on arrays: of a world, or of a dry run.
class Runs {
 public:
  using Arrays = std::vector<Array>;
  Runs() = default;
  template <class F>
  Runs(const F& f) : world_(f), dry_(f) {}
  Arrays operator()(Engine& engine, const Arrays& xs) const { return world_(engine, xs); }
  Arrays operator()(mtf::DryEngine& engine, const Arrays& xs) const { return dry_(engine, xs); }

 private:
  std::function<Arrays(Engine&, const Arrays&)> world_;
  std::function<Arrays(mtf::DryEngine&, const Arrays&)> dry_;
};

/// How near results are to those of one rank, in a graph.
enum class Exactness {
  rounded,  ///< sums and functions, whose roundings differ with the layout
  sums,     ///< the same for whole numbers, as long as the sums have bits enough
  same,     ///< elements of the inputs, or one rounding of them: the same for the same inputs
};

/// One drawn operation: on arrays of a world, and naively on dense ones.
struct Program {
  std::string kind;  ///< what must occur among the cases that ran
  std::string text;
  std::vector<Input> inputs;
  Runs run;
  std::function<std::vector<Dense>(const std::vector<Dense>&)> naive;
  std::vector<ShapeValue> unions;  ///< lists of dims that must be legal together, beside each input alone
  std::function<bool(const mtf::PlacementRules&)> legal;  ///< what must hold besides, if anything
  std::function<Collectives(const Slices&)> sends,
      sends_back;          ///< forward, with results complete, and in the gradient; none if not set
  std::int64_t terms = 1;  ///< of the longest sum
  int roundings = 2;       ///< to the element type: of each rank's part of a pending sum, and of the result
  /// Whether a sum is exact until the one rounding of the result, with the input's elements at most as large as they
  /// are, in a layout: not set for never. What Exactness::same says is.
  std::function<bool(const Slices&)> rounds_once;
  /// Dims of which the first is to be split as the second, if its extent permits, in most cases.
  std::vector<std::pair<std::string_view, std::string_view>> split_alike;
  std::string_view summed{};   ///< a dim that is to be split over all axes, if its extent permits, in most cases
  bool differentiable = true;  ///< of an operation with floating inputs: whether they have gradients
  bool moves = false;          ///< results are elements of the inputs, or 0, and no rank receives what it does not lack
  Exactness exactness = Exactness::same;
};

using DrawProgram = Program (*)(Draw&, const ShapeValue& dims);
struct Kind {
  std::string_view name;
  DrawProgram draw;
};
// One file each.
std::span<const Kind> contractions();
std::span<const Kind> elementwise();
std::span<const Kind> reductions();
std::span<const Kind> movements();
std::span<const Kind> selections();
std::span<const Kind> windows();
std::span<const Kind> noise();
std::span<const Kind> pending();

/// Calls f with an object of the drawn type, one of Ts.
template <class... Ts, class F>
Program with_type(Draw& draw, const F& f) {
  const std::int64_t chosen = draw.number(0, static_cast<std::int64_t>(sizeof...(Ts)) - 1);
  Program program;
  std::int64_t position = 0;
  (void)((position++ == chosen ? (program = f(std::type_identity<Ts>{}), true) : false) || ...);
  return program;
}
template <class T>
inline constexpr ElementType type_of = mtf::element_type_of<T>::value;
template <class T>
std::string name_of_type() {
  return std::string(mtf::name_of(type_of<T>));
}

inline bool is_floating(ElementType type) {
  return type == ElementType::float64 || type == ElementType::float32 || type == ElementType::bfloat16;
}
/// The number of the type that is nearest to x, of two the even one; found without the library's conversions.
inline double rounded_to(ElementType type, double x) {
  if (type == ElementType::float32) return static_cast<double>(static_cast<float>(x));
  if (type != ElementType::bfloat16 || !std::isfinite(x) || x == 0) return x;
  int exponent = 0;
  (void)std::frexp(x, &exponent);                     // |x| in [1/2, 1) times 2^exponent
  const int unit = std::max(exponent - 8, -126 - 7);  // of the last of 8 bits, or of the denormal numbers
  const double result = std::ldexp(std::nearbyint(std::ldexp(x, -unit)), unit);
  return std::abs(result) < 0x1p128 ? result : std::copysign(HUGE_VAL, x);
}

}  // namespace property
