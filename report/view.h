#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/json.h"

namespace elastiq {

/// What the renderers read, taken from report.json once. Absent and null figures are empty.
enum class RunKind { kFloat, kPtq, kQat };

struct Measure {
  std::optional<double> value;
  std::optional<double> se;
};

/// One matrix of a run, for the heat map.
struct LayerFigure {
  std::int64_t layer = -1;
  std::string role;
  double bits = 0;  ///< Per weight, as packed.
  std::string scheme;
  std::string rule;
};

struct RunView {
  std::string name;
  RunKind kind = RunKind::kFloat;
  std::optional<double> bits_file, bits_ram;
  std::string basis;
  std::optional<double> package_bytes;  ///< Of a float model its weights.
  std::vector<std::pair<std::string, double>> bytes_by_role;
  Measure perplexity, perplexity_ratio, kl_mean, kl_median, kl_p99, top1, task_accuracy;
  std::optional<double> tokens, contexts, prefill_tps, decode_tps, peak_rss;
  std::vector<LayerFigure> layers;
};

struct ComparisonView {
  std::string a, b;
  double kl_mean = 0, se = 0, low = 0, high = 0;
  bool distinguishable = false;
};

struct StageView {
  std::string id, use;
  std::optional<double> seconds, peak_rss;
  bool cached = false;
};

struct CurveView {
  std::string name;
  std::vector<double> steps, loss;
};

struct ReportView {
  std::string title, tool;
  std::vector<std::pair<std::string, std::string>> machine;
  std::string recipe;  ///< Indented JSON; empty: none.
  std::vector<RunView> runs;
  std::vector<ComparisonView> comparisons;
  std::vector<StageView> stages;
  std::vector<CurveView> training;
  std::vector<std::string> warnings;
};

/// "float", "ptq", "qat".
const char* kind_name(RunKind kind);

/// What the report says bits per weight mean: of the quantized runs, whose text says more.
std::string basis_of(const ReportView& view);

/// The five groups that charts of bytes use, from a role of bytes.by_role: embedding and head,
/// attention, MLP, scales and kept columns, everything else (norms, tokenizer, metadata).
inline constexpr int kRoleGroups = 5;
int role_group(const std::string& role);
const char* role_group_name(int group);

/// Requires check_report(report).
ReportView make_view(const Json& report);

}  // namespace elastiq
