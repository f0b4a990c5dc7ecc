// A report as text.
#pragma once

#include <mtf/io/report.hpp>
#include <mtf/io/utf8.hpp>

namespace mtf {
inline namespace v0 {

namespace detail {

/// 1.23 G, with a decimal prefix.
[[nodiscard]] inline std::string with_prefix(double number, std::string_view unit = {}) {
  constexpr std::string_view prefixes[]{"", "k", "M", "G", "T", "P", "E"};
  std::size_t prefix = 0;
  while (number >= 999.5 && prefix + 1 < std::size(prefixes)) {
    number /= 1000;
    ++prefix;
  }
  const bool is_whole = prefix == 0 && number == static_cast<double>(static_cast<std::int64_t>(number));
  return fmt::format("{:.{}f} {}{}", number,
                     is_whole || number >= 99.95 ? 0
                     : number >= 9.995           ? 1
                                                 : 2,
                     prefixes[prefix], unit);
}
/// 1.23 ms.
[[nodiscard]] inline std::string seconds_text(double seconds) {
  if (seconds == 0) return "0 s";
  if (seconds < 1e-3) return fmt::format("{:.3g} us", seconds * 1e6);
  if (seconds < 1) return fmt::format("{:.3g} ms", seconds * 1e3);
  return fmt::format("{:.3g} s", seconds);
}
[[nodiscard]] inline std::string percent_text(double part, double whole) {
  return whole > 0 ? fmt::format("{:.1f} %", 100 * part / whole) : "-";
}

/// Names as a line of text may have them: UTF-8, without control characters.
[[nodiscard]] inline std::string printable_text(std::string_view text) { return on_one_line(valid_utf8(text)); }

}  // namespace detail

/// Tables of a report: what a rank computes by operation, what it sends by axis and operation, its memory, repeated
/// work, bounds, findings. The totals are those of the report's cost; shares of the time add up to 100 %.
[[nodiscard]] inline std::string to_text(const Report& report) {
  std::string text;
  const auto line = [&]<class... Args>(fmt::format_string<Args...> format, Args&&... args) {
    text += detail::printable_text(fmt::format(format, std::forward<Args>(args)...));
    while (text.ends_with(' ')) text.pop_back();
    text += '\n';
  };
  const Cost& cost = report.cost;
  const double seconds = report.seconds();
  line("{}", report.title);
  line("mesh {}, layout {}: {} ranks; all numbers are of one rank", report.mesh_text(),
       report.layout.empty() ? "(none)" : report.layout, report.processors);
  line("");
  line("parameters      {:>20} in all, {} on a rank", cost.parameters, cost.parameters_per_rank);
  line("memory          {:>20} bytes of parameters, {} of the optimizer's state, {} at the peak", cost.parameter_bytes,
       cost.state_bytes, cost.peak_bytes);
  line("multiply-adds   {:>20}", cost.multiply_adds());
  line("einsum          {:>20.6g} multiply-adds of all ranks, {:.6g} of them distinct ({} repeated)", report.einsum,
       report.einsum_unique, detail::percent_text(report.einsum - report.einsum_unique, report.einsum));
  if (report.is_measured) {
    line("time            {:>20} measured", detail::seconds_text(seconds));
  } else {
    line("time            {:>20} to {} by the model; one thing after the other takes {}",
         detail::seconds_text(report.time.at_least()), detail::seconds_text(report.time.at_most()),
         detail::seconds_text(seconds));
  }

  line("");
  line("{:<26} {:<9} {:>6} {:>6} {:>18} {:>16} {:>16} {:>8}", "operation", "phase", "runs", "plans", "multiply-adds",
       "element ops", "bytes", "time");
  Report::Operation sum;
  for (const Report::Operation& o : report.operations) {
    line("{:<26} {:<9} {:>6} {:>6} {:>18} {:>16} {:>16} {:>8}", o.name, name_of(o.phase), o.runs, o.plans,
         o.multiply_adds, o.element_operations, o.bytes, detail::percent_text(o.seconds, seconds));
    sum.runs += o.runs;
    sum.plans += o.plans;
    sum.multiply_adds += o.multiply_adds;
    sum.element_operations += o.element_operations;
    sum.bytes += o.bytes;
    sum.seconds += o.seconds;
  }
  line("{:<26} {:<9} {:>6} {:>6} {:>18} {:>16} {:>16} {:>8}", "total", "", sum.runs, sum.plans, sum.multiply_adds,
       sum.element_operations, sum.bytes, detail::percent_text(sum.seconds, seconds));

  line("");
  line("{:<18} {:<14} {:<9} {:<18} {:>6} {:>16} {:>16} {:>16} {:>8}", "along", "collective", "phase", "for", "count",
       "elements", "payload bytes", "wire bytes", "time");
  Report::AlongAxes all;
  for (const Report::AlongAxes& along : report.along_axes) {
    for (const Report::Communication& c : report.communication) {
      if (!(c.axes == along.axes)) continue;
      line("{:<18} {:<14} {:<9} {:<18} {:>6} {:>16} {:>16} {:>16.0f} {:>8}", report.names(c.axes), c.kind,
           name_of(c.phase), c.operation, c.count, c.elements, c.bytes, c.wire_bytes,
           detail::percent_text(c.seconds, seconds));
    }
    line("{:<18} {:<14} {:<9} {:<18} {:>6} {:>16} {:>16} {:>16.0f} {:>8}", report.names(along.axes), "total", "", "",
         along.count, along.elements, along.bytes, along.wire_bytes, detail::percent_text(along.seconds, seconds));
    all.count += along.count;
    all.elements += along.elements;
    all.bytes += along.bytes;
    all.wire_bytes += along.wire_bytes;
    all.seconds += along.seconds;
  }
  line("{:<18} {:<14} {:<9} {:<18} {:>6} {:>16} {:>16} {:>16.0f} {:>8}", "all", "total", "", "", all.count,
       all.elements, all.bytes, all.wire_bytes, detail::percent_text(all.seconds, seconds));

  line("");
  line("{:<18} {:>16} {:>8}", "of the step", "seconds", "time");
  const auto share = [&](std::string_view name, double part) {
    line("{:<18} {:>16} {:>8}", name, detail::seconds_text(part), detail::percent_text(part, seconds));
  };
  share("local work", report.local_seconds());
  share("communication", report.communication_seconds());
  share("outside of plans", report.outside_seconds());
  share("the whole step", seconds);

  line("");
  line(
      "Products; a rank moves at least the first number of elements for one of them on its own, and the second on this "
      "grid, if all operands");
  line("start out as one copy. A step may move less: replicated operands serve several products.");
  for (const Report::Product& p : report.products) {
    line("{:>4} times {:<9} {:<8} {:<66} {:>7} {:>12.4g} {:>12.4g}{}", p.count, name_of(p.phase), p.operation,
         report.names(p),
         detail::percent_text(static_cast<double>(p.multiply_adds), static_cast<double>(cost.multiply_adds())),
         p.least_elements, p.grid_elements, p.idle.empty() ? "" : "  repeated along " + report.names(p.idle));
  }

  line("");
  if (report.findings.empty()) line("Nothing to remark: every axis splits every product, every rule splits something.");
  for (const std::string& finding : report.findings) line("* {}", finding);
  line("");
  line("Counters as Mesh-TensorFlow prints them:");
  return text + detail::valid_utf8(to_text(report.counters));
}

}  // namespace v0
}  // namespace mtf
