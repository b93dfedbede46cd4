#include <fmt/format.h>

#include <array>
#include <span>

#include "core/digest.h"
#include "core/text.h"
#include "report/charts.h"
#include "report/run_report.h"
#include "report/style.h"
#include "report/table.h"

namespace elastiq {
namespace {

std::string base64(std::span<const std::uint8_t> bytes) {
  constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    const std::size_t left = std::min<std::size_t>(3, bytes.size() - i);
    std::uint32_t word = static_cast<std::uint32_t>(bytes[i]) << 16;
    if (left > 1) word |= static_cast<std::uint32_t>(bytes[i + 1]) << 8;
    if (left > 2) word |= bytes[i + 2];
    for (std::size_t k = 0; k < 4; ++k) {
      out += k <= left ? kDigits[word >> (18 - 6 * k) & 63] : '=';
    }
  }
  return out;
}

std::string html_table(const TextTable& table) {
  std::string out = "<table>\n<thead><tr>";
  for (const std::string& cell : table.header) {
    out += "<th scope=\"col\">" + escape_html(cell) + "</th>";
  }
  out += "</tr></thead>\n<tbody>\n";
  for (const auto& row : table.rows) {
    out += "<tr>";
    for (std::size_t i = 0; i < row.size(); ++i) {
      out += i == 0 ? "<th scope=\"row\">" : "<td>";
      out += escape_html(row[i]);
      out += i == 0 ? "</th>" : "</td>";
    }
    out += "</tr>\n";
  }
  return out + "</tbody>\n</table>\n";
}

std::string data_table(const TextTable& table) {
  return "<details><summary>Data</summary><div class=\"scroll\">\n" + html_table(table) +
         "</div></details>\n";
}

struct FigureText {
  const char* css;
  const char* title;
  const char* caption;
};

/// A chart with its caption and the data behind it; nothing when there is no drawing.
std::string figure(const FigureText& text, const std::string& before, const std::string& drawing,
                   const TextTable& data) {
  if (drawing.empty()) return "";
  return fmt::format("<figure class=\"{}\"><figcaption><b>{}</b><span>{}</span></figcaption>\n",
                     text.css, text.title, text.caption) +
         before + drawing + data_table(data) + "</figure>\n";
}

std::string legend_item(std::string_view css, std::string_view text) {
  return fmt::format(
      "<li><svg viewBox=\"0 0 12 12\" aria-hidden=\"true\"><rect width=\"12\" height=\"12\" "
      "rx=\"2\" class=\"{}\"/></svg>{}</li>",
      css, escape_html(text));
}

std::string role_legend() {
  std::string out = "<ul class=\"legend\">";
  for (int group = 0; group < kRoleGroups; ++group) {
    out += legend_item(fmt::format("g{}", group), role_group_name(group));
  }
  return out + "</ul>\n";
}

TextTable columns(const TextTable& detail, std::span<const char* const> rows) {
  TextTable out;
  out.header = detail.header;
  for (const auto& row : detail.rows) {
    for (const char* name : rows) {
      if (row[0] == name) out.rows.push_back(row);
    }
  }
  return out;
}

TextTable curve_table(const ReportView& view) {
  TextTable table;
  table.header = {"curve", "step", "loss"};
  for (const CurveView& curve : view.training) {
    // A table of at most some fifty rows per curve; report.json has every step.
    const std::size_t stride = curve.steps.size() / 50 + 1;
    for (std::size_t i = 0; i < curve.steps.size(); ++i) {
      if (i % stride != 0 && i + 1 != curve.steps.size()) continue;
      table.rows.push_back(
          {curve.name, fmt::format("{:.0f}", curve.steps[i]), format_number(curve.loss[i])});
    }
  }
  return table;
}

TextTable layer_table(const RunView& run) {
  TextTable table;
  table.header = {"role", "layer", "bits per weight", "scheme", "rule"};
  for (const LayerFigure& figure : run.layers) {
    table.rows.push_back({figure.role, figure.layer < 0 ? "-" : std::to_string(figure.layer),
                          fmt::format("{:.2f}", figure.bits), figure.scheme, figure.rule});
  }
  return table;
}

const RunView* first_float(const ReportView& view) {
  for (const RunView& run : view.runs) {
    if (run.kind == RunKind::kFloat) return &run;
  }
  return nullptr;
}

void tile_row(std::string& out, const char* name, const std::optional<double>& value,
              std::string (*format)(double)) {
  if (!value) return;
  out += fmt::format("<dt>{}</dt><dd>{}</dd>", name, format(*value));
}

std::string format_bits(double bits) {
  return fmt::format("{:.2f}", bits);
}

std::string format_count(double count) {
  return fmt::format("{:.0f}", count);
}

std::string tile(const RunView& run, const RunView* reference) {
  std::string out =
      fmt::format("<section class=\"tile {}\"><h3><span class=\"kind\">{}</span>{}</h3>",
                  kind_name(run.kind), kind_name(run.kind), escape_html(run.name));
  out += "<div class=\"big\">" +
         (run.package_bytes ? format_bytes(*run.package_bytes) : std::string("-")) + "</div><dl>";
  const bool comparable = reference != nullptr && reference != &run && reference->package_bytes &&
                          run.package_bytes && *run.package_bytes > 0;
  if (comparable) {
    out += fmt::format("<dt>smaller</dt><dd>{:.1f}x</dd>",
                       *reference->package_bytes / *run.package_bytes);
  }
  tile_row(out, "bits per weight", run.bits_file, format_bits);
  tile_row(out, "perplexity", run.perplexity.value, format_number);
  if (run.kind != RunKind::kFloat) tile_row(out, "mean KL", run.kl_mean.value, format_number);
  tile_row(out, "task accuracy", run.task_accuracy.value, format_percent);
  tile_row(out, "decode tokens/s", run.decode_tps, format_count);
  return out + "</dl></section>\n";
}

std::string head(const ReportView& view) {
  const std::string style(report_style());
  const std::string hash = base64(sha256(std::string_view(style)));
  const std::string title = escape_html(view.title.empty() ? "elastiq report" : view.title);
  std::string out = "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n";
  out += fmt::format(
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src "
      "'sha256-{}'; base-uri 'none'; form-action 'none'\">\n",
      hash);
  out += "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n";
  out += "<title>" + title + "</title>\n<style>" + style + "</style>\n</head>\n<body>\n<main>\n";
  out += "<header><h1>" + title + "</h1>\n<p>" + escape_html(view.tool);
  for (const auto& [key, value] : view.machine) {
    out += " &middot; " + escape_html(key) + ": " + escape_html(value);
  }
  return out + "</p></header>\n";
}

std::string findings(const ReportView& view) {
  if (view.comparisons.empty()) return "";
  std::string out = "<ul class=\"findings\">\n";
  for (const ComparisonView& row : view.comparisons) {
    out += row.distinguishable ? "<li>" : "<li class=\"tie\">";
    out += escape_html(comparison_sentence(row)) + ".</li>\n";
  }
  return out + "</ul>\n";
}

std::string warnings(const ReportView& view) {
  if (view.warnings.empty()) return "";
  std::string out = "<h2>Warnings</h2>\n<ul class=\"findings\">\n";
  for (const std::string& text : view.warnings) out += "<li>" + escape_html(text) + "</li>\n";
  return out + "</ul>\n";
}

std::string quality_charts(const ReportView& view, const TextTable& detail) {
  constexpr std::array kKl = {"mean KL", "median KL", "99th percentile KL"};
  constexpr std::array kPerplexity = {"perplexity", "perplexity ratio"};
  constexpr std::array kTask = {"task accuracy"};
  constexpr std::array kSize = {"file", "mean KL"};
  const DotChart kl = {"KL divergence to the float model, nats",
                       &RunView::kl_mean,
                       1,
                       DotChart::Scale::kLog,
                       DotChart::Floor::kSkip,
                       &RunView::kl_median,
                       &RunView::kl_p99};
  const DotChart perplexity = {
      "perplexity", &RunView::perplexity, 1, DotChart::Scale::kFit, DotChart::Floor::kMark, nullptr,
      nullptr};
  const DotChart task = {"records answered exactly, %",
                         &RunView::task_accuracy,
                         100,
                         DotChart::Scale::kFit,
                         DotChart::Floor::kMark,
                         nullptr,
                         nullptr};
  std::string out;
  out += figure(
      {"", "Distance from the float model",
       "Mean KL per token, 95 % interval; thin line: median to 99th percentile. Less is better."},
      "", chart_dots(view, kl), columns(detail, kKl));
  out += figure({"", "Perplexity on held-out text",
                 "Mark and 95 % interval; dashed: float model. Less is better."},
                "", chart_dots(view, perplexity), columns(detail, kPerplexity));
  out +=
      figure({"", "Task accuracy", "Mark and 95 % interval; dashed: float model. More is better."},
             "", chart_dots(view, task), columns(detail, kTask));
  out += figure({"", "Size against quality", "Down and left is better."}, "", chart_size_kl(view),
                columns(detail, kSize));
  return out;
}

std::string charts(const ReportView& view) {
  const TextTable detail = detail_table(view);
  std::string out = "<h2>Charts</h2>\n<div class=\"charts\">\n";
  out += figure({"", "Where the bytes are", "By role; of the float model its weights alone."},
                role_legend(), chart_bytes(view), bytes_table(view));
  out += quality_charts(view, detail);
  out += figure({"", "Training", "Loss of quantization-aware training."}, "", chart_training(view),
                curve_table(view));
  for (const RunView& run : view.runs) {
    const std::string title = "Bits per weight: " + escape_html(run.name);
    out += figure(
        {"wide", title.c_str(), "Roles down, layers across; scales and kept columns counted."},
        legend_bits(), chart_bits(run), layer_table(run));
  }
  return out + "</div>\n";
}

std::string basis_note(const ReportView& view) {
  const std::string basis = basis_of(view);
  if (basis.empty()) return "";
  return "<p class=\"note\">Bits per weight: " + escape_html(basis) + ".</p>\n";
}

}  // namespace

std::string report_html(const Json& report) {
  const ReportView view = make_view(report);
  std::string out = head(view) + "<div class=\"tiles\">\n";
  const RunView* reference = first_float(view);
  for (const RunView& run : view.runs) out += tile(run, reference);
  out += "</div>\n" + findings(view) + warnings(view);
  out +=
      "<h2>All figures</h2>\n<div class=\"panel\">\n" + html_table(detail_table(view)) + "</div>\n";
  out += basis_note(view) + charts(view);
  if (!view.stages.empty()) {
    out += "<h2>Stages</h2>\n<div class=\"panel\">\n" + html_table(stage_table(view)) + "</div>\n";
  }
  if (!view.recipe.empty()) {
    out += "<details><summary>Resolved recipe</summary><pre>" + escape_html(view.recipe) +
           "</pre></details>\n";
  }
  return out + "</main>\n</body>\n</html>\n";
}

}  // namespace elastiq
