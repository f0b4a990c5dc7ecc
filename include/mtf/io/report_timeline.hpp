// The timeline of a step as SVG: phases, local work, and communication along each set of axes.
#pragma once

#include <mtf/io/report_pictures.hpp>

namespace mtf {
inline namespace v0 {

namespace detail {

/// A round number of seconds between marks, for at most ten of them.
[[nodiscard]] inline double time_mark(double seconds) {
  double mark = std::pow(10.0, std::floor(std::log10(seconds)));
  for (const double factor : {0.1, 0.2, 0.5, 1.0}) {
    if (seconds / (mark * factor) <= 10) return mark * factor;
  }
  return mark;
}

[[nodiscard]] inline std::string timeline_picture(const Report& report) {
  constexpr double lane_height = 34, top = 44, width = 960;
  double left = 130;  // more if the names of axes need it
  for (const Report::AlongAxes& along : report.along_axes)
    left = std::max(left, 20 + 7.6 * static_cast<double>(report.names(along.axes).size()));
  const double seconds = report.seconds();
  Picture picture;
  if (seconds <= 0) {
    picture.text(0, 16, "class=\"muted\"", "nothing was traced");
    return picture.finish(300, 24, "an empty timeline");
  }
  const auto lanes = static_cast<double>(report.along_axes.size() + 1);
  const double bottom = top + lanes * lane_height;
  const auto x = [&](double at) { return left + at / seconds * width; };

  // Marks of time, and lanes.
  const double mark = time_mark(seconds);
  for (int i = 0; static_cast<double>(i) * mark <= seconds * 1.0001; ++i) {
    const double at = static_cast<double>(i) * mark;
    picture.add("<line x1=\"{0:.6g}\" x2=\"{0:.6g}\" y1=\"{1:.5g}\" y2=\"{2:.5g}\" class=\"mark\"/>", x(at), top,
                bottom);
    picture.text(x(at), bottom + 17, "class=\"small muted\" text-anchor=\"middle\"", seconds_text(at));
  }
  for (std::size_t lane = 0; lane <= report.along_axes.size(); ++lane) {
    const double y = top + static_cast<double>(lane) * lane_height;
    picture.text(left - 10, y + lane_height / 2 + 4, "text-anchor=\"end\"",
                 lane == 0 ? "local work" : report.names(report.along_axes[lane - 1].axes));
    picture.add("<line x1=\"{:.5g}\" x2=\"{:.5g}\" y1=\"{:.5g}\" y2=\"{:.5g}\" class=\"mark\"/>", left, left + width,
                y + lane_height, y + lane_height);
  }

  // Phases, which may take turns.
  for (std::size_t i = 0; i < report.events.size();) {
    const Phase phase = report.events[i].phase;
    const double begin = report.events[i].begin;
    double end = begin;
    for (; i < report.events.size() && report.events[i].phase == phase; ++i) {
      end = std::max(end, report.events[i].begin + report.events[i].seconds);
    }
    const double room = x(end) - x(begin);
    picture.rect(x(begin), 24, std::max(room - 1, 0.5), 6, fmt::format("class=\"{}\"", name_of(phase)));
    const std::string words = fmt::format("{} {}", name_of(phase), seconds_text(end - begin));
    if (room > 7.2 * static_cast<double>(words.size())) {
      picture.text((x(begin) + x(end)) / 2, 16, "text-anchor=\"middle\"", words);
    } else if (i == report.events.size()) {
      picture.text(x(end), 16, "text-anchor=\"end\"", words);
    }
  }

  // Events. Neighbours too short to be seen are drawn together.
  constexpr double visible = 0.6;
  for (int lane = -1; lane < static_cast<int>(report.along_axes.size()); ++lane) {
    const double y = top + static_cast<double>(lane + 1) * lane_height + 5;
    double begin = 0, end = 0;
    int together = 0;
    const Report::Event* last = nullptr;
    const auto draw = [&] {
      if (together == 0) return;
      const std::string title =
          together > 1 ? fmt::format("{} short ones, {}, {}", together, name_of(last->phase), seconds_text(end - begin))
                       : fmt::format("{}: {}, {}, {} {}", last->operation, last->plan, seconds_text(last->seconds),
                                     with_prefix(static_cast<double>(last->bytes), "B"),
                                     last->work > 0 ? with_prefix(static_cast<double>(last->work), " operations") : "");
      const double room = x(end) - x(begin);
      picture.rect(x(begin), y, std::max(room - (room > 2 ? 0.4 : 0), 0.35), lane_height - 10,
                   fmt::format("class=\"{}{}\"", name_of(last->phase), last->plan == "contract" ? " product" : ""),
                   title);
      together = 0;
    };
    for (const Report::Event& event : report.events) {
      if (event.lane != lane || event.seconds <= 0) continue;
      const bool near = together > 0 && event.phase == last->phase && x(event.begin) - x(end) < visible;
      const bool is_short = x(event.seconds) - x(0) < visible && x(end) - x(begin) < visible;
      if (!(near && is_short)) {
        draw();
        begin = event.begin;
      }
      end = event.begin + event.seconds;
      last = &event;
      ++together;
    }
    draw();
  }
  return picture.finish(left + width + 34, bottom + 26, "timeline of the step");
}

}  // namespace detail

}  // namespace v0
}  // namespace mtf
