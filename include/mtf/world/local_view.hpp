// Local views: this rank's slice of a tensor as a Kokkos view.
#pragma once

#include <array>
#include <cstdint>

#include <mtf/tensor/variable.hpp>
#include <mtf/world/engine.hpp>

namespace mtf {
inline namespace v0 {

/// This rank's slice: a Kokkos view of the local extents, and for every dim the global index at which the slice begins.
/// A plain value, which a kernel may capture; it does not keep the slice alive.
template <class ViewType, std::size_t Rank>
struct LocalView {
  ViewType view;
  std::array<std::int64_t, Rank> begin{};
};

/// The same, and the slice's memory lives for as long as this does. It stays on the host: a kernel captures `view`,
/// which is good only while some KeptLocalView or the tensor itself lives.
template <class ViewType, std::size_t Rank>
struct [[nodiscard]] KeptLocalView : LocalView<ViewType, Rank> {
  Buffer block;
};

namespace detail {

/// T with `Rank` stars, as Kokkos::View spells extents known at run time.
template <class T, std::size_t Rank>
struct ViewData {
  using type = typename ViewData<T, Rank - 1>::type*;
};
template <class T>
struct ViewData<T, 0> {
  using type = T;
};

/// The local slice of a value as a view of T, const or not, at its global offsets.
template <class T, std::size_t Rank, class E>
auto view_of(const E& engine, const Placement& placement, void* data) {
  using ViewType = Kokkos::View<typename ViewData<T, Rank>::type, Kokkos::LayoutRight, typename E::memory_space,
                                Kokkos::MemoryTraits<Kokkos::Unmanaged>>;
  Kokkos::LayoutRight extents;
  LocalView<ViewType, Rank> result;
  for (std::size_t d = 0; d < Rank; ++d) {
    const PlacedDim& dim = placement.dims[static_cast<int>(d)];
    extents.dimension[d] = static_cast<std::size_t>(dim.local());
    result.begin[d] = slice_begin(dim, engine.mesh(), engine.coordinates);
  }
  result.view = ViewType(static_cast<T*>(data), extents);
  return result;
}

}  // namespace detail

/// The slice of x that this rank holds, without a copy: a KeptLocalView. x may be a temporary, as long as the result is
/// kept and not only its `view`. Completes a pending sum, which is collective. At most 8 dims.
template <operand X>
[[nodiscard]] auto local_view(const X& x) {
  constexpr std::size_t rank = static_cast<std::size_t>(dims_of<X>::size);
  static_assert(rank <= 8, "mtf: local_view: a Kokkos view has at most 8 dims");
  const Array& array = detail::array_of(x);
  auto& engine = static_cast<typename world_of<X>::engine_type&>(array.value->backend());
  detail::require_open(engine, "local_view");
  complete(*array.value, "local_view");
  kernels::wait_for(engine.space());
  const Buffer& block = array.value->block;
  const auto slice = detail::view_of<const element_of<X>, rank>(engine, array.value->placement, block->data);
  return KeptLocalView<decltype(slice.view), rank>{slice, block};
}

}  // namespace v0
}  // namespace mtf
