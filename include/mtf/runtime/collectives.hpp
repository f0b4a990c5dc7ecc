// Collectives on contiguous buffers with 64-bit counts.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include <mtf/core/recycled.hpp>
#include <mtf/runtime/sums_in_order.hpp>

namespace mtf {
inline namespace v0 {

namespace detail {

/// NaN must survive max and min, which MPI's own operations do not promise.
template <class T, bool Max>
void combine_extreme(void* in, void* inout, int* count, MPI_Datatype*) {
  const T* a = static_cast<const T*>(in);
  T* b = static_cast<T*>(inout);
  for (int i = 0; i < *count; ++i) {
    const computed<T> x = a[i];
    const computed<T> y = b[i];
    if (x != x || (Max ? x > y : x < y)) b[i] = a[i];
  }
}

/// The operations of a process, made on first use; MPI frees them when it ends.
class Operations {
 public:
  static MPI_Op of(Combine combine, ElementType type) {
    const int kind = type == ElementType::float32    ? 0
                     : type == ElementType::float64  ? 1
                     : type == ElementType::bfloat16 ? 2
                                                     : -1;
    switch (combine) {
      // A sum of bools is one whose terms are false but for one rank's: programs cannot count with them.
      case Combine::sum: return type == ElementType::boolean ? MPI_LOR : MPI_SUM;
      case Combine::max: return kind >= 0 ? instance().extreme_[kind][1] : MPI_MAX;
      case Combine::min: return kind >= 0 ? instance().extreme_[kind][0] : MPI_MIN;
      case Combine::logical_and: return MPI_LAND;
      case Combine::logical_or: return MPI_LOR;
    }
    return MPI_OP_NULL;
  }

 private:
  Operations() {
    MPI_Op_create(&combine_extreme<float, false>, 1, &extreme_[0][0]);
    MPI_Op_create(&combine_extreme<float, true>, 1, &extreme_[0][1]);
    MPI_Op_create(&combine_extreme<double, false>, 1, &extreme_[1][0]);
    MPI_Op_create(&combine_extreme<double, true>, 1, &extreme_[1][1]);
    MPI_Op_create(&combine_extreme<bfloat16, false>, 1, &extreme_[2][0]);
    MPI_Op_create(&combine_extreme<bfloat16, true>, 1, &extreme_[2][1]);
  }
  static Operations& instance() {
    static Operations operations;
    return operations;
  }
  MPI_Op extreme_[3][2]{};
};

}  // namespace detail

/// Each returns how many MPI calls it took. Counts are elements of this rank's buffer unless said otherwise.
namespace collectives {

/// In place. Every member receives the same bits: of sums of floats and doubles by MPI_Allreduce in small groups where
/// it was seen to do so, else by a reduce-scatter of the part that divides evenly and an allgather, which leaves no
/// room for different orders of summation.
inline int all_reduce(const Group& group, void* data, std::int64_t count, ElementType type, Combine combine) {
  if (group.size == 1 || count == 0) return 0;
  if (sums_in_order(group, type, combine)) {
    return with_type(
        type, [&](auto element) { return all_reduce_in_order(group, static_cast<decltype(element)*>(data), count); });
  }
  const std::int64_t width = bytes_of(type);
  int calls = 0;
  for (std::int64_t done = 0; done < count; done += detail::mpi_count_limit, ++calls) {
    const auto chunk = static_cast<int>(std::min(detail::mpi_count_limit, count - done));
    detail::check(MPI_Allreduce(MPI_IN_PLACE, detail::at(data, done * width), chunk, detail::datatype_of(type),
                                detail::Operations::of(combine, type), group.comm),
                  "MPI_Allreduce", group);
  }
  return calls;
}

/// in: [group.size, out_count]; out: the own part, combined.
inline int reduce_scatter(const Group& group, const void* in, void* out, std::int64_t out_count, ElementType type,
                          Combine combine) {
  if (sums_in_order(group, type, combine)) {
    return with_type(type, [&](auto element) {
      using T = decltype(element);
      return reduce_scatter_in_order(group, static_cast<const T*>(in), static_cast<T*>(out), out_count);
    });
  }
  const std::int64_t width = bytes_of(type);
  const MPI_Op operation = detail::Operations::of(combine, type);
  if (out_count <= detail::mpi_count_limit) {
    detail::check(MPI_Reduce_scatter_block(in, out, static_cast<int>(out_count), detail::datatype_of(type), operation,
                                           group.comm),
                  "MPI_Reduce_scatter_block", group);
    return 1;
  }
  int calls = 0;
  for (int root = 0; root < group.size; ++root) {
    for (std::int64_t done = 0; done < out_count; done += detail::mpi_count_limit, ++calls) {
      const auto chunk = static_cast<int>(std::min(detail::mpi_count_limit, out_count - done));
      detail::check(MPI_Reduce(detail::at(in, (root * out_count + done) * width), detail::at(out, done * width), chunk,
                               detail::datatype_of(type), operation, root, group.comm),
                    "MPI_Reduce", group);
    }
  }
  return calls;
}

/// In place, from member 0.
inline int broadcast(const Group& group, void* data, std::int64_t count, ElementType type) {
  const detail::LargeType large(count, detail::datatype_of(type));
  detail::check(MPI_Bcast(data, large.count(), large.type(), 0, group.comm), "MPI_Bcast", group);
  return 1;
}

/// out = the buffer of the member `distance` before; zeros where there is none and the shift does not wrap.
inline int shift(const Group& group, const void* in, void* out, std::int64_t count, ElementType type,
                 std::int64_t distance, bool wraps) {
  const auto neighbour = [&](std::int64_t position) {
    const std::int64_t size = group.size;
    if (wraps) return static_cast<int>(((position % size) + size) % size);
    return position < 0 || position >= size ? MPI_PROC_NULL : static_cast<int>(position);
  };
  const int to = neighbour(group.rank + distance);
  const int from = neighbour(group.rank - distance);
  const detail::LargeType large(count, detail::datatype_of(type));
  if (from == MPI_PROC_NULL) std::fill_n(static_cast<char*>(out), count * bytes_of(type), char{0});
  detail::check(MPI_Sendrecv(in, large.count(), large.type(), to, 0, out, large.count(), large.type(), from, 0,
                             group.comm, MPI_STATUS_IGNORE),
                "MPI_Sendrecv", group);
  return 1;
}

/// in, out: for every member the elements that go to it, that come from it, one after the other. Members that have
/// nothing for each other exchange no message.
inline int exchange(const Group& group, const void* in, void* out, std::span<const std::int64_t> sent,
                    std::span<const std::int64_t> received, ElementType type) {
  const std::int64_t width = bytes_of(type);
  RecycledVector<MPI_Request> requests;
  // Calls start(member, offset, count) for every message; two members cut what they send each other alike.
  const auto each_message = [&](std::span<const std::int64_t> counts, const auto& start) {
    std::int64_t offset = 0;
    for (int member = 0; member < group.size; ++member) {
      const std::int64_t count = counts[static_cast<std::size_t>(member)];
      for (std::int64_t done = 0; done < count; done += detail::mpi_count_limit) {
        start(member, offset + done, static_cast<int>(std::min(detail::mpi_count_limit, count - done)));
      }
      offset += count;
    }
  };
  each_message(received, [&](int member, std::int64_t at, int count) {
    detail::check(MPI_Irecv(detail::at(out, at * width), count, detail::datatype_of(type), member, 0, group.comm,
                            &requests.emplace_back()),
                  "MPI_Irecv", group);
  });
  each_message(sent, [&](int member, std::int64_t at, int count) {
    detail::check(MPI_Isend(detail::at(in, at * width), count, detail::datatype_of(type), member, 0, group.comm,
                            &requests.emplace_back()),
                  "MPI_Isend", group);
  });
  detail::check(MPI_Waitall(static_cast<int>(requests.size()), requests.data(), MPI_STATUSES_IGNORE), "MPI_Waitall",
                group);
  return static_cast<int>(requests.size());
}

}  // namespace collectives

}  // namespace v0
}  // namespace mtf
