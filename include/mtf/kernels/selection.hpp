// Choosing elements along a dim by their size: the extreme one, the first k, all in order.
#pragma once

#include <mtf/kernels/elementwise.hpp>
#include <mtf/plan/selection.hpp>

namespace mtf {
inline namespace v0 {

namespace kernels {

/// One block finds the extremes of a chunk of rows whose elements lie side by side, or of one row.
template <class T, bool Largest>
struct ArgExtremeKernel {
  Outer<2> outer;  ///< outputs, input
  ArgExtremePlan plan;
  std::int64_t width;
  std::int64_t chunks;
  T* values;
  std::int32_t* indices;
  const T* in;

  static constexpr std::int64_t widest = 64;

  /// Whether b takes the place of a, which comes before it.
  MTF_FUNCTION static bool better(T b, T a) { return (Largest ? b > a : b < a) || (b != b && a == a); }

  MTF_FUNCTION void operator()(std::int64_t block) const {
    std::int64_t offset[2];
    outer.offsets(block / chunks, offset);
    const std::int64_t begin = block % chunks * width;
    const std::int64_t count = begin + width < outer.inner ? width : outer.inner - begin;
    const T* from = in + offset[1] + begin * outer.inner_strides[1];
    T best[static_cast<unsigned>(widest)];
    std::int64_t at[static_cast<unsigned>(widest)];
    for (std::int64_t i = 0; i < count; ++i) {
      best[i] = from[i * outer.inner_strides[1]];
      at[i] = 0;
    }
    for (std::int64_t j = 1; j < plan.length; ++j) {
      const T* row = from + j * plan.stride;
      for (std::int64_t i = 0; i < count; ++i) {
        const T value = row[i * outer.inner_strides[1]];
        const bool takes = better(value, best[i]);
        best[i] = takes ? value : best[i];
        at[i] = takes ? j : at[i];
      }
    }
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t to = offset[0] + (begin + i) * outer.inner_strides[0];
      values[to] = best[i];
      indices[to] = static_cast<std::int32_t>(plan.begin + at[i]);
    }
  }
};

template <class Space, class T>
void execute(const Space& space, const ArgExtremePlan& plan, T* values, std::int32_t* indices, const T* in) {
  const Outer<2> outer(plan.rows);
  const std::int64_t width = outer.inner_strides[1] == 1 ? ArgExtremeKernel<T, true>::widest : 1;
  const std::int64_t chunks = (outer.inner + width - 1) / width;
  if (plan.largest) {
    for_blocks(space, "mtf::argmax", outer.size * chunks,
               ArgExtremeKernel<T, true>{outer, plan, width, chunks, values, indices, in});
  } else {
    for_blocks(space, "mtf::argmin", outer.size * chunks,
               ArgExtremeKernel<T, false>{outer, plan, width, chunks, values, indices, in});
  }
}

/// One row in time length * log(count), without memory of its own: the output holds a heap of the best so far with the
/// worst of them on top, and is sorted by taking the heap apart.
template <class T, bool Largest>
struct SelectKernel {
  Outer<2> outer;  ///< outputs, inputs
  SelectPlan plan;
  T* values;
  std::int32_t* indices;
  const T* in;
  const std::int32_t* given;  ///< null: indices count from plan.begin

  struct Item {
    T value;
    std::int32_t index;
  };

  MTF_FUNCTION static bool larger(T a, T b) { return a > b || (a != a && b == b); }
  MTF_FUNCTION static bool before(const Item& a, const Item& b) {
    if (Largest ? larger(a.value, b.value) : larger(b.value, a.value)) return true;
    if (Largest ? larger(b.value, a.value) : larger(a.value, b.value)) return false;
    return a.index < b.index;
  }

  /// The heap of one row.
  struct Heap {
    T* values;
    std::int32_t* indices;
    std::int64_t stride;
    [[nodiscard]] MTF_FUNCTION Item at(std::int64_t i) const { return {values[i * stride], indices[i * stride]}; }
    MTF_FUNCTION void set(std::int64_t i, const Item& item) const {
      values[i * stride] = item.value;
      indices[i * stride] = item.index;
    }
    /// Puts `item` at place i or below, so that each is after its children.
    MTF_FUNCTION void sink(std::int64_t i, std::int64_t count, const Item& item) const {
      for (std::int64_t child = 2 * i + 1; child < count; child = 2 * i + 1) {
        Item last = at(child);
        if (child + 1 < count) {
          const Item other = at(child + 1);
          if (before(last, other)) {
            last = other;
            ++child;
          }
        }
        if (!before(item, last)) break;
        set(i, last);
        i = child;
      }
      set(i, item);
    }
  };

  MTF_FUNCTION void operator()(std::int64_t row) const {
    std::int64_t offset[2];
    outer.offsets(row / outer.inner, offset);
    const std::int64_t i = row % outer.inner;
    const std::int64_t to = offset[0] + i * outer.inner_strides[0];
    const std::int64_t from = offset[1] + i * outer.inner_strides[1];
    const Heap heap{values + to, indices + to, plan.out_stride};
    const auto item = [&](std::int64_t j) {
      const std::int64_t place = from + j * plan.stride;
      return Item{in[place], given != nullptr ? given[place] : static_cast<std::int32_t>(plan.begin + j)};
    };
    for (std::int64_t j = 0; j < plan.count; ++j) heap.set(j, item(j));
    for (std::int64_t j = plan.count / 2; j-- > 0;) heap.sink(j, plan.count, heap.at(j));
    for (std::int64_t j = plan.count; j < plan.length; ++j) {
      const Item next = item(j);
      if (before(next, heap.at(0))) heap.sink(0, plan.count, next);
    }
    for (std::int64_t last = plan.count - 1; last > 0; --last) {
      const Item moved = heap.at(last);
      heap.set(last, heap.at(0));
      heap.sink(0, last, moved);
    }
  }
};

template <class Space, class T>
void execute(const Space& space, const SelectPlan& plan, T* values, std::int32_t* indices, const T* in,
             const std::int32_t* given) {
  const Outer<2> outer(plan.rows);
  if (plan.largest) {
    for_blocks(space, "mtf::select", outer.size * outer.inner,
               SelectKernel<T, true>{outer, plan, values, indices, in, given});
  } else {
    for_blocks(space, "mtf::select", outer.size * outer.inner,
               SelectKernel<T, false>{outer, plan, values, indices, in, given});
  }
}
template <class Space, class T>
void execute(const Space& space, const SelectPlan& plan, T* values, std::int32_t* indices, const T* in) {
  execute(space, plan, values, indices, in, static_cast<const std::int32_t*>(nullptr));
}

template <class T>
struct PlaceBackKernel {
  Outer<2> outer;  ///< table; elements and indices
  PlaceBackPlan plan;
  T* table;
  const T* elements;
  const std::int32_t* indices;
  MTF_FUNCTION void operator()(std::int64_t row) const {
    std::int64_t offset[2];
    outer.offsets(row / outer.inner, offset);
    const std::int64_t i = row % outer.inner;
    T* to = table + offset[0] + i * outer.inner_strides[0];
    const std::int64_t from = offset[1] + i * outer.inner_strides[1];
    for (std::int64_t j = 0; j < plan.count; ++j) {
      const std::int64_t place = from + j * plan.in_stride;
      const std::int64_t index = std::int64_t{indices[place]} - plan.begin;
      if (index >= 0 && index < plan.length) to[index * plan.stride] = elements[place];
    }
  }
};
template <class Space, class T>
void execute(const Space& space, const PlaceBackPlan& plan, T* table, const T* elements, const std::int32_t* indices) {
  const Outer<2> outer(plan.rows);
  for_blocks(space, "mtf::fill", plan.table_size, FillKernel<T>{table, T(0)});
  for_blocks(space, "mtf::place_back", outer.size * outer.inner,
             PlaceBackKernel<T>{outer, plan, table, elements, indices});
}

}  // namespace kernels

}  // namespace v0
}  // namespace mtf
