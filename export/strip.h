#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "core/error.h"
#include "core/json.h"
#include "core/quantized_matrix.h"
#include "formats/quantized_checkpoint.h"
#include "formats/safetensors.h"
#include "model/config.h"
#include "model/tensor_roles.h"

namespace elastiq {

/// A tensor on its way into a package. Points into the ExportSource that holds it.
struct ExportTensor {
  std::string name;
  std::uint32_t role = 0;
  std::int64_t layer = -1;  ///< -1 outside the blocks.
  std::uint64_t rows = 0;   ///< 1 for vectors.
  std::uint64_t cols = 0;
  const QuantizedMatrix* matrix = nullptr;  ///< Codes; else the two below.
  DType dtype = DType::kF32;
  std::span<const std::byte> bytes;

  bool is_vector() const;

  std::uint64_t elements() const { return rows * cols; }
};

/// A model folder, every tensor accounted for.
struct ExportSource {
  ModelConfig config;
  std::vector<ExportTensor> tensors;  ///< Embedding, blocks in order, final norm, head.
  std::vector<StrippedTensor> stripped;
  bool tied = false;  ///< The head shares the embedding and has no tensor of its own.
  Json info;          ///< quantization.json's free part; null for a Hugging Face folder.
  std::vector<std::string> warnings;  ///< Of a Hugging Face folder.

  std::variant<std::monostate, Checkpoint, QuantizedCheckpoint> owner;
};

/// Reads a quantized checkpoint folder or a Hugging Face folder. What is not a tensor of the model
/// is stripped when it is on the closed list of model/tensor_roles.h (rotary inverse frequencies,
/// empty tensors, single values), else refused.
/// Errors  those of the readers; kMissing: a tensor of the model; kInconsistent: a shape;
///         kUnsupportedType: a tensor without a role.
Result<ExportSource> read_export_source(const std::filesystem::path& folder);

}  // namespace elastiq
