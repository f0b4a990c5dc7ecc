// Running an exchange: packing, one collective, unpacking.
#pragma once

#include <mtf/plan/exchange.hpp>
#include <mtf/tensor/form.hpp>

namespace mtf {
inline namespace v0 {

namespace untyped {

namespace detail {

/// Parts packed one after the other, and how many elements each member has of them.
struct PackedParts {
  RecycledVector<std::int64_t> counts;  ///< by member
  std::int64_t total = 0;
};
[[nodiscard]] constexpr PackedParts packed_parts(const ExchangePlan& plan, const RecycledVector<ExchangePart>& parts) {
  PackedParts packed;
  packed.counts.resize(static_cast<std::size_t>(plan.members));
  for (const ExchangePart& part : parts) {
    const std::int64_t count = plan.size_of_part(part.length);
    packed.counts[static_cast<std::size_t>(part.member)] += count;
    packed.total += count;
  }
  return packed;
}

/// Sends `parts` of `x`, receives `others`: packed by member.
[[nodiscard]] constexpr Buffer send_parts(Backend& backend, const ExchangePlan& plan, const RecycledVector<ExchangePart>& parts, int operand,
                                          const RecycledVector<ExchangePart>& others, const Block& x, std::int64_t payload, const char* name) {
  const PackedParts sent = packed_parts(plan, parts);
  const PackedParts received = packed_parts(plan, others);
  const Buffer packed(backend.allocate(x.type, sent.total));
  std::int64_t at = 0;
  for (const ExchangePart& part : parts) {
    CopyPlan copy = plan.packing(part.length, operand, true);
    copy.out_offset = at;
    copy.in_offset = part.offset;
    backend.copy(copy, *packed, x);
    at += plan.size_of_part(part.length);
  }
  Buffer result(backend.allocate(x.type, received.total));
  backend.communicate({.collective = Collective::exchange, .axes = plan.axes, .count = payload, .type = x.type, .operation = name, .sent = sent.counts,
                       .received = received.counts},
                      *result, *packed);
  return result;
}

}  // namespace detail

/// Writes to `target` what the plan brings from the sources; elements that no part covers keep what they have. At most one exchange, none
/// if every member has all it needs.
MTF_NOINLINE constexpr void exchange(Backend& backend, const ExchangePlan& plan, Block& target, const Block& source, const char* name) {
  for (const KeptPart& part : plan.kept) {
    backend.copy({.loop = plan.moving(part.length), .out_offset = part.target, .in_offset = part.source}, target, source);
  }
  if (!plan.communicates) return;
  const Buffer received = detail::send_parts(backend, plan, plan.sent, ExchangePlan::source, plan.received, source, target.count(), name);
  std::int64_t at = 0;
  for (const ExchangePart& part : plan.received) {
    CopyPlan copy = plan.packing(part.length, ExchangePlan::target, false);
    copy.out_offset = part.offset;
    copy.in_offset = at;
    backend.copy(copy, target, *received);
    at += plan.size_of_part(part.length);
  }
}

namespace detail {

/// The loop of a = a + b from one over a and b: operands a, a, b. The innermost dim of a MapPlan is contiguous, so where parts are
/// single elements that lie apart, each is a row of its own.
[[nodiscard]] constexpr Loop accumulating(const Loop& loop, int a, int b) {
  Loop result;
  result.operands = 3;
  for (const LoopDim& dim : loop.dims) result.dims.push_back({dim.extent, {dim.strides[a], dim.strides[a], dim.strides[b]}});
  result = collapse(result);
  if (!result.dims.empty() && result.dims.back().strides[0] != 1) result.dims.push_back({1, {1, 1, 1}});
  return result;
}

}  // namespace detail

/// The transpose of `exchange`, for gradients: adds to `source` what its elements became in `target`, with the same messages the other way.
template <class E, class T>
constexpr void exchange_back(E& engine, const ExchangePlan& plan, const Ref<Value>& source, const Block& target, const char* name) {
  const mtf::detail::Sum sum;
  for (const KeptPart& part : plan.kept) {
    const Loop moving = plan.moving(part.length);
    engine.run(MapPlan{detail::accumulating(moving, ExchangePlan::source, ExchangePlan::target)}, sum, Out<T>{*source->block, part.source},
               In<T>{*source->block, part.source}, In<T>{target, part.target});
  }
  if (!plan.communicates) return;
  const Buffer received = detail::send_parts(engine, plan, plan.received, ExchangePlan::target, plan.sent, target, source->block->count(), name);
  std::int64_t at = 0;
  for (const ExchangePart& part : plan.sent) {
    const CopyPlan copy = plan.packing(part.length, ExchangePlan::source, false);
    engine.run(MapPlan{detail::accumulating(copy.loop, 0, 1)}, sum, Out<T>{*source->block, part.offset}, In<T>{*source->block, part.offset},
               In<T>{*received, at});
    at += plan.size_of_part(part.length);
  }
}

}  // namespace untyped

}  // namespace v0
}  // namespace mtf
