// Engine: executes plans with kernels and collectives. The untyped part of a World, shared by all layouts.
#pragma once

#include <chrono>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <mtf/kernels/contract.hpp>
#include <mtf/kernels/cross_entropy.hpp>
#include <mtf/kernels/elementwise.hpp>
#include <mtf/kernels/gather.hpp>
#include <mtf/kernels/optimizer.hpp>
#include <mtf/kernels/random.hpp>
#include <mtf/kernels/reduce.hpp>
#include <mtf/kernels/scan.hpp>
#include <mtf/kernels/selection.hpp>
#include <mtf/kernels/window.hpp>
#include <mtf/runtime/communicators.hpp>
#include <mtf/runtime/counters.hpp>
#include <mtf/runtime/end_of_job.hpp>
#include <mtf/runtime/memory_pool.hpp>
#include <mtf/tensor/form.hpp>
#include <mtf/tensor/sum_origin.hpp>

namespace mtf {
inline namespace v0 {

namespace detail {

/// A named profiling region, when a Kokkos tool listens.
class Region {
 public:
  explicit Region(const char* name) : active_(Kokkos::Profiling::profileLibraryLoaded()) {
    if (active_) Kokkos::Profiling::pushRegion(std::string("mtf::") + name);
  }
  Region(const Region&) = delete;
  Region& operator=(const Region&) = delete;
  ~Region() {
    if (active_) Kokkos::Profiling::popRegion();
  }

 private:
  bool active_;
};

}  // namespace detail

template <class Space>
class Engine : public Backend {
 public:
  using memory_space = typename Space::memory_space;
  static constexpr bool host_accessible = Kokkos::SpaceAccessibility<Kokkos::HostSpace, memory_space>::accessible;

  /// Collective. Throws if the communicator does not have the mesh's size. The texts are those that names of the rules
  /// refer to.
  Engine(MPI_Comm comm, const PlacementRules& placement_rules, const Space& instance, const Patience& patience,
         std::vector<char> mesh_text, std::vector<char> layout_text)
      : mesh_text_(std::move(mesh_text)),
        layout_text_(std::move(layout_text)),
        space_(instance),
        communicators_(comm, placement_rules.mesh, patience) {
    rules = placement_rules;
    coordinates = rules.mesh.coordinates(communicators_.world().rank);
    detail::Listeners::of_kokkos().add(this, [](void* self) { static_cast<Engine*>(self)->lose("Kokkos"); });
    detail::Listeners::of_mpi().add(this, [](void* self) { static_cast<Engine*>(self)->lose("MPI"); });
  }
  ~Engine() override { leave(); }

  /// Collective: the world ends. What its tensors hold can still be released.
  void close(detail::Presence as = detail::Presence::ended) {
    leave();
    closed = true;
    communicators_.close(as);
    space_.reset();
  }

  /// Runs a plan on local slices.
  template <class Plan, class... Operands>
  void run(const Plan& plan, const Operands&... operands) {
    const detail::Region region(Plan::name);
    const double begin = start_of_record();
    kernels::execute(space(), plan, pointer(operands)...);
    if (tracing) {
      keep_record(record_of(activity, detail::work_of(plan, operands...)), begin);
      detail::follow_sums(*this, operands...);
    }
  }
  /// Runs f, work of a rank that is no plan, and keeps a record of it if records are kept.
  template <class F>
  void run_recorded(const LocalWork& done, const F& f) {
    const double begin = start_of_record();
    f();
    if (tracing) keep_record(record_of(activity, done), begin);
  }

  void copy(const CopyPlan& plan, Block& out, const Block& in) final {
    const detail::Region region(CopyPlan::name);
    // How a partial sum is held is not part of its value.
    if (in.wide && !out.wide) narrow(const_cast<Block&>(in));
    const double begin = start_of_record();
    kernels::execute(space(), plan, static_cast<int>(out.width()), out.data, in.data);
    if (tracing) {
      keep_record(record_of(activity, detail::work_of_copy(plan, out)), begin);
      detail::follow_sum(*this, out, in);
    }
  }
  void narrow(Block& block) final {
    const detail::Region region("narrow");
    const double begin = start_of_record();
    const std::int64_t count = block.count();
    const std::int64_t bytes = count * bytes_of(block.type);
    void* rounded = take(bytes, block.type, nullptr);
    MapPlan plan;
    plan.loop.operands = 2;
    plan.loop.dims.push_back({count, {1, 1}});
    kernels::execute(space(), plan, detail::Convert<bfloat16>{}, static_cast<bfloat16*>(rounded),
                     static_cast<const float*>(block.data));
    if (tracing) keep_record(record_of(activity, detail::work_of_narrowing(block)), begin);
    pool_.give(block.data, block.bytes);
    block.data = rounded;
    block.bytes = bytes;
    block.wide = false;
  }

  [[nodiscard]] Block* allocate(ElementType type, std::int64_t count) final { return allocate(type, count, nullptr); }
  [[nodiscard]] Block* allocate_slice(ElementType type, const KeptPlacement& placement) final {
    return allocate(type, placement.local_elements, &placement);
  }
  void release(Block* block) final {
    if (!block->lent) pool_.give(block->data, block->bytes);
    destroy(block);
  }
  /// A block around memory of the user's own.
  [[nodiscard]] Block* lend(ElementType type, std::int64_t count, void* data) {
    ++references;
    Block* block = make<Block>(*this, type, count * bytes_of(type), data);
    block->lent = true;
    return block;
  }

  void communicate(const CollectivePlan& plan, Block& out, const Block& in) final {
    const detail::Region region(plan.operation);
    require_thread();
    const Group& group = communicators_.along(plan.axes);
    const double begin = start_of_record();
    {
      const detail::Attendance here = communicators_.attend({.operation = plan.operation,
                                                             .kind = name_of(plan.collective),
                                                             .axes = plan.axes,
                                                             .count = plan.count,
                                                             .type = plan.type});
      counters_.record(plan, perform(plan, group, out, in), group.size);
    }
    if (tracing) keep_record(detail::record_of_collective(*this, plan, in), begin);
  }
  /// Forgets the records and counts their seconds from now on.
  void restart_records() {
    forget_records();
    records_begin_ = std::chrono::steady_clock::now();
  }

  /// Fills a slice from f(row-major index in the global array).
  template <class T, class F>
  void write(Block& block, const Placement& placement, const F& f) {
    std::vector<std::conditional_t<std::is_same_v<T, bool>, std::uint8_t, T>> slice(
        static_cast<std::size_t>(placement.local_size()));
    for_each_element(placement, [&](std::int64_t local, std::int64_t global) {
      slice[static_cast<std::size_t>(local)] = static_cast<T>(f(global));
    });
    write(block, slice.data());
  }
  /// Fills a slice from the whole array.
  template <class T>
  void write_slice(Block& block, const Placement& placement, const T* global) {
    write<T>(block, placement, [global](std::int64_t i) { return global[i]; });
  }
  /// Host memory to a block, and back. Collective-free.
  void write(Block& block, const void* from) { move<true>(block.data, const_cast<void*>(from), block.bytes); }
  void read(const Block& block, void* to) { move<false>(block.data, to, block.bytes); }

  /// Calls f(local index, global index) for every element of this rank's slice, both row-major.
  template <class F>
  void for_each_element(const Placement& placement, const F& f) const {
    for_each_element_at(placement, coordinates, f);
  }
  template <class F>
  void for_each_element_at(const Placement& placement, const Coordinates& at, const F& f) const {
    std::int64_t index[max_rank]{};
    const std::int64_t count = placement.local_size();
    for (std::int64_t local = 0; local < count; ++local) {
      std::int64_t global = 0;
      for (int d = 0; d < placement.rank(); ++d) {
        global = global * placement.dims[d].extent + slice_begin(placement.dims[d], mesh(), at) + index[d];
      }
      f(local, global);
      for (int d = placement.rank() - 1; d >= 0 && ++index[d] == placement.dims[d].local(); --d) index[d] = 0;
    }
  }

  bool check_lent = false;  ///< see WorldOptions

  /// Throws unless this is the thread that made the world.
  void require_thread() const {
    if (this_thread() != thread_) refuse_thread();
  }

  [[nodiscard]] const Space& space() const { return *space_; }
  [[nodiscard]] Communicators& communicators() { return communicators_; }
  [[nodiscard]] Counters& counters() { return counters_; }
  [[nodiscard]] MemoryPool<memory_space>& pool() { return pool_; }

 private:
  /// Something whose address is that of no other thread.
  [[nodiscard]] static const void* this_thread() {
    static thread_local char mark;
    return &mark;
  }
  [[noreturn]] MTF_COLD void refuse_thread() const {
    throw session_error(std::string("World: ") + activity.operation +
                        " on another thread than the one that made the world; one thread drives a world, others may "
                        "only destroy tensors, and not at the same time");
  }

  [[nodiscard]] Block* allocate(ElementType type, std::int64_t count, const Placement* placement) {
    std::int64_t bytes = 0;
    if (__builtin_mul_overflow(count, bytes_of(type), &bytes)) refuse_memory(-1, type, placement);
    Block* block = make<Block>(*this, type, bytes, take(bytes, type, placement));
    ++references;
    return block;
  }
  [[nodiscard]] void* take(std::int64_t bytes, ElementType type, const Placement* placement) {
    require_thread();
    try {
      return pool_.take(bytes);
    } catch (const std::bad_alloc&) {
      refuse_memory(bytes, type, placement);
    }
  }
  /// bytes < 0: more than 64 bits count.
  [[noreturn]] MTF_COLD void refuse_memory(std::int64_t bytes, ElementType type, const Placement* placement) const {
    throw out_of_memory(
        std::string(activity.operation) + ": no memory for " + (bytes < 0 ? "more than 2^63" : std::to_string(bytes)) +
        " bytes of " + std::string(name_of(type)) +
        (placement != nullptr ? ", this rank's slice of " + describe(placement->shape()) : ", a buffer") +
        "; the world's tensors use " + std::to_string(pool_.live_bytes()) + " bytes, the pool keeps " +
        std::to_string(pool_.cached_bytes()) +
        " for the next ones; split a dim over more ranks, make it smaller, or keep fewer tensors");
  }

  /// Kokkos or MPI ends before the world does.
  MTF_COLD void lose(const char* to) {
    closed = true;
    if (ended_by == nullptr) ended_by = to;
    space_.reset();
  }
  void leave() {
    detail::Listeners::of_kokkos().remove(this);
    detail::Listeners::of_mpi().remove(this);
  }

  [[nodiscard]] double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - records_begin_).count();
  }
  [[nodiscard]] double start_of_record() const { return tracing ? seconds() : 0; }
  /// Appends a record of what began at `begin` and ends now.
  MTF_COLD void keep_record(Record record, double begin) {
    kernels::wait_for(space());  // a device may be at work still
    record.begin = begin;
    record.end = seconds();
    records.push_back(record);
  }

  template <class T>
  static T* pointer(const Out<T>& operand) {
    return static_cast<T*>(operand.block.data) + operand.offset;
  }
  template <class T>
  static const T* pointer(const In<T>& operand) {
    return static_cast<const T*>(operand.block.data) + operand.offset;
  }
  template <class X>
  static const X& pointer(const X& other) {
    return other;
  }

  int perform(const CollectivePlan& plan, const Group& group, Block& out, const Block& in) {
    if constexpr (host_accessible) {
      kernels::wait_for(space());  // kernels may still be writing what is to be sent
      return perform(plan, group, out.data, in.data);
    } else {
      // Device memory goes through a mirror: whether an MPI takes device pointers cannot be asked portably.
      RecycledVector<char> received(static_cast<std::size_t>(out.bytes));
      RecycledVector<char> sent(static_cast<std::size_t>(in.bytes));
      read(in, sent.data());
      if (&out == &in) received = sent;
      const int calls = perform(plan, group, received.data(), sent.data());
      write(out, received.data());
      return calls;
    }
  }
  static int perform(const CollectivePlan& plan, const Group& group, void* out, const void* in) {
    switch (plan.collective) {
      case Collective::all_reduce: return collectives::all_reduce(group, out, plan.count, plan.type, plan.combine);
      case Collective::reduce_scatter:
        return collectives::reduce_scatter(group, in, out, plan.count / group.size, plan.type, plan.combine);
      case Collective::all_gather: return collectives::all_gather(group, in, out, plan.count / group.size, plan.type);
      case Collective::all_to_all: return collectives::all_to_all(group, in, out, plan.count, plan.type);
      case Collective::broadcast: return collectives::broadcast(group, out, plan.count, plan.type);
      case Collective::exchange: return collectives::exchange(group, in, out, plan.sent, plan.received, plan.type);
      case Collective::shift: return collectives::shift(group, in, out, plan.count, plan.type, plan.shift, plan.wraps);
    }
    return 0;
  }

  template <bool ToBlock>
  void move(void* block, void* host, std::int64_t bytes) {
    kernels::wait_for(space());
    if (bytes == 0) return;
    if constexpr (host_accessible) {
      std::memcpy(ToBlock ? block : host, ToBlock ? host : block, static_cast<std::size_t>(bytes));
    } else {
      using Unmanaged = Kokkos::MemoryTraits<Kokkos::Unmanaged>;
      const Kokkos::View<char*, memory_space, Unmanaged> there(static_cast<char*>(block),
                                                               static_cast<std::size_t>(bytes));
      const Kokkos::View<char*, Kokkos::HostSpace, Unmanaged> here(static_cast<char*>(host),
                                                                   static_cast<std::size_t>(bytes));
      if constexpr (ToBlock) {
        Kokkos::deep_copy(there, here);
      } else {
        Kokkos::deep_copy(here, there);
      }
    }
  }

  const void* thread_ = this_thread();
  std::vector<char> mesh_text_;
  std::vector<char> layout_text_;
  std::optional<Space>
      space_;  ///< none once closed: Kokkos refuses instances that outlive it, and tensors may hold the engine longer
  Communicators communicators_;
  Counters counters_;
  MemoryPool<memory_space> pool_;
  std::chrono::steady_clock::time_point records_begin_ = std::chrono::steady_clock::now();
};

}  // namespace v0
}  // namespace mtf
