// Sums over ranks in an order of our own: what MPI cannot add, or would add with an error that grows with the ranks.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>
#include <vector>

#include <mtf/runtime/group.hpp>

namespace mtf {
inline namespace v0 {

namespace detail {

/// Largest group whose sums of floats and doubles MPI adds. In which order it does is its own affair, so the error may
/// grow with the number of ranks: in larger groups they are added here (see docs/sums.md). Tests lower it.
inline int mpi_sum_limit = 4;
/// Bytes of all members together up to which everyone gathers all parts and adds them: one message instead of two.
inline constexpr std::int64_t gathered_sum_bytes = 16384;
/// Elements that are summed at a time, which bounds the memory that it takes.
inline std::int64_t sum_piece = 1 << 20;

}  // namespace detail

namespace collectives {

/// The sum of the i-th elements of `parts` rows of `count`, in the order of the rows and rounded once: of bfloat16 in
/// float, of float in double, of double in a pair of doubles.
template <class T>
[[nodiscard]] T sum_of_parts(const T* rows, std::int64_t count, int parts, std::int64_t i) {
  if constexpr (std::is_same_v<T, double>) {
    double high = rows[i];
    double low = 0;
    for (int rank = 1; rank < parts; ++rank) {
      const double x = rows[rank * count + i];
      const double sum = high + x;
      const double part = sum - high;
      low += (high - (sum - part)) + (x - part);
      high = sum;
    }
    return low == low ? high + low : high;  // NaN: the high part is infinite or NaN
  } else {
    using Wide = std::conditional_t<std::is_same_v<T, float>, double, float>;
    Wide sum = 0;
    for (int rank = 0; rank < parts; ++rank) sum += static_cast<Wide>(rows[rank * count + i]);
    return static_cast<T>(sum);
  }
}

/// in: [group.size, out_count]; out: the own part of the sum. Each part is sent to its owner, who adds in the order of
/// the ranks and rounds once: MPI would round at every hop, and has no bfloat16.
template <class T>
int reduce_scatter_in_order(const Group& group, const T* in, T* out, std::int64_t out_count) {
  static thread_local std::vector<T> sent, parts;  // kept: a training step allocates nothing
  const std::int64_t piece = std::max<std::int64_t>(detail::sum_piece / group.size, 1);
  int calls = 0;
  for (std::int64_t begin = 0; begin < out_count; begin += piece) {
    const std::int64_t count = std::min(piece, out_count - begin);
    parts.resize(static_cast<std::size_t>(count * group.size));
    const T* from = in;
    if (count < out_count) {
      sent.resize(parts.size());
      for (int rank = 0; rank < group.size; ++rank)
        std::copy_n(in + rank * out_count + begin, count, sent.data() + rank * count);
      from = sent.data();
    }
    calls += all_to_all(group, from, parts.data(), count * group.size, element_type_of<T>::value);
    for (std::int64_t i = 0; i < count; ++i) out[begin + i] = sum_of_parts(parts.data(), count, group.size, i);
  }
  return calls;
}
/// In place: the bytes of an allreduce, one rounding of the sum, the same bits everywhere.
template <class T>
int all_reduce_in_order(const Group& group, T* data, std::int64_t count) {
  static thread_local std::vector<T> padded, part;
  const std::int64_t width = bytes_of(element_type_of<T>::value);
  if (!std::is_same_v<T, bfloat16> && count * group.size * width <= detail::gathered_sum_bytes) {
    padded.resize(static_cast<std::size_t>(count * group.size));
    const int calls = all_gather(group, data, padded.data(), count, element_type_of<T>::value);
    for (std::int64_t i = 0; i < count; ++i) data[i] = sum_of_parts(padded.data(), count, group.size, i);
    return calls;
  }
  int calls = 0;
  const std::int64_t piece = std::max<std::int64_t>(detail::sum_piece / group.size, 1) * group.size;
  for (std::int64_t begin = 0; begin < count; begin += piece) {
    const std::int64_t here = std::min(piece, count - begin);
    const std::int64_t each = (here + group.size - 1) / group.size;
    padded.assign(static_cast<std::size_t>(each * group.size), T());
    part.resize(static_cast<std::size_t>(each));
    std::copy_n(data + begin, here, padded.data());
    calls += reduce_scatter_in_order(group, padded.data(), part.data(), each);
    calls += all_gather(group, part.data(), padded.data(), each, element_type_of<T>::value);
    std::copy_n(padded.data(), here, data + begin);
  }
  return calls;
}
/// Whether a sum is made here and not by MPI.
[[nodiscard]] inline bool sums_in_order(const Group& group, ElementType type, Combine combine) {
  if (combine != Combine::sum) return false;
  if (type == ElementType::bfloat16) return true;
  const bool fractions = type == ElementType::float32 || type == ElementType::float64;
  return fractions && (group.size > detail::mpi_sum_limit || !group.equal_sums);
}
/// Calls f with the elements' type, of those that are summed here.
template <class F>
int with_type(ElementType type, const F& f) {
  if (type == ElementType::float32) return f(float());
  if (type == ElementType::float64) return f(double());
  return f(bfloat16());
}

}  // namespace collectives

}  // namespace v0
}  // namespace mtf
