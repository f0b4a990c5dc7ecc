// Report: what a traced step does, gathered for a person to read - as text, JSON or a page (report_text.hpp,
// report_json.hpp, report_html.hpp).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <mtf/io/original_counters.hpp>
#include <mtf/plan/cost.hpp>
#include <mtf/plan/time.hpp>

namespace mtf {
inline namespace v0 {

struct ReportOptions {
  std::string title = "A training step";
  Machine machine{};  ///< for the times of a dry run; a world has measured its own
  OriginalCounterOptions counters{};
};

/// Part of a step that a record belongs to: what follows the last gradient pass is the update.
enum class Phase : std::uint8_t { forward, backward, update };
[[nodiscard]] constexpr std::string_view name_of(Phase phase) {
  switch (phase) {
    case Phase::forward: return "forward";
    case Phase::backward: return "backward";
    case Phase::update: return "update";
  }
  return {};
}

/// Everything by value, with texts of its own: a report outlives its world. All numbers are of one rank unless they say
/// otherwise.
struct Report {
  struct Axis {
    std::string name{};
    std::int64_t size = 1;
  };
  struct Rule {
    std::string dim{};
    std::vector<int> axes{};  ///< positions in the mesh, major first
  };
  struct Dim {
    std::string name{};
    std::int64_t extent = 1;
    std::int64_t parts = 1;
    std::vector<int> axes{};  ///< positions in the mesh, major first

    friend bool operator==(const Dim&, const Dim&) = default;
  };
  /// Local work and what it completes, of all runs of one operation in one phase.
  struct Operation {
    std::string name{};
    Phase phase{};
    std::int64_t runs = 0;
    std::int64_t plans = 0;  ///< kernels it started
    std::int64_t multiply_adds = 0;
    std::int64_t element_operations = 0;
    std::int64_t bytes = 0;  ///< read and written
    double seconds = 0;
  };
  struct Communication {
    std::string kind{};  ///< allreduce, ...
    AxisSet axes{};
    Phase phase{};
    std::string operation{};  ///< that made the partial sums, else that needs the elements
    std::int64_t count = 0;
    std::int64_t elements = 0;
    std::int64_t bytes = 0;
    double wire_bytes = 0;
    double seconds = 0;
  };
  /// All communication along one set of axes.
  struct AlongAxes {
    AxisSet axes{};
    std::int64_t count = 0;
    std::int64_t elements = 0;
    std::int64_t bytes = 0;
    double wire_bytes = 0;      ///< that a rank sends at least: no algorithm sends less for these collectives
    std::int64_t messages = 0;  ///< after each other, at least: ceil(log2 p) for each
    double seconds = 0;
  };
  /// Products of the same dims.
  struct Product {
    std::string operation{};
    Phase phase{};
    std::vector<Dim> dims{};
    std::vector<ProductGroup> groups{};  ///< of each dim
    std::int64_t count = 0;
    std::int64_t multiply_adds = 0;  ///< of a rank, all of them
    std::int64_t distinct = 0;       ///< of all ranks, repeated ones once
    AxisSet idle{};             ///< axes of more than one rank that split none of the dims: all their ranks do the same
    double least_elements = 0;  ///< of one product, see communication_bounds.hpp
    double grid_elements = 0;
  };
  /// Tensors of the same dims: variables whose paths differ in numbers only, or other tensors.
  struct Tensor {
    std::string name{};
    bool is_variable = false;
    std::string type{};
    std::vector<Dim> dims{};
    std::int64_t count = 0;
    std::int64_t local_elements = 1;  ///< of one of them
    std::int64_t copies = 1;          ///< ranks that hold the same slice
  };
  /// A record on the time axis. Those of a dry run come one after the other.
  struct Event {
    int lane = -1;  ///< position in `along_axes`, or -1 for local work
    Phase phase{};
    std::string operation{};
    std::string plan{};
    double begin = 0;
    double seconds = 0;
    std::int64_t work = 0;
    std::int64_t bytes = 0;
  };

  std::string title;
  std::vector<Axis> mesh;
  std::string layout;
  std::vector<Rule> rules;
  Cost cost;                 ///< of what was traced; parameters, state and peak of all
  Time time;                 ///< of the cost on `machine`
  bool is_measured = false;  ///< seconds were measured, not estimated
  std::int64_t processors = 1;
  double einsum = 0;  ///< multiply-adds of all ranks together
  double einsum_unique = 0;
  std::vector<Operation> operations;
  std::vector<Communication> communication;
  std::vector<AlongAxes> along_axes;
  std::vector<Product> products;
  std::vector<Tensor> tensors;
  std::vector<Event> events;
  OriginalCounters counters;
  std::vector<std::string> findings;  ///< what could be better, in sentences

  [[nodiscard]] double seconds() const {
    double end = 0;
    for (const Event& event : events) end = event.begin + event.seconds > end ? event.begin + event.seconds : end;
    return end;
  }
  /// The parts of `seconds()`: local work, communication, and what is neither - what the program does between its
  /// plans, such as reading data. A dry run has none of it.
  [[nodiscard]] double local_seconds() const {
    double sum = 0;
    for (const Operation& operation : operations) sum += operation.seconds;
    return sum;
  }
  [[nodiscard]] double communication_seconds() const {
    double sum = 0;
    for (const AlongAxes& along : along_axes) sum += along.seconds;
    return sum;
  }
  [[nodiscard]] double outside_seconds() const {
    const double rest = seconds() - local_seconds() - communication_seconds();
    return rest > 0 ? rest : 0;
  }
  /// "rows" or "rows, cols".
  [[nodiscard]] std::string names(AxisSet axes) const {
    std::string text;
    for (std::size_t axis = 0; axis < mesh.size(); ++axis) {
      if (!axes.has(static_cast<int>(axis))) continue;
      if (!text.empty()) text += ", ";
      text += mesh[axis].name;
    }
    return text;
  }
  /// "[batch/rows, d_model]": a dim with the axes that split it.
  [[nodiscard]] std::string names(const std::vector<Dim>& dims) const {
    std::string text = "[";
    for (const Dim& dim : dims) {
      if (text.size() > 1) text += ", ";
      text += dim.name;
      for (std::size_t i = 0; i < dim.axes.size(); ++i)
        text += (i == 0 ? "/" : ",") + mesh[static_cast<std::size_t>(dim.axes[i])].name;
    }
    return text + "]";
  }
  /// "batch/rows length x d_ff/cols over d_model": a product by its groups of dims.
  [[nodiscard]] std::string names(const Product& product) const {
    const auto group = [&](ProductGroup wanted) {
      std::string text;
      for (std::size_t i = 0; i < product.dims.size(); ++i) {
        if (product.groups[i] != wanted) continue;
        const std::string name = names(std::vector<Dim>{product.dims[i]});
        text += (text.empty() ? "" : " ") + name.substr(1, name.size() - 2);
      }
      return text;
    };
    std::string text = group(ProductGroup::first) + " x " + group(ProductGroup::second);
    if (const std::string summed = group(ProductGroup::summed); !summed.empty()) text += " over " + summed;
    if (const std::string batch = group(ProductGroup::batch); !batch.empty()) text += " for each " + batch;
    return text;
  }
  [[nodiscard]] std::string mesh_text() const {
    std::string text;
    for (const Axis& axis : mesh) text += (text.empty() ? "" : ";") + axis.name + ":" + std::to_string(axis.size);
    return text;
  }
};

}  // namespace v0
}  // namespace mtf
