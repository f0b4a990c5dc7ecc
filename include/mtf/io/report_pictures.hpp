// Pictures of a report as SVG: the mesh, a tensor laid over it, the timeline of a step. Colours that depend on the
// scheme come from the page.
#pragma once

#include <algorithm>
#include <cmath>
#include <string>
#include <string_view>

#include <mtf/io/report_text.hpp>

namespace mtf {
inline namespace v0 {

namespace detail {

/// Text for HTML and SVG, whatever bytes a name has.
[[nodiscard]] inline std::string escaped(std::string_view text) {
  std::string result;
  for (const char c : printable_text(text)) {
    switch (c) {
      case '&': result += "&amp;"; break;
      case '<': result += "&lt;"; break;
      case '>': result += "&gt;"; break;
      case '"': result += "&quot;"; break;
      default: result += c;
    }
  }
  return result;
}

/// An SVG picture under construction.
class Picture {
 public:
  // Not by format_to: its name in a library that g++ compiled is not the one that clang 19 looks for.
  template <class... Args>
  void add(fmt::format_string<Args...> format, Args&&... args) {
    body_ += fmt::format(format, std::forward<Args>(args)...);
    body_ += '\n';
  }
  void rect(double x, double y, double width, double height, std::string_view fill, std::string_view title = {}) {
    body_ +=
        fmt::format("<rect x=\"{:.6g}\" y=\"{:.6g}\" width=\"{:.5g}\" height=\"{:.5g}\" {}", x, y, width, height, fill);
    if (title.empty()) {
      body_ += "/>\n";
    } else {
      body_ += "><title>" + escaped(title) + "</title></rect>\n";
    }
  }
  void text(double x, double y, std::string_view attributes, std::string_view words) {
    add("<text x=\"{:.5g}\" y=\"{:.5g}\" {}>{}</text>", x, y, attributes, escaped(words));
  }
  /// The same centred in a room of this width, set closer if it is too long.
  void label(double x, double y, std::string_view attributes, std::string_view words, double room) {
    const bool is_long = 6.8 * static_cast<double>(words.size()) > room;
    text(x, y,
         fmt::format("text-anchor=\"middle\" {}{}", attributes,
                     is_long ? fmt::format(" textLength=\"{:.5g}\" lengthAdjust=\"spacingAndGlyphs\"", room) : ""),
         words);
  }
  [[nodiscard]] std::string finish(double width, double height, std::string_view description) const {
    return fmt::format(
        "<svg viewBox=\"0 0 {:.0f} {:.0f}\" width=\"{:.0f}\" height=\"{:.0f}\" role=\"img\" "
        "aria-label=\"{}\">\n{}</svg>\n",
        width, height, width, height, escaped(description), body_);
  }

 private:
  std::string body_;
};

/// The mesh as panels of rows and columns: the first axis goes down, the last across, those between from panel to
/// panel. A line of ranks that is too long is broken, and of very many only the first are drawn.
struct MeshGrid {
  static constexpr std::int64_t most = 64;  ///< rows and columns
  std::int64_t rows = 1, cols = 1, panels = 1;
  std::int64_t shown_rows = 1, shown_cols = 1, shown_panels = 1;
  bool is_broken = false;  ///< one axis over several lines

  explicit MeshGrid(const std::vector<Report::Axis>& mesh) {
    if (!mesh.empty()) cols = mesh.back().size;
    if (mesh.size() > 1) rows = mesh.front().size;
    for (std::size_t axis = 1; axis + 1 < mesh.size(); ++axis) panels *= mesh[axis].size;
    const std::int64_t line = cols > 64 ? 32 : 8;
    if (mesh.size() == 1 && cols > line && cols % line == 0) {
      is_broken = true;
      rows = cols / line;
      cols = line;
    }
    shown_rows = std::min(rows, most);
    shown_cols = std::min(cols, most);
    shown_panels = std::min<std::int64_t>(panels, 8);
  }
  [[nodiscard]] bool is_whole() const { return shown_rows == rows && shown_cols == cols && shown_panels == panels; }
  [[nodiscard]] std::int64_t rank(std::int64_t panel, std::int64_t row, std::int64_t col) const {
    return (row * panels + panel) * cols + col;
  }
  [[nodiscard]] double cell(double width, double height, double largest) const {
    const double gaps = 8 * static_cast<double>(shown_panels - 1);
    return std::min({largest, (width - gaps) / static_cast<double>(shown_cols * shown_panels),
                     height / static_cast<double>(shown_rows)});
  }
  [[nodiscard]] double x(double cell, std::int64_t panel, std::int64_t col) const {
    return static_cast<double>(panel) * (static_cast<double>(shown_cols) * cell + 8) + static_cast<double>(col) * cell;
  }
  [[nodiscard]] double width(double cell) const { return x(cell, shown_panels - 1, shown_cols); }
};

/// The mesh with its axes; ranks are numbered where there is room.
[[nodiscard]] inline std::string mesh_picture(const Report& report) {
  const MeshGrid grid(report.mesh);
  const double cell = grid.cell(440, 360, 40);
  const double left = 30;
  const double top = 26;
  Picture picture;
  for (std::int64_t panel = 0; panel < grid.shown_panels; ++panel) {
    for (std::int64_t row = 0; row < grid.shown_rows; ++row) {
      for (std::int64_t col = 0; col < grid.shown_cols; ++col) {
        const double x = left + grid.x(cell, panel, col);
        const double y = top + static_cast<double>(row) * cell;
        const std::int64_t rank = grid.rank(panel, row, col);
        std::string place = fmt::format("rank {}", rank);
        std::int64_t rest = rank;
        for (std::size_t axis = report.mesh.size(); axis-- > 0; rest /= report.mesh[axis].size) {
          place += fmt::format(", {}={}", report.mesh[axis].name, rest % report.mesh[axis].size);
        }
        picture.rect(x + 0.5, y + 0.5, cell - 1, cell - 1, "class=\"rank\" rx=\"1.5\"", place);
        if (cell >= 22)
          picture.text(x + cell / 2, y + cell / 2 + 4, "class=\"small\" text-anchor=\"middle\"", std::to_string(rank));
      }
    }
  }
  const double width = grid.width(cell);
  const double height = static_cast<double>(grid.shown_rows) * cell;
  if (!report.mesh.empty()) {
    const Report::Axis& last = report.mesh.back();
    picture.text(left + width / 2, 16, "text-anchor=\"middle\"", fmt::format("{} : {}", last.name, last.size));
    if (report.mesh.size() > 1) {
      picture.text(
          0, 0, fmt::format("text-anchor=\"middle\" transform=\"translate(18 {:.5g}) rotate(-90)\"", top + height / 2),
          fmt::format("{} : {}", report.mesh.front().name, report.mesh.front().size));
    }
  }
  double bottom = top + height;
  if (report.mesh.size() > 2) {
    std::string between = "panels: ";
    for (std::size_t axis = 1; axis + 1 < report.mesh.size(); ++axis)
      between += fmt::format("{}{} : {}", axis > 1 ? ", " : "", report.mesh[axis].name, report.mesh[axis].size);
    picture.text(left, bottom += 18, "class=\"muted\"", between);
  }
  if (grid.is_broken)
    picture.text(left, bottom += 18, "class=\"muted\"", fmt::format("one axis, {} ranks a line", grid.cols));
  if (!grid.is_whole())
    picture.text(left, bottom += 18, "class=\"muted\"", fmt::format("the first of {} ranks", report.processors));
  return picture.finish(std::max(left + width + 4, 200.0), bottom + 6, "the mesh " + report.mesh_text());
}

/// Colour of a slice: hue by its number downwards, lightness by that across; where there is one of them only, hue.
[[nodiscard]] inline std::string slice_fill(std::int64_t down, std::int64_t downs, std::int64_t across,
                                            std::int64_t acrosses) {
  if (downs == 1 && acrosses == 1) return "class=\"whole\"";
  const auto share = [](std::int64_t i, std::int64_t n) { return static_cast<double>(i) / static_cast<double>(n); };
  const bool one_way = downs == 1 || acrosses == 1;
  const double hue = 12 + 300 * (downs == 1 ? share(across, acrosses) : share(down, downs));
  const double lightness = one_way ? 56 : 38 + 36 * share(across, acrosses - 1);
  return fmt::format("fill=\"hsl({:.0f} 58% {:.0f}%)\"", hue, lightness);
}

/// A tensor cut into slices, and who holds which: ranks of one colour hold copies of one slice.
[[nodiscard]] inline std::string tensor_picture(const Report& report, const Report::Tensor& tensor) {
  // A dim split over the axis that goes across goes across too, the others down.
  std::vector<const Report::Dim*> down, across;
  for (const Report::Dim& dim : tensor.dims) {
    if (dim.parts == 1) continue;
    const bool is_across =
        std::find(dim.axes.begin(), dim.axes.end(), static_cast<int>(report.mesh.size()) - 1) != dim.axes.end();
    (is_across ? across : down).push_back(&dim);
  }
  const auto parts_of = [](const std::vector<const Report::Dim*>& dims) {
    std::int64_t parts = 1;
    for (const Report::Dim* dim : dims) parts *= dim->parts;
    return parts;
  };
  const auto label = [&](const std::vector<const Report::Dim*>& dims) {
    std::string names;
    for (const Report::Dim* dim : dims) names += (names.empty() ? "" : " x ") + dim->name;
    return fmt::format("{} / {}", names, parts_of(dims));
  };
  const std::int64_t majors = parts_of(down);
  const std::int64_t minors = parts_of(across);
  Picture picture;
  constexpr double left = 24, top = 20, size = 128;
  const std::int64_t shown_majors = std::min(majors, MeshGrid::most);
  const std::int64_t shown_minors = std::min(minors, MeshGrid::most);
  const double height = size / static_cast<double>(shown_majors);
  const double width = size / static_cast<double>(shown_minors);
  for (std::int64_t i = 0; i < shown_majors; ++i) {
    for (std::int64_t j = 0; j < shown_minors; ++j) {
      const double gap = std::min(height, width) > 6 ? 1 : 0;
      picture.rect(left + static_cast<double>(j) * width, top + static_cast<double>(i) * height, width - gap,
                   height - gap, slice_fill(i, majors, j, minors));
    }
  }
  if (!down.empty()) {
    picture.label(0, 0, fmt::format("class=\"small\" transform=\"translate(15 {:.5g}) rotate(-90)\"", top + size / 2),
                  label(down), size);
  }
  if (!across.empty()) picture.label(left + size / 2, 13, "class=\"small\"", label(across), size + 20);
  picture.text(left, top + size + 17, "class=\"small muted\"",
               majors * minors == 1 ? "one slice, the whole" : fmt::format("{} slices", majors * minors));

  const MeshGrid grid(report.mesh);
  const double cell = grid.cell(192, size, 32);
  const double begin = left + size + 36;
  const auto part = [&](const Report::Dim& dim, std::int64_t rank) {
    std::int64_t number = 0;
    for (const int axis : dim.axes) {
      std::int64_t rest = rank;
      for (std::size_t later = report.mesh.size(); --later > static_cast<std::size_t>(axis);)
        rest /= report.mesh[later].size;
      number = number * report.mesh[static_cast<std::size_t>(axis)].size +
               rest % report.mesh[static_cast<std::size_t>(axis)].size;
    }
    return number;
  };
  for (std::int64_t panel = 0; panel < grid.shown_panels; ++panel) {
    for (std::int64_t row = 0; row < grid.shown_rows; ++row) {
      for (std::int64_t col = 0; col < grid.shown_cols;) {
        const auto fill_of = [&](std::int64_t column) {
          const std::int64_t rank = grid.rank(panel, row, column);
          const auto number = [&](const std::vector<const Report::Dim*>& dims) {
            std::int64_t result = 0;
            for (const Report::Dim* dim : dims) result = result * dim->parts + part(*dim, rank);
            return result;
          };
          return slice_fill(number(down), majors, number(across), minors);
        };
        // Neighbours that hold the same slice are drawn as one.
        const std::string fill = fill_of(col);
        std::int64_t end = col + 1;
        while (cell < 8 && end < grid.shown_cols && fill_of(end) == fill) ++end;
        const double gap = cell >= 8 ? 1 : 0;
        picture.rect(begin + grid.x(cell, panel, col), top + static_cast<double>(row) * cell,
                     static_cast<double>(end - col) * cell - gap, cell - gap, fill);
        col = end;
      }
    }
  }
  if (!report.mesh.empty()) {
    const std::string& name = report.mesh.back().name;
    if (6.8 * static_cast<double>(name.size()) > grid.width(cell)) {
      picture.text(begin, 13, "class=\"small\"", name);
    } else {
      picture.text(begin + grid.width(cell) / 2, 13, "class=\"small\" text-anchor=\"middle\"", name);
    }
  }
  if (report.mesh.size() > 1) {
    picture.text(
        0, 0,
        fmt::format("class=\"small\" text-anchor=\"middle\" transform=\"translate({:.5g} {:.5g}) rotate(-90)\"",
                    begin - 7, top + static_cast<double>(grid.shown_rows) * cell / 2),
        report.mesh.front().name);
  }
  picture.text(begin, top + size + 17, "class=\"small muted\"",
               tensor.copies == 1 ? "no copies" : fmt::format("each on {} ranks", tensor.copies));
  return picture.finish(begin + 196, top + size + 24, tensor.name + " " + report.names(tensor.dims) + " over the mesh");
}

}  // namespace detail

}  // namespace v0
}  // namespace mtf
