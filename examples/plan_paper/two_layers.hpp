// Two fully-connected layers, y = relu(x w) v, under the layouts of the paper's first table.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include <mtf/plan/cost.hpp>

/// Extents of the table's example.
struct TwoLayerSizes {
  std::int64_t batch = 4096;
  std::int64_t io = 1024;
  std::int64_t hidden = 8192;
};

/// A line of the table: a mesh, a layout, and what the paper's analysis says of a step forward and backward.
struct TwoLayerCase {
  std::string_view mesh;
  std::string_view layout;
  std::string_view communication;  ///< payload against multiply-adds, up to the machine's constant
  std::int64_t multiply_adds = 0;  ///< of a rank
  std::int64_t all = 0, rows = 0, cols = 0, planes = 0;  ///< payload in elements along each axis
};
[[nodiscard]] std::array<TwoLayerCase, 5> two_layer_table(const TwoLayerSizes& sizes = {});

/// Plans forward and backward with the gradients of x, w and v. Throws mtf::plan_error where the layout is illegal.
[[nodiscard]] mtf::Cost plan_two_layers(const TwoLayerSizes& sizes, std::string_view mesh, std::string_view layout);
