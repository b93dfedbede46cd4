#include "report/charts.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "core/text.h"
#include "report/svg.h"
#include "report/table.h"

namespace elastiq {
namespace {

using Anchor = Svg::Anchor;

constexpr double kWidth = 520;
constexpr double kLabel = 112;  ///< Room for run names on the left.
constexpr double kRow = 34;
constexpr std::size_t kLabelColumns = 16;

std::string css(const char* prefix, RunKind kind) {
  return std::string(prefix) + kind_name(kind);
}

/// Kind is told by shape as well as by colour.
void mark(Svg& svg, RunKind kind, double x, double y, double radius, const std::string& hint) {
  const std::string look = css("mark k-", kind);
  if (kind == RunKind::kFloat) return svg.square(x, y, radius - 0.8, look, hint);
  if (kind == RunKind::kQat) return svg.diamond(x, y, radius + 1.6, look, hint);
  svg.circle(x, y, radius, look, hint);
}

void x_axis(Svg& svg, const Axis& axis, double top, double bottom, const char* title) {
  for (const double tick : axis.ticks()) {
    const double x = axis.at(tick);
    svg.line(x, top, x, bottom, "grid");
    svg.text(x, bottom + 16, Anchor::kMiddle, "tick", tick_text(tick));
  }
  svg.text((axis.at(axis.ticks().front()) + axis.at(axis.ticks().back())) / 2, bottom + 34,
           Anchor::kMiddle, "axis", title);
}

void y_axis(Svg& svg, const Axis& axis, double left, double right, const char* title) {
  for (const double tick : axis.ticks()) {
    const double y = axis.at(tick);
    svg.line(left, y, right, y, "grid");
    svg.text(left - 8, y + 4, Anchor::kEnd, "tick", tick_text(tick));
  }
  svg.text(left - 8, axis.at(axis.ticks().back()) - 12, Anchor::kStart, "axis", title);
}

struct DotRow {
  const RunView* run;
  double value, low, high;
  std::optional<double> spread_low, spread_high;
};

std::optional<double> scaled(const RunView& run, Measure RunView::*member, double factor) {
  if (member == nullptr || !(run.*member).value) return std::nullopt;
  return *(run.*member).value * factor;
}

std::vector<DotRow> dot_rows(const ReportView& view, const DotChart& chart) {
  std::vector<DotRow> rows;
  for (const RunView& run : view.runs) {
    const Measure& figure = run.*chart.figure;
    const bool skipped = run.kind == RunKind::kFloat && chart.floats == DotChart::Floor::kSkip;
    if (!figure.value || skipped) continue;
    const double value = *figure.value * chart.factor;
    const double reach = 1.96 * figure.se.value_or(0) * chart.factor;
    rows.push_back({&run, value, value - reach, value + reach,
                    scaled(run, chart.spread_low, chart.factor),
                    scaled(run, chart.spread_high, chart.factor)});
  }
  return rows;
}

Axis dot_axis(const std::vector<DotRow>& rows, const DotChart& chart) {
  double low = rows.front().low;
  double high = rows.front().high;
  double smallest = rows.front().value;
  for (const DotRow& row : rows) {
    low = std::min({low, row.low, row.spread_low.value_or(row.low)});
    high = std::max({high, row.high, row.spread_high.value_or(row.high)});
    smallest = std::min({smallest, row.value, row.spread_low.value_or(row.value)});
  }
  const double to = kWidth - 78;
  if (chart.scale == DotChart::Scale::kLog && smallest > 0 && high / smallest > 20) {
    return Axis(Axis::Kind::kLog, smallest, high, kLabel + 10, to);
  }
  if (chart.factor == 100) high = std::min(high, 100.0);
  return Axis(Axis::Kind::kLinear, low >= 0 && low < 0.4 * high ? 0 : low, high, kLabel + 10, to);
}

void draw_dot_row(Svg& svg, const DotRow& row, const Axis& axis, double y) {
  if (row.spread_low && row.spread_high) {
    svg.line(axis.at(*row.spread_low), y, axis.at(*row.spread_high), y, "spread");
    svg.line(axis.at(*row.spread_low), y - 4, axis.at(*row.spread_low), y + 4, "spread");
    svg.line(axis.at(*row.spread_high), y - 4, axis.at(*row.spread_high), y + 4, "spread");
  }
  if (row.high > row.low) {
    svg.line(axis.at(row.low), y, axis.at(row.high), y, css("whisker s-", row.run->kind));
  }
  mark(svg, row.run->kind, axis.at(row.value), y, 5,
       fmt::format("{}: {}, 95 % interval {} to {}", row.run->name, format_number(row.value),
                   format_number(row.low), format_number(row.high)));
  svg.text(kLabel, y + 4, Anchor::kEnd, "label", shortened(row.run->name, kLabelColumns));
  svg.text(kWidth - 4, y + 4, Anchor::kEnd, "value", format_number(row.value));
}

double group_bytes(const RunView& run, int group) {
  double sum = 0;
  for (const auto& [role, bytes] : run.bytes_by_role) {
    if (role_group(role) == group) sum += bytes;
  }
  return sum;
}

double total_bytes(const RunView& run) {
  double sum = 0;
  for (const auto& [role, bytes] : run.bytes_by_role) sum += bytes;
  return sum;
}

/// Runs with a point in the size-KL plane; float models have no KL of their own.
std::vector<const RunView*> plane_runs(const ReportView& view) {
  std::vector<const RunView*> runs;
  for (const RunView& run : view.runs) {
    const bool has_point = run.package_bytes && run.kl_mean.value && *run.kl_mean.value > 0;
    if (has_point && run.kind != RunKind::kFloat) runs.push_back(&run);
  }
  return runs;
}

}  // namespace

std::string chart_bytes(const ReportView& view) {
  double most = 0;
  std::vector<const RunView*> runs;
  for (const RunView& run : view.runs) {
    if (total_bytes(run) <= 0) continue;
    runs.push_back(&run);
    most = std::max(most, total_bytes(run));
  }
  if (runs.empty()) return "";
  const double bottom = 8 + kRow * static_cast<double>(runs.size());
  Svg svg(kWidth, bottom + 4, "Bytes by role of each run");
  const double scale = (kWidth - kLabel - 84) / most;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const double y = 8 + kRow * static_cast<double>(i);
    double x = kLabel + 10;
    svg.text(kLabel, y + 17, Anchor::kEnd, "label", shortened(runs[i]->name, kLabelColumns));
    for (int group = 0; group < kRoleGroups; ++group) {
      const double bytes = group_bytes(*runs[i], group);
      if (bytes <= 0) continue;
      // Neighbours are told apart by a gap of the page's colour, not by hue alone.
      const double width = bytes * scale;
      svg.rect(
          x, y, width > 3 ? width - 1.5 : width, 22, fmt::format("bar g{}", group),
          fmt::format("{}, {}: {}", runs[i]->name, role_group_name(group), format_bytes(bytes)));
      x += width;
    }
    svg.text(x + 6, y + 16, Anchor::kStart, "value", format_bytes(total_bytes(*runs[i])));
  }
  return svg.finish();
}

std::string chart_dots(const ReportView& view, const DotChart& chart) {
  const std::vector<DotRow> rows = dot_rows(view, chart);
  if (rows.empty()) return "";
  const Axis axis = dot_axis(rows, chart);
  const double bottom = 10 + kRow * static_cast<double>(rows.size());
  Svg svg(kWidth, bottom + 42, std::string(chart.label) + " of each run");
  x_axis(svg, axis, 6, bottom, chart.label);
  for (const DotRow& row : rows) {
    if (row.run->kind != RunKind::kFloat) continue;
    svg.line(axis.at(row.value), 6, axis.at(row.value), bottom, "reference");
  }
  for (std::size_t i = 0; i < rows.size(); ++i) {
    draw_dot_row(svg, rows[i], axis, 10 + kRow * (static_cast<double>(i) + 0.5));
  }
  return svg.finish();
}

std::string chart_size_kl(const ReportView& view) {
  const std::vector<const RunView*> runs = plane_runs(view);
  if (runs.empty()) return "";
  double low = *runs[0]->kl_mean.value, high = low, most = 0;
  for (const RunView* run : runs) {
    low = std::min(low, *run->kl_mean.value);
    high = std::max(high, *run->kl_mean.value);
    most = std::max(most, *run->package_bytes);
  }
  const bool mega = most >= 1e6;
  const double unit = mega ? 1e6 : 1e3;
  const Axis x(Axis::Kind::kLinear, 0, most / unit * 1.05, 56, kWidth - 20);
  const Axis y = high / low > 20 ? Axis(Axis::Kind::kLog, low, high, 250, 34)
                                 : Axis(Axis::Kind::kLinear, 0, high * 1.05, 250, 34);
  Svg svg(kWidth, 292, "Package size against mean KL divergence");
  y_axis(svg, y, 56, kWidth - 20, "mean KL to the float model, nats");
  x_axis(svg, x, 250, 250, mega ? "package, MB" : "package, kB");
  for (const RunView* run : runs) {
    const double px = x.at(*run->package_bytes / unit);
    const double py = y.at(*run->kl_mean.value);
    mark(svg, run->kind, px, py, 6,
         fmt::format("{}: {}, mean KL {}", run->name, format_bytes(*run->package_bytes),
                     format_measure(run->kl_mean)));
    const bool at_right = px > kWidth * 0.62;
    svg.text(at_right ? px - 12 : px + 12, py + 4, at_right ? Anchor::kEnd : Anchor::kStart,
             "label", shortened(run->name, 24));
  }
  return svg.finish();
}

std::string chart_training(const ReportView& view) {
  double steps = 0, low = 0, high = 0;
  bool any = false;
  for (const CurveView& curve : view.training) {
    if (curve.steps.empty()) continue;
    const auto [least, most] = std::minmax_element(curve.loss.begin(), curve.loss.end());
    low = any ? std::min(low, *least) : *least;
    high = any ? std::max(high, *most) : *most;
    steps = std::max(steps, curve.steps.back());
    any = true;
  }
  if (!any) return "";
  const Axis x(Axis::Kind::kLinear, 0, std::max(1.0, steps), 56, kWidth - 92);
  const bool log = low > 0 && high / low > 20;
  const Axis y(log ? Axis::Kind::kLog : Axis::Kind::kLinear, !log && low < 0.5 * high ? 0 : low,
               high, 250, 34);
  Svg svg(kWidth, 292, "Training loss by step");
  y_axis(svg, y, 56, kWidth - 92, "training loss (KL), nats");
  x_axis(svg, x, 250, 250, "step");
  for (std::size_t i = 0; i < view.training.size(); ++i) {
    const CurveView& curve = view.training[i];
    if (curve.steps.empty()) continue;
    std::vector<std::pair<double, double>> points;
    for (std::size_t k = 0; k < curve.steps.size(); ++k) {
      points.emplace_back(x.at(curve.steps[k]), y.at(curve.loss[k]));
    }
    svg.polyline(points, fmt::format("curve t{}", i % 4));
    svg.text(points.back().first + 6, points.back().second + 4, Anchor::kStart, "label",
             shortened(curve.name, 13));
  }
  return svg.finish();
}

}  // namespace elastiq
