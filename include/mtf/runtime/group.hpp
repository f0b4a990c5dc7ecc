// Groups of ranks, and the collectives of which sums are made.
#pragma once

#include <climits>
#include <cstdint>
#include <string>

#include <mtf/runtime/mpi.hpp>

namespace mtf {
inline namespace v0 {

/// A communicator of the library: its own duplicate or part of one, with errors returned as codes.
struct Group {
  MPI_Comm comm = MPI_COMM_NULL;
  int rank = 0;
  int size = 1;
  std::string name;        ///< the axes, for errors
  bool equal_sums = true;  ///< MPI_Allreduce gave every member the same bits when the group was made
};

namespace detail {

/// Largest count handed to one MPI call; more is cut into chunks. Tests lower it.
inline std::int64_t mpi_count_limit = INT_MAX / 2;

/// A datatype of `count` elements in a row, for counts that do not fit into an int.
class LargeType {
 public:
  LargeType(std::int64_t count, MPI_Datatype element) : count_(static_cast<int>(count)), type_(element) {
    if (count <= mpi_count_limit) return;
    constexpr std::int64_t piece = 1 << 20;
    const int lengths[2] = {static_cast<int>(count / piece), static_cast<int>(count % piece)};
    MPI_Aint lower = 0;
    MPI_Aint extent = 0;
    MPI_Type_get_extent(element, &lower, &extent);
    MPI_Datatype block = MPI_DATATYPE_NULL;
    MPI_Type_contiguous(static_cast<int>(piece), element, &block);
    const MPI_Aint offsets[2] = {0, static_cast<MPI_Aint>(lengths[0]) * piece * extent};
    const MPI_Datatype types[2] = {block, element};
    MPI_Type_create_struct(2, lengths, offsets, types, &type_);
    MPI_Type_commit(&type_);
    MPI_Type_free(&block);
    count_ = 1;
    owned_ = true;
  }
  LargeType(const LargeType&) = delete;
  LargeType& operator=(const LargeType&) = delete;
  ~LargeType() {
    if (owned_) MPI_Type_free(&type_);
  }
  [[nodiscard]] int count() const { return count_; }
  [[nodiscard]] MPI_Datatype type() const { return type_; }

 private:
  int count_;
  MPI_Datatype type_;
  bool owned_ = false;
};

MTF_COLD inline void fail(int code, const char* what, const Group& group) {
  check_mpi(code, std::string(what) + " over " + group.name);
}
inline void check(int code, const char* what, const Group& group) {
  if (code != MPI_SUCCESS) fail(code, what, group);
}

[[nodiscard]] inline char* at(void* data, std::int64_t bytes) { return static_cast<char*>(data) + bytes; }
[[nodiscard]] inline const char* at(const void* data, std::int64_t bytes) {
  return static_cast<const char*>(data) + bytes;
}

}  // namespace detail

/// Each returns how many MPI calls it took. Counts are elements of this rank's buffer unless said otherwise.
namespace collectives {

/// out: [group.size, in_count], in the order of the members.
inline int all_gather(const Group& group, const void* in, void* out, std::int64_t in_count, ElementType type) {
  const detail::LargeType large(in_count, detail::datatype_of(type));
  detail::check(MPI_Allgather(in, large.count(), large.type(), out, large.count(), large.type(), group.comm),
                "MPI_Allgather", group);
  return 1;
}

/// in, out: [group.size, count / group.size]; part i goes to member i.
inline int all_to_all(const Group& group, const void* in, void* out, std::int64_t count, ElementType type) {
  const detail::LargeType large(count / group.size, detail::datatype_of(type));
  detail::check(MPI_Alltoall(in, large.count(), large.type(), out, large.count(), large.type(), group.comm),
                "MPI_Alltoall", group);
  return 1;
}

}  // namespace collectives

}  // namespace v0
}  // namespace mtf
