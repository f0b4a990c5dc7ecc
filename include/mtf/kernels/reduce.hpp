// Reductions of a slice.
#pragma once

#include <mtf/core/arithmetic.hpp>
#include <mtf/kernels/column_sums.hpp>
#include <mtf/kernels/launch.hpp>
#include <mtf/kernels/run_sum.hpp>

namespace mtf {
inline namespace v0 {

namespace kernels {

template <class T, Combine How>
MTF_FUNCTION inline T combine(T a, T b) {
  if constexpr (How == Combine::sum) {
    return mtf::detail::sum_of(a, b);
  } else if constexpr (How == Combine::max) {
    return b > a || b != b ? b : a;
  } else if constexpr (How == Combine::min) {
    return b < a || b != b ? b : a;
  } else if constexpr (How == Combine::logical_and) {
    return a && b;
  } else {
    return a || b;
  }
}

/// One block reduces one chunk of neighbouring outputs (`columns`: the inputs of a chunk are consecutive too), or one
/// output. Reads T, combines in C, writes O.
template <class O, class T, Combine How, bool Columns>
struct ReduceKernel {
  using C = computed<T>;
  Outer<2> kept;  ///< output, input
  Outer<2> reduced;
  std::int64_t chunks;
  O* out;
  const T* in;

  static constexpr std::int64_t width = Columns ? 128 : 16;
  static constexpr bool sums_of_fractions = How == Combine::sum && std::is_floating_point_v<C>;

  MTF_FUNCTION void operator()(std::int64_t block) const {
    std::int64_t offset[2];
    const std::int64_t around = block < chunks ? 0 : block / chunks;  // divisions are slow
    kept.offsets(around, offset);
    if constexpr (Columns) {
      const std::int64_t begin = (block - around * chunks) * width;
      const std::int64_t rest = kept.inner - begin;
      columns(out + offset[0] + begin, in + offset[1] + begin, rest < width ? rest : width);
    } else {
      const std::int64_t i = block - around * chunks;
      out[offset[0] + i * kept.inner_strides[0]] = static_cast<O>(row(in + offset[1] + i * kept.inner_strides[1]));
    }
  }

  MTF_FUNCTION void columns(O* to, const T* from, std::int64_t count) const {
    if constexpr (sums_of_fractions) {
      ColumnSums<T, static_cast<int>(width)> sums(count, 1);
      for (std::int64_t r = 0; r < reduced.size; ++r) {
        std::int64_t offset[2];
        reduced.offsets(r, offset);
        for (std::int64_t j = 0; j < reduced.inner; ++j) sums.add(from + offset[1] + j * reduced.inner_strides[1]);
      }
      sums.write(to, 1);
    } else {
      combine_columns(to, from, count);
    }
  }
  MTF_ALWAYS_INLINE MTF_FUNCTION void combine_columns(O* to, const T* from, std::int64_t count) const {
    C sums[static_cast<unsigned>(width)];
    bool first = true;
    for (std::int64_t r = 0; r < reduced.size; ++r) {
      std::int64_t offset[2];
      reduced.offsets(r, offset);
      for (std::int64_t j = 0; j < reduced.inner; ++j) {
        const T* values = from + offset[1] + j * reduced.inner_strides[1];
        if (first) {
          for (std::int64_t i = 0; i < count; ++i) sums[i] = values[i];
          first = false;
        } else {
          for (std::int64_t i = 0; i < count; ++i) sums[i] = combine<C, How>(sums[i], values[i]);
        }
      }
    }
    for (std::int64_t i = 0; i < count; ++i) to[i] = static_cast<O>(sums[i]);
  }

  MTF_FUNCTION C row(const T* from) const {
    if constexpr (sums_of_fractions) {
      if (reduced.size == 1 && reduced.inner <= 8)
        return RunSum<T>::of_few(from, reduced.inner, reduced.inner_strides[1]);
      RunSum<T> sum;
      for (std::int64_t r = 0; r < reduced.size; ++r) {
        std::int64_t offset[2];
        reduced.offsets(r, offset);
        sum.add(from + offset[1], reduced.inner, reduced.inner_strides[1]);
      }
      return sum.result();
    } else {
      return combine_row(from);
    }
  }
  /// Several partial results break the chain of dependent operations.
  MTF_ALWAYS_INLINE MTF_FUNCTION C combine_row(const T* from) const {
    C result = from[0];
    bool first = true;
    const std::int64_t stride = reduced.inner_strides[1];
    for (std::int64_t r = 0; r < reduced.size; ++r) {
      std::int64_t offset[2];
      reduced.offsets(r, offset);
      const T* values = from + offset[1];
      std::int64_t j = 0;
      if (stride == 1 && reduced.inner >= 2 * width) {
        C lanes[static_cast<unsigned>(width)];
        for (std::int64_t i = 0; i < width; ++i) lanes[i] = values[i];
        for (j = width; j + width <= reduced.inner; j += width) {
          for (std::int64_t i = 0; i < width; ++i) lanes[i] = combine<C, How>(lanes[i], values[j + i]);
        }
        for (std::int64_t half = width / 2; half > 0; half /= 2) {
          for (std::int64_t i = 0; i < half; ++i) lanes[i] = combine<C, How>(lanes[i], lanes[i + half]);
        }
        result = first ? lanes[0] : combine<C, How>(result, lanes[0]);
        first = false;
      }
      if (first && j < reduced.inner) {
        result = values[j++ * stride];
        first = false;
      }
      for (; j < reduced.inner; ++j) result = combine<C, How>(result, values[j * stride]);
    }
    return result;
  }
};

template <Combine How, class Space, class O, class T>
void reduce(const Space& space, const ReducePlan& plan, O* out, const T* in) {
  const Outer<2> kept(plan.kept);
  const Outer<2> reduced(plan.reduced);
  if (kept.inner > 1 && kept.inner_strides[0] == 1 && kept.inner_strides[1] == 1) {
    using Kernel = ReduceKernel<O, T, How, true>;
    const std::int64_t chunks = (kept.inner + Kernel::width - 1) / Kernel::width;
    for_blocks(space, "mtf::reduce", kept.size * chunks, Kernel{kept, reduced, chunks, out, in});
  } else {
    for_blocks(space, "mtf::reduce", kept.size * kept.inner,
               ReduceKernel<O, T, How, false>{kept, reduced, kept.inner, out, in});
  }
}

template <class Space, class O, class T>
void execute(const Space& space, const ReducePlan& plan, O* out, const T* in) {
  if constexpr (std::is_same_v<T, bool>) {
    if (plan.combine == Combine::logical_and) return reduce<Combine::logical_and>(space, plan, out, in);
    if (plan.combine == Combine::logical_or) return reduce<Combine::logical_or>(space, plan, out, in);
  }
  switch (plan.combine) {
    case Combine::logical_or:
    case Combine::max: return reduce<Combine::max>(space, plan, out, in);
    case Combine::logical_and:
    case Combine::min: return reduce<Combine::min>(space, plan, out, in);
    case Combine::sum: return reduce<Combine::sum>(space, plan, out, in);
  }
}

}  // namespace kernels

}  // namespace v0
}  // namespace mtf
