// World: the running SPMD program over a mesh of processors.
#pragma once

#include <cstdint>
#include <cstdio>
#include <exception>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <mtf/runtime/processes.hpp>
#include <mtf/runtime/session.hpp>
#include <mtf/tensor/variable.hpp>
#include <mtf/tensor/world_rules.hpp>
#include <mtf/world/engine.hpp>

namespace mtf {
inline namespace v0 {

/// The engine of worlds on an execution space; specialised for that of the compiled part, see compiled.hpp.
template <class Space>
struct EngineFor {
  using type = Engine<Space>;
};

namespace detail {

/// A world without its mesh and layout types: what all worlds on an execution space share. Long members are defined
/// outside of the class, not inline, so that `extern template` keeps them out of a user's file.
template <class Space>
class WorldCore {
 public:
  using engine_type = typename EngineFor<Space>::type;

  WorldCore(MPI_Comm comm, const StaticRules& types, const WorldOptions& options, const Space& space);
  WorldCore(const WorldCore&) = delete;
  WorldCore& operator=(const WorldCore&) = delete;

  ~WorldCore();

  [[nodiscard]] engine_type& engine() const { return static_cast<engine_type&>(*engine_); }
  [[nodiscard]] Registry& registry() { return registry_; }
  [[nodiscard]] const Registry& registry() const { return registry_; }
  [[nodiscard]] std::uint64_t seed() const { return seed_; }
  [[nodiscard]] Counters& counters() { return engine().counters(); }
  [[nodiscard]] const MeshValue& mesh() const { return engine().mesh(); }
  /// The mesh with the rules of the layout: what `place` and `check` take.
  [[nodiscard]] const PlacementRules& rules() const { return engine().rules; }
  /// The largest sum of the sizes of live slices so far, in bytes.
  [[nodiscard]] std::int64_t peak_bytes() const { return engine().pool().peak_bytes(); }

  [[nodiscard]] int rank() const { return engine().communicators().world().rank; }
  [[nodiscard]] int size() const { return engine().communicators().world().size; }
  [[nodiscard]] const Coordinates& coordinates() const { return engine().coordinates; }
  /// The world's own duplicate of the communicator it was made with.
  [[nodiscard]] MPI_Comm comm() const { return engine().communicators().world().comm; }
  /// The communicator of this rank's group along an axis; collective at first use. It belongs to the world.
  [[nodiscard]] MPI_Comm axis_comm(std::string_view axis) {
    detail::require_alive(engine(), "axis_comm");
    return engine().communicators().along(AxisSet::of(axis_position(axis))).comm;
  }
  /// Keeps a record of every plan and collective from now on, see `records`; collective, so that the ranks' clocks
  /// agree as well as a barrier allows. Every plan then waits for its kernels: only a traced step pays.
  MTF_COLD void start_tracing() {
    detail::require_alive(engine(), "start_tracing");
    const detail::Attendance here = engine().communicators().attend("start_tracing");
    detail::check_mpi(MPI_Barrier(comm()), "start_tracing");
    engine().restart_records();
    engine().tracing = true;
  }
  /// Keeps no more of them; those kept stay until the next start.
  void stop_tracing() { engine().tracing = false; }
  [[nodiscard]] const Records& records() const { return engine().records; }
  /// Totals of the collectives along exactly these axes, of all kinds together.
  template <class... Axes>
  [[nodiscard]] CollectiveTotals totals(const Axes&... axes) const {
    AxisSet set;
    ((set |= AxisSet::of(axis_position(axes))), ...);
    return engine().counters().sum([&](const CollectiveTotals& t) { return t.axes == set; });
  }

  /// The value of rank 0 on every rank: for control flow that depends on time, files or NaN checks. Collective.
  template <class V>
  [[nodiscard]] V agree(V value) {
    static_assert(std::is_trivially_copyable_v<V>, "mtf: agree takes trivially copyable values");
    detail::require_alive(engine(), "agree");
    engine().require_thread();
    const detail::Attendance here = engine().communicators().attend("agree");
    detail::check_mpi(
        MPI_Bcast(&value, static_cast<int>(sizeof(V)), MPI_BYTE, 0, engine().communicators().world().comm), "agree");
    return value;
  }
  /// Whether replicas of every variable are bitwise equal and all ranks have run the same collectives. Collective.
  [[nodiscard]] bool verify_replicas();
  /// Dims of rules that have split no tensor so far: after the first step, names that were misspelt.
  [[nodiscard]] std::vector<std::string> unused_rules() const;
  /// "rank 3 (rows=1, cols=1)".
  [[nodiscard]] std::string describe_rank() const;
  /// Ranks, hosts, threads and cores, with a warning for every pair of ranks on one core and every crowded host.
  /// Collective.
  [[nodiscard]] std::string describe_processes() const;

 private:
  [[nodiscard]] int axis_position(std::string_view axis) const;
  bool replicas_equal(const Value& value);

  Ref<Backend> engine_;
  Registry registry_;
  std::uint64_t seed_;
  int exceptions_;
};

template <class Space>
WorldCore<Space>::WorldCore(MPI_Comm comm, const StaticRules& types, const WorldOptions& options, const Space& space)
    : seed_(options.seed), exceptions_(std::uncaught_exceptions()) {
  require_session();
  WorldRules rules = read_rules(types, options);
  int level = MPI_THREAD_SINGLE;
  detail::check_mpi(MPI_Query_thread(&level), "MPI_Query_thread");
  if (level < MPI_THREAD_FUNNELED && space.concurrency() > 1) {
    throw std::runtime_error("mtf: World: MPI was initialised with MPI_THREAD_SINGLE, and the execution space " +
                             std::string(Space::name()) + " has " + std::to_string(space.concurrency()) +
                             " threads; call MPI_Init_thread with MPI_THREAD_FUNNELED, or use mtf::run");
  }
  const Patience patience{.until_told = detail::seconds_from_environment("MTF_PATIENCE", options.patience),
                          .until_ended = detail::seconds_from_environment("MTF_ABORT_AFTER", options.abort_after)};
  if (!(patience.until_told > 0 && patience.until_ended > 0)) {
    throw std::invalid_argument("mtf: World: WorldOptions::patience and abort_after are " +
                                std::to_string(options.patience) + " and " + std::to_string(options.abort_after) +
                                "; they are times in seconds, positive, or infinite for never");
  }
  engine_ = Ref<Backend>(
      new engine_type(comm, rules.rules, space, patience, std::move(rules.mesh_text), std::move(rules.layout_text)));
  std::string layout;
  for (const PlacementRules::Resolved& rule : engine().rules.rules) {
    layout += (layout.empty() ? "" : ";") + std::string(rule.dim.text) + ":";
    for (int i = 0; i < rule.axes.size(); ++i)
      layout += (i > 0 ? "," : "") + std::string(mesh().axes[rule.axes[i]].name.text);
  }
  engine().check_lent = options.check_lent;
  try {
    engine().communicators().require_same(
        "World", "mesh " + describe(mesh()) + ", layout \"" + layout + "\", seed " + std::to_string(seed_));
  } catch (const std::invalid_argument&) {  // on all ranks
    engine().close(Presence::unwound);
    throw;
  }
}

template <class Space>
WorldCore<Space>::~WorldCore() {
  Engine<Space>& e = engine();
  if (std::uncaught_exceptions() > exceptions_) detail::unwound_place = describe_rank();
  if (std::uncaught_exceptions() > exceptions_ && !plan_error::in_flight()) {
    // The other ranks may wait in another collective; freeing communicators would wait for them.
    if (detail::boundaries == 0)
      detail::end_job(describe_rank(), "a World is destroyed by an exception; the other ranks cannot go on");
    e.communicators().leave(detail::Presence::unwound);
    return;
  }
  registry_.clear();
  if (e.ended_by == nullptr) {
    e.close(std::uncaught_exceptions() > exceptions_ ? Presence::unwound : Presence::ended);
  } else if (rank() == 0) {
    // It is too late for more than a word: the memory is gone, and what MPI kept for the world is lost.
    std::fprintf(stderr, "mtf: World: %s was finalized before the world ended; let the world end first\n", e.ended_by);
  }
}

template <class Space>
bool WorldCore<Space>::verify_replicas() {
  detail::require_alive(engine(), "verify_replicas");
  // The communicators that it needs are made before: making them is a collective call of its own.
  for (const auto& state : registry_.all()) {
    const AxisSet axes = mesh().all() - state->slice()->placement.split_axes();
    if (!axes.empty()) (void)engine().communicators().along(axes);
  }
  const detail::Attendance here = engine().communicators().attend("verify_replicas");
  bool equal = true;
  for (const auto& state : registry_.all()) equal = replicas_equal(*state->slice()) && equal;
  equal = is_same_everywhere(engine().counters().sequence(), engine().communicators().world()) && equal;
  // Only the groups of a damaged replica have seen it; everyone gets the same answer.
  int all = equal ? 1 : 0;
  detail::check_mpi(MPI_Allreduce(MPI_IN_PLACE, &all, 1, MPI_INT, MPI_LAND, comm()), "verify_replicas");
  return all != 0;
}

template <class Space>
std::vector<std::string> WorldCore<Space>::unused_rules() const {
  std::vector<std::string> dims;
  const auto& rules = engine().rules.rules;
  for (int rule = 0; rule < rules.size(); ++rule) {
    if ((engine().placements.used_rules() >> rule & 1U) == 0) dims.emplace_back(rules[rule].dim.text);
  }
  return dims;
}

template <class Space>
std::string WorldCore<Space>::describe_rank() const {
  std::string text = "rank " + std::to_string(rank()) + " (";
  for (int i = 0; i < mesh().rank(); ++i) {
    text += (i > 0 ? ", " : "") + std::string(mesh().axes[i].name.text) + "=" + std::to_string(coordinates()[i]);
  }
  return text + ")";
}

template <class Space>
std::string WorldCore<Space>::describe_processes() const {
  detail::require_alive(engine(), "describe_processes");
  const detail::Attendance here = engine().communicators().attend("describe_processes");
  return mtf::describe_processes(engine().communicators().world().comm, engine().space().concurrency(), Space::name());
}

template <class Space>
int WorldCore<Space>::axis_position(std::string_view axis) const {
  const int at = mesh().find(Name(axis));
  if (at < 0) raise("World", "the mesh " + mtf::describe(mesh()) + " has no axis \"" + std::string(axis) + "\"");
  return at;
}

template <class Space>
bool WorldCore<Space>::replicas_equal(const Value& value) {
  std::vector<char> bytes(static_cast<std::size_t>(value.block->bytes));
  engine().read(*value.block, bytes.data());
  const std::uint64_t hash = hash_text({bytes.data(), bytes.size()});
  const AxisSet axes = mesh().all() - value.placement.split_axes();
  return axes.empty() || is_same_everywhere(hash, engine().communicators().along(axes));
}

}  // namespace detail

/// The program on a mesh of processors: communicators, one execution-space instance, memory, variables, counters. Every
/// rank of the communicator makes it with the same arguments, and calls the same operations in the same order.
///
/// Operations find their world through an operand. Not movable; tensors may outlive it but not be used then.
template <class MeshType, class LayoutType, class Space = Kokkos::DefaultExecutionSpace>
class World : public detail::WorldCore<Space> {
  static_assert(
      std::is_base_of_v<MeshBase, MeshType> && std::is_base_of_v<LayoutBase, LayoutType>,
      "mtf: World<Mesh, Layout> takes a mesh, then a layout: structs derived from mtf::Mesh<...> and mtf::Layout<...>");

 public:
  using mesh_type = MeshType;
  using layout_type = LayoutType;

  /// Collective over `comm`, whose size must be that of the mesh; the communicator is duplicated. MPI and Kokkos must
  /// be initialised, MPI with at least MPI_THREAD_FUNNELED if threads are used: a session_error tells what is missing.
  /// The thread that makes a world drives it.
  explicit World(MPI_Comm comm, const WorldOptions& options = {}, const Space& space = detail::started_space<Space>())
      : detail::WorldCore<Space>(comm, detail::static_rules_of<MeshType, LayoutType>(), options, space) {
    if constexpr (!applicable<MeshType, LayoutType>) (void)not_applicable<MeshType, LayoutType>{};
  }
};

}  // namespace v0
}  // namespace mtf
