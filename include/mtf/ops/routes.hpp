// Routes: where indices of a dim go, and running them.
#pragma once

#include <mtf/ops/reshape.hpp>
#include <mtf/plan/segments.hpp>

namespace mtf {
inline namespace v0 {

namespace untyped {

/// A part of a second dim that moves along, where not all of it does.
struct RouteBox {
  Name source{}, target{};  ///< the dim before and after; empty: all dims move along whole
  std::int64_t source_begin = 0;
  std::int64_t target_begin = 0;
  std::int64_t extent = 1;
};

/// Where the indices of the dim `source` of one input go in the dim `target` of one output. Their other dims have the
/// same names. An empty name stands for a dim of extent 1 that the array does not have.
struct Route {
  int input = 0;
  int output = 0;
  Name source{}, target{};
  Segments segments{};
  RouteBox box{};

  [[nodiscard]] constexpr Route transposed() const {
    Route result = *this;
    std::swap(result.source, result.target);
    std::swap(result.box.source, result.box.target);
    std::swap(result.box.source_begin, result.box.target_begin);
    result.segments = segments.transposed();
    return result;
  }
};

namespace detail {

[[nodiscard]] constexpr PlacedDim dim_or_unit(const Placement& placement, const Name& name) {
  const int position = placement.find(name);
  return position < 0 ? PlacedDim{} : placement.dims[position];
}

/// The axes that split the dims of a route.
[[nodiscard]] constexpr AxisSet axes_of(const Placement& from, const Placement& to, const Route& route) {
  return set_of(dim_or_unit(from, route.source).axes) | set_of(dim_or_unit(to, route.target).axes);
}

MTF_NOINLINE [[nodiscard]] constexpr ExchangePlan plan_route(const Backend& backend, AxisSet axes,
                                                             const Placement& from, const Placement& to,
                                                             const Route& route) {
  const StridedShape source = row_major(from);
  const std::int64_t source_stride = stride_of(source, route.source);
  SegmentBox box;
  box.loop.operands = 2;
  box.varying = -1;
  for (const StridedDim& dim : row_major(to)) {
    if (dim.name == route.target) {
      box.varying = box.loop.dims.size();
      box.loop.dims.push_back({1, {dim.stride, source_stride}});
    } else if (dim.name == route.box.target) {
      const std::int64_t other_stride = stride_of(source, route.box.source);
      box.target_offset = route.box.target_begin * dim.stride;
      box.source_offset = route.box.source_begin * other_stride;
      box.loop.dims.push_back({route.box.extent, {dim.stride, other_stride}});
    } else {
      box.loop.dims.push_back({dim.extent, {dim.stride, stride_of(source, dim.name)}});
    }
  }
  if (box.varying < 0) {
    box.varying = box.loop.dims.size();
    box.loop.dims.push_back({1, {0, source_stride}});
  }
  return plan_segments(backend.mesh(), backend.coordinates, axes, dim_or_unit(from, route.source),
                       dim_or_unit(to, route.target), box, route.segments);
}

/// What all values are pending over, after sums over `moving` axes are completed, and all sums if they differ.
MTF_NOINLINE constexpr AxisSet complete_alike(std::span<const Value* const> values, AxisSet moving, const char* name) {
  bool alike = true;
  for (const Value* value : values) {
    if (!value->block->scattered.empty() || !(value->pending() & moving).empty()) complete(*value, name);
    alike = alike && value->pending() == values[0]->pending();
  }
  if (!alike) {
    for (const Value* value : values) complete(*value, name);
  }
  return values[0]->pending();
}

/// Fills what the transfers do not write, then runs them.
template <class E, class T>
constexpr void run_routes(E& engine, std::span<const Ref<Value>> targets, std::span<const Transfer> transfers,
                          bool adds, const char* name) {
  for (const Ref<Value>& target : targets) {
    std::int64_t written = 0;
    for (const Transfer& transfer : transfers) {
      if (transfer.target == target->block.get()) written += transfer.plan.written();
    }
    const std::int64_t count = target->block->count();
    if (adds) {
      engine.run(FillPlan{count}, out<computed<T>>(target), computed<T>(0));
    } else if (written < count) {
      engine.run(FillPlan{count}, out<T>(target), T(0));
    }
  }
  if (transfers.empty()) return;
  if constexpr (floating<T>) {
    if (adds) return exchange_adding<E, T>(engine, transfers, name);
  }
  exchange(engine, transfers, name);
}

}  // namespace detail

}  // namespace untyped

}  // namespace v0
}  // namespace mtf
