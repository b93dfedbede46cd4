#include "model/config.h"

#include <array>
#include <cmath>
#include <string>
#include <string_view>
#include <utility>

#include "core/file.h"
#include "core/json.h"

namespace elastiq {
namespace {

// Limits of a model. Kept columns are indexed by u16, so no matrix is wider than 65536.
constexpr std::int64_t kMaxWidth = 65536;
constexpr std::int64_t kMaxLayers = 1024;
constexpr std::int64_t kMaxHeads = 1024;
constexpr std::int64_t kMaxHeadDim = 1024;
constexpr std::int64_t kMaxVocab = std::int64_t{1} << 22;
constexpr std::int64_t kMaxPositions = std::int64_t{1} << 24;

// Keys of decoders that look like Llama and compute something else; null and 1 change nothing.
constexpr std::array kForeignKeys = {
    "embedding_multiplier",  "residual_multiplier",    "attention_multiplier",
    "logits_scaling",        "attn_logit_softcapping", "final_logit_softcapping",
    "query_pre_attn_scalar", "partial_rotary_factor",  "no_rope_layers",
    "num_experts",           "num_local_experts",      "layer_types",
    "layer_sharing",         "share_embedding",        "clip_qkv",
    "sliding_window_pattern"};

Error unsupported(const std::string& subject, const std::string& detail) {
  return Error{ErrorCode::kUnsupportedType, subject, detail, 0};
}

Error inconsistent(const std::string& subject, const std::string& detail) {
  return Error{ErrorCode::kInconsistent, subject, detail, 0};
}

// architectures[0] decides, model_type is the fallback (ecosystem.md 4.1).
Result<std::string> read_architecture(const Json& json, const std::string& subject) {
  std::string name;
  const auto list = json.find("architectures");
  if (list != json.end() && list->is_array() && !list->empty() && (*list)[0].is_string()) {
    name = (*list)[0].get<std::string>();
  } else {
    ELQ_TRY(type, json_string_or(json, "model_type", "", subject));
    if (type.empty()) {
      return Error{ErrorCode::kMissing, subject, "neither architectures nor model_type is given",
                   0};
    }
    name = type;
    if (type == "llama") name = "LlamaForCausalLM";
    if (type == "mistral") name = "MistralForCausalLM";
  }
  if (name == "LlamaForCausalLM" || name == "MistralForCausalLM") return name;
  return unsupported(subject, "architecture is " + name +
                                  ", supported are LlamaForCausalLM and MistralForCausalLM");
}

Status check_not_quantized(const Json& json, const std::string& subject) {
  const auto found = json.find("quantization_config");
  if (found == json.end() || found->is_null()) return ok_status();
  ELQ_TRY(method, json_string_or(*found, "quant_method", "an unnamed method", subject));
  return unsupported(subject,
                     "already quantized by " + method + "; give the original checkpoint instead");
}

Status check_foreign_keys(const Json& json, const std::string& subject) {
  for (const char* key : kForeignKeys) {
    const auto found = json.find(key);
    if (found == json.end() || found->is_null() || *found == false || *found == 1) continue;
    return unsupported(subject, std::string(key) + " is " + found->dump() +
                                    ", which a Llama decoder does not have");
  }
  const auto window = json.find("sliding_window");
  ELQ_TRY(in_use, json_bool_or(json, "use_sliding_window", true, subject));
  if (in_use && window != json.end() && !window->is_null()) {
    return unsupported(subject, "sliding_window is " + window->dump() + ", only null is supported");
  }
  return ok_status();
}

Status check_activation(const Json& json, const std::string& subject) {
  ELQ_TRY(older, json_string_or(json, "hidden_act", "silu", subject));
  ELQ_TRY(activation, json_string_or(json, "hidden_activation", older, subject));
  if (activation == "silu" || activation == "swish") return ok_status();
  return unsupported(subject, "activation is " + activation + ", supported is silu");
}

bool only_theta(const Json& values) {
  for (const auto& [name, value] : values.items()) {
    const bool known = name == "rope_theta" || name == "partial_rotary_factor" || value.is_null();
    if (!known) return false;
  }
  return true;
}

// A rope dictionary: rope_scaling, or rope_parameters of transformers 5 with theta inside.
Status read_rope(const Json& rope, const char* key, const std::string& subject,
                 ModelConfig& config) {
  if (!rope.is_object()) return inconsistent(subject, std::string(key) + " is not an object");
  const auto full = rope.find("full_attention");
  const Json& values = full != rope.end() && full->is_object() ? *full : rope;
  ELQ_TRY(older, json_string_or(values, "type", "", subject));
  ELQ_TRY(type, json_string_or(values, "rope_type", older, subject));
  // rope_parameters of an unscaled model may leave the type out; rope_scaling is there to scale.
  const bool may_be_unnamed = std::string_view(key) == "rope_parameters" && only_theta(values);
  if (type.empty() && !may_be_unnamed) {
    return unsupported(subject, std::string(key) + " is " + values.dump() +
                                    " without a type, supported is rope_type default");
  }
  if (!type.empty() && type != "default") {
    return unsupported(subject, std::string(key) + " has type " + type + ", supported is default");
  }
  const auto partial = values.find("partial_rotary_factor");
  if (partial != values.end() && !partial->is_null() && *partial != 1) {
    return unsupported(subject, "partial_rotary_factor is " + partial->dump() + ", supported is 1");
  }
  ELQ_TRY(theta, json_double_or(values, "rope_theta", config.rope_theta, subject));
  config.rope_theta = theta;
  return ok_status();
}

Status read_numbers(const Json& json, const std::string& subject, ModelConfig& config) {
  ELQ_TRY(theta, json_double_or(json, "rope_theta", 10000.0, subject));
  config.rope_theta = theta;
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    const auto rope = json.find(key);
    if (rope == json.end() || rope->is_null()) continue;
    ELQ_CHECK(read_rope(*rope, key, subject, config));
  }
  // The default of transformers' LlamaConfig.
  ELQ_TRY(eps, json_double_or(json, "rms_norm_eps", 1e-6, subject));
  config.rms_eps = eps;
  if (!(config.rope_theta > 0) || !std::isfinite(config.rope_theta)) {
    return inconsistent(subject, "rope_theta must be positive");
  }
  if (!(eps >= 0) || eps > 1) return inconsistent(subject, "rms_norm_eps must be in [0, 1]");
  return ok_status();
}

Status read_shape(const Json& json, const std::string& subject, ModelConfig& config) {
  ELQ_TRY(hidden, json_int(json, "hidden_size", 1, kMaxWidth, subject));
  ELQ_TRY(layers, json_int(json, "num_hidden_layers", 1, kMaxLayers, subject));
  ELQ_TRY(heads, json_int(json, "num_attention_heads", 1, kMaxHeads, subject));
  ELQ_TRY(kv_heads, json_int_or(json, "num_key_value_heads", heads, 1, kMaxHeads, subject));
  ELQ_TRY(head_dim, json_int_or(json, "head_dim", 0, 1, kMaxHeadDim, subject));
  ELQ_TRY(ffn, json_int(json, "intermediate_size", 1, kMaxWidth, subject));
  ELQ_TRY(vocab, json_int(json, "vocab_size", 1, kMaxVocab, subject));
  ELQ_TRY(positions, json_int_or(json, "max_position_embeddings", 2048, 1, kMaxPositions, subject));
  config.hidden = hidden;
  config.layers = layers;
  config.heads = heads;
  config.kv_heads = kv_heads;
  config.head_dim = head_dim;
  config.ffn = ffn;
  config.vocab = vocab;
  config.max_positions = positions;
  if (head_dim == 0) {
    if (hidden % heads != 0) {
      return inconsistent(subject, "head_dim is not given and hidden_size " +
                                       std::to_string(hidden) + " is no multiple of " +
                                       std::to_string(heads) + " heads");
    }
    config.head_dim = hidden / heads;
  }
  if (heads % kv_heads != 0) {
    return inconsistent(subject, std::to_string(heads) + " attention heads are no multiple of " +
                                     std::to_string(kv_heads) + " key-value heads");
  }
  if (config.head_dim % 2 != 0) {
    return inconsistent(subject, "head_dim is " + std::to_string(config.head_dim) +
                                     ", rotary embedding needs an even number");
  }
  if (config.heads * config.head_dim > kMaxWidth) {
    return Error{ErrorCode::kLimitExceeded, subject,
                 "heads times head_dim is " + std::to_string(config.heads * config.head_dim) +
                     ", at most " + std::to_string(kMaxWidth),
                 0};
  }
  return ok_status();
}

Status read_flags(const Json& json, const std::string& subject, ModelConfig& config) {
  const auto tied = json.find("tie_word_embeddings");
  if (tied != json.end() && !tied->is_null()) {
    ELQ_TRY(yes, json_bool_or(json, "tie_word_embeddings", false, subject));
    config.tied = yes ? ModelConfig::Tied::kYes : ModelConfig::Tied::kNo;
  }
  ELQ_TRY(attention_bias, json_bool_or(json, "attention_bias", false, subject));
  ELQ_TRY(mlp_bias, json_bool_or(json, "mlp_bias", false, subject));
  config.attention_bias = attention_bias;
  config.mlp_bias = mlp_bias;
  return ok_status();
}

// An id, a list of ids, or nothing.
Result<std::vector<std::int64_t>> read_ids(const Json& json, const char* key,
                                           const std::string& subject, std::int64_t vocab) {
  std::vector<std::int64_t> ids;
  const auto found = json.find(key);
  if (found == json.end() || found->is_null()) return ids;
  const Json list = found->is_array() ? *found : Json::array({*found});
  for (const Json& id : list) {
    const bool valid = id.is_number_integer() && id >= 0 && id < vocab;
    if (!valid) {
      return inconsistent(subject, std::string(key) + " has " + id.dump() +
                                       ", allowed are ids from 0 to " + std::to_string(vocab - 1));
    }
    ids.push_back(id.get<std::int64_t>());
  }
  return ids;
}

// generation_config.json, where present, has the last word on the end of a text.
Status read_end_tokens(const std::filesystem::path& folder, const Json& json,
                       const std::string& subject, ModelConfig& config) {
  ELQ_TRY(bos, read_ids(json, "bos_token_id", subject, config.vocab));
  if (!bos.empty()) config.bos = bos.front();
  ELQ_TRY(eos, read_ids(json, "eos_token_id", subject, config.vocab));
  config.eos = std::move(eos);
  const auto path = folder / "generation_config.json";
  ELQ_TRY(has_generation, path_exists(path));
  if (!has_generation) return ok_status();
  ELQ_TRY(generation, read_json_file(path, JsonLimits{}));
  if (!generation.is_object()) return inconsistent(path.string(), "not a JSON object");
  ELQ_TRY(corrected, read_ids(generation, "eos_token_id", path.string(), config.vocab));
  if (!corrected.empty()) config.eos = std::move(corrected);
  return ok_status();
}

}  // namespace

Result<ModelConfig> read_model_config(const std::filesystem::path& folder) {
  const auto path = folder / "config.json";
  const std::string subject = path.string();
  ELQ_TRY(has_config, path_exists(path));
  if (!has_config) {
    return Error{ErrorCode::kMissing, subject, "no such file; a model folder needs config.json", 0};
  }
  ELQ_TRY(json, read_json_file(path, JsonLimits{}));
  if (!json.is_object()) return inconsistent(subject, "not a JSON object");
  ModelConfig config;
  ELQ_TRY(architecture, read_architecture(json, subject));
  config.architecture = std::move(architecture);
  ELQ_CHECK(check_not_quantized(json, subject));
  ELQ_CHECK(check_foreign_keys(json, subject));
  ELQ_CHECK(check_activation(json, subject));
  ELQ_CHECK(read_shape(json, subject, config));
  ELQ_CHECK(read_numbers(json, subject, config));
  ELQ_CHECK(read_flags(json, subject, config));
  ELQ_CHECK(read_end_tokens(folder, json, subject, config));
  return config;
}

std::string model_config_json(const ModelConfig& config, const std::string& torch_dtype) {
  Json json;
  json["architectures"] = Json::array({config.architecture});
  json["model_type"] = config.architecture == "MistralForCausalLM" ? "mistral" : "llama";
  json["hidden_size"] = config.hidden;
  json["intermediate_size"] = config.ffn;
  json["num_hidden_layers"] = config.layers;
  json["num_attention_heads"] = config.heads;
  json["num_key_value_heads"] = config.kv_heads;
  json["head_dim"] = config.head_dim;
  json["vocab_size"] = config.vocab;
  json["max_position_embeddings"] = config.max_positions;
  json["rms_norm_eps"] = config.rms_eps;
  json["rope_theta"] = config.rope_theta;
  json["hidden_act"] = "silu";
  if (config.architecture == "MistralForCausalLM") json["sliding_window"] = nullptr;
  if (config.tied != ModelConfig::Tied::kUnstated) {
    json["tie_word_embeddings"] = config.tied == ModelConfig::Tied::kYes;
  }
  json["attention_bias"] = config.attention_bias;
  json["mlp_bias"] = config.mlp_bias;
  if (config.bos >= 0) json["bos_token_id"] = config.bos;
  if (config.eos.size() == 1) json["eos_token_id"] = config.eos.front();
  if (config.eos.size() > 1) json["eos_token_id"] = config.eos;
  json["torch_dtype"] = torch_dtype;
  return dump_json(json);
}

}  // namespace elastiq
