// Plans the language models of the Mesh-TensorFlow paper without running them, and compares what they cost with the
// paper's numbers.
#include <chrono>
#include <fstream>
#include <stdexcept>

#include <CLI/CLI.hpp>
#include <fmt/core.h>

#include <mtf/io/file.hpp>
#include <mtf/io/machine.hpp>
#include <mtf/io/report_html.hpp>
#include <mtf/io/report_json.hpp>
#include <mtf/tensor/error.hpp>

#include "paper.hpp"

namespace {

struct Options {
  int size = 5;
  std::string mesh = "rows:16;cols:32";
  std::string layout{paper_layout};
  std::string machine;
  bool only_report = false;
  bool print_report = false;
  std::string html;
  std::string json;
};

/// Prints the lines and returns how many of them do not agree.
int print(std::string_view title, const std::vector<Comparison>& lines) {
  fmt::print("\n{}\n  {:<52} {:>20} {:>20}\n", title, "", "reference", "planned");
  int different = 0;
  for (const Comparison& line : lines) {
    fmt::print("{} {:<52} {:>20} {:>20}{}{}\n", line.agrees ? ' ' : '!', line.quantity, line.reference, line.planned,
               line.remark.empty() ? "" : "  ", line.remark);
    different += line.agrees ? 0 : 1;
  }
  return different;
}

void print_choices(const LanguageModelSizes& sizes) {
  constexpr std::int64_t processors = 512;
  fmt::print(
      "\nMeshes of {} processors for {}, by estimated time on cores of TPU v2\n  {:>6} {:>6} {:>24} {:>14} {:>12}\n",
      processors, paper_layout, "rows", "cols", "time", "sent", "peak");
  for (const MeshChoice& choice : mesh_choices(sizes, processors)) {
    if (choice.violations.empty()) {
      fmt::print("  {:>6} {:>6} {:>24} {:>11.1f} MB {:>9.2f} GB\n", choice.rows, choice.cols,
                 fmt::format("{:.1f} to {:.1f} ms", 1e3 * choice.time.at_least(), 1e3 * choice.time.at_most()),
                 choice.wire_bytes / 1e6, 1e-9 * static_cast<double>(choice.peak_bytes));
    } else {
      fmt::print("  {:>6} {:>6}   illegal: {}\n", choice.rows, choice.cols, choice.violations);
    }
  }
}

void write(const std::string& file, const std::string& content) {
  std::ofstream stream(file, std::ios::binary);
  stream << content;
  if (!stream.flush()) throw std::runtime_error("plan_paper: cannot write \"" + file + "\"");
}

int start(const Options& options) {
  for (const std::string& file : {options.html, options.json}) {
    if (!file.empty()) mtf::require_writable(file);
  }
  const LanguageModelSizes sizes = paper_sizes(options.size);
  int different = 0;
  if (!options.only_report) {
    different += print("The model of 4.9 billion parameters on 16 x 32", compare_largest_model());
    different += print("Parameters", compare_sizes());
    different += print("Two fully-connected layers, 4096 x 1024 x 8192, forward and backward", compare_two_layers());
    print("Published counters of mixtures of experts, two digits", compare_published());
    print_choices(sizes);
  }

  const auto begin = std::chrono::steady_clock::now();
  const PlannedModel plan = plan_language_model(sizes, options.mesh, options.layout);
  const auto seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  const mtf::Report report =
      report_language_model(sizes, options.mesh, options.layout,
                            {.title = fmt::format("A training step of {:.2f} billion parameters",
                                                  1e-9 * static_cast<double>(plan.cost.parameters)),
                             .machine = options.machine.empty() ? tpu_v2_core() : mtf::read_machine(options.machine)});
  fmt::print("\nPlanning size {} on {} took {:.2f} ms.\n", options.size, options.mesh, 1e3 * seconds);
  if (options.print_report || options.only_report) fmt::print("\n{}", mtf::to_text(report));
  if (!options.html.empty()) write(options.html, mtf::to_html(report));
  if (!options.json.empty()) write(options.json, mtf::json_of(report).dump(2) + "\n");
  return different == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app(
      "Plans the language models of the Mesh-TensorFlow paper and compares what they cost with its numbers. Fails if a "
      "derived number differs.");
  app.option_defaults()->always_capture_default();
  app.add_option("--size", options.size, "size of the model that is reported: d_ff 8192 2^size")
      ->check(CLI::Range(-1, 5));
  app.add_option("--mesh", options.mesh, "its mesh");
  app.add_option("--layout", options.layout, "its layout");
  app.add_option("--machine", options.machine,
                 "file of the machine that the report's times are for, as bench/calibrate writes it; without one a "
                 "core of TPU v2");
  app.add_flag("--report", options.print_report, "print the report");
  app.add_flag("--only-report", options.only_report, "print nothing but the report");
  app.add_option("--html", options.html, "write the report as a page");
  app.add_option("--json", options.json, "write the report as JSON");
  CLI11_PARSE(app, argc, argv);
  try {
    return start(options);
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}
