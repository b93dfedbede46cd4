#include "report/svg.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "core/text.h"

namespace elastiq {
namespace {

/// One decimal is finer than a pixel and keeps the bytes the same on every machine.
std::string px(double value) {
  std::string text = fmt::format("{:.1f}", value);
  if (text.size() > 2 && text.compare(text.size() - 2, 2, ".0") == 0) text.resize(text.size() - 2);
  return text == "-0" ? "0" : text;
}

}  // namespace

Svg::Svg(double width, double height, std::string_view label) {
  out_ = fmt::format(R"(<svg viewBox="0 0 {} {}" role="img" aria-label="{}">)", px(width),
                     px(height), escape_html(label));
  out_ += "\n";
}

void Svg::close_with_hint(std::string_view element, std::string_view hint) {
  if (hint.empty()) {
    out_ += "/>\n";
    return;
  }
  out_ += fmt::format("><title>{}</title></{}>\n", escape_html(hint), element);
}

void Svg::rect(double x, double y, double width, double height, std::string_view css,
               std::string_view hint) {
  out_ += fmt::format(R"(<rect x="{}" y="{}" width="{}" height="{}" class="{}")", px(x), px(y),
                      px(std::max(0.0, width)), px(std::max(0.0, height)), css);
  close_with_hint("rect", hint);
}

void Svg::line(double x1, double y1, double x2, double y2, std::string_view css) {
  out_ += fmt::format(R"(<line x1="{}" y1="{}" x2="{}" y2="{}" class="{}"/>)", px(x1), px(y1),
                      px(x2), px(y2), css);
  out_ += "\n";
}

void Svg::circle(double x, double y, double radius, std::string_view css, std::string_view hint) {
  out_ +=
      fmt::format(R"(<circle cx="{}" cy="{}" r="{}" class="{}")", px(x), px(y), px(radius), css);
  close_with_hint("circle", hint);
}

void Svg::diamond(double x, double y, double radius, std::string_view css, std::string_view hint) {
  out_ += fmt::format(R"(<path d="M{} {}L{} {}L{} {}L{} {}Z" class="{}")", px(x), px(y - radius),
                      px(x + radius), px(y), px(x), px(y + radius), px(x - radius), px(y), css);
  close_with_hint("path", hint);
}

void Svg::square(double x, double y, double radius, std::string_view css, std::string_view hint) {
  rect(x - radius, y - radius, 2 * radius, 2 * radius, css, hint);
}

void Svg::text(double x, double y, Anchor anchor, std::string_view css, std::string_view content) {
  constexpr std::array kAnchors = {"start", "middle", "end"};
  out_ += fmt::format(R"(<text x="{}" y="{}" text-anchor="{}" class="{}">{}</text>)", px(x), px(y),
                      kAnchors.at(static_cast<std::size_t>(anchor)), css, escape_html(content));
  out_ += "\n";
}

void Svg::polyline(const std::vector<std::pair<double, double>>& points, std::string_view css) {
  out_ += "<polyline points=\"";
  for (std::size_t i = 0; i < points.size(); ++i) {
    if (i != 0) out_ += ' ';
    out_ += px(points[i].first) + "," + px(points[i].second);
  }
  out_ += fmt::format("\" class=\"{}\"/>\n", css);
}

std::string Svg::finish() {
  return std::move(out_) + "</svg>\n";
}

Axis::Axis(Kind kind, double low, double high, double from, double to)
    : kind_(kind), low_(low), high_(high), from_(from), to_(to) {
  if (kind == Kind::kLog) {
    make_log_ticks(low, high);
  } else {
    make_linear_ticks(low, high);
  }
}

void Axis::make_linear_ticks(double low, double high) {
  if (!(high > low)) {
    const double room = std::max(std::fabs(low) * 0.1, 1e-9);
    low -= room;
    high += room;
  }
  const double raw = (high - low) / 5;
  const double decade = std::pow(10, std::floor(std::log10(raw)));
  const double lead = raw / decade;
  const double step = (lead <= 1 ? 1 : lead <= 2 ? 2 : lead <= 5 ? 5 : 10) * decade;
  const double first = std::floor(low / step + 1e-9);
  const double last = std::ceil(high / step - 1e-9);
  low_ = first * step;
  high_ = last * step;
  for (double i = first; i <= last + 0.5; i += 1) ticks_.push_back(i * step);
}

void Axis::make_log_ticks(double low, double high) {
  const auto bottom = static_cast<int>(std::floor(std::log10(low) + 1e-9));
  const auto top = std::max(bottom + 1, static_cast<int>(std::ceil(std::log10(high) - 1e-9)));
  low_ = std::pow(10, bottom);
  high_ = std::pow(10, top);
  for (int decade = bottom; decade <= top; ++decade) {
    ticks_.push_back(std::pow(10, decade));
    // With few decades the steps between are worth a label.
    if (top - bottom > 3 || decade == top) continue;
    ticks_.push_back(3 * std::pow(10, decade));
  }
}

double Axis::at(double value) const {
  double share = 0;
  if (kind_ == Kind::kLog) {
    share = std::log(std::max(value, low_) / low_) / std::log(high_ / low_);
  } else {
    share = (value - low_) / (high_ - low_);
  }
  return from_ + (to_ - from_) * std::clamp(share, 0.0, 1.0);
}

std::string tick_text(double value) {
  std::string text = fmt::format("{:.6g}", value);
  return text == "-0" ? "0" : text;
}

std::string shortened(std::string_view text, std::size_t columns) {
  if (display_width(text) <= columns) return std::string(text);
  std::size_t bytes = 0;
  for (std::size_t seen = 0; bytes < text.size(); ++bytes) {
    const bool starts = (static_cast<unsigned char>(text[bytes]) & 0xC0) != 0x80;
    if (starts && seen++ == columns - 1) break;
  }
  return std::string(text.substr(0, bytes)) + "\xE2\x80\xA6";
}

}  // namespace elastiq
