#include "report/view.h"

#include <array>

namespace elastiq {
namespace {

const Json* find(const Json& object, const char* key) {
  if (!object.is_object()) return nullptr;
  const auto it = object.find(key);
  return it == object.end() || it->is_null() ? nullptr : &*it;
}

std::optional<double> number(const Json& object, const char* key) {
  const Json* value = find(object, key);
  if (value == nullptr || !value->is_number()) return std::nullopt;
  return value->get<double>();
}

bool flag(const Json& object, const char* key) {
  const Json* value = find(object, key);
  return value != nullptr && value->is_boolean() && value->get<bool>();
}

std::string text(const Json& object, const char* key) {
  const Json* value = find(object, key);
  return value != nullptr && value->is_string() ? value->get<std::string>() : std::string();
}

const Json& section(const Json& object, const char* key) {
  static const Json kEmpty = Json::array();
  const Json* value = find(object, key);
  return value == nullptr ? kEmpty : *value;
}

Measure measure(const Json& metrics, const std::string& key) {
  return {number(metrics, key.c_str()), number(metrics, (key + "_se").c_str())};
}

std::string plain_text(const Json& value) {
  return value.is_string() ? value.get<std::string>() : value.dump();
}

RunKind kind_of(const std::string& name) {
  if (name == "ptq") return RunKind::kPtq;
  return name == "qat" ? RunKind::kQat : RunKind::kFloat;
}

void read_metrics(const Json& metrics, RunView& run) {
  run.perplexity = measure(metrics, "perplexity");
  run.perplexity_ratio = measure(metrics, "perplexity_ratio");
  run.kl_mean = measure(metrics, "kl_mean");
  run.kl_median = measure(metrics, "kl_median");
  run.kl_p99 = measure(metrics, "kl_p99");
  run.top1 = measure(metrics, "top1");
  run.task_accuracy = measure(metrics, "task_accuracy");
}

/// The float model has no package; its weights as they are in memory stand beside the packages.
void add_float_size(RunView& run) {
  if (run.kind != RunKind::kFloat) return;
  double sum = 0;
  for (const auto& [role, bytes] : run.bytes_by_role) sum += bytes;
  if (!run.package_bytes && sum > 0) run.package_bytes = sum;
  if (!run.bits_file) run.bits_file = run.bits_ram;
}

RunView read_run(const Json& json) {
  RunView run;
  run.name = text(json, "name");
  run.kind = kind_of(text(json, "kind"));
  const Json& bits = section(json, "bits_per_weight");
  run.bits_file = number(bits, "file");
  run.bits_ram = number(bits, "ram");
  run.basis = text(bits, "basis");
  const Json& bytes = section(json, "bytes");
  run.package_bytes = number(bytes, "package");
  for (const auto& [role, value] : section(bytes, "by_role").items()) {
    if (value.is_number()) run.bytes_by_role.emplace_back(role, value.get<double>());
  }
  add_float_size(run);
  read_metrics(section(json, "metrics"), run);
  run.tokens = number(json, "tokens");
  run.contexts = number(json, "contexts");
  run.prefill_tps = number(section(json, "speed"), "prefill_tps");
  run.decode_tps = number(section(json, "speed"), "decode_tps");
  run.peak_rss = number(json, "peak_rss_bytes");
  for (const Json& layer : section(json, "layers")) {
    run.layers.push_back({static_cast<std::int64_t>(number(layer, "layer").value_or(-1)),
                          text(layer, "role"), number(layer, "bits_per_weight").value_or(0),
                          text(layer, "scheme"), text(layer, "rule")});
  }
  return run;
}

std::vector<double> numbers(const Json& array) {
  std::vector<double> out;
  for (const Json& value : array) out.push_back(value.is_number() ? value.get<double>() : 0);
  return out;
}

}  // namespace

const char* kind_name(RunKind kind) {
  constexpr std::array kNames = {"float", "ptq", "qat"};
  return kNames.at(static_cast<std::size_t>(kind));
}

std::string basis_of(const ReportView& view) {
  std::string basis;
  for (const RunView& run : view.runs) {
    if (run.basis.size() > basis.size()) basis = run.basis;
  }
  return basis;
}

int role_group(const std::string& role) {
  const auto begins = [&role](const char* prefix) { return role.rfind(prefix, 0) == 0; };
  if (begins("embed") || begins("head")) return 0;
  if (begins("attn")) return 1;
  if (begins("mlp")) return 2;
  if (begins("scales") || begins("kept")) return 3;
  return 4;
}

const char* role_group_name(int group) {
  constexpr std::array<const char*, kRoleGroups> kNames = {
      "embedding, head", "attention", "MLP", "scales, kept columns", "norms, tokenizer, other"};
  return kNames.at(static_cast<std::size_t>(group));
}

ReportView make_view(const Json& report) {
  ReportView view;
  view.title = text(report, "title");
  view.tool = text(report, "tool");
  for (const auto& [key, value] : section(report, "machine").items()) {
    view.machine.emplace_back(key, plain_text(value));
  }
  if (find(report, "recipe") != nullptr) view.recipe = report["recipe"].dump(2);
  for (const Json& run : section(report, "runs")) view.runs.push_back(read_run(run));
  for (const Json& row : section(report, "comparisons")) {
    view.comparisons.push_back({text(row, "a"), text(row, "b"), number(row, "kl_mean").value_or(0),
                                number(row, "kl_mean_se").value_or(0),
                                number(row, "low").value_or(0), number(row, "high").value_or(0),
                                flag(row, "distinguishable")});
  }
  for (const Json& row : section(report, "stages")) {
    view.stages.push_back({text(row, "id"), text(row, "use"), number(row, "seconds"),
                           number(row, "peak_rss_bytes"), flag(row, "cached")});
  }
  for (const Json& row : section(report, "training")) {
    view.training.push_back(
        {text(row, "name"), numbers(section(row, "steps")), numbers(section(row, "loss"))});
  }
  for (const Json& warning : section(report, "warnings")) {
    view.warnings.push_back(plain_text(warning));
  }
  return view;
}

}  // namespace elastiq
