#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "core/error.h"

namespace elastiq {

/// Validated hyperparameters of a Llama-family decoder (config.json).
struct ModelConfig {
  std::string architecture;  ///< "LlamaForCausalLM"
  std::int64_t hidden = 0;
  std::int64_t layers = 0;
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;  ///< Divides heads.
  std::int64_t head_dim = 0;  ///< Even.
  std::int64_t ffn = 0;
  std::int64_t vocab = 0;
  std::int64_t max_positions = 0;
  double rms_eps = 1e-5;
  double rope_theta = 10000.0;
  enum class Tied { kYes, kNo, kUnstated } tied = Tied::kUnstated;  ///< tie_word_embeddings
  bool attention_bias = false;
  bool mlp_bias = false;
  std::int64_t bos = -1;  ///< -1: none.
  std::vector<std::int64_t> eos;
};

/// Reads and validates FOLDER/config.json.
/// Errors  kMissing, kUnsupportedType (architecture, rope scaling, activation, quantization_config:
/// "already
///         quantized by X"), kInconsistent, kLimitExceeded.
Result<ModelConfig> read_model_config(const std::filesystem::path& folder);

/// config.json text in Hugging Face form.
std::string model_config_json(const ModelConfig& config, const std::string& torch_dtype);

}  // namespace elastiq
