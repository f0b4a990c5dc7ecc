// Running exchanges: packing, one collective, unpacking.
#pragma once

#include <span>

#include <mtf/plan/exchange.hpp>
#include <mtf/tensor/form.hpp>

namespace mtf {
inline namespace v0 {

/// A plan with its arrays.
struct Transfer {
  ExchangePlan plan;
  Block* target = nullptr;
  const Block* source = nullptr;
};

namespace untyped {

namespace detail {

/// Where the elements for each member begin in a packed block, over all transfers together.
struct PackedMembers {
  RecycledVector<std::int64_t> counts;   ///< by member
  RecycledVector<std::int64_t> offsets;  ///< by member; advanced while parts are packed
  std::int64_t total = 0;
};
[[nodiscard]] constexpr PackedMembers packed_members(std::span<const Transfer> transfers,
                                                     RecycledVector<ExchangePart> ExchangePlan::* parts) {
  PackedMembers packed;
  packed.counts = RecycledVector<std::int64_t>(static_cast<std::size_t>(transfers[0].plan.members));
  for (const Transfer& transfer : transfers) {
    for (const ExchangePart& part : transfer.plan.*parts) {
      packed.counts[static_cast<std::size_t>(part.member)] += transfer.plan.size_of_part(part);
    }
  }
  for (const std::int64_t count : packed.counts) {
    packed.offsets.push_back(packed.total);
    packed.total += count;
  }
  return packed;
}

/// Runs transfers along the same axes in one exchange. `keep(transfer, part)` moves what stays on this rank,
/// `unpack(transfer, loop, offset in the target, packed block, offset there)` what has arrived.
template <class Keep, class Unpack>
constexpr void run_transfers(Backend& backend, std::span<const Transfer> transfers, const char* name, const Keep& keep,
                             const Unpack& unpack) {
  bool communicates = false;
  std::int64_t payload = 0;
  const Block* target = nullptr;
  for (const Transfer& transfer : transfers) {
    for (const KeptPart& part : transfer.plan.kept) keep(transfer, part);
    communicates = communicates || transfer.plan.communicates;
    if (target != transfer.target) payload += transfer.target->count();
    target = transfer.target;
  }
  if (!communicates) return;
  PackedMembers sent = packed_members(transfers, &ExchangePlan::sent);
  PackedMembers received = packed_members(transfers, &ExchangePlan::received);
  const ElementType type = transfers[0].target->type;
  const Buffer out(backend.allocate(type, sent.total));
  for (const Transfer& transfer : transfers) {
    for (const ExchangePart& part : transfer.plan.sent) {
      CopyPlan copy = transfer.plan.packing(part, ExchangePlan::source, true);
      std::int64_t& offset = sent.offsets[static_cast<std::size_t>(part.member)];
      copy.out_offset = offset;
      copy.in_offset = part.offset;
      backend.copy(copy, *out, *transfer.source);
      offset += transfer.plan.size_of_part(part);
    }
  }
  const Buffer arrived(backend.allocate(type, received.total));
  backend.communicate({.collective = Collective::exchange,
                       .axes = transfers[0].plan.axes,
                       .count = payload,
                       .type = type,
                       .operation = name,
                       .sent = sent.counts,
                       .received = received.counts},
                      *arrived, *out);
  for (const Transfer& transfer : transfers) {
    for (const ExchangePart& part : transfer.plan.received) {
      std::int64_t& offset = received.offsets[static_cast<std::size_t>(part.member)];
      unpack(transfer, transfer.plan.packing(part, ExchangePlan::target, false).loop, part.offset, *arrived, offset);
      offset += transfer.plan.size_of_part(part);
    }
  }
}

/// The loop of a = a + b from one over a and b: operands a, a, b.
[[nodiscard]] constexpr Loop accumulating(const Loop& loop) {
  Loop result;
  result.operands = 3;
  for (const LoopDim& dim : loop.dims)
    result.dims.push_back({dim.extent, {dim.strides[0], dim.strides[0], dim.strides[1]}});
  result = collapse(result);
  // The innermost dim of a map is contiguous: of what is not, every row is one element.
  if (!result.dims.empty() && result.dims.back().strides[0] != 1) result.dims.push_back({1, {1, 1, 1}});
  return result;
}

}  // namespace detail

/// Writes to the targets what the plans bring from the sources; elements that no part covers keep what they have. All
/// plans have the same axes and all blocks one element type; transfers to one target follow each other. At most one
/// exchange, none if every member has all it needs.
MTF_NOINLINE constexpr void exchange(Backend& backend, std::span<const Transfer> transfers, const char* name) {
  detail::run_transfers(
      backend, transfers, name,
      [&](const Transfer& transfer, const KeptPart& part) {
        const Loop loop = transfer.plan.moving(part);
        backend.copy({.loop = loop, .out_offset = part.target, .in_offset = part.source}, *transfer.target,
                     *transfer.source);
      },
      [&](const Transfer& transfer, const Loop& loop, std::int64_t offset, const Block& packed, std::int64_t at) {
        backend.copy({.loop = loop, .out_offset = offset, .in_offset = at}, *transfer.target, packed);
      });
}
MTF_NOINLINE constexpr void exchange(Backend& backend, const ExchangePlan& plan, Block& target, const Block& source,
                                     const char* name) {
  const Transfer transfer{plan, &target, &source};
  exchange(backend, std::span<const Transfer>(&transfer, 1), name);
}

/// The same, but adds to what the targets have: parts may overlap there. Targets of bfloat16 are held in float.
template <class E, class T>
constexpr void exchange_adding(E& engine, std::span<const Transfer> transfers, const char* name) {
  const functions::Add sum;
  const auto add = [&](const Loop& loop, Block& target, std::int64_t offset, const Block& source, std::int64_t at) {
    using Sum = computed<T>;
    engine.run(MapPlan{detail::accumulating(loop)}, sum, Out<Sum>{target, offset}, In<Sum>{target, offset},
               In<T>{source, at});
  };
  detail::run_transfers(
      engine, transfers, name,
      [&](const Transfer& transfer, const KeptPart& part) {
        add(transfer.plan.moving(part), *transfer.target, part.target, *transfer.source, part.source);
      },
      [&](const Transfer& transfer, const Loop& loop, std::int64_t offset, const Block& packed, std::int64_t at) {
        add(loop, *transfer.target, offset, packed, at);
      });
}

}  // namespace untyped

}  // namespace v0
}  // namespace mtf
