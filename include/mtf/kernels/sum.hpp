// Sums of floating-point numbers whose error does not grow with their number.
#pragma once

#include <cstdint>
#include <type_traits>

#include <mtf/kernels/launch.hpp>

// Asks for memory that is read soon, which need not exist.
#if defined(__GNUC__) && !defined(__CUDA_ARCH__)
#define MTF_PREFETCH(address) __builtin_prefetch(address)
#else
#define MTF_PREFETCH(address) static_cast<void>(address)
#endif

namespace mtf {
inline namespace v0 {

namespace kernels {

// Terms are added in their own type by groups of at most eight, as a balanced tree, and the groups' sums in a wider
// one: floats in double, doubles in pairs of doubles. With u half a unit of the last place of 1 (2^-24 in float, 2^-53
// in double) and S the sum of the terms' magnitudes, a level of the trees, all its additions together, is off by at
// most u S, which is less than one unit in the last place of S; the last rounding by half a unit.
//
// * float: three levels, the last rounding, and n / 8 additions in double, each off by at most 2^-53 S. After 2^21
//   of them a sum begins anew (`LongSums`), so that they amount to less than 2^-31 S for n up to 2^34; in rows of
//   neighbours n / 64 additions to half a unit. In all 4 units.
// * double: the pairs lose less than n u^2 S. Of n = 2, 3, 4, 6, 8, 12 terms the trees have levels for 0.5, 1, 1.5, 2,
//   2.5, 3.5 units, the last rounding included, of 64 and more in one row 5.5: at most log2(n).
//
// The order in which terms are added depends on their number alone. docs/sums.md says what collectives add.

/// N running sums in a type in which sums of C lose next to nothing.
template <class C, int N>
struct Sums;

template <int N>
struct Sums<float, N> {
  double total[static_cast<unsigned>(N)];

  MTF_FUNCTION void set(std::int64_t i, float x) { total[i] = static_cast<double>(x); }
  MTF_FUNCTION void add(std::int64_t i, float x) { total[i] += static_cast<double>(x); }
  /// Adds another of these sums.
  template <int M>
  MTF_FUNCTION void join(std::int64_t i, const Sums<float, M>& others, std::int64_t other) {
    total[i] += others.total[other];
  }
  [[nodiscard]] MTF_FUNCTION float result(std::int64_t i) const { return static_cast<float>(total[i]); }
  /// The sum with one more term, which is not kept.
  [[nodiscard]] MTF_FUNCTION float with(std::int64_t i, float x) const {
    return static_cast<float>(total[i] + static_cast<double>(x));
  }
};

/// A sum of two parts: what an addition to the high one rounds away goes to the low one. Additions and subtractions
/// only, so that no compiler may make other operations of them (an FMA takes in a product of the caller's: exactly).
template <int N>
struct Sums<double, N> {
  double high[static_cast<unsigned>(N)];
  double low[static_cast<unsigned>(N)];

  MTF_FUNCTION void set(std::int64_t i, double x) {
    high[i] = x;
    low[i] = 0;
  }
  MTF_FUNCTION void add(std::int64_t i, double x) {
    const double sum = high[i] + x;
    const double part = sum - high[i];
    low[i] += (high[i] - (sum - part)) + (x - part);
    high[i] = sum;
  }
  template <int M>
  MTF_FUNCTION void join(std::int64_t i, const Sums<double, M>& others, std::int64_t other) {
    const double rest_of_other = others.low[other];
    add(i, others.high[other]);
    low[i] += rest_of_other;
  }
  /// Of a high part that is infinite or NaN the low one is NaN.
  [[nodiscard]] MTF_FUNCTION double rest(std::int64_t i) const { return low[i] == low[i] ? low[i] : 0.0; }
  [[nodiscard]] MTF_FUNCTION double result(std::int64_t i) const { return high[i] + rest(i); }
  [[nodiscard]] MTF_FUNCTION double with(std::int64_t i, double x) const { return high[i] + (rest(i) + x); }
};

/// The same, for any number of terms: call `renew` after at most `span` of them.
template <class C, int N>
struct LongSums : Sums<C, N> {
  static constexpr std::int64_t span = std::int64_t{1} << 24;
  MTF_FUNCTION void renew(std::int64_t) {}
};
template <int N>
struct LongSums<float, N> : Sums<float, N> {
  static constexpr std::int64_t span = std::int64_t{1} << 24;
  double earlier[static_cast<unsigned>(N)];  ///< of the terms before the last span, if there were more
  bool is_long = false;

  MTF_FUNCTION LongSums() { earlier[0] = 0; }  // the other elements are not read before they are written either
  MTF_FUNCTION void renew(std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i) {
      earlier[i] = is_long ? earlier[i] + this->total[i] : this->total[i];
      this->total[i] = 0;
    }
    is_long = true;
  }
  [[nodiscard]] MTF_FUNCTION float result(std::int64_t i) const { return with(i, 0.0F); }
  [[nodiscard]] MTF_FUNCTION float with(std::int64_t i, float x) const {
    const double recent = this->total[i] + static_cast<double>(x);
    return static_cast<float>(is_long ? earlier[i] + recent : recent);
  }
};

/// Terms of one tree.
inline constexpr int tree_terms = 8;

/// The sum of the i-th elements of `Rows` rows as a tree.
template <int Rows, class T>
[[nodiscard]] MTF_FUNCTION computed<T> tree(const T* const* rows, std::int64_t i) {
  if constexpr (Rows == 1) {
    return static_cast<computed<T>>(rows[0][i]);
  } else {
    constexpr int left = Rows > 4 ? 4 : Rows > 2 ? 2 : 1;
    return tree<left>(rows, i) + tree<Rows - left>(rows + left, i);
  }
}

/// Sums of `count` columns, at most `Width`, over rows that come one after the other. Elements of a row are `Stride`
/// apart, or (0) as far as is said at run time.
template <class T, int Width>
class ColumnSums {
 public:
  using C = computed<T>;

  MTF_FUNCTION ColumnSums(std::int64_t columns, std::int64_t element_stride)
      : count_(columns), stride_(element_stride) {}

  MTF_FUNCTION void add(const T* row) {
    if (held_ == tree_terms) add_held();
    rows_[held_++] = row;
  }
  /// Writes the sums of all rows that were added, of at least one.
  template <class O>
  MTF_FUNCTION void write(O* to, std::int64_t to_stride) {
    if (first_) {
      switch (held_) {
        case 1: return write_few<1>(to, to_stride);
        case 2: return write_few<2>(to, to_stride);
        case 3: return write_few<3>(to, to_stride);
        case 4: return write_few<4>(to, to_stride);
        case 5: return write_few<5>(to, to_stride);
        case 6: return write_few<6>(to, to_stride);
        case 7: return write_few<7>(to, to_stride);
        default: return write_few<8>(to, to_stride);
      }
    }
    const T* const* rows = rows_;
    if ((held_ & 8) != 0) take<8>(rows);
    if ((held_ & 4) != 0) take<4>(rows);
    rows += held_ & 4;
    if ((held_ & 2) != 0) take<2>(rows);
    rows += held_ & 2;
    if ((held_ & 1) != 0) take<1>(rows);
    for (std::int64_t i = 0; i < count_; ++i) to[i * to_stride] = static_cast<O>(sums_.result(i));
  }

 private:
  MTF_FUNCTION void add_held() {
    take<tree_terms>(rows_);
    held_ = 0;
    since_ += tree_terms;
    if (since_ < LongSums<C, Width>::span) return;
    sums_.renew(count_);
    since_ = 0;
  }
  template <int Rows, class O>
  MTF_FUNCTION void write_few(O* to, std::int64_t to_stride) const {
    const T* rows[static_cast<unsigned>(Rows)];
    for (int r = 0; r < Rows; ++r) rows[r] = rows_[r];
    if (stride_ == 1 && to_stride == 1) {
      MTF_INDEPENDENT_ITERATIONS
      for (std::int64_t i = 0; i < count_; ++i) to[i] = static_cast<O>(tree<Rows>(rows, i));
    } else {
      for (std::int64_t i = 0; i < count_; ++i) to[i * to_stride] = static_cast<O>(tree<Rows>(rows, i * stride_));
    }
  }
  template <int Rows>
  MTF_FUNCTION void take(const T* const* from) {
    const T* rows[static_cast<unsigned>(Rows)];
    for (int r = 0; r < Rows; ++r) rows[r] = from[r];
    if (stride_ == 1) {
      if (first_) {
        for (std::int64_t i = 0; i < count_; ++i) sums_.set(i, tree<Rows>(rows, i));
      } else {
        for (std::int64_t i = 0; i < count_; ++i) sums_.add(i, tree<Rows>(rows, i));
      }
    } else {
      for (std::int64_t i = 0; i < count_; ++i) {
        const C sum = tree<Rows>(rows, i * stride_);
        first_ ? sums_.set(i, sum) : sums_.add(i, sum);
      }
    }
    first_ = false;
  }

  LongSums<C, Width> sums_;
  const T* rows_[static_cast<unsigned>(tree_terms)] = {};
  std::int64_t count_;
  std::int64_t stride_;
  std::int64_t since_ = 0;
  int held_ = 0;
  bool first_ = true;
};

/// The sum of elements that come in runs.
template <class T>
class RunSum {
 public:
  using C = computed<T>;

  MTF_FUNCTION RunSum() { sum_.set(0, C(0)); }
  /// Adds values[0], values[stride], ...
  MTF_FUNCTION void add(const T* values, std::int64_t count, std::int64_t stride) {
    if (stride == 1 && count >= block) {
      const std::int64_t blocks = count / block;
      add_blocks(values, blocks);
      values += blocks * block;
      count -= blocks * block;
    }
    for (; count >= tree_terms; count -= tree_terms, values += tree_terms * stride) {
      take<tree_terms>(values, stride);
      since_ += tree_terms;
      if (since_ < LongSums<C, 1>::span) continue;
      sum_.renew(1);
      since_ = 0;
    }
    if ((count & 4) != 0) take<4>(values, stride);
    values += (count & 4) * stride;
    if ((count & 2) != 0) take<2>(values, stride);
    values += (count & 2) * stride;
    if ((count & 1) != 0) take<1>(values, stride);
    since_ += count;
  }
  [[nodiscard]] MTF_FUNCTION C result() const { return sum_.result(0); }

 private:
  /// Neighbours that are added as eight rows of eight columns: enough independent additions to keep a processor busy.
  static constexpr int block = tree_terms * 8;
  static constexpr int line = 64 / static_cast<int>(sizeof(T));  ///< elements of a line of the cache
  static constexpr int ahead = 2048 / static_cast<int>(sizeof(T));
  /// Running sums of the eight columns. Pairs of doubles take more work, so that some columns meet before.
  static constexpr int lanes = std::is_same_v<C, float> ? 8 : 2;

  template <int Terms>
  MTF_FUNCTION void take(const T* values, std::int64_t stride) {
    const T* rows[static_cast<unsigned>(Terms)];
    for (int r = 0; r < Terms; ++r) rows[r] = values + r * stride;
    sum_.add(0, tree<Terms>(rows, 0));
  }
  MTF_FUNCTION void add_blocks(const T* values, std::int64_t blocks) {
    Sums<C, lanes> sums;
    for (int i = 0; i < lanes; ++i) sums.set(i, C(0));
    for (const T* end = values + blocks * block; values != end; values += block) {
      C part[16];
      // More work for each element than plain additions leaves the processor to look less far ahead.
      for (int i = 0; i < block; i += line) MTF_PREFETCH(values + ahead + i);
      MTF_INDEPENDENT_ITERATIONS
      for (int i = 0; i < 16; ++i)
        part[i] = (C(values[i]) + C(values[i + 16])) + (C(values[i + 32]) + C(values[i + 48]));
      for (int half = 8; half >= lanes; half /= 2) {
        for (int i = 0; i < half; ++i) part[i] += part[i + half];
      }
      for (int i = 0; i < lanes; ++i) sums.add(i, part[i]);
    }
    for (int half = lanes / 2; half > 0; half /= 2) {
      for (int i = 0; i < half; ++i) sums.join(i, sums, i + half);
    }
    sum_.join(0, sums, 0);
  }

  LongSums<C, 1> sum_;
  std::int64_t since_ = 0;
};

}  // namespace kernels

}  // namespace v0
}  // namespace mtf
