#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace elastiq {

/// A drawing in the making. Coordinates are CSS pixels of the view box; looks come from classes of
/// the report's style sheet, because the security policy refuses style attributes. All text is
/// escaped here.
class Svg {
 public:
  /// label: what a screen reader says in place of the drawing.
  Svg(double width, double height, std::string_view label);

  void rect(double x, double y, double width, double height, std::string_view css,
            std::string_view hint);
  void line(double x1, double y1, double x2, double y2, std::string_view css);
  void circle(double x, double y, double radius, std::string_view css, std::string_view hint);
  /// A square standing on a corner.
  void diamond(double x, double y, double radius, std::string_view css, std::string_view hint);
  void square(double x, double y, double radius, std::string_view css, std::string_view hint);
  enum class Anchor { kStart, kMiddle, kEnd };
  void text(double x, double y, Anchor anchor, std::string_view css, std::string_view content);
  void polyline(const std::vector<std::pair<double, double>>& points, std::string_view css);

  std::string finish();

 private:
  void close_with_hint(std::string_view element, std::string_view hint);

  std::string out_;
};

/// A linear or logarithmic scale with round tick values.
class Axis {
 public:
  enum class Kind { kLinear, kLog };

  /// Covers [low, high], widened to something sensible when empty; log needs low > 0. Maps to
  /// pixels [from, to].
  Axis(Kind kind, double low, double high, double from, double to);

  double at(double value) const;

  const std::vector<double>& ticks() const { return ticks_; }

  Kind kind() const { return kind_; }

 private:
  void make_linear_ticks(double low, double high);
  void make_log_ticks(double low, double high);

  Kind kind_;
  double low_, high_, from_, to_;
  std::vector<double> ticks_;
};

/// Text of a tick: no trailing zeros.
std::string tick_text(double value);

/// At most `columns` code points, the last one an ellipsis when cut.
std::string shortened(std::string_view text, std::size_t columns);

}  // namespace elastiq
