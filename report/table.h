#pragma once

#include <string>
#include <vector>

#include "report/view.h"

namespace elastiq {

/// A table of plain text, not yet escaped. The first column is text, the others are figures.
struct TextTable {
  std::vector<std::string> header;
  std::vector<std::vector<std::string>> rows;
};

/// One row per run with the figures that decide; columns without any figure are left out.
TextTable summary_table(const ReportView& view);

/// One row per figure, one column per run: everything that was measured.
TextTable detail_table(const ReportView& view);

/// Bytes by role, one column per run.
TextTable bytes_table(const ReportView& view);

TextTable stage_table(const ReportView& view);

/// "qat-2bit has a lower mean KL than ptq-2bit by 0.412 (95 % interval 0.38 to 0.44)", or that the
/// text is too short to tell them apart.
std::string comparison_sentence(const ComparisonView& comparison);

/// "12.3 ± 0.4"; "-" when there is none.
std::string format_measure(const Measure& measure);

}  // namespace elastiq
