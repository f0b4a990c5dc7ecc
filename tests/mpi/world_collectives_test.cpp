// The collectives on random data, on every group of a mesh, whole and cut into chunks.
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <type_traits>
#include <vector>

#include <doctest/doctest.h>
#include <mpi.h>

#include <mtf/runtime/communicators.hpp>

namespace {

using mtf::Combine;

/// Lowers the largest count of one MPI call while it lives.
struct Limit {
  explicit Limit(std::int64_t limit) { mtf::detail::mpi_count_limit = limit; }
  Limit(const Limit&) = delete;
  Limit& operator=(const Limit&) = delete;
  ~Limit() { mtf::detail::mpi_count_limit = before; }
  std::int64_t before = mtf::detail::mpi_count_limit;
};

/// What the member `rank` of a group has at i; every rank can tell what the others have.
template <class T>
T element(int rank, std::int64_t i) {
  std::uint64_t x = static_cast<std::uint64_t>(rank + 1) * std::uint64_t{0x9E3779B97F4A7C15} +
                    static_cast<std::uint64_t>(i) * std::uint64_t{0xBF58476D1CE4E5B9};
  x ^= x >> 31;
  x *= std::uint64_t{0x94D049BB133111EB};
  x ^= x >> 29;
  if constexpr (std::is_same_v<T, bool>) {
    return (x & 3U) != 0;
  } else {
    return static_cast<T>(static_cast<int>(x % 2001) - 1000);  // sums of eight are exact in every type
  }
}
template <class T>
std::vector<T> elements(int rank, std::int64_t count) {
  std::vector<T> result;
  for (std::int64_t i = 0; i < count; ++i) result.push_back(element<T>(rank, i));
  return result;
}
/// std::vector<bool> has no data.
struct Bool {
  bool value = false;
  friend bool operator==(const Bool&, const Bool&) = default;
};
template <>
std::vector<Bool> elements<Bool>(int rank, std::int64_t count) {
  std::vector<Bool> result;
  for (std::int64_t i = 0; i < count; ++i) result.push_back({element<bool>(rank, i)});
  return result;
}

template <class T>
constexpr mtf::ElementType type_of() {
  if constexpr (std::is_same_v<T, Bool>) {
    return mtf::ElementType::boolean;
  } else {
    return mtf::element_type_of<T>::value;
  }
}

template <class T>
T combined(Combine how, T a, T b) {
  if constexpr (std::is_same_v<T, Bool>) {
    return {how == Combine::logical_and ? a.value && b.value : a.value || b.value};
  } else {
    switch (how) {
      case Combine::sum: return static_cast<T>(a + b);
      case Combine::max: return a > b ? a : b;
      default: return a < b ? a : b;
    }
  }
}
template <class T>
T of_all(Combine how, int size, std::int64_t i) {
  const auto value = [&](int rank) {
    if constexpr (std::is_same_v<T, Bool>) {
      return Bool{element<bool>(rank, i)};
    } else {
      return element<T>(rank, i);
    }
  };
  T result = value(0);
  for (int rank = 1; rank < size; ++rank) result = combined(how, result, value(rank));
  return result;
}

/// The groups of all meshes of this number of ranks.
template <class Body>
void for_each_group(const Body& body) {
  int ranks = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  for (int rows = 1; rows <= ranks; ++rows) {
    if (ranks % rows != 0) continue;
    mtf::MeshValue mesh;
    mesh.axes.push_back({"rows", rows});
    mesh.axes.push_back({"cols", ranks / rows});
    mtf::Communicators communicators(MPI_COMM_WORLD, mesh, {});
    for (const mtf::AxisSet set : {mtf::AxisSet::of(0), mtf::AxisSet::of(1), mesh.all()})
      body(communicators.along(set));
    communicators.close(mtf::detail::Presence::ended);
  }
}

constexpr std::int64_t limits[] = {1 << 30, 1000, 64, 7, 1};
constexpr std::int64_t counts[] = {1, 2, 7, 63, 64, 65, 100};

template <class Body>
void for_each_case(const Body& body) {
  for_each_group([&](const mtf::Group& group) {
    for (const std::int64_t limit : limits) {
      const Limit lowered(limit);
      for (const std::int64_t count : counts) {
        if (count > 20 * limit) continue;  // no new case, and each call takes milliseconds when ranks share cores
        CAPTURE(group.size);
        CAPTURE(limit);
        CAPTURE(count);
        body(group, count, limit);
      }
    }
  });
}

template <class T>
void check_all_reduce(const mtf::Group& group, std::int64_t count, Combine how) {
  std::vector<T> data = elements<T>(group.rank, count);
  const int calls = mtf::collectives::all_reduce(group, data.data(), count, type_of<T>(), how);
  bool right = true;
  for (std::int64_t i = 0; i < count; ++i)
    right = right && data[static_cast<std::size_t>(i)] == of_all<T>(how, group.size, i);
  CAPTURE(std::string(mtf::name_of(how)));
  CHECK(right);
  if (group.size == 1) {
    CHECK(calls == 0);
  } else if (!mtf::collectives::sums_in_order(group, type_of<T>(), how)) {
    CHECK(calls == (count + mtf::detail::mpi_count_limit - 1) / mtf::detail::mpi_count_limit);
  }
}

template <class T>
void check_reduce_scatter(const mtf::Group& group, std::int64_t count, Combine how) {
  const std::vector<T> in = elements<T>(group.rank, count * group.size);
  std::vector<T> out(static_cast<std::size_t>(count));
  mtf::collectives::reduce_scatter(group, in.data(), out.data(), count, type_of<T>(), how);
  bool right = true;
  for (std::int64_t i = 0; i < count; ++i)
    right = right && out[static_cast<std::size_t>(i)] == of_all<T>(how, group.size, group.rank * count + i);
  CHECK(right);
}

template <class T>
void check_all_gather(const mtf::Group& group, std::int64_t count) {
  const std::vector<T> in = elements<T>(group.rank, count);
  std::vector<T> out(static_cast<std::size_t>(count * group.size));
  mtf::collectives::all_gather(group, in.data(), out.data(), count, type_of<T>());
  bool right = true;
  for (int from = 0; from < group.size; ++from) {
    const std::vector<T> expected = elements<T>(from, count);
    for (std::int64_t i = 0; i < count; ++i)
      right = right && out[static_cast<std::size_t>(from * count + i)] == expected[static_cast<std::size_t>(i)];
  }
  CHECK(right);
}

template <class T>
void check_all_to_all(const mtf::Group& group, std::int64_t count) {
  const std::vector<T> in = elements<T>(group.rank, count * group.size);
  std::vector<T> out(in.size());
  mtf::collectives::all_to_all(group, in.data(), out.data(), count * group.size, type_of<T>());
  bool right = true;
  for (int from = 0; from < group.size; ++from) {
    const std::vector<T> expected = elements<T>(from, count * group.size);
    for (std::int64_t i = 0; i < count; ++i) {
      right = right && out[static_cast<std::size_t>(from * count + i)] ==
                           expected[static_cast<std::size_t>(group.rank * count + i)];
    }
  }
  CHECK(right);
}

template <class T>
void check_broadcast(const mtf::Group& group, std::int64_t count) {
  std::vector<T> data = elements<T>(group.rank, count);
  mtf::collectives::broadcast(group, data.data(), count, type_of<T>());
  CHECK(data == elements<T>(0, count));
}

template <class T>
void check_shift(const mtf::Group& group, std::int64_t count, std::int64_t distance, bool wraps) {
  const std::vector<T> in = elements<T>(group.rank, count);
  std::vector<T> out = elements<T>(99, count);
  mtf::collectives::shift(group, in.data(), out.data(), count, type_of<T>(), distance, wraps);
  std::int64_t from = group.rank - distance;
  if (wraps) from = (from % group.size + group.size) % group.size;
  const bool none = from < 0 || from >= group.size;
  CAPTURE(distance);
  CAPTURE(wraps);
  CHECK(out == (none ? std::vector<T>(static_cast<std::size_t>(count)) : elements<T>(static_cast<int>(from), count)));
}

}  // namespace

TEST_CASE("allreduce") {
  for_each_case([](const mtf::Group& group, std::int64_t count, std::int64_t) {
    for (const Combine how : {Combine::sum, Combine::max, Combine::min}) {
      check_all_reduce<float>(group, count, how);
      check_all_reduce<double>(group, count, how);
      check_all_reduce<std::int32_t>(group, count, how);
      check_all_reduce<std::int64_t>(group, count, how);
    }
    check_all_reduce<Bool>(group, count, Combine::logical_and);
    check_all_reduce<Bool>(group, count, Combine::logical_or);
  });
}

TEST_CASE("allreduce where the MPI's own sums differ between members") {
  for_each_case([](const mtf::Group& group, std::int64_t count, std::int64_t) {
    mtf::Group other = group;
    other.equal_sums = false;
    check_all_reduce<float>(other, count, Combine::sum);
    check_all_reduce<double>(other, count, Combine::sum);
    check_all_reduce<std::int64_t>(other, count, Combine::sum);
    check_all_reduce<double>(other, count, Combine::max);
  });
}

TEST_CASE("MPI: sums are bitwise equal on all members, by either path") {
  for_each_group([](const mtf::Group& group) {
    for (const bool equal_sums : {true, false}) {
      if (equal_sums && !group.equal_sums) continue;
      mtf::Group path = group;
      path.equal_sums = equal_sums;
      for (const std::int64_t count : {1, 3, 1000, 10001}) {
        std::vector<float> data;
        for (std::int64_t i = 0; i < count; ++i)
          data.push_back(std::ldexp(element<float>(group.rank, i) / 7, static_cast<int>(i % 20)));
        mtf::collectives::all_reduce(path, data.data(), count, mtf::ElementType::float32, Combine::sum);
        std::vector<float> all(data.size() * static_cast<std::size_t>(group.size));
        mtf::collectives::all_gather(path, data.data(), all.data(), count, mtf::ElementType::float32);
        bool equal = true;
        for (int member = 0; member < group.size; ++member) {
          equal = equal && std::memcmp(data.data(), all.data() + member * count, data.size() * sizeof(float)) == 0;
        }
        CHECK(equal);
      }
    }
  });
}

TEST_CASE("MPI: NaN passes max and min whichever member has it, and no further") {
  for_each_group([](const mtf::Group& group) {
    for (const std::int64_t limit : {1 << 20, 3}) {
      const Limit lowered(limit);
      for (const Combine how : {Combine::max, Combine::min, Combine::sum}) {
        const auto check = [&]<class T>(T) {
          const std::int64_t count = 3 * group.size + 2;
          std::vector<T> data = elements<T>(group.rank, count);
          data[static_cast<std::size_t>(3 * group.rank)] = std::numeric_limits<T>::quiet_NaN();
          data[static_cast<std::size_t>(3 * group.rank + 1)] =
              how == Combine::max ? -std::numeric_limits<T>::infinity() : std::numeric_limits<T>::infinity();
          mtf::collectives::all_reduce(group, data.data(), count, type_of<T>(), how);
          bool right = true;
          for (std::int64_t i = 0; i < count; ++i) {
            const T x = data[static_cast<std::size_t>(i)];
            const bool has_nan = i % 3 == 0 && i < 3 * group.size;
            right = right && std::isnan(x) == has_nan;
          }
          CHECK(right);
        };
        check(float{});
        check(double{});
      }
    }
  });
}

TEST_CASE("reduce-scatter") {
  for_each_case([](const mtf::Group& group, std::int64_t count, std::int64_t) {
    for (const Combine how : {Combine::sum, Combine::max, Combine::min}) {
      check_reduce_scatter<float>(group, count, how);
      check_reduce_scatter<double>(group, count, how);
      check_reduce_scatter<std::int32_t>(group, count, how);
    }
    check_reduce_scatter<Bool>(group, count, Combine::logical_or);
  });
}

TEST_CASE("allgather, all-to-all and broadcast") {
  for_each_case([](const mtf::Group& group, std::int64_t count, std::int64_t) {
    const auto check = [&]<class T>(T) {
      check_all_gather<T>(group, count);
      check_all_to_all<T>(group, count);
      check_broadcast<T>(group, count);
    };
    check(float{});
    check(double{});
    check(std::int32_t{});
    check(std::int64_t{});
    check(Bool{});
  });
}

TEST_CASE("shift, with and without going round") {
  for_each_case([](const mtf::Group& group, std::int64_t count, std::int64_t) {
    for (const bool wraps : {true, false}) {
      for (const std::int64_t distance : {0, 1, -1, 2, -3, 8, -8, 9, 100}) {
        check_shift<double>(group, count, distance, wraps);
        check_shift<std::int32_t>(group, count, distance, wraps);
      }
      check_shift<Bool>(group, count, 1, wraps);
    }
  });
}

TEST_CASE("MPI: counts beyond the block of the large datatype") {
  // More than the 2^20 elements of which large messages are made.
  const Limit lowered(1000);
  for_each_group([](const mtf::Group& group) {
    if (group.size > 2) return;
    check_all_gather<float>(group, (1 << 20) + 17);
    check_broadcast<std::int32_t>(group, (2 << 20) + 1);
    check_shift<float>(group, 1 << 20, 1, true);
  });
}

TEST_CASE("MPI: a failed call names itself and its axes") {
  for_each_group([](const mtf::Group& group) {
    if (group.size == 1) return;
    std::vector<double> data(4);
    // A negative count is an argument that every MPI refuses on its own, without the other members.
    CHECK_THROWS_WITH_AS(mtf::collectives::broadcast(group, data.data(), -1, mtf::ElementType::float64),
                         doctest::Contains("MPI_Bcast over axis"), mtf::mpi_error);
  });
}
