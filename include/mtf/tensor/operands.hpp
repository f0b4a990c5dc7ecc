// Operands: blocks with their element type, as plans take them, and what a plan does with them.
#pragma once

#include <concepts>

#include <mtf/tensor/node.hpp>

namespace mtf {
inline namespace v0 {

/// Typed operands of `Engine::run`: the engine turns them into pointers for the kernel.
template <class T>
struct In {
  const Block& block;
  std::int64_t offset = 0;  ///< elements before the first that the plan reads
};
/// A sum that is held in float is rounded for a kernel of bfloat16.
template <>
struct In<bfloat16> {
  const Block& block;
  std::int64_t offset;
  constexpr explicit(false) In(const Block& read, std::int64_t begin = 0) : block(read), offset(begin) {
    if (read.wide) read.backend->narrow(const_cast<Block&>(read));
  }
};
template <class T>
struct Out {
  Block& block;
  std::int64_t offset = 0;
};
template <class T>
[[nodiscard]] constexpr In<T> in(const Ref<Value>& value) {
  return {*value.object->block.object};
}
template <class T>
[[nodiscard]] constexpr Out<T> out(const Ref<Value>& value) {
  return {*value.object->block.object};
}

namespace detail {

/// Bytes of an operand of a plan: its whole slice.
template <class T>
[[nodiscard]] constexpr std::int64_t bytes_of_operand(const In<T>& operand) {
  return operand.block.bytes;
}
template <class T>
[[nodiscard]] constexpr std::int64_t bytes_of_operand(const Out<T>& operand) {
  return operand.block.bytes;
}
template <class X>
[[nodiscard]] constexpr std::int64_t bytes_of_operand(const X&) {
  return 0;
}

// The element type of a plan is that of its first result; the function objects of maps come before it.
template <class... Operands>
struct ResultType;
template <class T, class... Operands>
struct ResultType<Out<T>, Operands...> {
  static constexpr ElementType value = element_type_of<T>::value;
};
template <class X, class... Operands>
struct ResultType<X, Operands...> : ResultType<Operands...> {};

// Measured and hashed once: in constant expressions a text takes a step for each of its characters.
template <class Plan>
inline constexpr Name plan_name = Plan::name;
inline constexpr Name narrowing_name = "narrow";

/// What running a plan on these operands does.
template <class Plan, class... Operands>
[[nodiscard]] constexpr LocalWork work_of(const Plan& plan, const Operands&... operands) {
  LocalWork done{.plan = plan_name<Plan>,
                 .type = ResultType<Operands...>::value,
                 .work = plan.work(),
                 .bytes = (bytes_of_operand(operands) + ... + 0)};
  if constexpr (requires { plan.split_axes; }) {
    done.is_contraction = true;
    done.split_axes = plan.split_axes;
  }
  return done;
}
[[nodiscard]] constexpr LocalWork work_of_copy(const CopyPlan& plan, const Block& out) {
  return {.plan = plan_name<CopyPlan>, .type = out.type, .bytes = 2 * plan.loop.size() * out.width()};
}
/// Rounds a partial sum of bfloat16 that was held in float.
[[nodiscard]] constexpr LocalWork work_of_narrowing(const Block& block) {
  const std::int64_t count = block.count();
  return {.plan = narrowing_name,
          .type = ElementType::bfloat16,
          .work = count,
          .bytes = count * (bytes_of(ElementType::float32) + bytes_of(ElementType::bfloat16))};
}

}  // namespace detail

}  // namespace v0
}  // namespace mtf
