// Element-wise kernels: map, its gradient, fill, range, copy.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <tuple>
#include <utility>

#include <mtf/core/dual.hpp>
#include <mtf/kernels/launch.hpp>
#include <mtf/plan/elementwise.hpp>

namespace mtf {
inline namespace v0 {

namespace kernels {

/// One operand within a chunk: a pointer to consecutive elements, of which those that are not consecutive in memory
/// were copied, so that the loop over the chunk always has unit strides.
template <class T>
struct Chunk {
  using C = computed<T>;
  C copied[static_cast<std::size_t>(chunk)];

  Chunk() {}  // leaves the memory alone

  const C* load(const T* base, std::int64_t stride, std::int64_t begin, std::int64_t count) {
    if constexpr (std::is_same_v<C, T>) {
      if (stride == 1) return base + begin;
    }
    if (stride == 0) {
      const C value = *base;
      for (std::int64_t i = 0; i < count; ++i) copied[i] = value;
    } else {
      for (std::int64_t i = 0; i < count; ++i) copied[i] = base[(begin + i) * stride];
    }
    return copied;
  }
};

/// out = f(in...), f called on elements. f may be a user's, so on the host it may throw.
template <bool Host, class F, class R, class... Ts>
struct MapKernel {
  static constexpr unsigned operands = 1 + static_cast<unsigned>(sizeof...(Ts));
  Outer<operands> outer;
  std::int64_t chunks;
  F f;
  R* out;
  std::tuple<const Ts*...> in;

  MTF_FUNCTION void operator()(std::int64_t block) const { run(block, std::index_sequence_for<Ts...>{}); }

  template <std::size_t... I>
  MTF_FUNCTION void run(std::int64_t block, std::index_sequence<I...>) const {
    std::int64_t offset[operands];
    if constexpr (Host) {
      outer.offsets(block / chunks, offset);
      const std::int64_t begin = block % chunks * chunk;
      const std::int64_t rest = outer.inner - begin;
      const std::int64_t count = rest < chunk ? rest : chunk;
      std::tuple<Chunk<Ts>...> chunk_of;
      const auto pointers = std::make_tuple(
          std::get<I>(chunk_of).load(std::get<I>(in) + offset[1 + I], outer.inner_strides[1 + I], begin, count)...);
      R* to = out + offset[0] + begin;
      MTF_INDEPENDENT_ITERATIONS
      for (std::int64_t i = 0; i < count; ++i) to[i] = static_cast<R>(f(std::get<I>(pointers)[i]...));
    } else {
      outer.offsets(block / outer.inner, offset);
      const std::int64_t i = block % outer.inner;
      out[offset[0] + i * outer.inner_strides[0]] = static_cast<R>(
          f(static_cast<computed<Ts>>(std::get<I>(in)[offset[1 + I] + i * outer.inner_strides[1 + I]])...));
    }
  }
};

template <class Space, class F, class R, class... Ts>
void map(const Space& space, const char* name, const Loop& loop, const F& f, R* out, const Ts*... in) {
  const Outer<1 + static_cast<unsigned>(sizeof...(Ts))> outer(loop);
  constexpr bool host = on_host<Space>;
  const std::int64_t chunks = host ? (outer.inner + chunk - 1) / chunk : outer.inner;
  for_user_blocks(space, name, outer.size * chunks, MapKernel<host, F, R, Ts...>{outer, chunks, f, out, {in...}});
}

template <class Space, class F, class R, class... Ts>
void execute(const Space& space, const MapPlan& plan, const F& f, R* out, const Ts*... in) {
  map(space, "mtf::map", plan.loop, f, out, in...);
}

/// The derivative in one argument, of a function object that says it itself: `partial(argument, values...)`.
template <class F, class T, class... Ts>
concept has_partial = requires(const F& f, const Ts&... values) {
  { f.partial(0, values...) } -> std::same_as<T>;
};

/// dy times the slope of f in its argument `which`. Where dy is 0 the result does not depend on the element, so the
/// gradient is 0 whatever the slope: an infinite one, of a branch that `where` did not take, must not make a NaN of it.
template <class F, class T>
struct Slope {
  F f;
  int which;
  template <class... Ts>
  MTF_FUNCTION T operator()(T dy, Ts... arguments) const {
    const T product = dy * slope(std::index_sequence_for<Ts...>{}, arguments...);
    return dy == T(0) ? T(0) : product;
  }
  template <std::size_t... I, class... Ts>
  MTF_FUNCTION T slope(std::index_sequence<I...>, Ts... arguments) const {
    if constexpr (has_partial<F, T, Ts...>) {
      return f.partial(which, arguments...);
    } else {
      // Of one argument it is a constant, which spares the work on slopes that are 0.
      return f(Dual<T>(arguments, sizeof...(I) == 1 || static_cast<int>(I) == which ? T(1) : T(0))...).slope;
    }
  }
};

template <class Space, class F, class T, class... Ts>
void execute(const Space& space, const MapGradientPlan& plan, const F& f, T* dx, const T* dy, const Ts*... arguments) {
  map(space, "mtf::map'", plan.loop, Slope<F, computed<T>>{f, plan.which}, dx, dy, arguments...);
}

template <class T>
struct FillKernel {
  T* out;
  T value;
  MTF_FUNCTION void operator()(std::int64_t i) const { out[i] = value; }
};
template <class Space, class T>
void execute(const Space& space, const FillPlan& plan, T* out, T value) {
  for_blocks(space, "mtf::fill", plan.count, FillKernel<T>{out, value});
}

template <class T>
struct RangeKernel {
  T* out;
  std::int64_t begin;
  MTF_FUNCTION void operator()(std::int64_t i) const { out[i] = static_cast<T>(begin + i); }
};
template <class Space, class T>
void execute(const Space& space, const RangePlan& plan, T* out) {
  for_blocks(space, "mtf::range", plan.count, RangeKernel<T>{out, plan.begin});
}

/// Copies elements of 1, 2, 4 or 8 bytes: one kernel for all element types.
struct CopyKernel {
  Outer<2> outer;
  int width;
  char* out;
  const char* in;

  MTF_FUNCTION void operator()(std::int64_t row) const {
    std::int64_t offset[2];
    outer.offsets(row, offset);
    char* to = out + offset[0] * width;
    const char* from = in + offset[1] * width;
    if (outer.inner_strides[0] == 1 && outer.inner_strides[1] == 1) {
      std::memcpy(to, from, static_cast<std::size_t>(outer.inner * width));
    } else if (width == 4) {
      strided<std::uint32_t>(to, from);
    } else if (width == 8) {
      strided<std::uint64_t>(to, from);
    } else if (width == 2) {
      strided<std::uint16_t>(to, from);
    } else {
      strided<std::uint8_t>(to, from);
    }
  }
  template <class Word>
  MTF_FUNCTION void strided(char* to, const char* from) const {
    auto* target = reinterpret_cast<Word*>(to);
    const auto* source = reinterpret_cast<const Word*>(from);
    for (std::int64_t i = 0; i < outer.inner; ++i)
      target[i * outer.inner_strides[0]] = source[i * outer.inner_strides[1]];
  }
};
template <class Space>
void execute(const Space& space, const CopyPlan& plan, int width, void* out, const void* in) {
  const Outer<2> outer(plan.loop);
  for_blocks(space, "mtf::copy", outer.size,
             CopyKernel{outer, width, static_cast<char*>(out) + plan.out_offset * width,
                        static_cast<const char*>(in) + plan.in_offset * width});
}

}  // namespace kernels

}  // namespace v0
}  // namespace mtf
