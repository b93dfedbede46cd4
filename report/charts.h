#pragma once

#include <string>

#include "report/view.h"

namespace elastiq {

/// Each chart is an SVG text, or empty when the report has nothing to draw. Hints (hover) and the
/// tables beside the charts say the same as the drawing, so colour never carries a meaning alone.

/// Bytes of each run, stacked by role group.
std::string chart_bytes(const ReportView& view);

/// One dot per run with its 95 % interval.
struct DotChart {
  const char* label;
  Measure RunView::*figure;
  double factor;                             ///< Shown value = figure x factor (100 for shares).
  enum class Scale { kFit, kLog } scale;     ///< kLog only when the values span more than 20x.
  enum class Floor { kSkip, kMark } floats;  ///< Float runs: left out, or a dashed line as well.
  Measure RunView::*spread_low;              ///< Faint line from here ...
  Measure RunView::*spread_high;             ///< ... to here; nullptr: none.
};

std::string chart_dots(const ReportView& view, const DotChart& chart);

/// Package size against mean KL.
std::string chart_size_kl(const ReportView& view);

/// Loss by step.
std::string chart_training(const ReportView& view);

/// Bits per weight, roles down, layers across.
std::string chart_bits(const RunView& run);

/// The colour classes of chart_bits as a legend.
std::string legend_bits();

}  // namespace elastiq
