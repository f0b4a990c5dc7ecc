// halo_exchange: blocks of a long dim, each with a margin of what surrounds it.
#pragma once

#include <mtf/ops/slice.hpp>

namespace mtf {
inline namespace v0 {

namespace untyped {

/// y[blocks = b, to = j] = the element b * size + j - left of x's blocks laid end to end, for j in [0, left + size +
/// right).
template <class E, class T>
[[nodiscard]] constexpr Array halo_exchange(E& engine, const char* name, const Array& x, const Name& blocks,
                                            const Name& block_size, std::int64_t left, std::int64_t right,
                                            WrapOptions options, const DimValue& to) {
  const ShapeValue shape = x.value->placement.shape();
  const DimValue& block = shape[find(shape, block_size)];
  const std::int64_t count = shape[find(shape, blocks)].extent;
  const std::int64_t size = block.extent;
  if (left < 0 || right < 0) {
    raise(name, "a halo of " + std::to_string(left < 0 ? left : right) +
                    ": a halo is not negative; slice makes a block smaller");
  }
  if (to.extent != left + size + right) {
    raise(name, "dim " + detail::quoted(block) + " with halos of " + std::to_string(left) + " and " +
                    std::to_string(right) + " is not dim " + detail::quoted(to) +
                    ": give the new dim the extent of a block with its halos");
  }
  if (engine.survey != nullptr) {
    engine.survey->keep_whole(name, block);
    engine.survey->keep_whole(name, to);
  }
  const bool splits_block = !engine.rules.axes_of(block.name).empty();
  if (splits_block || !engine.rules.axes_of(to.name).empty()) {
    raise(
        name,
        "dim " + detail::quoted(splits_block ? block : to) +
            " is split: a block lies on one rank with its halo; rename the dim within the block to one without a rule");
  }
  // Block b takes what overlaps its window from block b + distance: the same part of every block, so one route for each
  // distance.
  RecycledVector<Route> routes;
  const std::int64_t before = (left + size - 1) / size;
  const std::int64_t after = (right + size - 1) / size;
  for (std::int64_t distance = -before; distance <= after; ++distance) {
    const std::int64_t begin =
        distance * size > -left ? distance * size : -left;  // of the overlap, in indices of block b
    const std::int64_t end = (distance + 1) * size < size + right ? (distance + 1) * size : size + right;
    Route route{.source = blocks, .target = blocks};
    route.box = {.source = block_size,
                 .target = to.name,
                 .source_begin = begin - distance * size,
                 .target_begin = begin + left,
                 .extent = end - begin};
    if (options.wrap) {
      const std::int64_t around = (distance % count + count) % count;
      route.segments.runs.push_back({around, 0, count - around});
      if (around > 0) route.segments.runs.push_back({0, count - around, around});
    } else if (distance >= 0) {
      if (distance < count) route.segments.runs.push_back({distance, 0, count - distance});
    } else if (distance > -count) {
      route.segments.runs.push_back({0, -distance, count + distance});
    }
    if (!route.segments.runs.empty()) routes.push_back(route);
  }
  const ShapeValue result = mtf::detail::replaced(shape, block_size, to);
  return move_segments<E, T>(engine, name, std::span<const Array>(&x, 1), std::span<const ShapeValue>(&result, 1),
                             routes, routes.size() > 1)[0];
}

}  // namespace untyped

namespace detail {

template <class Blocks, class BlockSize, class X>
inline constexpr bool has_blocks = contains(dims_of<X>::shape(), Blocks::name) &&
                                   contains(dims_of<X>::shape(), BlockSize::name) && !same_name<Blocks, BlockSize>;
template <class Blocks, class BlockSize>
inline constexpr bool has_blocks<Blocks, BlockSize, poisoned> = true;  // one message is enough

/// Whether the layout's type leaves a block whole, before and after.
template <class BlockSize, class New, class X>
inline constexpr bool keeps_blocks_whole =
    rules_of<world_of<X>>.axes_of(BlockSize::name).empty() && rules_of<world_of<X>>.axes_of(New::name).empty();
template <class BlockSize, class New>
inline constexpr bool keeps_blocks_whole<BlockSize, New, poisoned> = true;

/// The halo exchange of either name, whose static checks said `legal`.
template <class Blocks, class BlockSize, class New, bool both_sides, bool legal, class X>
constexpr auto halo_named(const char* name, const X& x, std::int64_t halo, WrapOptions options) {
  if constexpr (any_poisoned<X> || !legal) {
    return poisoned{};
  } else {
    using List = replace_dim<BlockSize, New, dims_of<X>>;
    if constexpr (!placeable_as<List, X>) {
      return poisoned(not_placeable_as<List, X>{});
    } else {
      return move_named<List>(x, [&]<class E>(E& engine, const Array& array, const ShapeValue& shape) {
        std::int64_t extent = New::static_extent;
        if (extent == dynamic) extent = shape[find(shape, BlockSize::name)].extent + (both_sides ? 2 : 1) * halo;
        return untyped::halo_exchange<E, element_of<X>>(engine, name, array, Blocks::name, BlockSize::name, halo,
                                                        both_sides ? halo : 0, options, {New::name, extent});
      });
    }
  }
}

}  // namespace detail

/// y[..., Blocks = b, ..., New = j, ...]: block b of x with `halo` indices of what lies before and behind it, where the
/// blocks [Blocks, BlockSize] laid end to end are one long dim. The halo may be longer than a block. Beyond the ends
/// there are zeros, or with `wrap` the other end. New takes the place of BlockSize, whose name it has and the extent
/// BlockSize + 2 halo, unless another dim of this extent is named.
///
/// Errors: BlockSize is split (rename it to a dim without a rule), a negative halo, a New of another extent.
/// Communication: none if Blocks is not split, else one exchange, in which a rank receives the halos of its outer
/// blocks; of halos that are longer than a block some elements come for two blocks of a rank, twice. Gradient: what was
/// copied several times sums what comes back, in one exchange.
template <dim_like Blocks, dim_like BlockSize, dim_like New = detail::dynamic_dim<BlockSize>, operand X>
constexpr auto halo_exchange(const X& x, std::int64_t halo, WrapOptions options = {}) {
  constexpr bool known = detail::has_blocks<Blocks, BlockSize, X>;
  static_assert(known, "mtf: halo_exchange: " MTF_RULE_MISSING_DIM);
  constexpr bool whole = detail::keeps_blocks_whole<BlockSize, New, X>;
  static_assert(whole, "mtf: halo_exchange: " MTF_RULE_SPLIT_BLOCK);
  return detail::halo_named < Blocks, BlockSize, New, true, known && whole > ("halo_exchange", x, halo, options);
}

/// The same with a halo on the left only, for causal operations: block b and the `halo` indices before it, extent
/// BlockSize + halo.
template <dim_like Blocks, dim_like BlockSize, dim_like New = detail::dynamic_dim<BlockSize>, operand X>
constexpr auto left_halo_exchange(const X& x, std::int64_t halo, WrapOptions options = {}) {
  constexpr bool known = detail::has_blocks<Blocks, BlockSize, X>;
  static_assert(known, "mtf: left_halo_exchange: " MTF_RULE_MISSING_DIM);
  constexpr bool whole = detail::keeps_blocks_whole<BlockSize, New, X>;
  static_assert(whole, "mtf: left_halo_exchange: " MTF_RULE_SPLIT_BLOCK);
  return detail::halo_named < Blocks, BlockSize, New, false, known && whole > ("left_halo_exchange", x, halo, options);
}

}  // namespace v0
}  // namespace mtf
