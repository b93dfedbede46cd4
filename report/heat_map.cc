#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <vector>

#include "report/charts.h"
#include "report/svg.h"

namespace elastiq {
namespace {

using Anchor = Svg::Anchor;

/// Fixed classes, so that the maps of all runs share one scale. Limits lie between the sizes that
/// schemes of whole bits reach with their scales.
struct BitClass {
  double below;
  const char* name;
};

constexpr std::array kClasses = {BitClass{1.75, "1"}, BitClass{2.75, "2"},  BitClass{3.75, "3"},
                                 BitClass{4.75, "4"}, BitClass{7.0, "5-6"}, BitClass{12.0, "8"},
                                 BitClass{1e9, "16+"}};

std::size_t bit_class(double bits) {
  for (std::size_t i = 0; i < kClasses.size(); ++i) {
    if (bits < kClasses[i].below) return i;
  }
  return kClasses.size() - 1;
}

constexpr double kLeft = 84;
constexpr double kWidth = 1060;
constexpr double kCellHeight = 24;

std::vector<std::string> roles_in_order(const RunView& run) {
  std::vector<std::string> roles;
  for (const LayerFigure& figure : run.layers) {
    if (std::find(roles.begin(), roles.end(), figure.role) == roles.end()) {
      roles.push_back(figure.role);
    }
  }
  return roles;
}

}  // namespace

std::string chart_bits(const RunView& run) {
  if (run.layers.empty()) return "";
  const std::vector<std::string> roles = roles_in_order(run);
  std::int64_t last = 0;
  for (const LayerFigure& figure : run.layers) last = std::max(last, figure.layer);
  // Column 0 holds what lies outside the blocks (embedding, head).
  const double cell = std::min(90.0, (kWidth - kLeft) / static_cast<double>(last + 2));
  const double bottom = 22 + kCellHeight * static_cast<double>(roles.size());
  Svg svg(kWidth, bottom + 6, "Bits per weight of " + run.name + " by role and layer");
  svg.text(kLeft + cell / 2, 14, Anchor::kMiddle, "tick", "out");
  const std::int64_t stride = cell < 26 ? 4 : 1;
  for (std::int64_t layer = 0; layer <= last; layer += stride) {
    svg.text(kLeft + cell * (static_cast<double>(layer) + 1.5), 14, Anchor::kMiddle, "tick",
             std::to_string(layer));
  }
  for (std::size_t r = 0; r < roles.size(); ++r) {
    svg.text(kLeft - 8, 22 + kCellHeight * (static_cast<double>(r) + 0.5) + 4, Anchor::kEnd,
             "label", shortened(roles[r], 11));
  }
  for (const LayerFigure& figure : run.layers) {
    const auto row = std::find(roles.begin(), roles.end(), figure.role) - roles.begin();
    const double x = kLeft + cell * static_cast<double>(figure.layer + 1);
    const double y = 22 + kCellHeight * static_cast<double>(row);
    const std::size_t color = bit_class(figure.bits);
    const std::string where =
        figure.layer < 0 ? figure.role : fmt::format("{}, layer {}", figure.role, figure.layer);
    svg.rect(x + 0.5, y + 0.5, cell - 1.5, kCellHeight - 1.5, fmt::format("cell b{}", color),
             fmt::format("{}: {:.2f} bits per weight, {} (rule: {})", where, figure.bits,
                         figure.scheme, figure.rule));
    if (cell >= 30) {
      svg.text(x + cell / 2, y + kCellHeight / 2 + 4, Anchor::kMiddle,
               fmt::format("incell n{}", color), fmt::format("{:.1f}", figure.bits));
    }
  }
  return svg.finish();
}

std::string legend_bits() {
  Svg svg(kWidth, 26, "Colour classes of bits per weight");
  svg.text(kLeft - 8, 17, Anchor::kEnd, "tick", "bits/weight");
  for (std::size_t i = 0; i < kClasses.size(); ++i) {
    const double x = kLeft + 64 * static_cast<double>(i);
    svg.rect(x, 4, 18, 18, fmt::format("cell b{}", i), "");
    svg.text(x + 24, 17, Anchor::kStart, "tick", kClasses[i].name);
  }
  return svg.finish();
}

}  // namespace elastiq
