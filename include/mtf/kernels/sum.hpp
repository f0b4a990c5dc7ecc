// Sums of floating-point numbers whose error does not grow with their number: what they are made of.
#pragma once

#include <cstdint>
#include <type_traits>

#include <mtf/kernels/launch.hpp>

namespace mtf {
inline namespace v0 {

namespace kernels {

// Terms are added in their own type by balanced trees, and the trees' sums in a wider one: floats in double, doubles in
// pairs of doubles. An addition is off by at most half a unit in the last place of the sum S of the terms' magnitudes;
// all additions of one level of the trees together by at most one unit, since their results' magnitudes add up to S.
//
// * float: three levels (trees of eight), the last rounding, and the additions in double, each off by at most 2^-53 S.
//   After 2^21 of them a sum begins anew (`LongSums`), so that they amount to less than 2^-31 S for n up to 2^34; in
//   rows of neighbours there are n / 64 to half a unit. In all 4 units.
// * double: n terms are cut into trees of 64, or 256 where they are neighbours, and into trees as large as the digits
//   of what is left. A tree of 2^k terms has k levels, the last with one addition, and all is rounded once: k units of
//   at least 2^k terms, at most log2(n). m additions to a pair lose at most m^2 u^2 S with u = 2^-53: after 2^17 of
//   them a pair is made anew.
//
// The order in which terms are added depends on their number alone. docs/sums.md says what collectives add.

/// N running sums in a type in which sums of C lose next to nothing.
template <class C, int N>
struct Sums;

template <int N>
struct Sums<float, N> {
  double total[static_cast<unsigned>(N)];

  MTF_FUNCTION void set(std::int64_t i, double x) { total[i] = x; }
  MTF_FUNCTION void add(std::int64_t i, double x) { total[i] += x; }
  /// Adds another of these sums.
  template <int M>
  MTF_FUNCTION void join(std::int64_t i, const Sums<float, M>& others, std::int64_t other) {
    total[i] += others.total[other];
  }
  [[nodiscard]] MTF_FUNCTION float result(std::int64_t i) const { return static_cast<float>(total[i]); }
};

/// A sum of two parts: what an addition to the high one rounds away goes to the low one. Additions and subtractions
/// only, so that no compiler may make other operations of them (an FMA takes in a product of the caller's: exactly).
/// Source: TwoSum (Knuth, The Art of Computer Programming, volume 2, section 4.2.2).
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
  /// The sum with one more term, which is not kept.
  [[nodiscard]] MTF_FUNCTION double with(std::int64_t i, double x) const { return high[i] + (rest(i) + x); }
};

/// The same, for any number of additions: call `renew` after at most `span` of them.
template <class C, int N>
struct LongSums : Sums<C, N> {
  static constexpr std::int64_t span = std::int64_t{1} << 17;
  MTF_FUNCTION void renew(std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i) {
      const double rest = this->rest(i);
      this->low[i] = 0;
      this->add(i, rest);
    }
  }
};
template <int N>
struct LongSums<float, N> : Sums<float, N> {
  static constexpr std::int64_t span = std::int64_t{1} << 21;
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
  [[nodiscard]] MTF_FUNCTION float result(std::int64_t i) const {
    return is_long ? result_if<true>(i) : result_if<false>(i);
  }
  /// Where it is known whether `renew` was called.
  template <bool Long>
  [[nodiscard]] MTF_ALWAYS_INLINE MTF_FUNCTION float result_if(std::int64_t i) const {
    return static_cast<float>(Long ? earlier[i] + this->total[i] : this->total[i]);
  }
};

/// What is summed: the elements themselves.
struct Elements {
  template <class T>
  MTF_ALWAYS_INLINE MTF_FUNCTION computed<T> operator()(const T& x) const {
    return static_cast<computed<T>>(x);
  }
};

/// The sum of the i-th elements of `Rows` rows as a tree, of at most eight.
template <int Rows, class T>
[[nodiscard]] MTF_ALWAYS_INLINE MTF_FUNCTION inline computed<T> tree(const T* const* rows, std::int64_t i) {
  if constexpr (Rows == 1) {
    return static_cast<computed<T>>(rows[0][i]);
  } else {
    constexpr int left = Rows > 4 ? 4 : Rows > 2 ? 2 : 1;
    return tree<left>(rows, i) + tree<Rows - left>(rows + left, i);
  }
}
/// The same of what a function makes of elements that are `stride` apart.
template <int Terms, class T, class F>
[[nodiscard]] MTF_ALWAYS_INLINE MTF_FUNCTION inline computed<T> tree_of(const T* terms, std::int64_t stride,
                                                                        const F& f) {
  if constexpr (Terms == 1) {
    return f(*terms);
  } else {
    constexpr int left = Terms > 4 ? 4 : Terms > 2 ? 2 : 1;
    return tree_of<left>(terms, stride, f) + tree_of<Terms - left>(terms + left * stride, stride, f);
  }
}
/// Adds the upper half of 2 `Half` numbers to the lower, and so on until `Last` of them are left.
template <int Half, int Last, class C>
MTF_ALWAYS_INLINE MTF_FUNCTION inline void fold(C* numbers) {
  if constexpr (Half >= Last) {
    for (int i = 0; i < Half; ++i) numbers[i] += numbers[i + Half];
    fold<Half / 2, Last>(numbers);
  }
}

}  // namespace kernels

}  // namespace v0
}  // namespace mtf
