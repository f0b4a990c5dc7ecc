// Training, evaluation and generation: written once for every layout.
#pragma once

#include <cmath>
#include <numbers>
#include <stdexcept>
#include <string>
#include <vector>

#include <fmt/format.h>

#include <mtf/mtf.hpp>

#include "options.hpp"
#include "progress.hpp"
#include "report.hpp"
#include "text.hpp"

using ModelDims = mtf::LanguageModelDims;
using Batch = ModelDims::Batch;

inline constexpr std::int64_t byte_values = 256;

template <class World>
using ByteModel = mtf::LanguageModel<World, float, ModelDims>;

inline ModelDims model_dims(const Options& options) {
  return {.batch{options.batch},
          .length{options.length},
          .memory{options.length},
          .d_model{options.d_model},
          .heads{options.heads},
          .d_kv{options.d_kv},
          .d_ff{options.d_ff},
          .vocab{byte_values}};
}

template <class World>
auto tokens(World& world, const std::vector<std::int32_t>& ids, std::int64_t batch, const ModelDims& dims) {
  return mtf::from_global(world, ids, Batch{batch}, dims.length);
}

/// Mean bits per byte of the text from `begin` to its end; every byte is predicted once.
template <class World>
double bits_per_byte(World& world, const ByteModel<World>& model, const std::vector<unsigned char>& text,
                     std::size_t begin) {
  const mtf::inference no_graph(world);
  const ModelDims& dims = model.dims();
  double nats = 0;
  for (std::size_t position = begin; position < text.size();) {
    const TokenRows rows = next_rows(text, position, dims.batch.extent(), dims.length.extent());
    const auto loss = model.loss(tokens(world, rows.inputs, dims.batch.extent(), dims),
                                 tokens(world, rows.targets, dims.batch.extent(), dims), false, {});
    nats += static_cast<double>(mtf::item(loss)) * static_cast<double>(dims.batch.extent() * dims.length.extent());
  }
  return nats / static_cast<double>(text.size() - begin) / std::numbers::ln2;
}

/// Continues `prompt` byte by byte, drawing from the softmax of logits / temperature.
template <class World>
std::string generate(World& world, const ByteModel<World>& model, const std::string& prompt, const Options& options) {
  const mtf::inference no_graph(world);
  const ModelDims& dims = model.dims();
  // The smallest batch that the layout can split; all rows are the same.
  const std::int64_t batch = mtf::place(world.rules(), mtf::DimValue{Batch::name, 1}).parts;
  const std::int64_t length = dims.length.extent();
  std::string text = prompt;
  for (std::int64_t i = 0; i < options.generate; ++i) {
    const auto context = std::min(static_cast<std::int64_t>(text.size()), length);
    std::vector<std::int32_t> row(static_cast<std::size_t>(batch * length), 0);
    for (std::int64_t r = 0; r < batch; ++r) {
      for (std::int64_t c = 0; c < context; ++c) {
        row[static_cast<std::size_t>(r * length + c)] =
            static_cast<unsigned char>(text[text.size() - static_cast<std::size_t>(context - c)]);
      }
    }
    const std::vector<float> logits = mtf::to_host(model.logits(tokens(world, row, batch, dims), false, {}));
    const float* last = logits.data() + (context - 1) * byte_values;
    // Gumbel's trick: the largest of logits / temperature plus Gumbel noise is a draw from their softmax.
    const auto noise = mtf::to_host(
        mtf::random_uniform_of<double>(world, mtf::seed{options.seed} / "generate" / i, 0.0, 1.0, dims.vocab));
    std::size_t best = 0;
    double best_score = -1e300;
    for (std::size_t v = 0; v < noise.size(); ++v) {
      const double score = static_cast<double>(last[v]) - options.temperature * std::log(-std::log(noise[v]));
      if (score > best_score) {
        best_score = score;
        best = v;
      }
    }
    text.push_back(static_cast<char>(best));
  }
  return text.substr(prompt.size());
}

/// Text with everything that would upset a terminal shown as '?'.
inline std::string printable(std::string text) {
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < 32 && c != '\n') c = '?';
  }
  return text;
}

template <class World>
void train(World& world, const Options& options) {
  const std::vector<unsigned char> text = read_text(options.text, world.comm());
  const ModelDims dims = model_dims(options);
  mtf::require_none("language model", world.mesh(), ByteModel<World>::check(world.rules(), dims));
  const std::size_t held_out = static_cast<std::size_t>(static_cast<double>(text.size()) * (1 - options.held_out));
  if (static_cast<std::int64_t>(held_out) <= options.length + 1 || held_out == text.size()) {
    throw std::invalid_argument(fmt::format(
        "{} is too short: of its {} bytes {} are for training, which must be at least --length + 2 = {}, and some "
        "must be left to hold out",
        mtf::quoted(options.text), text.size(), held_out, options.length + 2));
  }
  // Where the original relies on Adafactor, whose steps follow the size of a weight, Adam learns faster from a smaller
  // start.
  ByteModel<World> model(world, dims,
                         {.layers = options.layers,
                          .dropout = options.dropout,
                          .embedding_stddev = options.embedding_stddev,
                          .position_stddev = options.embedding_stddev / 2,
                          .output_scale = 0.3,
                          .logits_scale = 0.5,
                          .fold_scaling_into_initializer = false});
  mtf::Adam<World, float> adam(world, {.beta2 = 0.98, .epsilon = 1e-8});  // a short run forgets early gradients sooner
  std::int64_t parameters = 0;
  for (const auto& state : world.registry().all()) parameters += state->placement().size();
  mtf::print(world, "{}", world.describe_processes());
  mtf::print(world, "{} bytes of text, {} parameters, mesh {}, layout {}\n", text.size(), parameters,
             mtf::describe(world.mesh()), options.layout);

  const double limit = options.minutes * 60;
  const mtf::LinearSchedule schedule{
      .peak = options.learning_rate, .warmup_steps = options.warmup, .total_steps = options.steps};
  Progress progress(options.steps, limit, world.rank() == 0);
  const mtf::Key key = mtf::seed{options.seed} / "dropout";
  double elapsed = 0;
  std::int64_t done = 0;
  StepTrace trace(options);
  while (done < options.steps && (limit == 0 || elapsed < limit)) {
    trace.before(world, done);
    const TokenRows rows = random_rows(text, held_out, options.batch, options.length, options.seed, done);
    const auto loss = model.loss(tokens(world, rows.inputs, options.batch, dims),
                                 tokens(world, rows.targets, options.batch, dims), true, key / done);
    adam.apply(mtf::gradients_of_variables(world, loss),
               schedule.rate({.step = done, .time_fraction = limit > 0 ? elapsed / limit : 0.0}));
    ++done;
    elapsed = world.agree(progress.elapsed());
    if (progress.due(done, elapsed)) {
      const double value = static_cast<double>(mtf::item(loss));
      if (!std::isfinite(value))
        throw std::invalid_argument("the loss is not finite at step " + std::to_string(done) +
                                    "; try a smaller --learning-rate");
      progress.show(done, value, done * options.batch * options.length, elapsed);
    }
  }
  progress.finish();
  trace.finish(world, done);
  mtf::print(world, "trained {} steps in {:.1f} s\n", done, elapsed);
  mtf::print(world, "{}", costs_text(world.counters(), world.mesh(), world.peak_bytes(), world.comm()));
  const double held_out_bits = bits_per_byte(world, model, text, held_out);
  if (!std::isfinite(held_out_bits))
    throw std::invalid_argument("the loss of the held-out part is not finite; try a smaller --learning-rate");
  const Compression others = world.rank() == 0 ? compress(text) : Compression{};
  mtf::print(world, "bits per byte: {:.4f} held out (gzip -9: {:.4f}, xz -9: {:.4f} over the whole file)\n",
             held_out_bits, others.gzip, others.xz);
  if (options.generate > 0) {
    const std::string prompt(text.begin() + static_cast<std::ptrdiff_t>(held_out),
                             text.begin() + static_cast<std::ptrdiff_t>(std::min(held_out + 64, text.size())));
    mtf::print(world, "generated after \"{}\":\n{}\n", printable(prompt),
               printable(generate(world, model, prompt, options)));
  }
}
