// Halos: the elements of neighbours that windows along split dims reach.
#pragma once

#include <mtf/plan/segments.hpp>
#include <mtf/plan/window.hpp>
#include <mtf/tensor/exchange.hpp>

namespace mtf {
inline namespace v0 {

namespace untyped {

/// A window that slides from the indices of `big` to those of `small`.
struct SpatialDim {
  Name big, filter, small;
  Window window;
};
using SpatialDims = InlineVector<SpatialDim, max_windows>;

namespace detail {

/// What a rank holds of `big` while windows slide over it: its own slice, or where windows reach beyond that a copy
/// with the neighbours' elements.
struct WindowedSlice {
  struct Step {
    ExchangePlan plan;
    std::int64_t before = 0;  ///< elements of the slice
    std::int64_t after = 0;
    bool replicated = false;  ///< all members have the same windows, because the output is not split over these axes
  };
  StridedShape shape;
  InlineVector<std::int64_t, max_windows> begins;  ///< index in the slice of the first window's begin
  RecycledVector<Step> steps;
  [[nodiscard]] constexpr std::int64_t size() const {
    std::int64_t product = 1;
    for (const StridedDim& dim : shape) product *= dim.extent;
    return product;
  }
};

constexpr void make_row_major(StridedShape& shape) {
  std::int64_t stride = 1;
  for (int i = shape.size() - 1; i >= 0; --i) {
    shape[i].stride = stride;
    stride *= shape[i].extent;
  }
}

/// The windows of the own outputs and what they need of others: one exchange for each spatial dim that is split and
/// whose windows reach beyond a block.
MTF_NOINLINE [[nodiscard]] constexpr WindowedSlice plan_slice(const Backend& backend, const Placement& big,
                                                              const Placement& small, const SpatialDims& spatial) {
  WindowedSlice result;
  result.shape = row_major(big);
  for (const SpatialDim& s : spatial) {
    const PlacedDim& from = big.dims[big.find(s.big)];
    const PlacedDim& to = small.dims[small.find(s.small)];
    const std::int64_t own = slice_number(to, backend.mesh(), backend.coordinates);
    const bool replicated = !(from.axes == to.axes);
    const std::int64_t reach = s.window.reach(to.local());
    Segments segments;
    for (std::int64_t member = 0; member < from.parts; ++member) {
      const std::int64_t first = s.window.first((replicated ? own : member) * to.local());
      const std::int64_t begin = first > 0 ? first : 0;
      const std::int64_t end = first + reach < from.extent ? first + reach : from.extent;
      if (begin < end) segments.runs.push_back({begin, member * reach + begin - first, end - begin});
    }
    int at = 0;
    std::int64_t outer = 1;
    std::int64_t inner = 1;
    for (int i = 0; i < result.shape.size(); ++i) {
      if (result.shape[i].name == s.big) at = i;
    }
    for (int i = 0; i < result.shape.size(); ++i) (i < at ? outer : inner) *= i == at ? 1 : result.shape[i].extent;
    const std::int64_t position = slice_number(from, backend.mesh(), backend.coordinates);
    WindowedSlice::Step step;
    PlacedDim windows = from;  // of every member's windows one after the other
    windows.extent = from.parts * reach;
    SegmentBox box;
    box.loop.operands = 2;
    box.loop.dims.push_back({outer, {reach * inner, from.local() * inner}});
    box.loop.dims.push_back({1, {inner, inner}});
    box.loop.dims.push_back({inner, {1, 1}});
    box.varying = 1;
    step.plan = plan_segments(backend.mesh(), backend.coordinates, set_of(from.axes), from, windows, box, segments);
    if (!step.plan.communicates) {  // all that these windows see is here
      result.begins.push_back(s.window.first(own * to.local()) - position * from.local());
      continue;
    }
    step.replicated = replicated;
    step.before = result.size();
    result.shape[at].extent = reach;
    make_row_major(result.shape);
    step.after = result.size();
    result.begins.push_back(0);
    result.steps.push_back(std::move(step));
  }
  return result;
}

/// The slice as the windows need it; x itself if nothing is missing.
template <class E, class T>
[[nodiscard]] constexpr Buffer fetch(E& engine, const WindowedSlice& slice, const Buffer& x, const char* name) {
  Buffer result = x;
  for (const WindowedSlice::Step& step : slice.steps) {
    Buffer next(engine.allocate(x->type, step.after));
    if (step.plan.written() < step.after) engine.run(FillPlan{step.after}, Out<T>{*next}, T(0));  // the padding
    exchange(engine, step.plan, *next, *result, name);
    result = next;
  }
  return result;
}

/// The transpose of `fetch`: the gradient of x from that of the slice. Where several ranks have the same windows they
/// found the same gradient, and each keeps its own part.
template <class E, class T>
[[nodiscard]] constexpr Ref<Value> give_back(E& engine, const WindowedSlice& slice, const Buffer& of_slice,
                                             const Placement& big, const char* name) {
  Buffer gradient = of_slice;
  for (std::size_t i = slice.steps.size(); i-- > 0;) {
    const WindowedSlice::Step& step = slice.steps[i];
    Buffer before(engine.allocate(gradient->type, step.before));
    engine.run(FillPlan{step.before}, Out<T>{*before}, T(0));
    Transfer back{step.plan.transposed(), before.get(), gradient.get()};
    back.plan.communicates = !step.replicated;
    exchange_adding<E, T>(engine, std::span<const Transfer>(&back, 1), name);
    gradient = std::move(before);
  }
  return Ref<Value>(make<Value>(engine.keep(big), gradient));
}

}  // namespace detail

}  // namespace untyped

}  // namespace v0
}  // namespace mtf
