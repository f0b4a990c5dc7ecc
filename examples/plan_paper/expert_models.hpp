// The language models whose counters Mesh-TensorFlow's authors published: a dense one and two with mixtures of experts.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <mtf/io/original_counters.hpp>
#include <mtf/plan/cost.hpp>

/// Extents that all of them share, and those of the mixtures.
struct ExpertModelSizes {
  std::int64_t batch = 128;
  std::int64_t length = 256;
  std::int64_t d_model = 512;
  std::int64_t heads = 4;
  std::int64_t d_kv = 128;
  std::int64_t d_ff = 4096;  ///< also of each expert
  std::int64_t vocab = 8192;
  std::int64_t layers = 4;
  std::int64_t group = 1024;      ///< positions that are dispatched together
  std::int64_t experts = 16;      ///< of the mixture with one level; the one with two has 4 x 4
  double capacity = 1.25;         ///< places of all experts for each position of a group
  double inner_capacity = 1.25;   ///< the same at the second level
  double second_threshold = 0.2;  ///< a second expert of less weight is left out at random
  std::int64_t outer_batch = 4;   ///< parts of the batch along the first axis of the mixture with two levels
};

enum class ExpertModel : std::uint8_t { dense, one_level, two_levels };

/// What the authors printed, to two digits, and where it ran.
struct PublishedCounters {
  ExpertModel model{};
  std::string_view name;
  std::string_view mesh;
  std::string_view layout;
  double parameters = 0;  ///< in millions
  double einsum = 0;
  double alltoall = 0;
};
[[nodiscard]] const std::vector<PublishedCounters>& published_counters();

struct PlannedExperts {
  mtf::Cost cost;
  mtf::OriginalCounters counters;  ///< of a step, with lookups as products with one-hot matrices
  /// Multiply-adds, over all processors, of einsums that the original makes and this library does not: the gradient of
  /// the dispatch, which nobody uses, and cumulative sums as products with triangular matrices.
  std::int64_t original_only = 0;
  double seconds = 0;
};
/// Plans a training step with Adam.
[[nodiscard]] PlannedExperts plan_expert_model(ExpertModel model, const ExpertModelSizes& sizes, std::string_view mesh,
                                               std::string_view layout);
