#include "model/run_evaluate.h"

#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <system_error>
#include <utility>

#include "core/peak_memory.h"
#include "formats/safetensors.h"
#include "model/evaluate.h"
#include "model/windows.h"

namespace elastiq {
namespace {

namespace fs = std::filesystem;

/// What is compared with the float model. source is empty when it is the float model itself.
struct Candidate {
  std::optional<LogitSource> source;
  SizeFigures sizes;
  std::string kind;
  Json speed;
  Json isa;
  Json session_bytes;
};

struct Inputs {
  ModelConfig config;
  std::vector<std::vector<std::uint32_t>> windows;
  std::vector<TaskItem> items;
  std::int64_t longest = 0;  ///< Tokens that a session must hold.
  std::vector<std::string> warnings;
};

struct LoadedFolder {
  std::shared_ptr<DecoderModel> model;
  SizeFigures sizes;
  std::vector<std::string> warnings;  ///< Of the checkpoint.
};

Json no_speed() {
  return Json{{"prefill_tps", nullptr}, {"decode_tps", nullptr}};
}

bool same_path(const fs::path& a, const fs::path& b) {
  std::error_code error;
  return fs::equivalent(a, b, error) && !error;
}

Status check_options(const EvaluateOptions& options) {
  if (options.context < 4) {
    return Error{ErrorCode::kInvalidArgument, "context",
                 fmt::format("found {}, at least 4", options.context), 0};
  }
  if (options.contexts < 0 || options.task_limit < 0 || options.threads < 1) {
    return Error{ErrorCode::kInvalidArgument, "evaluate",
                 "contexts and task_limit must not be negative, threads at least 1", 0};
  }
  const std::string& kind = options.kind;
  if (kind.empty() || kind == "float" || kind == "ptq" || kind == "qat") return ok_status();
  return Error{ErrorCode::kInvalidArgument, "kind",
               fmt::format("found \"{}\", allowed float, ptq, qat", kind), 0};
}

Result<Inputs> read_inputs(const EvaluateOptions& options, const Tokenizer& tokenizer) {
  Inputs inputs;
  ELQ_TRY(config, read_model_config(options.float_model));
  inputs.config = std::move(config);
  if (options.context > inputs.config.max_positions) {
    return Error{ErrorCode::kInvalidArgument, "context",
                 fmt::format("found {}, the model has {} positions", options.context,
                             inputs.config.max_positions),
                 0};
  }
  ELQ_TRY(text, read_text_data({options.text}));
  WindowOptions cut;
  cut.length = options.context;
  cut.max_windows = options.contexts;
  cut.min_windows = std::max<std::int64_t>(options.contexts, 1);
  ELQ_TRY(windows, make_windows(text, tokenizer, cut));
  inputs.windows = std::move(windows.tokens);
  inputs.warnings = std::move(windows.warnings);
  inputs.longest = options.context;
  if (options.task.empty()) return inputs;
  ELQ_TRY(items, read_task(options.task, options.task_limit, tokenizer));
  inputs.longest = std::max(inputs.longest, task_tokens(items, tokenizer));
  inputs.items = std::move(items);
  if (inputs.longest > inputs.config.max_positions) {
    return Error{ErrorCode::kLimitExceeded, options.task.string(),
                 fmt::format("an item needs {} tokens, the model has {} positions", inputs.longest,
                             inputs.config.max_positions),
                 0};
  }
  return inputs;
}

// Products in float32: the reference must not carry bf16's rounding.
std::shared_ptr<DecoderModel> make_model(const ModelConfig& config, Weights weights) {
  return std::make_shared<DecoderModel>(
      DecoderModel{Decoder(config, MatmulType::kF32), std::move(weights)});
}

Result<LoadedFolder> load_hf_folder(const fs::path& folder, const ModelConfig& config) {
  ELQ_TRY(checkpoint, Checkpoint::open(folder));
  ELQ_TRY(tensors, assign_roles(checkpoint, config));
  ELQ_TRY(weights, load_weights(tensors));
  ELQ_CHECK(check_weights(config, weights, folder.string()));
  return LoadedFolder{make_model(config, std::move(weights)), folder_sizes(tensors),
                      tensors.warnings};
}

Result<LoadedFolder> load_quantized_folder(const QuantizedCheckpoint& checkpoint,
                                           const ModelConfig& config, const fs::path& folder) {
  ELQ_TRY(weights, load_weights(checkpoint));
  ELQ_CHECK(check_weights(config, weights, folder.string()));
  return LoadedFolder{make_model(config, std::move(weights)), folder_sizes(checkpoint, config), {}};
}

Status check_vocab(std::int64_t found, std::int64_t expected, const fs::path& model) {
  if (found == expected) return ok_status();
  return Error{ErrorCode::kInconsistent, model.string(),
               fmt::format("vocabulary of {}, the float model has {}", found, expected), 0};
}

// What made the weights: QAT leaves its figures under "qat" in quantization.json, which a package
// carries in its provenance.
std::string kind_of(const Json& quantization) {
  return quantization.is_object() && quantization.contains("qat") ? "qat" : "ptq";
}

Result<std::string> package_kind(const Package& package) {
  const std::vector<PackageTensor>& tensors = package.tensors();
  const bool packed = std::any_of(tensors.begin(), tensors.end(), [](const PackageTensor& tensor) {
    return tensor.record.layout == ELQ_LAYOUT_PACKED;
  });
  if (!packed) return std::string("float");
  const auto section = package.section(ELQ_SECTION_PROV);
  if (!section.ok()) return std::string("ptq");
  const std::vector<std::byte>& bytes = section.value();
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  ELQ_TRY(json, parse_json(text, "section PROV", JsonLimits{}));
  const auto found = json.find("quantization");
  return found == json.end() ? std::string("ptq") : kind_of(*found);
}

Result<Candidate> open_package(const EvaluateOptions& options, const Inputs& inputs) {
  PackageModel::Options session;
  session.max_tokens = static_cast<std::uint32_t>(inputs.longest);
  session.threads = options.threads;
  ELQ_TRY(opened, PackageModel::open(options.model, session));
  auto model = std::make_shared<PackageModel>(std::move(opened));
  ELQ_CHECK(check_vocab(model->config().vocab, inputs.config.vocab, options.model));
  Candidate candidate;
  candidate.source = package_source(model, options.model.string());
  candidate.source->max_tokens = inputs.longest;
  candidate.sizes = package_sizes(model->package());
  ELQ_TRY(kind, package_kind(model->package()));
  candidate.kind = std::move(kind);
  candidate.isa = model->isa();
  candidate.session_bytes = model->session_bytes();
  ELQ_TRY(speed, measure_speed(*candidate.source, *model, inputs.windows.front()));
  candidate.speed = std::move(speed);
  return candidate;
}

Result<Candidate> open_folder(const EvaluateOptions& options, const Inputs& inputs) {
  ELQ_TRY(config, read_model_config(options.model));
  ELQ_CHECK(check_vocab(config.vocab, inputs.config.vocab, options.model));
  Candidate candidate;
  candidate.speed = no_speed();
  std::optional<LoadedFolder> folder;
  if (is_quantized_checkpoint(options.model)) {
    ELQ_TRY(checkpoint, read_quantized_checkpoint(options.model));
    ELQ_TRY(loaded, load_quantized_folder(checkpoint, config, options.model));
    folder = std::move(loaded);
    candidate.kind = kind_of(checkpoint.info);
  } else {
    ELQ_TRY(loaded, load_hf_folder(options.model, config));
    folder = std::move(loaded);
    candidate.kind = "float";
  }
  candidate.sizes = std::move(folder->sizes);
  candidate.source = decoder_source(folder->model, options.model.string());
  return candidate;
}

Result<Candidate> open_candidate(const EvaluateOptions& options, const Inputs& inputs) {
  std::error_code error;
  if (fs::is_regular_file(options.model, error)) return open_package(options, inputs);
  if (fs::is_directory(options.model, error)) return open_folder(options, inputs);
  return Error{ErrorCode::kIo, options.model.string(),
               "expected a package file, a quantized checkpoint folder or a Hugging Face folder",
               0};
}

void put(Json& metrics, const char* name, const Figure& figure) {
  metrics[name] = figure.value;
  metrics[std::string(name) + "_se"] = figure.se;
}

Json metrics_json(const MetricSummary& summary, const std::optional<Figure>& task) {
  Json metrics = Json::object();
  put(metrics, "perplexity", summary.perplexity);
  put(metrics, "perplexity_ratio", summary.perplexity_ratio);
  put(metrics, "kl_mean", summary.kl_mean);
  put(metrics, "kl_median", summary.kl_median);
  put(metrics, "kl_p99", summary.kl_p99);
  put(metrics, "top1", summary.top1);
  metrics["task_accuracy"] = nullptr;
  metrics["task_accuracy_se"] = nullptr;
  if (task) put(metrics, "task_accuracy", *task);
  return metrics;
}

std::string run_name(const EvaluateOptions& options) {
  if (!options.name.empty()) return options.name;
  const fs::path clean = (fs::absolute(options.model) / "").parent_path();
  return clean.filename().string();
}

Json run_json(const EvaluateOptions& options, const Candidate& candidate,
              const MetricSummary& summary, const std::optional<Figure>& task) {
  Json run = Json::object();
  run["name"] = run_name(options);
  run["kind"] = options.kind.empty() ? candidate.kind : options.kind;
  run["bits_per_weight"] = candidate.sizes.bits_per_weight;
  run["bytes"] = candidate.sizes.bytes;
  run["metrics"] = metrics_json(summary, task);
  run["tokens"] = summary.tokens;
  run["contexts"] = summary.contexts;
  run["speed"] = candidate.speed;
  run["peak_rss_bytes"] = peak_rss_bytes();
  run["session_bytes"] = candidate.session_bytes;
  run["isa"] = candidate.isa;
  run["kl_per_context"] = summary.kl_per_context;
  return run;
}

std::vector<std::int64_t> end_tokens(const ModelConfig& config, const Tokenizer& tokenizer) {
  std::vector<std::int64_t> eos = config.eos;
  if (tokenizer.eos() >= 0) eos.push_back(tokenizer.eos());
  return eos;
}

}  // namespace

Result<Json> run_evaluate(const EvaluateOptions& options) {
  ELQ_CHECK(check_options(options));
  ELQ_TRY(tokenizer, Tokenizer::open(options.float_model));
  ELQ_TRY(inputs, read_inputs(options, tokenizer));
  at::set_num_threads(options.threads);
  Candidate candidate;
  const bool itself = same_path(options.float_model, options.model);
  if (!itself) {  // First: the speed of a package is measured before other work has threads.
    ELQ_TRY(opened, open_candidate(options, inputs));
    candidate = std::move(opened);
  }
  ELQ_TRY(reference, load_hf_folder(options.float_model, inputs.config));
  const LogitSource float_source = decoder_source(reference.model, options.float_model.string());
  if (itself) {
    candidate.kind = "float";
    candidate.speed = no_speed();
    candidate.sizes = reference.sizes;
  }
  const LogitSource* compared = candidate.source ? &*candidate.source : nullptr;
  ELQ_TRY(scores, score_windows(float_source, compared, inputs.windows, options.threads));
  ELQ_TRY(summary, summarize(scores));
  std::optional<Figure> task;
  if (!inputs.items.empty()) {
    const LogitSource& answering = compared != nullptr ? *compared : float_source;
    ELQ_TRY(accuracy, task_accuracy(answering, inputs.items, tokenizer,
                                    end_tokens(inputs.config, tokenizer)));
    task = accuracy;
  }
  Json run = run_json(options, candidate, summary, task);
  run["warnings"] = reference.warnings;
  for (const std::string& warning : inputs.warnings) run["warnings"].push_back(warning);
  return run;
}

}  // namespace elastiq
