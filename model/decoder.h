#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "core/error.h"
#include "formats/quantized_checkpoint.h"
#include "model/config.h"
#include "model/matmul_type.h"
#include "model/tensor_roles.h"

namespace elastiq {

/// Weights of a decoder by Hugging Face name (tensor_name()); matrices [out, in], all float32.
/// Missing head = tied.
using Weights = std::map<std::string, torch::Tensor>;

Result<Weights> load_weights(const ModelTensors& tensors);

/// Dequantized weights of a quantized checkpoint folder.
Result<Weights> load_weights(const QuantizedCheckpoint& checkpoint);

/// Every tensor that the decoder of this config reads is there with its shape; biases and the head
/// may be absent. Errors kMissing, kInconsistent, with `subject` and the tensor's name.
Status check_weights(const ModelConfig& config, const Weights& weights, const std::string& subject);

/// Called with the input of a linear group: key as input_key() ("layers.3.attn_in", ...,
/// "head_in"), x [tokens, columns].
using Tap = std::function<void(const std::string& key, const torch::Tensor& x)>;

/// Matrices whose inputs are rounded to int8 per token as the C runtime does, by tensor name, each
/// with its kept columns (ascending), which stay float.
using Int8Inputs = std::map<std::string, std::vector<std::uint16_t>>;

/// The quantized matrices of a checkpoint; a tied head is listed under the embedding's name.
Int8Inputs int8_inputs(const QuantizedCheckpoint& checkpoint);

/// elq_quantize_activations followed by the multiplication with the scale, for x [tokens, columns].
/// The gradient is that of the identity (straight-through).
torch::Tensor round_activations(const torch::Tensor& x, std::span<const std::uint16_t> kept);

/// Llama-family decoder over float32 weights that passed check_weights. Stateless: all functions
/// are pure in weights and input and build an autograd graph when gradients are on.
class Decoder {
 public:
  Decoder(ModelConfig config, MatmulType type);
  /// The same with int8 inputs emulated: what a package of these weights computes, up to float
  /// rounding.
  Decoder(ModelConfig config, MatmulType type, Int8Inputs int8);

  /// ids [batch, length] int64 -> hidden [batch, length, hidden].
  torch::Tensor embed(const Weights& weights, const torch::Tensor& ids) const;
  /// One block.
  torch::Tensor block(const Weights& weights, std::int64_t layer, const torch::Tensor& x,
                      const Tap& tap) const;
  /// The stages of a block, for callers that change weights between them (GPTQ): block() is
  /// attn_in, attn_out, add_attention, mlp_in, mlp_out, add_mlp. x and middle are residual states.
  torch::Tensor attn_in(const Weights& weights, std::int64_t layer, const torch::Tensor& x) const;
  torch::Tensor attn_out(const Weights& weights, std::int64_t layer,
                         const torch::Tensor& attn_in) const;
  torch::Tensor add_attention(const Weights& weights, std::int64_t layer, const torch::Tensor& x,
                              const torch::Tensor& attn_out) const;
  torch::Tensor mlp_in(const Weights& weights, std::int64_t layer,
                       const torch::Tensor& middle) const;
  torch::Tensor mlp_out(const Weights& weights, std::int64_t layer,
                        const torch::Tensor& mlp_in) const;
  torch::Tensor add_mlp(const Weights& weights, std::int64_t layer, const torch::Tensor& middle,
                        const torch::Tensor& mlp_out) const;
  /// Final norm (tap "head_in").
  torch::Tensor final_norm(const Weights& weights, const torch::Tensor& x, const Tap& tap) const;
  /// Logits of normalised states [..., hidden] -> [..., vocab].
  torch::Tensor head(const Weights& weights, const torch::Tensor& normalised) const;
  /// All of it: ids [batch, length] -> logits [batch, length, vocab].
  torch::Tensor forward(const Weights& weights, const torch::Tensor& ids, const Tap& tap) const;

  const ModelConfig& config() const { return config_; }

 private:
  torch::Tensor linear(const Weights& weights, std::uint32_t role, std::int64_t layer,
                       const torch::Tensor& x) const;
  torch::Tensor norm(const Weights& weights, std::uint32_t role, std::int64_t layer,
                     const torch::Tensor& x) const;
  torch::Tensor attention(const torch::Tensor& q, const torch::Tensor& k,
                          const torch::Tensor& v) const;

  ModelConfig config_;
  MatmulType type_;
  Int8Inputs int8_;
  torch::Tensor inverse_frequencies_;  ///< [head_dim / 2], float64.
};

}  // namespace elastiq
