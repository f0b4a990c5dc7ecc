// Data in and out of tensors.
#pragma once

#include <cstdint>
#include <memory>
#include <new>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include <mtf/tensor/variable.hpp>
#include <mtf/world/world.hpp>

namespace mtf {
inline namespace v0 {

namespace detail {

/// A new value of this shape for a whole array of `given` elements.
[[nodiscard]] MTF_RUN_TIME Ref<Value> value_of_whole(Backend& backend, const char* name, std::int64_t given,
                                                     const ShapeValue& shape, ElementType type);
#if MTF_HAS_DEFINITIONS
Ref<Value> value_of_whole(Backend& backend, const char* name, std::int64_t given, const ShapeValue& shape,
                          ElementType type) {
  require_legal(backend, name, shape);
  if (given != size_of(shape)) {
    raise(name, std::to_string(given) + " elements given for dims " + describe(shape) + ", which have " +
                    std::to_string(size_of(shape)));
  }
  return make_value(backend, backend.place(shape), type);
}
#endif

/// std::vector<bool> has no data; everything else is itself.
template <class T>
using host_element = std::conditional_t<std::same_as<T, bool>, std::uint8_t, T>;

/// Host memory for this many elements of an array. Throws out_of_memory with what it is for.
MTF_RARE [[noreturn]] MTF_RUN_TIME void refuse_host_memory(const char* operation, std::int64_t bytes,
                                                           const ShapeValue& shape);
#if MTF_HAS_DEFINITIONS
void refuse_host_memory(const char* operation, std::int64_t bytes, const ShapeValue& shape) {
  throw out_of_memory(std::string(operation) + ": no memory on the host for " + std::to_string(bytes) +
                      " bytes of the array " + describe(shape));
}
#endif
template <class T>
[[nodiscard]] std::vector<T> host_memory(const char* operation, std::int64_t count, const ShapeValue& shape) {
  try {
    return std::vector<T>(static_cast<std::size_t>(count));
  } catch (const std::bad_alloc&) {
  } catch (const std::length_error&) {
  }
  refuse_host_memory(operation, count * static_cast<std::int64_t>(sizeof(T)), shape);
}

/// The whole array on every rank, row-major: an allgather over the axes that split it.
template <class T, class E>
std::vector<T> gather_to_host(E& engine, const Value& value) {
  complete(value, "to_host");
  const Placement& placement = value.placement;
  const AxisSet axes = placement.split_axes();
  std::vector<T> result = host_memory<T>("to_host", placement.size(), placement.shape());
  if (axes.empty()) {
    engine.read(*value.block, result.data());
    return result;
  }
  const std::int64_t parts = engine.mesh().size(axes);
  const std::int64_t count = placement.local_size();
  const Buffer gathered(engine.allocate(value.type(), count * parts));
  engine.communicate({.collective = Collective::all_gather,
                      .axes = axes,
                      .count = count * parts,
                      .type = value.type(),
                      .operation = "to_host"},
                     *gathered, *value.block);
  std::vector<T> slices = host_memory<T>("to_host", placement.size(), placement.shape());
  engine.read(*gathered, slices.data());
  for (std::int64_t part = 0; part < parts; ++part) {
    const Coordinates at = engine.mesh().member(engine.coordinates, axes, part);
    for_each_element_at(placement, engine.mesh(), at, [&](std::int64_t local, std::int64_t global) {
      result[static_cast<std::size_t>(global)] = slices[static_cast<std::size_t>(part * count + local)];
    });
  }
  return result;
}

/// The same of a value with elements of T.
template <class E, class T>
std::vector<host_element<T>> to_host_of(E& engine, const Value& value) {
  return gather_to_host<host_element<T>>(engine, value);
}

/// f(the elements as a span). A std::vector<bool> holds bits, of which there is no span: they are copied.
template <class T, class F>
auto with_span(const std::vector<T>& elements, const F& f) {
  if constexpr (std::same_as<T, bool>) {
    const std::unique_ptr<bool[]> copy(new bool[elements.size()]);
    for (std::size_t i = 0; i < elements.size(); ++i) copy[i] = elements[i];
    return f(std::span<const bool>(copy.get(), elements.size()));
  } else {
    return f(std::span<const T>(elements));
  }
}

}  // namespace detail

/// A tensor of shape [dims...] from the whole array, row-major, which every rank has. No communication. Throws if the
/// number of elements is not that of the dims.
template <element T, class World, dim_like... Dims>
auto from_global(World& world, std::span<const T> global, const Dims&... dims) {
  if constexpr (!placeable<World, Dims...>) {
    return poisoned(not_placeable<World, Dims...>{});
  } else {
    Ref<Value> value = detail::value_of_whole(world.engine(), "from_global", static_cast<std::int64_t>(global.size()),
                                              Shape<Dims...>(dims...).value(), element_type_of<T>::value);
    world.engine().write_slice(*value->block, value->placement, global.data());
    return Tensor<World, T, Dims...>(Array{std::move(value), {}});
  }
}
template <element T, class World, dim_like... Dims>
auto from_global(World& world, const std::vector<T>& global, const Dims&... dims) {
  if constexpr (!placeable<World, Dims...>) {
    return poisoned(not_placeable<World, Dims...>{});
  } else {
    return detail::with_span(global,
                             [&](std::span<const T> elements) { return from_global<T>(world, elements, dims...); });
  }
}

/// The same where only rank 0 has the array; the others' argument is not read. Communication: a broadcast of the number
/// of elements, and one of the array. A layout that is not legal throws before either.
template <element T, class World, dim_like... Dims>
auto from_root(World& world, std::span<const T> global, const Dims&... dims) {
  if constexpr (!placeable<World, Dims...>) (void)not_placeable<World, Dims...>{};
  auto& engine = world.engine();
  const ShapeValue shape = Shape<Dims...>(dims...).value();
  require_legal(engine, "from_root", shape);
  const std::int64_t expected = size_of(shape);
  const auto given = world.agree(static_cast<std::int64_t>(global.size()));
  Ref<Value> value = detail::value_of_whole(engine, "from_root", given, shape, element_type_of<T>::value);
  const Buffer whole(engine.allocate(element_type_of<T>::value, expected));
  if (world.rank() == 0) engine.write(*whole, global.data());
  engine.communicate({.collective = Collective::broadcast,
                      .axes = engine.mesh().all(),
                      .count = expected,
                      .type = element_type_of<T>::value,
                      .operation = "from_root"},
                     *whole, *whole);
  auto host = detail::host_memory<detail::host_element<T>>("from_root", expected, shape);
  engine.read(*whole, host.data());
  engine.write_slice(*value->block, value->placement, host.data());
  return Tensor<World, T, Dims...>(Array{std::move(value), {}});
}
template <element T, class World, dim_like... Dims>
auto from_root(World& world, const std::vector<T>& global, const Dims&... dims) {
  return detail::with_span(global, [&](std::span<const T> elements) { return from_root<T>(world, elements, dims...); });
}

/// The whole array on every rank, row-major. Collective: an allgather over the axes that split it, after completing a
/// pending sum. (bool comes as std::uint8_t.)
template <operand X>
auto to_host(const X& x) {
  using T = detail::host_element<element_of<X>>;
  if constexpr (any_poisoned<X>) {
    return std::vector<T>{};
  } else {
    const Array& array = detail::array_of(x);
    auto& engine = static_cast<typename world_of<X>::engine_type&>(array.value->backend());
    detail::require_open(engine, "to_host");
    return detail::to_host_of<typename world_of<X>::engine_type, element_of<X>>(engine, *array.value);
  }
}

/// The value of a scalar tensor. Collective if it is pending.
template <operand X>
auto item(const X& x) {
  static_assert(dims_of<X>::size == 0, "mtf: item takes a scalar tensor; reduce x over its dims, or use to_host(x)");
  return to_host(x)[0];
}

/// While it lives, memory of the user's own serves as a tensor's slice, and the user must not write to it. A world with
/// the option `check_lent` checks that at the end. Keep it in a variable for as long as the tensor, or anything that was made of it by
/// a rename or another operation without a copy, is in use.
template <class TensorType>
class [[nodiscard]] Lent {
 public:
  /// `data` is null where nothing is to be checked.
  Lent(TensorType tensor, const void* data, std::int64_t bytes)
      : tensor_(std::move(tensor)), data_(data), bytes_(bytes), hash_(hash()) {}
  Lent(const Lent&) = delete;
  Lent& operator=(const Lent&) = delete;
  ~Lent() {
    if (hash() != hash_)
      detail::end_job({}, "from_local: memory that was lent to a tensor was written to before the guard ended");
  }
  [[nodiscard]] const TensorType& tensor() const& { return tensor_; }
  /// Of a guard that ends with the expression: the tensor would outlive the loan.
  [[nodiscard]] const TensorType& tensor() && = delete;

 private:
  [[nodiscard]] std::uint64_t hash() const {
    return data_ == nullptr ? 0 : hash_text({static_cast<const char*>(data_), static_cast<std::size_t>(bytes_)});
  }
  TensorType tensor_;
  const void* data_;
  std::int64_t bytes_;
  std::uint64_t hash_;
};

/// A tensor of shape [dims...] from this rank's slice, a Kokkos view of the local extents. A contiguous row-major view
/// is used in place: the returned guard lends it. Any other layout is copied. Throws unless the view's extents are the
/// local ones.
template <class World, class ViewType, dim_like... Dims>
[[nodiscard]] auto from_local(World& world, const ViewType& view, const Dims&... dims) {
  using T = typename ViewType::non_const_value_type;
  static_assert(ViewType::rank == sizeof...(Dims), "mtf: from_local: the view's rank is not the number of dims");
  static_assert(Kokkos::SpaceAccessibility<Kokkos::HostSpace, typename ViewType::memory_space>::accessible,
                "mtf: from_local takes a view the host can access; make a mirror first");
  static_assert(
      Kokkos::SpaceAccessibility<typename World::engine_type::memory_space,
                                 typename ViewType::memory_space>::accessible,
      "mtf: from_local lends the view's memory to the world's kernels, and the world's execution space cannot "
      "access it; use memory that both the host and that space can access, or from_global");
  if constexpr (!placeable<World, Dims...>) (void)not_placeable<World, Dims...>{};
  auto& engine = world.engine();
  const ShapeValue shape = Shape<Dims...>(dims...).value();
  require_legal(engine, "from_local", shape);
  const KeptPlacement& placement = engine.place(shape);
  bool contiguous = true;
  std::int64_t stride = 1;
  for (int d = placement.rank() - 1; d >= 0; --d) {
    const auto r = static_cast<std::size_t>(d);
    const auto extent = static_cast<std::int64_t>(view.extent(r));
    if (extent != placement.dims[d].local()) {
      raise("from_local", "extent " + std::to_string(extent) + " of the view in dim \"" +
                              std::string(placement.dims[d].name.text) + "\" is not the local " +
                              std::to_string(placement.dims[d].local()));
    }
    contiguous =
        contiguous && (extent == 1 || static_cast<std::int64_t>(view.stride(static_cast<unsigned>(r))) == stride);
    stride *= extent;
  }
  const std::int64_t bytes = placement.local_size() * static_cast<std::int64_t>(sizeof(T));
  Ref<Value> value;
  if (contiguous) {
    value = Ref<Value>(make<Value>(
        placement, engine.lend(element_type_of<T>::value, placement.local_size(), const_cast<T*>(view.data()))));
  } else {
    value = make_value(engine, placement, element_type_of<T>::value);
    CopyPlan plan;
    plan.loop.operands = 2;
    const StridedShape row = row_major(placement);
    for (int d = 0; d < placement.rank(); ++d) {
      plan.loop.dims.push_back(
          {row[d].extent, {row[d].stride, static_cast<std::int64_t>(view.stride(static_cast<unsigned>(d)))}});
    }
    const Buffer source(engine.lend(element_type_of<T>::value, placement.local_size(), const_cast<T*>(view.data())));
    engine.copy(plan, *value->block, *source);
    kernels::wait_for(engine.space());
  }
  using Result = Tensor<World, T, Dims...>;
  const void* watched = contiguous && engine.check_lent ? value->block->data : nullptr;
  return Lent<Result>(Result(Array{std::move(value), {}}), watched, bytes);
}

}  // namespace v0
}  // namespace mtf
