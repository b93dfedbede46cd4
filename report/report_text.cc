#include <fmt/format.h>

#include <algorithm>

#include "core/text.h"
#include "report/run_report.h"
#include "report/table.h"

namespace elastiq {
namespace {

// Job summaries and comments of CI services refuse larger texts.
constexpr std::size_t kMaxMarkdownBytes = 64000;

std::string markdown_cell(const std::string& text) {
  return fmt::format(" {} |", escape_markdown(text));
}

std::string markdown_table(const TextTable& table) {
  std::string out = "|";
  for (const std::string& cell : table.header) out += markdown_cell(cell);
  out += "\n|";
  for (std::size_t i = 0; i < table.header.size(); ++i) out += i == 0 ? " --- |" : " ---: |";
  out += "\n";
  for (const auto& row : table.rows) {
    out += "|";
    for (const std::string& cell : row) out += markdown_cell(cell);
    out += "\n";
  }
  return out;
}

std::string padded(const std::string& text, std::size_t width, bool left) {
  const std::string blanks(width - std::min(width, display_width(text)), ' ');
  return left ? text + blanks : blanks + text;
}

std::string terminal_table(const TextTable& table) {
  std::vector<std::vector<std::string>> rows = {table.header};
  rows.insert(rows.end(), table.rows.begin(), table.rows.end());
  std::vector<std::size_t> widths(table.header.size(), 0);
  for (auto& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i) {
      row[i] = escape_terminal(row[i]);
      widths[i] = std::max(widths[i], display_width(row[i]));
    }
  }
  std::string out;
  for (std::size_t r = 0; r < rows.size(); ++r) {
    for (std::size_t i = 0; i < rows[r].size(); ++i) {
      out += (i == 0 ? "" : "  ") + padded(rows[r][i], widths[i], i == 0);
    }
    out += "\n";
    if (r != 0) continue;
    for (std::size_t i = 0; i < widths.size(); ++i) {
      out += (i == 0 ? "" : "  ") + std::string(widths[i], '-');
    }
    out += "\n";
  }
  return out;
}

std::string basis_note(const ReportView& view) {
  const std::string basis = basis_of(view);
  return basis.empty() ? "" : "Bits per weight: " + basis + ".";
}

}  // namespace

std::string report_markdown(const Json& report) {
  const ReportView view = make_view(report);
  std::string out =
      "# " + escape_markdown(view.title.empty() ? "elastiq report" : view.title) + "\n\n";
  out += markdown_table(summary_table(view));
  const std::string basis = basis_note(view);
  if (!basis.empty()) out += fmt::format("\n{}\n", escape_markdown(basis));
  if (!view.comparisons.empty()) out += "\n";
  for (const ComparisonView& row : view.comparisons) {
    out += "- " + escape_markdown(comparison_sentence(row)) + "\n";
  }
  if (!view.warnings.empty()) out += "\n## Warnings\n\n";
  for (const std::string& warning : view.warnings) out += "- " + escape_markdown(warning) + "\n";
  // Sections in order of weight; one that would pass the limit is left to the HTML report.
  const std::vector<std::pair<std::string, TextTable>> sections = {
      {"All figures", detail_table(view)},
      {"Bytes by role", bytes_table(view)},
      {"Stages", stage_table(view)}};
  for (const auto& [title, table] : sections) {
    if (table.rows.empty()) continue;
    const std::string text = "\n## " + title + "\n\n" + markdown_table(table);
    if (out.size() + text.size() > kMaxMarkdownBytes) {
      out += "\n" + title + ": see report.html.\n";
      continue;
    }
    out += text;
  }
  if (!view.tool.empty()) out += "\nMade by " + escape_markdown(view.tool) + ".\n";
  return out;
}

std::string report_terminal(const Json& report) {
  const ReportView view = make_view(report);
  std::string out;
  if (!view.title.empty()) out += escape_terminal(view.title) + "\n\n";
  out += terminal_table(summary_table(view));
  const std::string basis = basis_note(view);
  if (!basis.empty()) out += fmt::format("\n{}\n", escape_terminal(basis));
  if (!view.comparisons.empty()) out += "\n";
  for (const ComparisonView& row : view.comparisons) {
    out += escape_terminal(comparison_sentence(row)) + ".\n";
  }
  if (!view.warnings.empty()) out += "\n";
  for (const std::string& warning : view.warnings) {
    out += "warning: " + escape_terminal(warning) + "\n";
  }
  return out;
}

}  // namespace elastiq
