// The communicators of a world: one for each set of mesh axes in use.
#pragma once

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <mtf/core/mesh.hpp>
#include <mtf/runtime/collectives.hpp>
#include <mtf/runtime/watchdog.hpp>

namespace mtf {
inline namespace v0 {

namespace detail {
/// Whether all members of a group have the same hash: the largest of them is the smallest. Collective.
MTF_COLD [[nodiscard]] inline bool is_same_everywhere(std::uint64_t hash, const Group& group) {
  std::uint64_t extremes[2] = {hash, ~hash};
  check(MPI_Allreduce(MPI_IN_PLACE, extremes, 2, MPI_UINT64_T, MPI_MAX, group.comm), "MPI_Allreduce", group);
  return extremes[0] == ~extremes[1];
}
}  // namespace detail

/// Owns a duplicate of the user's communicator and, made at first use on all ranks alike, its parts along axis sets.
/// Members of a part are ordered row-major by the axes of the set.
class Communicators {
 public:
  /// Throws if the communicator's size is not that of the mesh.
  MTF_COLD Communicators(MPI_Comm comm, const MeshValue& mesh, const Patience& patience) : mesh_(mesh) {
    if (comm == MPI_COMM_NULL) {
      throw std::invalid_argument(
          "mtf: World: the communicator is MPI_COMM_NULL; only the ranks that belong to a communicator make its world");
    }
    int size = 0;
    detail::check_mpi(MPI_Comm_size(comm, &size), "MPI_Comm_size");
    if (size != mesh.size()) {
      throw std::invalid_argument("mtf: World: the communicator has " + std::to_string(size) + " ranks, the mesh " +
                                  describe_axes(mesh.all(), true) + " has " + std::to_string(mesh.size()) +
                                  " processors; start as many ranks as the product of the axis sizes");
    }
    detail::check_mpi(MPI_Comm_dup(comm, &world_.comm), "MPI_Comm_dup");
    MPI_Comm_set_errhandler(world_.comm, MPI_ERRORS_RETURN);
    MPI_Comm_rank(world_.comm, &world_.rank);
    world_.size = size;
    world_.name = "all axes";
    if (size == 1) return;
    board_ = std::make_shared<detail::StatusBoard>(world_.comm);
    detail::watch(board_, mesh, patience);
  }
  Communicators(const Communicators&) = delete;
  Communicators& operator=(const Communicators&) = delete;
  ~Communicators() { leave(detail::Presence::unwound); }

  [[nodiscard]] const Group& world() const { return world_; }

  /// The group of this rank along the axes of `set`. Collective at first use.
  const Group& along(AxisSet set) {
    for (const Part* part = parts_.get(); part != nullptr; part = part->next.get()) {
      if (part->axes == set) return part->group;
    }
    return split(set);
  }

  /// While it lives, this rank waits in a collective call for the members along the axes that it names.
  [[nodiscard]] detail::Attendance attend(const CollectiveCall& call) const { return {board_.get(), call}; }
  /// In one of all ranks.
  [[nodiscard]] detail::Attendance attend(std::string_view operation) const {
    return attend({.operation = operation, .axes = mesh_.all()});
  }
  /// No collective call follows: this rank has ended its world, or an exception has.
  void leave(detail::Presence as) {
    if (!board_) return;
    board_->set(as);
    detail::stop_watching(board_);
    board_.reset();
  }

  /// Throws on all ranks, with what each says, unless all say the same of `subject`. Collective.
  MTF_COLD void require_same(const std::string& subject, const std::string& said) const {
    const detail::Attendance here = attend(subject);
    if (detail::is_same_everywhere(hash_text(said), world_)) return;
    constexpr std::size_t longest = 512;
    std::vector<char> mine(longest);
    std::vector<char> all(longest * static_cast<std::size_t>(world_.size));
    std::copy_n(said.data(), std::min(said.size(), longest - 1), mine.data());
    detail::check(MPI_Allgather(mine.data(), longest, MPI_CHAR, all.data(), longest, MPI_CHAR, world_.comm),
                  "MPI_Allgather", world_);
    std::string text = "mtf: " + subject + ": the ranks differ, and all must say the same:";
    std::vector<bool> done(static_cast<std::size_t>(world_.size));
    for (int rank = 0; rank < world_.size; ++rank) {
      const auto words = [&](int of) { return std::string(all.data() + longest * static_cast<std::size_t>(of)); };
      std::vector<int> alike;
      for (int other = rank; other < world_.size; ++other) {
        if (done[static_cast<std::size_t>(other)] || words(other) != words(rank)) continue;
        done[static_cast<std::size_t>(other)] = true;
        alike.push_back(other);
      }
      if (!alike.empty()) text += (rank > 0 ? "; " : " ") + detail::list_ranks(alike) + " " + words(rank);
    }
    throw std::invalid_argument(text);
  }

  /// Frees the communicators; collective. MPI must still run. `as` tells others that wait all the same why this rank does not come.
  void close(detail::Presence as) {
    {
      const detail::Attendance here = attend("end of the World");
      free();
    }
    leave(as);
  }

 private:
  void free() {
    for (; parts_; parts_ = std::move(parts_->next)) MPI_Comm_free(&parts_->group.comm);
    if (world_.comm != MPI_COMM_NULL) MPI_Comm_free(&world_.comm);
  }
  /// A list, because groups are referred to while others are added.
  struct Part {
    AxisSet axes;
    Group group;
    std::unique_ptr<Part> next;
  };

  MTF_COLD const Group& split(AxisSet set) {
    auto part = std::make_unique<Part>();
    part->axes = set;
    Group& group = part->group;
    const detail::Attendance here = attend("first use of " + describe_axes(set, false));
    const Coordinates at = mesh_.coordinates(world_.rank);
    const auto color = static_cast<int>(mesh_.position(at, mesh_.all() - set));
    const auto key = static_cast<int>(mesh_.position(at, set));
    group.name = describe_axes(set, false);
    detail::check_mpi(MPI_Comm_split(world_.comm, color, key, &group.comm), "MPI_Comm_split for " + group.name);
    MPI_Comm_set_errhandler(group.comm, MPI_ERRORS_RETURN);
    MPI_Comm_rank(group.comm, &group.rank);
    MPI_Comm_size(group.comm, &group.size);
    group.equal_sums = sums_are_equal(group);
    part->next = std::move(parts_);
    parts_ = std::move(part);
    return group;
  }

  /// Whether MPI_Allreduce gives all members the same bits, tried on sizes that take different algorithms in the MPIs
  /// we know. Replicas must be bitwise equal, or they drift apart over thousands of steps.
  MTF_COLD static bool sums_are_equal(const Group& group) {
    if (group.size <= 2) return true;  // one addition, which commutes
    for (const int count : {1, 1000, 40000}) {
      std::vector<float> data(static_cast<std::size_t>(count));
      std::uint32_t state = 12345U + 977U * static_cast<std::uint32_t>(group.rank);
      for (float& x : data) {
        state = state * 1664525U + 1013904223U;
        x = static_cast<float>(state) * 1e-9F - 2.0F;
      }
      detail::check(MPI_Allreduce(MPI_IN_PLACE, data.data(), count, MPI_FLOAT, MPI_SUM, group.comm), "MPI_Allreduce",
                    group);
      const std::uint64_t hash = hash_text({reinterpret_cast<const char*>(data.data()), data.size() * sizeof(float)});
      if (!detail::is_same_everywhere(hash, group)) return false;
    }
    return true;
  }

  MTF_COLD [[nodiscard]] std::string describe_axes(AxisSet set, bool sizes) const {
    std::string text;
    for (int i = 0; i < mesh_.rank(); ++i) {
      if (!set.has(i)) continue;
      text += (text.empty() ? "\"" : ", \"") + std::string(mesh_.axes[i].name.text) + "\"";
      if (sizes) text += ":" + std::to_string(mesh_.axes[i].size);
    }
    return set.empty() ? "no axis" : "axis " + text;
  }

  MeshValue mesh_;
  Group world_;
  std::unique_ptr<Part> parts_;
  std::shared_ptr<detail::StatusBoard> board_;  ///< none in a world of one rank
};

}  // namespace v0
}  // namespace mtf
