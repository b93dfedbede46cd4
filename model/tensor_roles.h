#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/error.h"
#include "formats/safetensors.h"
#include "kernels/elq_layout.h"
#include "model/config.h"

namespace elastiq {

/// A tensor of the model with its role; role values are elq_role (bias: matrix role +
/// ELQ_ROLE_BIAS).
struct ModelTensor {
  std::string name;
  std::uint32_t role = 0;
  std::int64_t layer = -1;  ///< -1 outside the blocks.
  const TensorView* view = nullptr;

  bool is_matrix() const;  ///< Linear weights, embedding, head: what quantization may touch.
};

struct StrippedTensor {
  std::string name;
  std::string reason;
  std::uint64_t bytes = 0;
};

/// All tensors of a checkpoint, accounted for.
struct ModelTensors {
  std::vector<ModelTensor>
      tensors;  ///< Embed, blocks in order, final norm, head (absent when tied).
  std::vector<StrippedTensor> stripped;
  bool tied = false;  ///< Head shares the embedding: no head tensor, or a byte-identical one.
  std::vector<std::string> warnings;  ///< Of the checkpoint, and subnormal weights: odd but legal.
};

/// Names to roles by the explicit Llama table, with or without the "model." prefix; shapes checked
/// against the config; every tensor of the checkpoint ends as a role, stripped with a reason from
/// the closed list (rotary inverse frequencies, empty tensor, single value without a role, head
/// with the same bytes as the embedding), or an error. Weights are scanned for NaN, infinity and
/// subnormals.
/// Errors  kMissing (names the tensor; a missing head with an unstated tie names the flag),
///         kInconsistent (shape, layer, bias or head against the config), kDuplicate (both
///         prefixes), kUnsupportedType (unknown tensor, fused projections, packed scales, adapters,
///         dtype), kNonFinite (name, first position, count).
Result<ModelTensors> assign_roles(const Checkpoint& checkpoint, const ModelConfig& config);

/// "attn.q", "attn.k", "attn.v", "attn.o", "mlp.gate", "mlp.up", "mlp.down", "embed", "head",
/// "norm", "bias".
const char* role_name(std::uint32_t role);

/// Key of CalibrationStats::inputs for the matrix's input, e.g. "layers.3.attn_in"; "head_in" for
/// embed and head.
std::string input_key(std::uint32_t role, std::int64_t layer);

/// The Hugging Face name of a role, e.g. "model.layers.3.self_attn.q_proj.weight".
std::string tensor_name(std::uint32_t role, std::int64_t layer);

}  // namespace elastiq
