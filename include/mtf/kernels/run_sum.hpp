// The sum of elements that come in runs.
#pragma once

#include <mtf/kernels/sum.hpp>

// Asks for memory that is read soon, which need not exist.
#if defined(__GNUC__) && !defined(__CUDA_ARCH__)
#define MTF_PREFETCH(address) __builtin_prefetch(address)
#else
#define MTF_PREFETCH(address) static_cast<void>(address)
#endif

// Before a loop of a fixed length that clang else unrolls before it could vectorise it, and adds one by one.
#if defined(__clang__)
#define MTF_KEPT_LOOP _Pragma("clang loop vectorize(assume_safety) unroll(disable)")
#else
#define MTF_KEPT_LOOP MTF_INDEPENDENT_ITERATIONS
#endif

namespace mtf {
inline namespace v0 {

namespace kernels {

/// Of elements, or of what a function makes of them.
template <class T, class F = Elements>
class RunSum {
 public:
  using C = computed<T>;

  MTF_FUNCTION explicit RunSum(const F& f = {}) : f_(f) { sum_.set(0, 0); }
  /// The sum of one short run, of 1 to 8 elements.
  [[nodiscard]] MTF_FUNCTION static C of_few(const T* values, std::int64_t count, std::int64_t stride,
                                             const F& f = {}) {
    switch (count) {
      case 1: return f(*values);
      case 2: return tree_of<2>(values, stride, f);
      case 3: return tree_of<3>(values, stride, f);
      case 4: return tree_of<4>(values, stride, f);
      case 5: return tree_of<5>(values, stride, f);
      case 6: return tree_of<6>(values, stride, f);
      case 7: return tree_of<7>(values, stride, f);
      default: return tree_of<8>(values, stride, f);
    }
  }
  /// Adds values[0], values[stride], ...
  MTF_FUNCTION void add(const T* values, std::int64_t count, std::int64_t stride) {
    if (stride == 1) {
      add_neighbours(values, count);
      return;
    }
    for (; count >= 8; count -= 8, values += 8 * stride) put(widened(tree_of<8>(values, stride, f_)));
    if ((count & 4) != 0) put(widened(tree_of<4>(values, stride, f_)));
    values += (count & 4) * stride;
    if ((count & 2) != 0) put(widened(tree_of<2>(values, stride, f_)));
    values += (count & 2) * stride;
    if ((count & 1) != 0) put(widened(f_(*values)));
  }
  [[nodiscard]] MTF_FUNCTION C result() const { return sum_.result(0); }

 private:
  static constexpr bool is_float = std::is_same_v<C, float>;
  /// Neighbours that are added together, where there are as many: a tree of some columns, whose sums stay apart.
  static constexpr int block = is_float ? 64 : 256;
  static constexpr int columns = is_float ? 16 : 32;
  static constexpr int lanes = is_float ? 8 : 4;
  static constexpr int line = 64 / static_cast<int>(sizeof(T));  ///< elements of a line of the cache
  static constexpr int ahead = 2048 / static_cast<int>(sizeof(T));

  MTF_FUNCTION static double widened(C x) { return static_cast<double>(x); }
  MTF_FUNCTION void put(double x) {
    if (additions_ == LongSums<C, 1>::span) {
      sum_.renew(1);
      additions_ = 1;
    }
    additions_++ == 0 ? sum_.set(0, x) : sum_.add(0, x);
  }
  MTF_FUNCTION void add_neighbours(const T* values, std::int64_t count) {
    if (count >= 16) {
      if (count >= block) {
        add_blocks(values, count / block);
        values += count / block * block;
      }
      if constexpr (!is_float) {
        add_digit<128>(values, count);
        add_digit<64>(values, count);
      }
      add_digit<32>(values, count);
      add_digit<16>(values, count);
    }
    add_digit<8>(values, count);
    add_digit<4>(values, count);
    add_digit<2>(values, count);
    add_digit<1>(values, count);
  }
  template <int Terms>
  MTF_FUNCTION void add_digit(const T*& values, std::int64_t count) {
    if ((count & Terms) == 0) return;
    put(neighbours<Terms>(values));
    values += Terms;
  }
  /// A tree; floats are wider beyond three levels.
  template <int Terms>
  [[nodiscard]] MTF_FUNCTION double neighbours(const T* values) const {
    if constexpr (Terms <= 8) {
      return widened(tree_of<Terms>(values, 1, f_));
    } else {
      constexpr int half = Terms / 2;
      constexpr int narrow = is_float ? Terms / 8 : 1;
      C part[static_cast<unsigned>(half)];
      MTF_KEPT_LOOP
      for (int i = 0; i < half; ++i) part[i] = f_(values[i]) + f_(values[i + half]);
      fold<half / 2, narrow>(part);
      double wide[static_cast<unsigned>(narrow)];
      for (int i = 0; i < narrow; ++i) wide[i] = widened(part[i]);
      fold<narrow / 2, 1>(wide);
      return wide[0];
    }
  }
  MTF_FUNCTION void sum_block(const T* values, C* part) const {
    if constexpr (is_float) {
      MTF_KEPT_LOOP
      for (int i = 0; i < columns; ++i) part[i] = tree_of<block / columns>(values + i, columns, f_);
    } else {
      for (int i = 0; i < columns; ++i) part[i] = tree_of<block / columns>(values + i, columns, f_);
    }
    fold<columns / 2, lanes>(part);
  }
  MTF_FUNCTION void add_blocks(const T* values, std::int64_t blocks) {
    C part[static_cast<unsigned>(columns)];
    sum_block(values, part);
    Sums<C, lanes> sums;
    for (int i = 0; i < lanes; ++i) sums.set(i, widened(part[i]));
    for (std::int64_t b = 1; b < blocks; ++b) {
      values += block;
      // More work for each element than plain additions leaves the processor to look less far ahead.
      for (int i = 0; i < block; i += 2 * line) MTF_PREFETCH(values + ahead + i);
      sum_block(values, part);
      for (int i = 0; i < lanes; ++i) sums.add(i, widened(part[i]));
    }
    if constexpr (is_float) {
      fold<lanes / 2, 1>(sums.total);
      put(sums.total[0]);
    } else {  // two levels more
      fold<lanes / 2, 1>(sums.high);
      fold<lanes / 2, 1>(sums.low);
      put(sums.high[0]);
      sum_.low[0] += sums.low[0];
    }
  }

  LongSums<C, 1> sum_;
  std::int64_t additions_ = 0;
  F f_;
};

}  // namespace kernels

}  // namespace v0
}  // namespace mtf
