#include "paper.hpp"

#include <algorithm>

#include <fmt/core.h>

#include <mtf/tensor/error.hpp>

#include "expert_models.hpp"
#include "two_layers.hpp"

mtf::Machine tpu_v2_core() {
  mtf::Machine machine;
  machine.float_multiply_adds_per_second = 11.5e15 / 512 / 2;
  machine.double_multiply_adds_per_second = machine.float_multiply_adds_per_second;  // it has no double
  machine.bytes_per_second = 600e9 / 2;
  machine.any_axis = mtf::AxisSpeed("", 2e-6, 2 * 496e9 / 8);
  return machine;
}

namespace {

Comparison same_text(std::string quantity, std::string reference, std::string planned, std::string remark = {}) {
  const bool agrees = reference == planned;
  return {std::move(quantity), std::move(reference), std::move(planned), agrees, std::move(remark)};
}
Comparison same_count(std::string quantity, std::int64_t reference, std::int64_t planned, std::string remark = {}) {
  return same_text(std::move(quantity), std::to_string(reference), std::to_string(planned), std::move(remark));
}
Comparison at_most(std::string quantity, std::int64_t reference, std::int64_t planned, std::string remark) {
  return {std::move(quantity), std::to_string(reference), std::to_string(planned), planned <= reference,
          std::move(remark)};
}
std::string megabytes(double bytes) { return fmt::format("{:.1f} MB", bytes / 1e6); }
std::string whole_megabytes(double bytes) { return fmt::format("{:.0f} MB", bytes / 1e6); }

/// Elements of the slices of those variables whose name has this part.
std::int64_t elements_of(const mtf::Report& report, std::string_view part) {
  std::int64_t elements = 0;
  for (const mtf::Report::Tensor& tensor : report.tensors) {
    if (tensor.is_variable && tensor.name.find(part) != std::string::npos)
      elements += tensor.count * tensor.local_elements;
  }
  return elements;
}

}  // namespace

std::vector<Comparison> compare_largest_model() {
  constexpr std::int64_t r = 16, c = 32, processors = r * c;
  constexpr std::string_view mesh = "rows:16;cols:32";
  const LanguageModelSizes sizes = paper_sizes(5);
  LanguageModelSizes one_less = sizes;
  --one_less.layers;
  const PlannedModel plan = plan_language_model(sizes, mesh, paper_layout);
  const PlannedModel shorter = plan_language_model(one_less, mesh, paper_layout);
  const PlannedModel narrow = plan_language_model(sizes, mesh, paper_layout, mtf::ElementType::bfloat16);
  const mtf::Report report = report_language_model(sizes, mesh, paper_layout,
                                                   {.machine = tpu_v2_core(), .counters = {.one_hot_lookups = true}});
  const mtf::Cost& cost = plan.cost;

  // Along cols: activations, and the statistics of the split softmax, which the reference lists apart.
  const std::int64_t slice = formula::activation_slice(sizes, r);
  const std::int64_t statistic = sizes.tokens() / r;
  std::int64_t activations = 0, statistics = 0;
  for (const mtf::Report::Communication& each : report.communication) {
    if (!(each.axes == cost.axes("cols"))) continue;
    (each.elements == each.count * slice ? activations : statistics) += each.count;
  }
  const std::int64_t cols = activations * slice;
  const std::int64_t rows = cost.elements("rows");
  const double wire_cols = 2.0 * (c - 1) / c * static_cast<double>(cols);
  const double wire_rows = 2.0 * (r - 1) / r * static_cast<double>(rows);
  const double flops = 2.0 * processors * static_cast<double>(cost.multiply_adds());
  const double link = tpu_v2_core().any_axis.bytes_per_second;
  const double n = static_cast<double>(cost.parameters_per_rank);
  const std::int64_t logits = sizes.tokens() / r * sizes.vocab / c;
  const std::int64_t layer = plan.kept_elements - shorter.kept_elements;
  const std::int64_t tokens = sizes.tokens() / r;
  const double adafactor = 4.0 * static_cast<double>(formula::adafactor_slots(sizes, c));
  const double lookup_of_positions = 3.0 * static_cast<double>(sizes.tokens() * sizes.length * sizes.d_model);

  std::vector<Comparison> lines{
      same_count("parameters", 4'899'222'528, cost.parameters),
      same_count("parameters on a rank", 153'367'552, cost.parameters_per_rank),
      same_count("  attention", 50'331'648, elements_of(report, "/attention/")),
      same_count("  feed-forward", 100'663'296, elements_of(report, "/feed_forward/")),
      same_count("  vocabulary", 2'097'152,
                 elements_of(report, "logits") + elements_of(report, "embedding") - elements_of(report, "positional")),
      same_count("  replicated", 275'456, elements_of(report, "positional") + elements_of(report, "norm")),
      same_text("FLOPs of a step", "1.992315e+15", fmt::format("{:.6e}", flops)),
      same_text("FLOPs of a token", "3.04003e+10", fmt::format("{:.5e}", flops / static_cast<double>(sizes.tokens()))),
      same_text("FLOPs of a core", "3.8912e+12", fmt::format("{:.4e}", flops / processors)),
      same_count("slice of an activation", 4'194'304, slice),
      same_count("cols: allreduces of activations", 26, activations),
      same_count("cols: their elements", 109'051'904, cols),
      same_count(
          "cols: elements of other allreduces", 3 * statistic, cost.elements("cols") - cols,
          fmt::format("{} allreduces of a number per token, of the softmax over the split vocabulary", statistics)),
      same_count("rows: elements", 153'367'552, rows),
      same_text("sent along cols, 2 bytes an element", "422.6 MB", megabytes(2 * wire_cols)),
      same_text("sent along rows, 2 bytes", "575.1 MB", megabytes(2 * wire_rows)),
      same_text("sent by a rank, 2 bytes", "997.7 MB", megabytes(2 * (wire_cols + wire_rows))),
      same_text("sent by a rank, 4 bytes", "1995.4 MB", megabytes(4 * (wire_cols + wire_rows))),
      same_text(
          "sent by the model in bfloat16", "997.8 MB",
          megabytes(narrow.cost.wire_bytes("cols") + narrow.cost.wire_bytes("rows")),
          "with the statistics, and float gradients of the norms' scales, which are not in the reference's 997.7 MB"),
      same_count("kept: usual formula, elements a token and layer", 32'768,
                 formula::kept_activations(sizes, r, c) / tokens / sizes.layers),
      same_count("kept: the same, bytes of a layer, 2 bytes", 268'435'456,
                 2 * formula::kept_activations(sizes, r, c) / sizes.layers),
      same_text("kept: all layers, 2 bytes", "1.611 GB",
                fmt::format("{:.3f} GB", 2e-9 * static_cast<double>(formula::kept_activations(sizes, r, c)))),
      at_most("kept: here, elements of a layer", formula::kept_activations(sizes, r, c) / sizes.layers, layer,
              "less, because relu is differentiated at its result; the few numbers for each token are norms and "
              "softmax sums"),
      at_most("kept: here, elements of all", formula::kept_activations(sizes, r, c) + logits, plan.kept_elements,
              "against the formula and the logits"),
      same_text("logits in float", "16.8 MB", megabytes(4.0 * static_cast<double>(logits))),
      same_text("weights in float", "613 MB", whole_megabytes(static_cast<double>(cost.parameter_bytes))),
      same_text("weights in bfloat16", "307 MB", whole_megabytes(static_cast<double>(narrow.cost.parameter_bytes))),
      same_text("gradients in bfloat16", "307 MB", whole_megabytes(2 * n), "of as many elements as parameters"),
      same_text("slots of Adam", "1227 MB", whole_megabytes(static_cast<double>(cost.state_bytes))),
      same_text("slots of Adafactor", "26.9 MB", megabytes(adafactor),
                "by formula; 25.9 MB if the slots of the positions are rows and columns too"),
      same_text("weights and Adam, split over rows too", "115 MB", whole_megabytes(12 * n / r),
                "by formula: sharded slots are not in the library yet"),
      same_text("communication/computation", "3.66e-04",
                fmt::format("{:.2e}", static_cast<double>(c) / static_cast<double>(sizes.d_ff) +
                                          static_cast<double>(r) / static_cast<double>(sizes.tokens()))),
      same_text("the same of attention", "7.3e-04",
                fmt::format("{:.1e}", static_cast<double>(c) / static_cast<double>(sizes.heads * sizes.d_kv) +
                                          static_cast<double>(r) / static_cast<double>(sizes.tokens()))),
      same_text("step at 100 % of 11.5 PFLOP/s", "173.2 ms", fmt::format("{:.1f} ms", 1e3 * flops / 11.5e15)),
      same_text("communication, 2 bytes, 124 GB/s", "8.0 ms",
                fmt::format("{:.1f} ms", 2e3 * (wire_cols + wire_rows) / link)),
      same_text("communication, 4 bytes", "16.1 ms", fmt::format("{:.1f} ms", 4e3 * (wire_cols + wire_rows) / link)),
      same_text("the original's einsum counter",
                fmt::format("{:.12e}", static_cast<double>(formula::original_einsum(sizes))),
                fmt::format("{:.12e}", report.counters.at("einsum") + lookup_of_positions),
                "lookups as products with one-hot matrices; positions, which are no lookup here, by formula"),
      same_text("einsum_unique", fmt::format("{:.6e}", report.counters.at("einsum")),
                fmt::format("{:.6e}", report.counters.at("einsum_unique")), "nothing is computed twice"),
  };
  return lines;
}

std::vector<Comparison> compare_sizes() {
  return {
      same_count("size -1, all:32", 142'881'792,
                 plan_language_model(paper_sizes(-1), "all:32", "batch:all").cost.parameters),
      same_count(
          "size 2, batch:8;model:4", 671'364'096,
          plan_language_model(paper_sizes(2), "batch:8;model:4", "batch:batch;heads:model;d_ff:model;vocab:model")
              .cost.parameters),
      same_count("size 5, rows:16;cols:32", 4'899'222'528,
                 plan_language_model(paper_sizes(5), "rows:16;cols:32", paper_layout).cost.parameters),
  };
}

std::vector<Comparison> compare_two_layers() {
  std::vector<Comparison> lines;
  const TwoLayerSizes sizes;
  for (const TwoLayerCase& line : two_layer_table(sizes)) {
    const mtf::Cost cost = plan_two_layers(sizes, line.mesh, line.layout);
    const std::string name = fmt::format("{} {}", line.mesh, line.layout.empty() ? "(no rules)" : line.layout);
    lines.push_back(same_count(name + ": multiply-adds", line.multiply_adds, cost.multiply_adds(),
                               fmt::format("communication/computation {}", line.communication)));
    const std::pair<std::string_view, std::int64_t> axes[]{
        {"all", line.all}, {"rows", line.rows}, {"cols", line.cols}, {"planes", line.planes}};
    for (const auto& [axis, elements] : axes) {
      if (line.mesh.find(axis) != std::string_view::npos)
        lines.push_back(same_count(fmt::format("  elements along {}", axis), elements, cost.elements(axis)));
    }
  }
  std::string message = "it runs";
  try {
    (void)plan_two_layers(sizes, "all:16", "batch:all;hidden:all");
  } catch (const mtf::plan_error& error) {
    message = error.what();
  }
  lines.push_back({"all:16 batch:all;hidden:all", "illegal", message,
                   message.find("\"batch\" and \"hidden\"") != std::string::npos ||
                       message.find("\"hidden\" and \"batch\"") != std::string::npos});
  return lines;
}

std::vector<Comparison> compare_published() {
  std::vector<Comparison> lines;
  const ExpertModelSizes sizes;
  const auto add = [&](std::string quantity, double reference, double planned, std::string remark = {}) {
    // Two digits were published.
    const bool agrees = fmt::format("{:.1e}", reference) == fmt::format("{:.1e}", planned);
    if (agrees) remark.clear();
    if (!agrees) remark = fmt::format("{:+.1f} %: {}", 100 * (planned / reference - 1), remark);
    lines.push_back({std::move(quantity), fmt::format("{:.3g}", reference), fmt::format("{:.4g}", planned), agrees,
                     std::move(remark)});
  };
  for (const PublishedCounters& published : published_counters()) {
    const PlannedExperts plan = plan_expert_model(published.model, sizes, published.mesh, published.layout);
    const std::string name(published.name);
    const double positions = 3.0 * static_cast<double>(sizes.batch * sizes.length * sizes.length * sizes.d_model);
    const double einsum = plan.counters.at("einsum") + positions + static_cast<double>(plan.original_only);
    double alltoall = 0;
    for (const auto& [counter, value] : plan.counters) {
      if (counter.starts_with("alltoall/")) alltoall += value;
    }
    add(name + ": parameters / 1e6", published.parameters, static_cast<double>(plan.cost.parameters) / 1e6,
        "the exact size of the vocabulary was not published");
    add(name + ": einsum", published.einsum, einsum, "not explained");
    add(name + ": alltoall", published.alltoall, alltoall);
  }
  return lines;
}

std::vector<MeshChoice> mesh_choices(const LanguageModelSizes& sizes, std::int64_t processors) {
  std::vector<MeshChoice> choices;
  for (std::int64_t rows = 1; rows <= processors; ++rows) {
    if (processors % rows != 0) continue;
    MeshChoice choice{.rows = rows, .cols = processors / rows, .violations = {}};
    const std::string mesh = fmt::format("rows:{};cols:{}", rows, choice.cols);
    for (const std::string& sentence : check_language_model(sizes, mesh, paper_layout))
      choice.violations += (choice.violations.empty() ? "" : "; ") + sentence;
    if (choice.violations.empty()) {
      const mtf::Report report = report_language_model(sizes, mesh, paper_layout, {.machine = tpu_v2_core()});
      choice.time = report.time;
      choice.wire_bytes = report.cost.wire_bytes("rows") + report.cost.wire_bytes("cols");
      choice.peak_bytes = report.cost.peak_memory();
    }
    choices.push_back(choice);
  }
  std::sort(choices.begin(), choices.end(), [](const MeshChoice& a, const MeshChoice& b) {
    if (a.violations.empty() != b.violations.empty()) return a.violations.empty();
    if (a.time.at_most() != b.time.at_most()) return a.time.at_most() < b.time.at_most();
    return a.rows < b.rows;
  });
  return choices;
}
