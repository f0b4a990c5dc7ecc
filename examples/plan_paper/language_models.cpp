#include "language_models.hpp"

#include <chrono>

#include <mtf/io/make_report.hpp>
#include <mtf/nn/language_model.hpp>
#include <mtf/ops/gradients.hpp>
#include <mtf/optim/adam.hpp>
#include <mtf/tensor/dry_run.hpp>

LanguageModelSizes paper_sizes(int size) {
  const std::int64_t scale = std::int64_t{1} << (size + 1);
  return {.heads = 4 * scale, .d_ff = 4096 * scale};
}

namespace formula {

namespace {

/// Products of weights and activations per token and layer, and of queries with keys and weights with values.
std::int64_t weights_of_layer(const LanguageModelSizes& s) {
  return 4 * s.d_model * s.heads * s.d_kv + 2 * s.d_model * s.d_ff;
}
std::int64_t attention_of_layer(const LanguageModelSizes& s) { return 2 * s.length * s.heads * s.d_kv; }

}  // namespace

std::int64_t parameters(const LanguageModelSizes& s) { return parameters_per_rank(s, 1); }
std::int64_t parameters_per_rank(const LanguageModelSizes& s, std::int64_t c) {
  const std::int64_t split = s.layers * weights_of_layer(s) + 2 * s.vocab * s.d_model;
  return split / c + (2 * s.layers + 1) * s.d_model + s.length * s.d_model;
}
double model_flops(const LanguageModelSizes& s) {
  const std::int64_t per_token = s.layers * (weights_of_layer(s) + attention_of_layer(s)) + s.d_model * s.vocab;
  return 6.0 * static_cast<double>(s.tokens()) * static_cast<double>(per_token);
}
std::int64_t original_einsum(const LanguageModelSizes& s) {
  return 3 * s.tokens() *
         (s.layers * (weights_of_layer(s) + attention_of_layer(s)) + 2 * s.d_model * s.vocab + s.length * s.d_model);
}
std::int64_t kept_activations(const LanguageModelSizes& s, std::int64_t r, std::int64_t c) {
  const std::int64_t per_token = 4 * s.d_model + (4 * s.heads * s.d_kv + 2 * s.heads * s.length + 2 * s.d_ff) / c;
  return s.layers * per_token * (s.tokens() / r);
}
std::int64_t activation_slice(const LanguageModelSizes& s, std::int64_t r) { return s.tokens() / r * s.d_model; }
std::int64_t adafactor_slots(const LanguageModelSizes& s, std::int64_t c) {
  const std::int64_t d = s.d_model;
  const std::int64_t heads = s.heads / c;
  // q, k, v, o: two of d_model, heads and d_kv are the longest; the slots lack one of them each.
  std::int64_t attention = 0;
  const std::int64_t slice = d * heads * s.d_kv;
  std::int64_t extents[] = {d, s.heads, s.d_kv};
  const std::int64_t locals[] = {d, heads, s.d_kv};
  int shortest = 0;
  for (int i = 1; i < 3; ++i) {
    if (extents[i] <= extents[shortest]) shortest = i;
  }
  for (int i = 0; i < 3; ++i) {
    if (i != shortest) attention += slice / locals[i];
  }
  const std::int64_t feed_forward = d + s.d_ff / c;
  const std::int64_t vocabulary = d + s.vocab / c;
  return s.layers * (4 * attention + 2 * feed_forward + 2 * d) + 2 * vocabulary + s.length * d + d;
}

}  // namespace formula

namespace {

using Dims = mtf::LanguageModelDims;
using Batch = Dims::Batch;
using Length = Dims::Length;

Dims dims_of(const LanguageModelSizes& s) {
  return {{s.batch}, {s.length}, {s.length}, {s.d_model}, {s.heads}, {s.d_kv}, {s.d_ff}, {s.vocab}};
}

using World = mtf::DryRun<mtf::dynamic_mesh, mtf::dynamic_layout>;

/// The model in a world of its own, and its training step.
template <class T>
class Training {
 public:
  Training(const LanguageModelSizes& sizes, std::string_view mesh, std::string_view layout)
      : world({.mesh = mesh, .layout = layout}),
        dims_(dims_of(sizes)),
        model_(world, dims_, {.layers = sizes.layers}),
        inputs_(mtf::placeholder<std::int32_t>(world, dims_.batch, dims_.length)),
        targets_(mtf::placeholder<std::int32_t>(world, dims_.batch, dims_.length)) {}

  /// Returns the elements that a rank holds between forward and backward, beyond what it held before.
  std::int64_t step() {
    const std::int64_t before = world.engine().live();
    const auto loss = model_.loss(inputs_, targets_, true, mtf::seed{1});
    const std::int64_t kept = world.engine().live() - before;
    const mtf::VariableGradients gradients = mtf::gradients_of_variables(world, loss);
    if constexpr (std::same_as<T, float>) {
      mtf::Adam<World, T>(world).apply(gradients, 0.1);
    } else {
      for (std::size_t i = 0; i < gradients.variables.size(); ++i) mtf::complete(*gradients.value(i), "gradients");
    }
    return kept / static_cast<std::int64_t>(sizeof(T));
  }

  World world;

 private:
  Dims dims_;
  mtf::LanguageModel<World, T, Dims> model_;
  mtf::Tensor<World, std::int32_t, Batch, Length> inputs_, targets_;
};

template <class T>
PlannedModel plan(const LanguageModelSizes& sizes, std::string_view mesh, std::string_view layout) {
  const auto start = std::chrono::steady_clock::now();
  Training<T> training(sizes, mesh, layout);
  PlannedModel result;
  result.kept_elements = training.step();
  result.cost = training.world.cost();
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return result;
}

}  // namespace

PlannedModel plan_language_model(const LanguageModelSizes& sizes, std::string_view mesh, std::string_view layout,
                                 mtf::ElementType element) {
  return element == mtf::ElementType::float32 ? plan<float>(sizes, mesh, layout)
                                              : plan<mtf::bfloat16>(sizes, mesh, layout);
}

mtf::Report report_language_model(const LanguageModelSizes& sizes, std::string_view mesh, std::string_view layout,
                                  const mtf::ReportOptions& options) {
  Training<float> training(sizes, mesh, layout);
  training.step();
  training.world.start_tracing();
  training.step();
  return mtf::make_report(training.world, options);
}

std::vector<std::string> check_language_model(const LanguageModelSizes& sizes, std::string_view mesh,
                                              std::string_view layout) {
  const World world({.mesh = mesh, .layout = layout});
  std::vector<std::string> sentences;
  for (const mtf::Violation& violation : mtf::LanguageModel<World, float, Dims>::check(world.rules(), dims_of(sizes))) {
    sentences.push_back(mtf::describe(violation, world.mesh()));
  }
  return sentences;
}
