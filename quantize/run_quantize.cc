#include "quantize/run_quantize.h"

#include <ATen/Parallel.h>

#include <chrono>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "core/file.h"
#include "core/progress.h"
#include "formats/stats_file.h"
#include "kernels/elq_layout.h"
#include "model/decoder.h"
#include "model/model_digest.h"
#include "quantize/run_blocks.h"
#include "quantize/run_plan.h"

namespace elastiq {
namespace {

struct Stage {
  const QuantizeOptions& options;
  ThreadPool& pool;
  ModelConfig config;
  Checkpoint checkpoint;
  ModelTensors tensors;
  std::vector<PlanEntry> plan;
  std::optional<CalibrationStats> stats;
  std::string model_digest;
  QuantizedCheckpoint out;
  std::map<std::string, Json> figures;  ///< By tensor name.
  std::vector<std::string> warnings;
};

Status check_options(const QuantizeOptions& options) {
  const auto refuse = [](const char* name, const std::string& detail) {
    return Error{ErrorCode::kInvalidArgument, name, detail, 0};
  };
  if (options.threads < 1) {
    return refuse("threads", "found " + std::to_string(options.threads) + ", at least 1");
  }
  if (!(options.damping >= 0.0 && options.damping <= 10.0)) {
    return refuse("damping", "found " + std::to_string(options.damping) + ", allowed 0 to 10");
  }
  if (options.damping_steps < 0 || options.damping_steps > 12) {
    return refuse("damping_steps",
                  "found " + std::to_string(options.damping_steps) + ", allowed 0 to 12");
  }
  if (!(options.drift_share >= 0.0 && options.drift_share <= 1.0)) {
    return refuse("drift_share",
                  "found " + std::to_string(options.drift_share) + ", allowed 0 to 1");
  }
  return ok_status();
}

Status open_stats(Stage& stage) {
  if (stage.options.stats.empty()) return ok_status();
  ELQ_TRY(stats, read_stats(stage.options.stats));
  ELQ_TRY(digest, json_string_or(stats.info, "model_digest", "", "stats.json"));
  if (digest != stage.model_digest) {
    return Error{ErrorCode::kFingerprint, stage.options.stats.string(),
                 "statistics of another model (digest " + digest.substr(0, 12) +
                     "...), this one is " + stage.model_digest.substr(0, 12) + "...",
                 0};
  }
  stage.stats = std::move(stats);
  return ok_status();
}

/// Statistics of the input that a matrix reads, or nullptr without statistics.
Result<const InputStats*> input_stats(const Stage& stage, const ModelTensor& tensor) {
  const InputStats* none = nullptr;
  if (!stage.stats) return none;
  const std::string key = input_key(tensor.role, tensor.layer);
  const auto found = stage.stats->inputs.find(key);
  const auto columns = static_cast<std::int64_t>(tensor.view->shape[1]);
  if (found == stage.stats->inputs.end()) {
    return Error{ErrorCode::kMissing, stage.options.stats.string(),
                 "no statistics '" + key + "', which " + tensor.name + " needs", 0};
  }
  if (found->second.columns != columns) {
    return Error{ErrorCode::kInconsistent, stage.options.stats.string(),
                 "'" + key + "' has " + std::to_string(found->second.columns) + " columns, " +
                     tensor.name + " has " + std::to_string(columns),
                 0};
  }
  return &found->second;
}

const PlanEntry* planned(const Stage& stage, const ModelTensor& tensor) {
  for (const PlanEntry& entry : stage.plan) {
    if (entry.tensor.name == tensor.name) return entry.scheme ? &entry : nullptr;
  }
  return nullptr;
}

void store(Stage& stage, const std::string& name, QuantizedTensor tensor) {
  stage.figures[name] = std::move(tensor.figures);
  stage.out.matrices[name] = std::move(tensor.matrix);
}

/// What the embedding's columns weigh: as the head's input when tied, equally when it is only
/// looked up.
Result<std::vector<float>> importance_of(const Stage& stage, const ModelTensor& tensor) {
  if (tensor.role == ELQ_ROLE_EMBED && !stage.tensors.tied) return std::vector<float>();
  ELQ_TRY(stats, input_stats(stage, tensor));
  if (stats == nullptr) return std::vector<float>();
  return tensor.role == ELQ_ROLE_EMBED ? tied_importance(stats->importance) : stats->importance;
}

Status quantize_rtn_tensor(Stage& stage, const ModelTensor& tensor, const PlanEntry& entry) {
  ELQ_TRY(weights, float_weights(*tensor.view));
  ELQ_TRY(importance, importance_of(stage, tensor));
  ELQ_TRY(quantized, quantize_tensor_rtn(entry, weights, importance, stage.pool));
  store(stage, tensor.name, std::move(quantized));
  return ok_status();
}

Status run_rtn(Stage& stage) {
  Progress progress("quantize", stage.tensors.tensors.size(), Progress::default_mode());
  std::uint64_t done = 0;
  for (const ModelTensor& tensor : stage.tensors.tensors) {
    const PlanEntry* entry = planned(stage, tensor);
    if (entry != nullptr) ELQ_CHECK(quantize_rtn_tensor(stage, tensor, *entry));
    progress.step(++done, tensor.name);
  }
  return ok_status();
}

GptqOptions gptq_options(const QuantizeOptions& options) {
  GptqOptions result;
  result.damping = options.damping;
  result.damping_steps = options.damping_steps;
  result.drift_share = options.drift_share;
  result.fallback = options.fallback == QuantizeOptions::Fallback::kRtn
                        ? GptqOptions::Fallback::kRtn
                        : GptqOptions::Fallback::kForbidden;
  return result;
}

/// A tied embedding feeds the first block, so it is quantized before the head's input of the
/// quantized model can be known: the statistics of the float model stand in.
Status quantize_embedding(Stage& stage, const ModelTensor& tensor, const PlanEntry& entry) {
  if (!stage.tensors.tied) return quantize_rtn_tensor(stage, tensor, entry);
  ELQ_TRY(stats, input_stats(stage, tensor));
  if (stats == nullptr || stats->second_moment.empty()) {
    return Error{ErrorCode::kRecipe, tensor.name,
                 "GPTQ of a tied embedding needs statistics with the second moment of 'head_in'; "
                 "run calibrate first, keep the embedding, or use RTN",
                 0};
  }
  ELQ_TRY(weights, float_weights(*tensor.view));
  const std::vector<double> moment = tied_second_moment(stats->second_moment, stats->columns);
  ELQ_TRY(quantized, quantize_tensor_gptq(entry, weights, {moment, {}}, gptq_options(stage.options),
                                          stage.pool));
  store(stage, tensor.name, std::move(quantized));
  return ok_status();
}

Status check_ids(const Windows& windows, std::int64_t vocab) {
  for (const std::vector<std::uint32_t>& window : windows.tokens) {
    for (const std::uint32_t id : window) {
      if (id < static_cast<std::uint64_t>(vocab)) continue;
      return Error{ErrorCode::kInconsistent, "tokenizer",
                   "token id " + std::to_string(id) + ", the embedding has " +
                       std::to_string(vocab) + " rows",
                   0};
    }
  }
  return ok_status();
}

Result<Windows> open_windows(const Stage& stage) {
  const DataOptions& data = stage.options.data;
  if (data.files.empty()) {
    return Error{ErrorCode::kRecipe, "data", "GPTQ needs calibration text: data.files is empty", 0};
  }
  ELQ_CHECK(check_sequence_length(data, stage.config.max_positions));
  ELQ_TRY(tokenizer, Tokenizer::open(stage.options.model));
  ELQ_TRY(windows, load_windows(data, tokenizer));
  ELQ_CHECK(check_ids(windows, stage.config.vocab));
  return windows;
}

Status run_gptq(Stage& stage, Json& info) {
  ELQ_TRY(windows, open_windows(stage));
  stage.warnings.insert(stage.warnings.end(), windows.warnings.begin(), windows.warnings.end());
  ELQ_TRY(text, read_text_data(stage.options.data.files));
  info["data_digest"] = text.digest;
  info["sequence_length"] = stage.options.data.sequence_length;
  info["windows"] = windows.tokens.size();
  info["seed"] = stage.options.data.seed;
  info["matmul"] = matmul_type_name(stage.options.matmul);
  ELQ_TRY(original, load_weights(stage.tensors));
  ELQ_CHECK(check_weights(stage.config, original, stage.options.model.string()));

  Weights weights = original;
  PlanByName plan;
  std::map<std::string, std::string> stored_name;
  for (const ModelTensor& tensor : stage.tensors.tensors) {
    const PlanEntry* entry = planned(stage, tensor);
    if (entry == nullptr) continue;
    const std::string name = tensor_name(tensor.role, tensor.layer);
    if (tensor.role == ELQ_ROLE_EMBED) {
      ELQ_CHECK(quantize_embedding(stage, tensor, *entry));
      weights[name] = dequantized_tensor(stage.out.matrices.at(tensor.name));
      continue;
    }
    plan[name] = *entry;
    stored_name[name] = tensor.name;
  }
  const GptqOptions options = gptq_options(stage.options);
  const Decoder decoder(stage.config, stage.options.matmul);
  return quantize_blocks({decoder, windows, plan, original, options, stage.pool}, weights,
                         [&](const std::string& name, QuantizedTensor tensor) {
                           store(stage, stored_name.at(name), std::move(tensor));
                         });
}

/// Everything that is not quantized, byte for byte.
void copy_plain(Stage& stage) {
  for (const ModelTensor& tensor : stage.tensors.tensors) {
    if (stage.out.matrices.contains(tensor.name)) continue;
    const TensorView& view = *tensor.view;
    stage.out.plain[tensor.name] = {view.dtype, view.shape,
                                    std::vector<std::byte>(view.bytes.begin(), view.bytes.end())};
  }
}

Json rules_json(const std::vector<QuantRule>& rules) {
  Json result = Json::array();
  for (const QuantRule& rule : rules) {
    Json item;
    item["id"] = rule.id;
    item["roles"] = rule.roles;
    item["name"] = rule.name;
    item["layers"] = rule.layers;
    item["scheme"] = rule.scheme;
    result.push_back(std::move(item));
  }
  return result;
}

/// The plan as it was carried out: figures for what was quantized, a reason for what was kept.
Json plan_figures(const Stage& stage) {
  Json result = Json::array();
  for (const PlanEntry& entry : stage.plan) {
    const auto figures = stage.figures.find(entry.tensor.name);
    if (figures != stage.figures.end()) {
      result.push_back(figures->second);
      continue;
    }
    Json line = plan_json({entry})[0];
    line["layer"] = entry.tensor.layer;
    line["reason"] = entry.rule == "default"
                         ? "no rule names it; embedding, head and 'keep' stay at source type"
                         : "rule '" + entry.rule + "' keeps it";
    result.push_back(std::move(line));
  }
  return result;
}

/// What reaches quantization.json: nothing that depends on the machine or the moment.
Json start_info(const Stage& stage) {
  const QuantizeOptions& options = stage.options;
  Json info;
  info["stage"] = "quantize";
  info["tool_version"] = ELASTIQ_VERSION;
  info["method"] = options.method == QuantizeOptions::Method::kRtn ? "rtn" : "gptq";
  info["scheme"] = options.scheme;
  info["rules"] = rules_json(options.rules);
  info["model_digest"] = stage.model_digest;
  info["stats"] = stage.stats ? stage.stats->info : Json();
  if (options.method == QuantizeOptions::Method::kGptq) {
    info["damping"] = options.damping;
    info["damping_steps"] = options.damping_steps;
    info["drift_share"] = options.drift_share;
    info["fallback"] = options.fallback == QuantizeOptions::Fallback::kRtn ? "rtn" : "forbidden";
  }
  return info;
}

void finish_info(const Stage& stage, Json& info) {
  std::uint64_t bytes = 0;
  std::uint64_t plain = 0;
  std::int64_t fallbacks = 0;
  for (const auto& [name, line] : stage.figures) {
    bytes += line.at("bytes").get<std::uint64_t>();
    if (line.contains("path") && line.at("path") != path_name(GptqPath::kGptq)) ++fallbacks;
  }
  for (const auto& [name, tensor] : stage.out.plain) plain += tensor.bytes.size();
  info["quantized_tensors"] = stage.figures.size();
  info["quantized_bytes"] = bytes;
  info["plain_bytes"] = plain;
  info["rtn_fallbacks"] = fallbacks;
  info["tied"] = stage.tensors.tied;
  Json stripped = Json::array();
  for (const StrippedTensor& tensor : stage.tensors.stripped) {
    stripped.push_back({{"name", tensor.name}, {"reason", tensor.reason}, {"bytes", tensor.bytes}});
  }
  info["stripped"] = std::move(stripped);
  info["plan"] = plan_figures(stage);
}

Status open_model(Stage& stage) {
  const QuantizeOptions& options = stage.options;
  ELQ_TRY(config, read_model_config(options.model));
  ELQ_TRY(checkpoint, Checkpoint::open(options.model));
  stage.config = std::move(config);
  stage.checkpoint = std::move(checkpoint);
  ELQ_TRY(tensors, assign_roles(stage.checkpoint, stage.config));
  stage.tensors = std::move(tensors);
  stage.warnings = stage.tensors.warnings;
  // Whatever the source calls them ("layers.0...", "model.layers.0..."), readers of the result find
  // tensors by one name.
  for (ModelTensor& tensor : stage.tensors.tensors) {
    tensor.name = tensor_name(tensor.role, tensor.layer);
  }
  ELQ_TRY(plan, make_plan(plan_inputs(stage.tensors), options.scheme, options.rules));
  stage.plan = std::move(plan);
  ELQ_TRY(digest, model_digest(options.model));
  stage.model_digest = std::move(digest);
  return open_stats(stage);
}

}  // namespace

Result<Json> run_quantize(const QuantizeOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  ELQ_CHECK(check_options(options));
  at::set_num_threads(options.threads);
  ThreadPool pool(options.threads);
  Stage stage{options, pool, {}, {}, {}, {}, {}, {}, {}, {}, {}};
  ELQ_CHECK(open_model(stage));
  Json info = start_info(stage);
  if (options.method == QuantizeOptions::Method::kRtn) {
    ELQ_CHECK(run_rtn(stage));
  } else {
    ELQ_CHECK(run_gptq(stage, info));
  }
  copy_plain(stage);
  finish_info(stage, info);
  stage.out.info = info;
  info["warnings"] = stage.warnings;
  info["threads"] = options.threads;
  info["seconds"] = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  ELQ_CHECK(write_quantized_checkpoint(options.out, stage.out, options.model, info));
  return info;
}

}  // namespace elastiq
