// Sums of columns over rows that come one after the other.
#pragma once

#include <mtf/kernels/sum.hpp>

namespace mtf {
inline namespace v0 {

namespace kernels {

/// Sums of `columns`, at most `Width`; elements of a row are `element_stride` apart.
template <class T, int Width>
class ColumnSums {
 public:
  using C = computed<T>;

  MTF_FUNCTION ColumnSums(std::int64_t columns, std::int64_t element_stride)
      : count_(columns), stride_(element_stride) {}

  /// The row is read later: with seven others, or when the sums are written.
  MTF_FUNCTION void add(const T* row) {
    if (held_ == 8) add_held();
    rows_[held_++] = row;
  }
  /// Writes the sums of all rows that were added, of at least one, times a factor.
  template <class O>
  MTF_FUNCTION void write(O* to, std::int64_t to_stride, C factor = C(1)) {
    if (trees_ == 0) {
      switch (held_) {
        case 1: return write_few<1>(to, to_stride, factor);
        case 2: return write_few<2>(to, to_stride, factor);
        case 3: return write_few<3>(to, to_stride, factor);
        case 4: return write_few<4>(to, to_stride, factor);
        case 5: return write_few<5>(to, to_stride, factor);
        case 6: return write_few<6>(to, to_stride, factor);
        case 7: return write_few<7>(to, to_stride, factor);
        default: return write_few<8>(to, to_stride, factor);
      }
    }
    if (held_ == 8) add_held();
    if constexpr (levels > 0) {
      for (int level = levels - 1; level >= 0; --level) {
        if ((trees_ >> level & 1) != 0) put_part(waiting_[level]);
      }
    }
    const T* const* rows = rows_;
    if ((held_ & 4) != 0) put<4>(rows);
    rows += held_ & 4;
    if ((held_ & 2) != 0) put<2>(rows);
    rows += held_ & 2;
    if ((held_ & 1) != 0) put<1>(rows);
    for (std::int64_t i = 0; i < count_; ++i) to[i * to_stride] = static_cast<O>(sums_.result(i) * factor);
  }

 private:
  /// Trees of eight rows wait for others of their size until there are 64: of doubles, since pairs take more work, and
  /// of bfloat16, since its own rounding hides a few in float.
  static constexpr int levels = std::is_same_v<T, float> ? 0 : 3;

  MTF_FUNCTION void add_held() {
    held_ = 0;
    const std::int64_t number = trees_++;
    if constexpr (levels == 0) {
      put<8>(rows_);
    } else {
      C *one = waiting_[0], *two = waiting_[1], *four = waiting_[2];
      if ((number & 1) == 0) {
        each<8>(rows_, [=](std::int64_t i, C tree) { one[i] = tree; });
      } else if ((number & 2) == 0) {
        each<8>(rows_, [=](std::int64_t i, C tree) { two[i] = one[i] + tree; });
      } else if ((number & 4) == 0) {
        each<8>(rows_, [=](std::int64_t i, C tree) { four[i] = two[i] + (one[i] + tree); });
      } else {
        each<8>(rows_, [=](std::int64_t i, C tree) { four[i] += two[i] + (one[i] + tree); });
        put_part(four);
      }
    }
  }
  /// visit(i, the tree of the i-th elements of the rows).
  template <int Rows, class Visit>
  MTF_FUNCTION void each(const T* const* from, const Visit& visit) const {
    const T* rows[static_cast<unsigned>(Rows)];
    for (int r = 0; r < Rows; ++r) rows[r] = from[r];
    if (stride_ == 1) {
      MTF_INDEPENDENT_ITERATIONS
      for (std::int64_t i = 0; i < count_; ++i) visit(i, tree<Rows>(rows, i));
    } else {
      for (std::int64_t i = 0; i < count_; ++i) visit(i, tree<Rows>(rows, i * stride_));
    }
  }
  template <int Rows, class O>
  MTF_FUNCTION void write_few(O* to, std::int64_t to_stride, C factor) const {
    if (to_stride == 1) {
      each<Rows>(rows_, [=](std::int64_t i, C tree) { to[i] = static_cast<O>(tree * factor); });
    } else {
      each<Rows>(rows_, [=](std::int64_t i, C tree) { to[i * to_stride] = static_cast<O>(tree * factor); });
    }
  }
  template <int Rows>
  MTF_FUNCTION void put(const T* const* rows) {
    if (begin_addition()) {
      each<Rows>(rows, [this](std::int64_t i, C tree) { sums_.set(i, static_cast<double>(tree)); });
    } else {
      each<Rows>(rows, [this](std::int64_t i, C tree) { sums_.add(i, static_cast<double>(tree)); });
    }
  }
  MTF_FUNCTION void put_part(const C* part) {
    if (begin_addition()) {
      for (std::int64_t i = 0; i < count_; ++i) sums_.set(i, static_cast<double>(part[i]));
    } else {
      for (std::int64_t i = 0; i < count_; ++i) sums_.add(i, static_cast<double>(part[i]));
    }
  }
  /// Whether it is the first one.
  MTF_FUNCTION bool begin_addition() {
    if (additions_ == LongSums<C, Width>::span) {
      sums_.renew(count_);
      additions_ = 1;
    }
    return additions_++ == 0;
  }

  LongSums<C, Width> sums_;
  C waiting_[static_cast<unsigned>(levels > 0 ? levels : 1)][static_cast<unsigned>(levels > 0 ? Width : 1)];
  const T* rows_[8] = {};
  std::int64_t count_;
  std::int64_t stride_;
  std::int64_t trees_ = 0;
  std::int64_t additions_ = 0;
  int held_ = 0;
};

}  // namespace kernels

}  // namespace v0
}  // namespace mtf
