// make_report: gathers a Report from the trace of a dry run or of a world.
#pragma once

#include <algorithm>
#include <utility>

#include <mtf/io/communication_bounds.hpp>
#include <mtf/io/report.hpp>
#include <mtf/io/report_findings.hpp>

namespace mtf {
inline namespace v0 {

namespace detail {

[[nodiscard]] inline std::vector<Report::Dim> report_dims(const Placement& placement) {
  std::vector<Report::Dim> dims;
  for (const PlacedDim& dim : placement.dims) {
    dims.push_back({std::string(dim.name.text), dim.extent, dim.parts, {dim.axes.begin(), dim.axes.end()}});
  }
  return dims;
}

/// A path with "*" for the parts that are numbers: the layers of a model are of a kind.
[[nodiscard]] inline std::string kind_of_path(std::string_view path) {
  std::string kind;
  while (true) {
    const std::string_view part = path.substr(0, path.find('/'));
    const bool is_number =
        !part.empty() && std::all_of(part.begin(), part.end(), [](char c) { return c >= '0' && c <= '9'; });
    kind += is_number ? "*" : std::string(part);
    if (part.size() == path.size()) return kind;
    kind += "/";
    path.remove_prefix(part.size() + 1);
  }
}

class ReportBuilder {
 public:
  ReportBuilder(const Backend& backend, const Registry& registry, const ReportOptions& options)
      : backend_(backend), registry_(registry), options_(options) {}

  [[nodiscard]] Report build(std::int64_t peak_bytes) {
    report_.title = options_.title;
    report_.cost = Cost(backend_.mesh());
    report_.cost.peak_bytes = peak_bytes;
    report_.processors = backend_.mesh().size();
    for (const AxisValue& axis : backend_.mesh().axes) report_.mesh.push_back({std::string(axis.name.text), axis.size});
    add_layout();
    for (const Record& record : backend_.records)
      report_.is_measured = report_.is_measured || record.end > record.begin;
    for (std::size_t i = 0; i < backend_.records.size(); ++i) {
      if (backend_.records[i].is_gradient) end_of_gradients_ = i + 1;
    }
    if (end_of_gradients_ == 0) end_of_gradients_ = backend_.records.size();
    for (std::size_t i = 0; i < backend_.records.size(); ++i) add(backend_.records[i], phase_of(i));
    report_.time = estimate(report_.cost, options_.machine);
    add_products();
    add_tensors();
    for (std::string& finding : idle_axes(report_)) report_.findings.push_back(std::move(finding));
    return std::move(report_);
  }

 private:
  void add_layout() {
    const PlacementRules& rules = backend_.rules;
    for (int rule = 0; rule < rules.rules.size(); ++rule) {
      if (rule > 0) report_.layout += ';';
      report_.layout += std::string_view(rules.rules[rule].dim.text);
      const AxisList& axes = rules.rules[rule].axes;
      for (int i = 0; i < axes.size(); ++i) {
        report_.layout += i == 0 ? ':' : ',';
        report_.layout += std::string_view(rules.mesh.axes[axes[i]].name.text);
      }
      report_.rules.push_back({std::string(rules.rules[rule].dim.text), {axes.begin(), axes.end()}});
      if ((backend_.placements.used_rules() >> rule & 1U) == 0) {
        ++report_.cost.unused;
        report_.findings.push_back(fmt::format("The rule for \"{}\" splits nothing: no tensor has a dim of this name.",
                                               rules.rules[rule].dim.text));
      }
    }
  }
  /// The update begins after the last gradient; a batch in parts goes forward and backward several times before.
  [[nodiscard]] Phase phase_of(std::size_t position) const {
    if (backend_.records[position].is_gradient) return Phase::backward;
    return position >= end_of_gradients_ ? Phase::update : Phase::forward;
  }
  [[nodiscard]] double seconds_of(const Record& record) const {
    if (report_.is_measured) return record.end - record.begin;
    Cost alone(backend_.mesh());
    alone.add(record);
    return estimate(alone, options_.machine).at_most();
  }
  [[nodiscard]] std::size_t lane_of(AxisSet axes) {
    for (std::size_t lane = 0; lane < report_.along_axes.size(); ++lane) {
      if (report_.along_axes[lane].axes == axes) return lane;
    }
    report_.along_axes.push_back({.axes = axes});
    return report_.along_axes.size() - 1;
  }

  void add(const Record& record, Phase phase) {
    report_.cost.add(record);
    const double seconds = seconds_of(record);
    Report::Event event{.phase = phase,
                        .operation = std::string(record.operation),
                        .plan = std::string(record.plan),
                        .begin = clock_,
                        .seconds = seconds,
                        .work = record.work,
                        .bytes = record.bytes};
    if (report_.is_measured) event.begin = record.begin - backend_.records[0].begin;
    clock_ += seconds;
    if (record.is_collective) {
      event.lane = static_cast<int>(lane_of(record.axes));
      add_collective(record, phase, seconds);
    } else {
      add_local(record, phase, seconds);
    }
    report_.events.push_back(std::move(event));
  }
  void add_collective(const Record& record, Phase phase, double seconds) {
    const auto into = [&](auto& total) {
      ++total.count;
      total.elements += record.count;
      total.bytes += record.bytes;
      total.wire_bytes += record.wire_bytes;
      total.seconds += seconds;
    };
    Report::AlongAxes& along = report_.along_axes[lane_of(record.axes)];
    into(along);
    along.messages += message_steps(record.collective, report_.cost.members(record.axes));
    const std::string_view operation = record.summed_by.empty() ? record.operation : record.summed_by;
    const auto same = [&](const Report::Communication& c) {
      return c.kind == record.plan && c.axes == record.axes && c.phase == phase && c.operation == operation;
    };
    auto found = std::find_if(report_.communication.begin(), report_.communication.end(), same);
    if (found == report_.communication.end()) {
      report_.communication.push_back(
          {.kind = std::string(record.plan), .axes = record.axes, .phase = phase, .operation = std::string(operation)});
      found = report_.communication.end() - 1;
    }
    into(*found);
  }
  void add_local(const Record& record, Phase phase, double seconds) {
    const auto same = [&](const Report::Operation& o) { return o.name == record.operation && o.phase == phase; };
    auto found = std::find_if(report_.operations.begin(), report_.operations.end(), same);
    if (found == report_.operations.end()) {
      report_.operations.push_back({.name = std::string(record.operation), .phase = phase});
      last_run_.push_back(-1);
      found = report_.operations.end() - 1;
    }
    std::int64_t& last = last_run_[static_cast<std::size_t>(found - report_.operations.begin())];
    if (std::exchange(last, record.occurrence) != record.occurrence) ++found->runs;
    ++found->plans;
    (record.is_contraction() ? found->multiply_adds : found->element_operations) += record.work;
    found->bytes += record.bytes;
    found->seconds += seconds;
  }

  void add_products() {
    for (const TracedProduct& traced : backend_.products) {
      if (traced.is_lookup) continue;
      const Report::Event& event = report_.events[static_cast<std::size_t>(traced.record)];
      Report::Product product{.operation = event.operation, .phase = event.phase};
      for (const TracedProduct::Dim& each : traced.dims) {
        product.dims.push_back({std::string(each.dim.name.text),
                                each.dim.extent,
                                each.dim.parts,
                                {each.dim.axes.begin(), each.dim.axes.end()}});
        product.groups.push_back(each.group);
      }
      const auto same = [&](const Report::Product& p) {
        return p.operation == product.operation && p.phase == product.phase && p.dims == product.dims &&
               p.groups == product.groups;
      };
      auto found = std::find_if(report_.products.begin(), report_.products.end(), same);
      if (found == report_.products.end()) {
        for (int axis = 0; axis < backend_.mesh().rank(); ++axis) {
          if (backend_.mesh().axes[axis].size > 1 && !traced.axes().has(axis)) product.idle |= AxisSet::of(axis);
        }
        const ProductCommunication moved = communication_of(traced);
        product.least_elements = moved.least;
        product.grid_elements = moved.grid;
        report_.products.push_back(std::move(product));
        found = report_.products.end() - 1;
      }
      ++found->count;
      found->multiply_adds += traced.work();
      found->distinct += traced.work() * backend_.mesh().size(traced.axes());
      report_.einsum += static_cast<double>(traced.work() * report_.processors);
      report_.einsum_unique += static_cast<double>(traced.work() * backend_.mesh().size(traced.axes()));
    }
  }

  void add_tensor(std::string name, const Placement& placement, ElementType type, bool is_variable,
                  std::int64_t count) {
    const std::vector<Report::Dim> dims = report_dims(placement);
    for (Report::Tensor& known : report_.tensors) {
      const bool same_kind = known.dims == dims && known.is_variable == is_variable;
      // What has the dims of a variable is its gradient or the like.
      if (!is_variable && known.dims == dims && known.is_variable) return;
      if (same_kind && (!is_variable || known.name == name)) {
        known.count += count;
        return;
      }
    }
    report_.tensors.push_back({.name = std::move(name),
                               .is_variable = is_variable,
                               .type = std::string(name_of(type)),
                               .dims = dims,
                               .count = count,
                               .local_elements = placement.local_size(),
                               .copies = report_.processors / backend_.mesh().size(placement.split_axes())});
  }
  void add_tensors() {
    for (const VariableState* state : registry_.all()) {
      const Placement& placement = state->placement();
      const std::int64_t bytes = placement.local_size() * bytes_of(state->leaf.value->type());
      if (!state->trainable) {
        report_.cost.state_bytes += bytes;
        continue;
      }
      report_.cost.parameters += placement.size();
      report_.cost.parameters_per_rank += placement.local_size();
      report_.cost.parameter_bytes += bytes;
      add_tensor(kind_of_path(state->path.view()), placement, state->leaf.value->type(), true, 1);
    }
    for (const TracedTensor& kind : backend_.tensors) {
      if (kind.placement.rank() > 0)
        add_tensor(std::string(kind.operation), kind.placement, kind.type, false, kind.count);
    }
  }

  const Backend& backend_;
  const Registry& registry_;
  const ReportOptions& options_;
  Report report_;
  std::size_t end_of_gradients_ = 0;
  double clock_ = 0;
  std::vector<std::int64_t> last_run_;  // of each operation of the report
};

template <class World>
[[nodiscard]] std::int64_t peak_bytes_of(const World& world) {
  if constexpr (requires { world.engine().cost.peak_bytes; }) {
    return world.engine().cost.peak_bytes;
  } else {
    return world.engine().pool().peak_bytes();
  }
}

}  // namespace detail

/// What `world`, a World or a DryRun, has traced since `start_tracing`: one training step, in the order forward,
/// backward, update. Not collective: a world reports what the calling rank did, with the times that it measured; a dry
/// run estimates them on `options.machine`. Before the world ends. Linear in the number of records.
template <class World>
[[nodiscard]] Report make_report(const World& world, const ReportOptions& options = {}) {
  Report report = detail::ReportBuilder(world.engine(), world.registry(), options).build(detail::peak_bytes_of(world));
  report.counters = original_counters(world, options.counters);
  return report;
}

}  // namespace v0
}  // namespace mtf
