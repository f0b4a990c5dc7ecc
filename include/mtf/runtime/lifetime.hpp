// What hears that Kokkos or MPI ends: the memory of pools goes back before, and worlds that are still there refuse
// further work instead of crashing in it.
#pragma once

#include <mutex>

#include <Kokkos_Core.hpp>

#include <mtf/core/recycled.hpp>
#include <mtf/runtime/mpi.hpp>

namespace mtf {
inline namespace v0 {

namespace detail {

/// Objects of the process and what to call when something ends before they do. Never destroyed: static objects may end
/// after everything else.
class Listeners {
 public:
  using Call = void (*)(void*);

  /// Those of Kokkos' end.
  static Listeners& of_kokkos() {
    static Listeners& list = *new Listeners;
    return list;
  }
  /// Those of MPI's end; MPI runs.
  static Listeners& of_mpi() {
    static Listeners& list = *new Listeners;
    return list;
  }

  void add(void* object, Call call) {
    const std::lock_guard lock(mutex_);
    if (!hooked_) {
      this == &of_mpi() ? hook_mpi() : hook_kokkos();
      hooked_ = true;
    }
    entries_.push_back({object, call});
  }
  void remove(void* object) {
    const std::lock_guard lock(mutex_);
    for (Entry& entry : entries_) {
      if (entry.object != object) continue;
      entry = entries_.back();
      return entries_.pop_back();
    }
  }

 private:
  struct Entry {
    void* object;
    Call call;
  };

  Listeners() = default;

  static void hook_kokkos() {
    Kokkos::push_finalize_hook([] { of_kokkos().call_all(); });
  }
  /// MPI_Finalize begins by freeing the attributes of MPI_COMM_SELF.
  static void hook_mpi() {
    int key = MPI_KEYVAL_INVALID;
    MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, &mpi_ends, &key, nullptr);
    MPI_Comm_set_attr(MPI_COMM_SELF, key, nullptr);
    MPI_Comm_free_keyval(&key);
  }
  static int mpi_ends(MPI_Comm, int, void*, void*) {
    of_mpi().call_all();
    return MPI_SUCCESS;
  }

  void call_all() {
    RecycledVector<Entry> entries;
    {
      const std::lock_guard lock(mutex_);
      entries = std::move(entries_);
      hooked_ = false;
    }
    for (const Entry& entry : entries) entry.call(entry.object);
  }

  std::mutex mutex_;
  RecycledVector<Entry> entries_;
  bool hooked_ = false;
};

}  // namespace detail

}  // namespace v0
}  // namespace mtf
