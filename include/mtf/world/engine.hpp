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
#include <mtf/kernels/pool_gradient.hpp>
#include <mtf/kernels/random.hpp>
#include <mtf/kernels/reduce.hpp>
#include <mtf/kernels/scan.hpp>
#include <mtf/kernels/selection.hpp>
#include <mtf/kernels/window.hpp>
#include <mtf/runtime/communicators.hpp>
#include <mtf/runtime/counters.hpp>
#include <mtf/runtime/memory_pool.hpp>
#include <mtf/runtime/perform.hpp>
#include <mtf/runtime/region.hpp>
#include <mtf/tensor/form.hpp>
#include <mtf/tensor/sum_origin.hpp>
#include <mtf/tensor/unused_rules.hpp>
#include <mtf/world/refusals.hpp>
#include <mtf/world/slice_elements.hpp>

namespace mtf {
inline namespace v0 {

template <class Space>
class Engine : public Backend {
 public:
  using memory_space = typename Space::memory_space;
  static constexpr bool host_accessible = Kokkos::SpaceAccessibility<Kokkos::HostSpace, memory_space>::accessible;

  UnusedRules unused_rules = UnusedRules::warn;

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
    thread_ = nullptr;
    communicators_.close(as);
    space_.reset();
  }

  void begin_first_update() final { require_used_rules(); }
  /// Tells of rules that no tensor has used; throws if they are an error.
  MTF_COLD void require_used_rules() const {
    detail::tell_unused_rules(*this, unused_rules, communicators_.world().rank == 0);
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
    detail::for_each_element_at(placement, mesh(), coordinates, [&](std::int64_t local, std::int64_t global) {
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

  bool check_lent = false;  ///< see WorldOptions

  /// Throws unless this is the thread that made the world, and the world has not ended.
  void require_thread() const {
    if (detail::this_thread() != thread_) detail::refuse_thread(*this);
  }

  [[nodiscard]] const Space& space() const { return *space_; }
  [[nodiscard]] Communicators& communicators() { return communicators_; }
  [[nodiscard]] Counters& counters() { return counters_; }
  [[nodiscard]] MemoryPool<memory_space>& pool() { return pool_; }

 private:
  [[nodiscard]] Block* allocate(ElementType type, std::int64_t count, const Placement* placement) {
    std::int64_t bytes = 0;
    if (__builtin_mul_overflow(count, bytes_of(type), &bytes)) refuse_memory(-1, type, placement);
    Block* block = make<Block>(*this, type, bytes, take(bytes, type, placement));
    ++references;
    return block;
  }
  [[noreturn]] MTF_COLD void refuse_memory(std::int64_t bytes, ElementType type, const Placement* placement) const {
    detail::refuse_memory(*this, bytes, type, placement, pool_.live_bytes(), pool_.cached_bytes());
  }
  [[nodiscard]] void* take(std::int64_t bytes, ElementType type, const Placement* placement) {
    require_thread();
    try {
      return pool_.take(bytes);
    } catch (const std::bad_alloc&) {
      refuse_memory(bytes, type, placement);
    }
  }
  /// Kokkos or MPI ends before the world does.
  MTF_COLD void lose(const char* to) {
    closed = true;
    thread_ = nullptr;
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
      return collectives::perform(plan, group, out.data, in.data);
    } else {
      // Device memory goes through a mirror: whether an MPI takes device pointers cannot be asked portably.
      RecycledVector<char> received(static_cast<std::size_t>(out.bytes));
      RecycledVector<char> sent(static_cast<std::size_t>(in.bytes));
      read(in, sent.data());
      if (&out == &in) received = sent;
      const int calls = collectives::perform(plan, group, received.data(), sent.data());
      write(out, received.data());
      return calls;
    }
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

  const void* thread_ = detail::this_thread();  ///< that made the world; none once closed
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
