#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "core/error.h"
#include "formats/quantized_checkpoint.h"
#include "model/config.h"
#include "model/tensor_roles.h"

namespace elastiq {

/// Arithmetic of the matrix products; norms, softmax and residuals are always float32.
enum class MatmulType { kF32, kBf16 };

/// bf16 where the CPU has AVX512_BF16 or AMX, else f32.
MatmulType default_matmul_type();

/// Weights of a decoder by Hugging Face name; matrices [out, in], all float32. Missing head = tied.
using Weights = std::map<std::string, torch::Tensor>;

Result<Weights> load_weights(const ModelTensors& tensors);

/// Dequantized weights of a quantized checkpoint folder.
Result<Weights> load_weights(const QuantizedCheckpoint& checkpoint);

/// Called with the input of a linear group: key as input_key() ("layers.3.attn_in", ...,
/// "head_in"), x [tokens, columns].
using Tap = std::function<void(const std::string& key, const torch::Tensor& x)>;

/// Llama-family decoder over float32 weights. Stateless: all functions are pure in weights and
/// input and build an autograd graph when gradients are on.
class Decoder {
 public:
  Decoder(ModelConfig config, MatmulType type);

  /// ids [batch, length] int64 -> hidden [batch, length, hidden].
  torch::Tensor embed(const Weights& weights, const torch::Tensor& ids) const;
  /// One block.
  torch::Tensor block(const Weights& weights, std::int64_t layer, const torch::Tensor& x,
                      const Tap& tap) const;
  /// Final norm (tap "head_in").
  torch::Tensor final_norm(const Weights& weights, const torch::Tensor& x, const Tap& tap) const;
  /// Logits of normalised states.
  torch::Tensor head(const Weights& weights, const torch::Tensor& normalised) const;
  /// All of it: ids [batch, length] -> logits [batch, length, vocab].
  torch::Tensor forward(const Weights& weights, const torch::Tensor& ids, const Tap& tap) const;

  const ModelConfig& config() const { return config_; }

 private:
  torch::Tensor linear(const Weights& weights, std::uint32_t role, std::int64_t layer,
                       const torch::Tensor& x) const;

  ModelConfig config_;
  MatmulType type_;
  torch::Tensor inverse_frequencies_;
};

}  // namespace elastiq
