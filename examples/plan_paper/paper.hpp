// The numbers of the paper beside those of dry runs.
#pragma once

#include <string>
#include <vector>

#include <mtf/plan/time.hpp>

#include "language_models.hpp"

/// A core of the machine that the paper used, a TPU v2 pod of 512: its 11.5e15 floating-point operations a second are
/// published; the rates of its memory (600e9 bytes a second for two cores) and of a link (496e9 bits a second each way,
/// two ways round a ring) are as recalled.
[[nodiscard]] mtf::Machine tpu_v2_core();

/// A quantity as the reference has it, derived from the paper and the original's code, and as planned here.
struct Comparison {
  std::string quantity;
  std::string reference;
  std::string planned;
  bool agrees = false;  ///< to the last digit that the reference has
  std::string remark{};
};
/// The model of 4.9 billion parameters on 16 x 32 processors.
[[nodiscard]] std::vector<Comparison> compare_largest_model();
/// Parameters of the other sizes.
[[nodiscard]] std::vector<Comparison> compare_sizes();
/// Payloads and multiply-adds of two fully-connected layers.
[[nodiscard]] std::vector<Comparison> compare_two_layers();
/// The counters printed for a dense model and two mixtures of experts.
[[nodiscard]] std::vector<Comparison> compare_published();

/// A mesh of two axes for the layout "batch:rows;heads:cols;d_ff:cols;vocab:cols".
struct MeshChoice {
  std::int64_t rows = 1;
  std::int64_t cols = 1;
  std::string violations;  ///< every rule that it breaks; empty if it can run
  mtf::Time time{};        ///< on tpu_v2_core()
  double wire_bytes = 0;   ///< that a rank sends
  std::int64_t peak_bytes = 0;
};
/// All shapes of a number of processors: those that can run by estimated time, then the others.
[[nodiscard]] std::vector<MeshChoice> mesh_choices(const LanguageModelSizes& sizes, std::int64_t processors);

inline constexpr std::string_view paper_layout = "batch:rows;heads:cols;d_ff:cols;vocab:cols";
