#pragma once

// Tiny models in the form that the LibTorch decoder takes.

#include <torch/torch.h>

#include <cstdint>
#include <vector>

#include "model/config.h"
#include "model/decoder.h"
#include "tests/support/tiny_model.h"

namespace elastiq::testing {

inline ModelConfig decoder_config(const HfModel& model) {
  const HfShape& s = model.shape;
  ModelConfig config;
  config.architecture = "LlamaForCausalLM";
  config.hidden = s.hidden;
  config.layers = s.layers;
  config.heads = s.heads;
  config.kv_heads = s.kv_heads;
  config.head_dim = s.head_dim;
  config.ffn = s.ffn;
  config.vocab = s.vocab;
  config.max_positions = s.max_positions;
  config.rms_eps = model.rms_eps;
  config.rope_theta = model.rope_theta;
  config.attention_bias = s.attention_bias;
  config.mlp_bias = s.mlp_bias;
  return config;
}

inline Weights decoder_weights(const HfModel& model) {
  Weights weights;
  for (const auto& [name, tensor] : model.tensors) {
    const std::vector<std::int64_t> shape(tensor.shape.begin(), tensor.shape.end());
    weights[name] = torch::tensor(tensor.values).view(shape);
  }
  return weights;
}

/// Ids below the vocabulary, spread over it.
inline std::vector<std::uint32_t> some_tokens(std::int64_t vocab, std::size_t n) {
  Rng rng(17);
  std::vector<std::uint32_t> tokens(n);
  for (std::uint32_t& id : tokens) {
    id = static_cast<std::uint32_t>(rng.below(static_cast<std::uint64_t>(vocab)));
  }
  return tokens;
}

inline torch::Tensor id_tensor(const std::vector<std::uint32_t>& tokens) {
  return torch::tensor(std::vector<std::int64_t>(tokens.begin(), tokens.end())).unsqueeze(0);
}

}  // namespace elastiq::testing
