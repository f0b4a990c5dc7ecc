// Survey: what one run of a step without layout rules says about every layout of it.
#pragma once

#include <cstdint>
#include <span>

#include <mtf/core/element.hpp>
#include <mtf/core/placement.hpp>
#include <mtf/plan/memory_trace.hpp>

namespace mtf {
inline namespace v0 {

/// A dim name and all that the step does with it. Sets of dims are bits: bit i is dim i of the survey.
struct SurveyedDim {
  Name name;
  std::int64_t divisor = 0;  ///< greatest common divisor of all extents of the name: what an axis must divide
  InlineVector<std::int64_t, 8> extents;  ///< the different ones, the first eight
  DimSet meets = 0;                       ///< dims of the same tensors and operations: no axis may split both
  DimSet follows = 0;                     ///< dims that, split over a common axis, must be split over all the same axes
  const char* whole = nullptr;            ///< the operation that needs the dim unsplit, if there is one
};

/// Dims that occur together, and where they did first.
struct Meeting {
  DimSet dims = 0;
  const char* operation = "";
  bool has_pairs = false;  ///< dims that may be split alike are among them
};

struct DimPair {
  Name first, second;
};

/// Work on, or memory of, the union of some dims: the same for a rank divided by all axes that split one of them.
struct SurveyedWork {
  DimSet dims = 0;
  ElementType type{};
  std::int64_t count = 0;
  std::int64_t amount = 0;  ///< multiply-adds or bytes, of the whole
};

[[nodiscard]] constexpr std::int64_t greatest_common_divisor(std::int64_t a, std::int64_t b) {
  while (b != 0) {
    const std::int64_t rest = a % b;
    a = b;
    b = rest;
  }
  return a;
}

/// Filled by operations while a dry run without rules has one (`Backend::survey`). It holds what decides legality,
/// completely; and as much of products and memory as fits, which lower bounds are made of: what does not fit only
/// weakens them.
class Survey {
 public:
  InlineVector<SurveyedDim, max_surveyed_dims> dims;
  InlineVector<Meeting, 64> meetings;
  InlineVector<SurveyedWork, 64> products;    ///< multiply-adds of contractions
  InlineVector<SurveyedWork, 64> operands;    ///< bytes that contractions read and write
  InlineVector<SurveyedWork, 64> persistent;  ///< bytes of variables, optimizer slots included
  bool overflowed = false;                    ///< more dim names than a survey takes
  MemoryTrace* trace = nullptr;               ///< if set, also the order in which arrays come and go

  [[nodiscard]] constexpr int find(const Name& name) const {
    for (int i = 0; i < dims.size(); ++i) {
      if (dims[i].name == name) return i;
    }
    return -1;
  }

  /// The dims of one tensor, or of all operands of an operation. No axis may split two of them, save those of a pair in
  /// `alike`, which may be split alike: the input and the output of a window.
  MTF_NOINLINE constexpr void meet(const char* operation, DimsView shape, std::span<const DimPair> alike = {}) {
    const DimSet set = note(shape);
    if (alike.empty() && have_met(set)) return;
    for (int i = 0; i < dims.size(); ++i) {
      if (has(set, i)) dims[i].meets |= set & ~bit(i) & ~partners(i, alike);
    }
    for (const DimPair& pair : alike) {
      const int a = find(pair.first);
      const int b = find(pair.second);
      if (a < 0 || b < 0 || a == b) continue;
      dims[a].follows |= bit(b);
      dims[b].follows |= bit(a);
    }
    if (!meetings.full()) meetings.push_back({set, operation, !alike.empty()});
  }
  /// A dim that the operation needs unsplit.
  constexpr void keep_whole(const char* operation, const DimValue& dim) {
    ShapeValue shape;
    shape.push_back(dim);
    (void)note(shape);
    const int at = find(dim.name);
    if (at >= 0 && dims[at].whole == nullptr) dims[at].whole = operation;
  }
  /// A product of two arrays of a type: multiply-adds, and the bytes of each of the three arrays.
  MTF_NOINLINE constexpr void contract(std::int64_t work, ElementType type, const Placement& c, const Placement& a,
                                       const Placement& b) {
    const DimSet in_c = set_of(c);
    const DimSet in_a = set_of(a);
    const DimSet in_b = set_of(b);
    add(products, in_c | in_a | in_b, type, work);
    add(operands, in_c, type, c.size() * bytes_of(type));
    add(operands, in_a, type, a.size() * bytes_of(type));
    add(operands, in_b, type, b.size() * bytes_of(type));
  }
  /// An einsum of three or more operands, whose products depend on the layout: one of them has all of these dims, and
  /// of the others there is only the number. Operands are read and the result is written in any case.
  MTF_NOINLINE constexpr void contract_somehow(std::span<const Placement> factors, const Placement& result,
                                               const Placement& dims_of_one, ElementType type) {
    add(products, set_of(dims_of_one), type, dims_of_one.size());
    for (std::size_t i = 2; i < factors.size(); ++i) add(products, 0, type, 1);
    add(operands, set_of(result), type, result.size() * bytes_of(type));
    for (const Placement& factor : factors) add(operands, set_of(factor), type, factor.size() * bytes_of(type));
  }
  constexpr void begin(const void* array, const Placement& placed, std::int64_t bytes) {
    if (trace != nullptr) trace->begin(array, set_of(placed), bytes);
  }
  constexpr void end(const void* array) {
    if (trace != nullptr) trace->end(array);
  }
  constexpr void keep(const Placement& variable, ElementType type) {
    add(persistent, set_of(variable), type, variable.size() * bytes_of(type));
  }
  [[nodiscard]] constexpr DimSet set_of(const Placement& placed) { return note(placed.shape()); }

  /// The operation in which two dims met first; empty if the list of meetings was full by then.
  [[nodiscard]] constexpr const char* where_met(int a, int b) const {
    for (const Meeting& meeting : meetings) {
      if (meeting.has_pairs && has(dims[a].follows, b)) continue;
      if (has(meeting.dims, a) && has(meeting.dims, b)) return meeting.operation;
    }
    return "";
  }

 private:
  /// Whether all of these met each other before.
  [[nodiscard]] constexpr bool have_met(DimSet set) const {
    int at = 0;
    while (at < meetings.count && ((set & ~meetings.items[at].dims) != 0 || meetings.items[at].has_pairs)) ++at;
    return at < meetings.count;
  }
  MTF_NOINLINE constexpr DimSet note(DimsView shape) {
    DimSet set = 0;
    for (const DimValue& dim : shape) {
      // Once for every dim of every operation: one statement a name, as constant expressions are limited in statements.
      int at = 0;
      while (at < dims.count && (dims.items[at].name.hash != dim.name.hash || !(dims.items[at].name == dim.name))) ++at;
      if (at == dims.count) {
        if (dims.full()) {
          overflowed = true;
          continue;
        }
        SurveyedDim added;
        added.name = dim.name;
        dims.push_back(added);
      }
      set |= bit(at);
      SurveyedDim& known = dims[at];
      if (known.divisor != 0 && dim.extent == known.extents[0]) continue;
      known.divisor = greatest_common_divisor(dim.extent, known.divisor);
      bool is_new = true;
      for (const std::int64_t extent : known.extents) is_new = is_new && extent != dim.extent;
      if (is_new && !known.extents.full()) known.extents.push_back(dim.extent);
    }
    return set;
  }
  [[nodiscard]] constexpr DimSet partners(int dim, std::span<const DimPair> alike) const {
    DimSet set = 0;
    for (const DimPair& pair : alike) {
      const bool is_first = dims[dim].name == pair.first;
      if (!is_first && !(dims[dim].name == pair.second)) continue;
      const int partner = find(is_first ? pair.second : pair.first);
      if (partner >= 0) set |= bit(partner);
    }
    return set;
  }
  static constexpr void add(InlineVector<SurveyedWork, 64>& rows, DimSet set, ElementType type, std::int64_t amount) {
    for (SurveyedWork& row : rows) {
      if (row.dims == set && row.type == type) {
        row.amount += amount;
        ++row.count;
        return;
      }
    }
    if (!rows.full()) rows.push_back({set, type, 1, amount});
  }
};

}  // namespace v0
}  // namespace mtf
