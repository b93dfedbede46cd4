#include "report/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "core/text.h"

namespace elastiq {
namespace {

constexpr const char* kNone = "-";

using Cell = std::function<std::string(const RunView&)>;

struct Column {
  const char* title;
  Cell cell;
};

std::string optional_text(const std::optional<double>& value, std::string (*format)(double)) {
  return value ? format(*value) : kNone;
}

std::string percent_measure(const Measure& measure) {
  if (!measure.value) return kNone;
  if (!measure.se) return format_percent(*measure.value);
  return fmt::format("{:.1f} ± {:.1f} %", *measure.value * 100, *measure.se * 100);
}

std::string bits(const std::optional<double>& value) {
  return value ? fmt::format("{:.2f}", *value) : kNone;
}

std::string speed(const std::optional<double>& value) {
  return value ? fmt::format("{:.0f}", *value) : kNone;
}

std::string count(const std::optional<double>& value) {
  return value ? fmt::format("{:.0f}", *value) : kNone;
}

std::vector<Column> figure_columns() {
  return {
      {"kind", [](const RunView& r) { return std::string(kind_name(r.kind)); }},
      {"file", [](const RunView& r) { return optional_text(r.package_bytes, format_bytes); }},
      {"bits per weight, file", [](const RunView& r) { return bits(r.bits_file); }},
      {"bits per weight, memory", [](const RunView& r) { return bits(r.bits_ram); }},
      {"perplexity", [](const RunView& r) { return format_measure(r.perplexity); }},
      {"perplexity ratio", [](const RunView& r) { return format_measure(r.perplexity_ratio); }},
      {"mean KL", [](const RunView& r) { return format_measure(r.kl_mean); }},
      {"median KL", [](const RunView& r) { return format_measure(r.kl_median); }},
      {"99th percentile KL", [](const RunView& r) { return format_measure(r.kl_p99); }},
      {"same top token", [](const RunView& r) { return percent_measure(r.top1); }},
      {"task accuracy", [](const RunView& r) { return percent_measure(r.task_accuracy); }},
      {"tokens scored", [](const RunView& r) { return count(r.tokens); }},
      {"contexts", [](const RunView& r) { return count(r.contexts); }},
      {"prefill tokens/s", [](const RunView& r) { return speed(r.prefill_tps); }},
      {"decode tokens/s", [](const RunView& r) { return speed(r.decode_tps); }},
      {"peak memory", [](const RunView& r) { return optional_text(r.peak_rss, format_bytes); }},
  };
}

}  // namespace

std::string format_measure(const Measure& measure) {
  if (!measure.value) return kNone;
  if (!measure.se || *measure.se == 0) return format_number(*measure.value);
  // Two digits of the error, and the value to the same place.
  const int place = static_cast<int>(std::floor(std::log10(*measure.se)));
  const int digits = std::clamp(1 - place, 0, 7);
  return fmt::format("{:.{}f} ± {:.{}f}", *measure.value, digits, *measure.se, digits);
}

TextTable summary_table(const ReportView& view) {
  const std::vector<Column> all = {
      {"file", [](const RunView& r) { return optional_text(r.package_bytes, format_bytes); }},
      {"bits/weight", [](const RunView& r) { return bits(r.bits_file); }},
      {"perplexity", [](const RunView& r) { return format_measure(r.perplexity); }},
      {"ratio",
       [](const RunView& r) { return optional_text(r.perplexity_ratio.value, format_number); }},
      {"mean KL", [](const RunView& r) { return format_measure(r.kl_mean); }},
      {"p99 KL", [](const RunView& r) { return optional_text(r.kl_p99.value, format_number); }},
      {"top-1", [](const RunView& r) { return optional_text(r.top1.value, format_percent); }},
      {"task",
       [](const RunView& r) { return optional_text(r.task_accuracy.value, format_percent); }},
      {"decode tok/s", [](const RunView& r) { return speed(r.decode_tps); }},
      {"peak memory", [](const RunView& r) { return optional_text(r.peak_rss, format_bytes); }},
  };
  TextTable table;
  table.header.push_back("run");
  for (const RunView& run : view.runs) table.rows.push_back({run.name});
  for (const Column& column : all) {
    const bool used = std::any_of(view.runs.begin(), view.runs.end(),
                                  [&](const RunView& run) { return column.cell(run) != kNone; });
    if (!used) continue;
    table.header.push_back(column.title);
    for (std::size_t i = 0; i < view.runs.size(); ++i) {
      table.rows[i].push_back(column.cell(view.runs[i]));
    }
  }
  return table;
}

TextTable detail_table(const ReportView& view) {
  TextTable table;
  table.header.push_back("figure");
  for (const RunView& run : view.runs) table.header.push_back(run.name);
  for (const Column& column : figure_columns()) {
    std::vector<std::string> row = {column.title};
    bool used = false;
    for (const RunView& run : view.runs) {
      row.push_back(column.cell(run));
      used = used || row.back() != kNone;
    }
    if (used) table.rows.push_back(std::move(row));
  }
  return table;
}

TextTable bytes_table(const ReportView& view) {
  TextTable table;
  table.header.push_back("role");
  std::vector<std::string> roles;
  for (const RunView& run : view.runs) {
    table.header.push_back(run.name);
    for (const auto& [role, bytes] : run.bytes_by_role) {
      if (std::find(roles.begin(), roles.end(), role) == roles.end()) roles.push_back(role);
    }
  }
  for (const std::string& role : roles) {
    std::vector<std::string> row = {role};
    for (const RunView& run : view.runs) {
      const auto it = std::find_if(run.bytes_by_role.begin(), run.bytes_by_role.end(),
                                   [&role](const auto& entry) { return entry.first == role; });
      row.push_back(it == run.bytes_by_role.end() ? kNone : format_bytes(it->second));
    }
    table.rows.push_back(std::move(row));
  }
  return table;
}

TextTable stage_table(const ReportView& view) {
  TextTable table;
  table.header = {"stage", "time", "peak memory", "from cache"};
  for (const StageView& stage : view.stages) {
    table.rows.push_back({stage.id, optional_text(stage.seconds, format_seconds),
                          optional_text(stage.peak_rss, format_bytes),
                          stage.cached ? "yes" : "no"});
  }
  return table;
}

std::string comparison_sentence(const ComparisonView& comparison) {
  const bool a_lower = comparison.kl_mean < 0;
  const std::string& better = a_lower ? comparison.a : comparison.b;
  const std::string& worse = a_lower ? comparison.b : comparison.a;
  if (!comparison.distinguishable) {
    return fmt::format("{} and {} cannot be told apart on this text", comparison.a, comparison.b);
  }
  const double low = a_lower ? -comparison.high : comparison.low;
  const double high = a_lower ? -comparison.low : comparison.high;
  return fmt::format("{} has a lower mean KL than {} by {} (95 % interval {} to {})", better, worse,
                     format_number(a_lower ? -comparison.kl_mean : comparison.kl_mean),
                     format_number(low), format_number(high));
}

}  // namespace elastiq
