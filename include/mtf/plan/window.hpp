// Windows that slide along dims: extents, patches as rows of a matrix, and what pooling needs.
#pragma once

#include <mtf/plan/loop.hpp>

namespace mtf {
inline namespace v0 {

/// What a window meets beyond the first and last index: `same` pads with zeros so that the output has ceil(input /
/// stride) indices, `valid` pads nothing.
enum class Padding : std::uint8_t { same, valid };

inline constexpr int max_windows = 3;  ///< dims along which the windows of one operation slide

/// A window over one dim: output index o sees the input indices o * stride - before + j * dilation, j in [0, size).
struct Window {
  std::int64_t size = 1;
  std::int64_t stride = 1;
  std::int64_t dilation = 1;
  std::int64_t before = 0;  ///< padding before the first index

  /// From the first to the last index that a window sees.
  [[nodiscard]] constexpr std::int64_t span() const { return (size - 1) * dilation + 1; }
  [[nodiscard]] constexpr std::int64_t first(std::int64_t output) const { return output * stride - before; }
  /// Indices from the first window's begin to the last one's end, for this many outputs.
  [[nodiscard]] constexpr std::int64_t reach(std::int64_t outputs) const { return (outputs - 1) * stride + span(); }
};

/// Number of windows over `input` indices; 0 or less if not one fits.
[[nodiscard]] constexpr std::int64_t output_extent(std::int64_t input, const Window& window, Padding padding) {
  if (padding == Padding::same) return (input + window.stride - 1) / window.stride;
  return input < window.span() ? 0 : (input - window.span()) / window.stride + 1;
}
/// The least input for this many outputs under `valid`; the greatest, a multiple of the stride, under `same`: extents
/// of a transposed convolution.
[[nodiscard]] constexpr std::int64_t input_extent(std::int64_t output, const Window& window, Padding padding) {
  return padding == Padding::same ? output * window.stride : window.reach(output);
}
/// Padding before the first index: half of what is missing, the smaller half if that is odd.
[[nodiscard]] constexpr std::int64_t padding_before(std::int64_t input, std::int64_t output, const Window& window,
                                                    Padding padding) {
  const std::int64_t missing = window.reach(output) - input;
  return padding == Padding::same && missing > 0 ? missing / 2 : 0;
}

/// A dim along which a window slides, on a local array.
struct SlidingDim {
  std::int64_t begin = 0;     ///< index at which the window of output 0 begins; negative in the padding
  std::int64_t step = 1;      ///< from one output to the next
  std::int64_t dilation = 1;  ///< from one index of the window to the next
  std::int64_t extent = 1;    ///< of the array: indices outside are padding
  std::int64_t stride = 1;    ///< elements from one index to the next
};

/// patches[row, column] = array[...]: one row for every output position, one column for every element of its window, 0
/// in the padding. Rows `begin` to `begin + count` of all.
struct PatchesPlan {
  static constexpr const char* name = "patches";
  struct Part {
    std::int64_t extent = 1;
    std::int64_t stride = 0;  ///< in the array, of a dim that no window slides along
    int slides = -1;          ///< position in `sliding`, or -1
    std::int64_t unit =
        1;  ///< of the innermost column, if a window slides along it: elements of an index, which follow each other
  };
  InlineVector<SlidingDim, max_windows> sliding;
  InlineVector<Part, max_union_rank> rows;     ///< outermost first; the dims that windows slide along are the last
  InlineVector<Part, max_union_rank> columns;  ///< outermost first
  std::int64_t begin = 0;
  std::int64_t count = 0;

  [[nodiscard]] constexpr std::int64_t width() const {
    std::int64_t product = 1;
    for (const Part& part : columns) product *= part.extent * part.unit;
    return product;
  }
  /// Rows whose windows see the same part of the array as others; rows of different images never share an element.
  [[nodiscard]] constexpr std::int64_t rows_of_image() const {
    std::int64_t product = 1;
    for (const Part& part : rows) product *= part.slides >= 0 ? part.extent : 1;
    return product;
  }
  [[nodiscard]] constexpr std::int64_t height() const {
    std::int64_t product = 1;
    for (const Part& part : rows) product *= part.extent;
    return product;
  }
  [[nodiscard]] constexpr std::int64_t work() const { return 0; }
};

/// The transpose: array[...] += patches[row, column].
struct AddPatchesPlan : PatchesPlan {
  static constexpr const char* name = "add_patches";
  [[nodiscard]] constexpr std::int64_t work() const { return count * width(); }
};

/// The gradient of pooling, an element of the array at a time: dx = sum over the windows that see it of dy, of those
/// only where y equals x if `ties`. Loops: array, then outputs; an output's stride in a sliding dim is that of the
/// output, not of its window.
struct PoolGradientPlan {
  static constexpr const char* name = "pool_gradient";
  struct Sliding {
    int dim = 0;             ///< of the loop
    std::int64_t begin = 0;  ///< index at which the window of output 0 begins
    std::int64_t step = 1;
    std::int64_t size = 1;
    std::int64_t outputs = 1;
    std::int64_t stride = 1;  ///< of an output
  };
  Loop loop;  ///< operands: array, output (stride 0 where a window slides)
  InlineVector<Sliding, max_windows> sliding;
  bool ties = false;
  double factor = 1;  ///< of dy
  [[nodiscard]] constexpr std::int64_t work() const {
    std::int64_t product = loop.size();
    for (const Sliding& s : sliding) product *= (s.size + s.step - 1) / s.step;
    return product;
  }
};

}  // namespace v0
}  // namespace mtf
