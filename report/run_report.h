#pragma once

#include <filesystem>
#include <string>

#include "core/error.h"
#include "core/json.h"

namespace elastiq {

/// report.json, "elastiq.report/1":
/// {"format": "elastiq.report/1", "title", "tool", "machine": {...}, "recipe": {...}, "runs":
/// [run...],
///  "comparisons": [{"a", "b", "kl_mean", "kl_mean_se", "low", "high", "distinguishable"}],
///  "stages": [{"id", "use", "seconds", "peak_rss_bytes", ...}], "training": [{"name", "steps":
///  [...], "loss": [...]}], "warnings": [text...]}
/// run = {"name", "kind": "float"|"ptq"|"qat", "bits_per_weight": {"file", "ram", "basis"},
///        "bytes": {"package", "by_role": {...}}, "metrics": {"perplexity", "perplexity_se",
///        "perplexity_ratio", "kl_mean", "kl_median", "kl_p99", "top1", "task_accuracy" and for
///        each its "_se"; absent figures are null}, "tokens", "contexts", "speed": {"prefill_tps",
///        "decode_tps"}, "peak_rss_bytes", "layers": [...]}

/// Checks the document against the above. Errors kInconsistent with the JSON pointer.
Status check_report(const Json& report);

/// Markdown table and details (under 64 KB).
std::string report_markdown(const Json& report);

/// One self-contained HTML file: no request, no script needed, strict content security policy,
/// light and dark.
std::string report_html(const Json& report);

/// Plain table for a terminal.
std::string report_terminal(const Json& report);

/// report.json, report.md, report.html in `folder`.
Status write_report(const std::filesystem::path& folder, const Json& report);

}  // namespace elastiq
