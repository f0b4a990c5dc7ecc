// A report as one HTML page without outside resources: pictures of the mesh, the tensors and the step, then the tables.
#pragma once

#include <mtf/io/report_timeline.hpp>

namespace mtf {
inline namespace v0 {

namespace detail {

inline constexpr std::string_view report_style = R"(
:root{color-scheme:light dark;--page:#f7f6f3;--card:#fff;--line:#dcdad4;--text:#22252a;--muted:#6a6f76;--rank:#cfd6df;--whole:#b9bec6;
--forward:#3b77b5;--backward:#c8643c;--update:#4c9a5f;--note:#fff6dc}
@media(prefers-color-scheme:dark){:root{--page:#15171a;--card:#1d2024;--line:#34383e;--text:#e7e5e1;--muted:#989ea6;--rank:#3d4651;--whole:#59606a;
--forward:#6aa5df;--backward:#e58a62;--update:#74bf86;--note:#332c17}}
*{box-sizing:border-box}
body{margin:0;padding:28px;background:var(--page);color:var(--text);font:15px/1.45 system-ui,"Segoe UI",Roboto,"DejaVu Sans",sans-serif}
main{max-width:1180px;margin:auto}
h1{font-size:25px;margin:0 0 4px}h2{font-size:18px;margin:34px 0 10px}p{margin:6px 0;max-width:85ch}.muted,figcaption span{color:var(--muted)}
code{font:13px/1.4 ui-monospace,"DejaVu Sans Mono",monospace}
.tiles{display:flex;flex-wrap:wrap;gap:12px;margin:18px 0}
.tile{background:var(--card);border:1px solid var(--line);border-radius:8px;padding:10px 16px;min-width:150px}
.tile b{display:block;font-size:20px}.tile span{color:var(--muted);font-size:13px}
.card{background:var(--card);border:1px solid var(--line);border-radius:8px;padding:14px;overflow-x:auto}
.columns{display:flex;flex-wrap:wrap;gap:14px;align-items:flex-start}
figure{margin:0;background:var(--card);border:1px solid var(--line);border-radius:8px;padding:12px;width:384px;max-width:100%}
figcaption{font-size:13px;margin-bottom:4px;overflow-wrap:anywhere}figcaption b{display:block;font-size:14px}
svg{display:block;max-width:100%;height:auto}svg rect{shape-rendering:crispEdges}svg text{fill:var(--text);font-size:13px}svg .small{font-size:12px}svg .muted{fill:var(--muted)}
.rank{fill:var(--rank)}.whole{fill:var(--whole)}.mark{stroke:var(--line)}
.forward{fill:var(--forward)}.backward{fill:var(--backward)}.update{fill:var(--update)}
.key{display:inline-block;width:11px;height:11px;border-radius:2px;margin:0 5px 0 14px}
table{border-collapse:collapse;font-size:13.5px;width:100%}
th{color:var(--muted);font-weight:600;text-align:left;white-space:nowrap}td,th{padding:4px 10px;border-bottom:1px solid var(--line)}
td.n,th.n{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}
tr.sum td{font-weight:600}
td.bar{width:120px}td.bar i{display:block;height:9px;border-radius:3px;min-width:1px}
i.forward{background:var(--forward)}i.backward{background:var(--backward)}i.update{background:var(--update)}.key.forward{background:var(--forward)}
.key.backward{background:var(--backward)}.key.update{background:var(--update)}
ul.findings{background:var(--note);border:1px solid var(--line);border-radius:8px;padding:10px 14px 10px 32px}
)";

/// A cell of a table: words, a number, or HTML that is an element already. What it is does not depend on its text, which
/// may be a name with any characters.
struct Cell {
  enum class Kind { words, number, html };
  std::string text;
  Kind kind = Kind::words;

  Cell(std::string words) : text(std::move(words)) {}
  Cell(std::string_view words) : text(words) {}
  Cell(const char* words) : text(words) {}
  Cell(std::string content, Kind what) : text(std::move(content)), kind(what) {}
};
[[nodiscard]] inline Cell number_cell(std::string text) { return {std::move(text), Cell::Kind::number}; }

class HtmlTable {
 public:
  explicit HtmlTable(const std::vector<Cell>& heads) { row("th", heads, ""); }
  void add(const std::vector<Cell>& cells) { row("td", cells, ""); }
  void sum(const std::vector<Cell>& cells) { row("td", cells, " class=\"sum\""); }
  [[nodiscard]] std::string finish() const { return "<div class=\"card\"><table>\n" + body_ + "</table></div>\n"; }

 private:
  void row(const char* tag, const std::vector<Cell>& cells, const char* attributes) {
    body_ += fmt::format("<tr{}>", attributes);
    for (const Cell& cell : cells) {
      if (cell.kind == Cell::Kind::html) {
        body_ += cell.text;
      } else {
        body_ += fmt::format("<{0}{1}>{2}</{0}>", tag, cell.kind == Cell::Kind::number ? " class=\"n\"" : "",
                             escaped(cell.text));
      }
    }
    body_ += "</tr>\n";
  }
  std::string body_;
};

[[nodiscard]] inline std::string whole_number(std::int64_t number) {
  const std::string digits = std::to_string(number);
  std::string text;
  for (std::size_t i = 0; i < digits.size(); ++i) {
    if (i > (number < 0 ? 1U : 0U) && (digits.size() - i) % 3 == 0) text += " ";
    text += digits[i];
  }
  return text;
}
[[nodiscard]] inline Cell number_cell(std::int64_t number) { return number_cell(whole_number(number)); }
[[nodiscard]] inline Cell percent_cell(double part, double whole) { return number_cell(percent_text(part, whole)); }
[[nodiscard]] inline Cell share_bar(double part, double whole, Phase phase) {
  return {fmt::format("<td class=\"bar\"><i class=\"{}\" style=\"width:{:.1f}%\"></i></td>", name_of(phase),
                      whole > 0 ? 100 * part / whole : 0.0),
          Cell::Kind::html};
}

[[nodiscard]] inline std::string communication_table(const Report& report) {
  const double seconds = report.seconds();
  HtmlTable table({"along", "collective", "phase", "for", number_cell("count"), number_cell("elements"),
                   number_cell("payload bytes"), number_cell("wire bytes"), number_cell("of the time")});
  Report::AlongAxes all;
  for (const Report::AlongAxes& along : report.along_axes) {
    for (const Report::Communication& c : report.communication) {
      if (!(c.axes == along.axes)) continue;
      table.add({report.names(c.axes), c.kind, name_of(c.phase), c.operation, number_cell(c.count),
                 number_cell(c.elements), number_cell(c.bytes), number_cell(static_cast<std::int64_t>(c.wire_bytes)),
                 percent_cell(c.seconds, seconds)});
    }
    table.sum({report.names(along.axes), "all", "", "", number_cell(along.count), number_cell(along.elements),
               number_cell(along.bytes), number_cell(static_cast<std::int64_t>(along.wire_bytes)),
               percent_cell(along.seconds, seconds)});
    all.count += along.count;
    all.elements += along.elements;
    all.bytes += along.bytes;
    all.wire_bytes += along.wire_bytes;
    all.seconds += along.seconds;
  }
  table.sum({"all axes", "all", "", "", number_cell(all.count), number_cell(all.elements), number_cell(all.bytes),
             number_cell(static_cast<std::int64_t>(all.wire_bytes)), percent_cell(all.seconds, seconds)});
  return table.finish();
}
[[nodiscard]] inline std::string operation_table(const Report& report) {
  const double seconds = report.seconds();
  double largest = 0;
  for (const Report::Operation& o : report.operations) largest = std::max(largest, o.seconds);
  HtmlTable table({"operation", "phase", number_cell("runs"), number_cell("plans"), number_cell("multiply-adds"),
                   number_cell("element operations"), number_cell("bytes"), number_cell("of the time"), ""});
  for (const Report::Operation& o : report.operations) {
    table.add({o.name, name_of(o.phase), number_cell(o.runs), number_cell(o.plans), number_cell(o.multiply_adds),
               number_cell(o.element_operations), number_cell(o.bytes), percent_cell(o.seconds, seconds),
               share_bar(o.seconds, largest, o.phase)});
  }
  const auto share = [&](const char* name, double part) {
    table.sum({name, "", "", "", "", "", "", percent_cell(part, seconds), ""});
  };
  share("local work", report.local_seconds());
  share("communication", report.communication_seconds());
  share("outside of plans", report.outside_seconds());
  share("the whole step", seconds);
  return table.finish();
}
[[nodiscard]] inline std::string product_table(const Report& report) {
  HtmlTable table({"product", "operation", "phase", number_cell("times"), number_cell("of the multiply-adds"),
                   number_cell("moves at least"), number_cell("on this grid"), "repeated along"});
  for (const Report::Product& p : report.products) {
    table.add({report.names(p), p.operation, name_of(p.phase), number_cell(p.count),
               percent_cell(static_cast<double>(p.multiply_adds), static_cast<double>(report.cost.multiply_adds())),
               number_cell(with_prefix(p.least_elements)), number_cell(with_prefix(p.grid_elements)),
               report.names(p.idle)});
  }
  return table.finish();
}
[[nodiscard]] inline std::string counter_table(const Report& report) {
  HtmlTable table({"counter", number_cell("over all ranks")});
  for (const auto& [name, value] : report.counters) table.add({name, number_cell(fmt::format("{:.3e}", value))});
  return table.finish();
}

/// One figure for all tensors of the same dims.
[[nodiscard]] inline std::string tensor_cards(const Report& report) {
  struct Card {
    Report::Tensor tensor;
    std::string names;
    std::size_t position = 0;
  };
  std::vector<Card> cards;
  for (const Report::Tensor& tensor : report.tensors) {
    const auto same = [&](const Card& card) {
      return card.tensor.is_variable == tensor.is_variable && card.tensor.dims == tensor.dims;
    };
    const auto found = std::find_if(cards.begin(), cards.end(), same);
    const std::string name = tensor.name + (tensor.count > 1 ? fmt::format(" ({})", tensor.count) : "");
    if (found == cards.end()) {
      cards.push_back({tensor, name, cards.size()});
    } else {
      found->names += ", " + name;
    }
  }
  std::sort(cards.begin(), cards.end(), [](const Card& a, const Card& b) {
    return a.tensor.local_elements != b.tensor.local_elements ? a.tensor.local_elements > b.tensor.local_elements
                                                              : a.position < b.position;
  });
  std::string html;
  for (const bool variables : {true, false}) {
    html +=
        fmt::format("<h2>{}</h2>\n<div class=\"columns\">\n", variables ? "Variables" : "Other tensors, by their dims");
    for (const auto& [tensor, names, position] : cards) {
      if (tensor.is_variable != variables) continue;
      std::string dims;
      for (const Report::Dim& dim : tensor.dims) {
        dims += fmt::format("{}{}:{}", dims.empty() ? "" : ", ", dim.name, dim.extent);
        // Not broken into lines.
        for (std::size_t i = 0; i < dim.axes.size(); ++i)
          dims += (i == 0 ? "\u00a0over\u00a0" : ",") + report.mesh[static_cast<std::size_t>(dim.axes[i])].name;
      }
      html += fmt::format(
          "<figure><figcaption><b>{}</b>{}<br><span>{}{} elements of {} on a rank</span></figcaption>{}</figure>\n",
          escaped(dims),
          variables ? escaped(names)
                    : fmt::format("{} of them, the first made by {}", tensor.count, escaped(tensor.name)),
          tensor.copies == report.processors && tensor.copies > 1 ? "all " : "", whole_number(tensor.local_elements),
          tensor.type, tensor_picture(report, tensor));
    }
    html += "</div>\n";
  }
  return html;
}

/// Each rule of the layout in words.
[[nodiscard]] inline std::string rule_table(const Report& report) {
  HtmlTable table({"dim", "split over", number_cell("parts")});
  for (const Report::Rule& rule : report.rules) {
    std::int64_t parts = 1;
    std::string axes;
    for (const int position : rule.axes) {
      const Report::Axis& axis = report.mesh[static_cast<std::size_t>(position)];
      parts *= axis.size;
      axes += (axes.empty() ? "" : ",") + axis.name;
    }
    table.add({rule.dim, axes, number_cell(parts)});
  }
  return table.finish();
}

}  // namespace detail

/// The page. It follows the light or dark scheme of the reader.
[[nodiscard]] inline std::string to_html(const Report& report) {
  const Cost& cost = report.cost;
  std::string page = fmt::format(
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" "
      "content=\"width=device-width\">\n<title>{}</title>\n<style>{}</style></head>\n<body><main>\n",
      detail::escaped(report.title), detail::report_style);
  const auto add = [&]<class... Args>(fmt::format_string<Args...> format, Args&&... args) {
    page += fmt::format(format, std::forward<Args>(args)...);
  };
  add("<h1>{}</h1>\n<p class=\"muted\">mesh <code>{}</code>, layout <code>{}</code>. All numbers are of one of {} "
      "ranks unless they say "
      "otherwise.</p>\n",
      detail::escaped(report.title), detail::escaped(report.mesh_text()),
      detail::escaped(report.layout.empty() ? "(none)" : report.layout), report.processors);

  double wire = 0;
  for (const Report::AlongAxes& along : report.along_axes) wire += along.wire_bytes;
  const auto tile = [&](const std::string& number, std::string_view words) {
    add("<div class=\"tile\"><b>{}</b><span>{}</span></div>\n", number, words);
  };
  add("<div class=\"tiles\">\n");
  tile(detail::with_prefix(static_cast<double>(cost.parameters)), "parameters in all");
  tile(detail::with_prefix(static_cast<double>(cost.parameters_per_rank)), "parameters on a rank");
  tile(detail::with_prefix(static_cast<double>(cost.persistent_memory()), "B"), "parameters and state");
  tile(detail::with_prefix(static_cast<double>(cost.peak_bytes), "B"), "memory at the peak");
  tile(detail::with_prefix(static_cast<double>(cost.multiply_adds())), "multiply-adds");
  tile(detail::with_prefix(wire, "B"), "sent by a rank, at least");
  tile(detail::percent_text(report.einsum - report.einsum_unique, report.einsum), "of the products repeated");
  if (report.is_measured) {
    tile(detail::seconds_text(report.seconds()), "measured");
  } else {
    tile(detail::seconds_text(report.time.at_least()) + " to " + detail::seconds_text(report.time.at_most()),
         "by the model");
  }
  add("</div>\n");
  if (!report.findings.empty()) {
    add("<ul class=\"findings\">\n");
    for (const std::string& finding : report.findings) add("<li>{}</li>\n", detail::escaped(finding));
    add("</ul>\n");
  }

  add("<h2>The mesh and the rules</h2>\n<div class=\"columns\"><div class=\"card\">{}</div><div>{}</div></div>\n",
      detail::mesh_picture(report),
      report.rules.empty() ? "<p class=\"muted\">No rules: every rank holds everything.</p>"
                           : detail::rule_table(report));
  add("<h2>The step</h2>\n<p class=\"muted\">{}<span class=\"key forward\"></span>forward<span class=\"key "
      "backward\"></span>backward<span "
      "class=\"key update\"></span>update</p>\n<div class=\"card\">{}</div>\n",
      report.is_measured ? "As this rank measured it."
                         : "Estimated, one thing after the other; what overlaps would end sooner.",
      detail::timeline_picture(report));
  add("<p class=\"muted\">Each tensor below is cut into its slices on the left, one colour each; on the right every "
      "rank has the colour of the "
      "slice that it holds, so ranks of one colour hold copies.</p>\n");
  page += detail::tensor_cards(report);
  add("<h2>Communication</h2>\n{}", detail::communication_table(report));
  add("<h2>Operations</h2>\n{}", detail::operation_table(report));
  add("<h2>Products and what they move</h2>\n<p class=\"muted\">Elements that a rank moves at least for one of these "
      "products on its own, on "
      "the best grid of as many ranks, and on the grid of this layout, if all operands start out as one copy. A step "
      "may move less, because "
      "replicated operands serve several products.</p>\n{}",
      detail::product_table(report));
  add("<h2>Counters as Mesh-TensorFlow prints them</h2>\n{}", detail::counter_table(report));
  return page + "</main></body></html>\n";
}

}  // namespace v0
}  // namespace mtf
