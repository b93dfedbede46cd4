#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/json.h"
#include "core/quantized_matrix.h"
#include "formats/safetensors.h"

namespace elastiq {

/// What stages hand each other (architecture.md section 4): a folder with model.safetensors and
/// quantization.json, and copies of config.json, tokenizer.json, tokenizer_config.json,
/// chat_template.jinja and generation_config.json (where present), so that the folder is a model of
/// its own.
///
/// A quantized matrix `N` is stored as N.codes (U8 rows x cols), N.row_scales (F32), N.u8_scales
/// (U8 rows x groups) or N.f16_scales (F16), N.kept_index (U16), N.kept_scales (F32), N.kept_values
/// (I8 kept x rows).
struct QuantizedCheckpoint {
  std::map<std::string, QuantizedMatrix> matrices;  ///< By tensor name.

  /// Tensors that are not quantized: own bytes, source type. (Norms trained by QAT become F32.)
  struct Plain {
    DType dtype = DType::kF32;
    std::vector<std::uint64_t> shape;
    std::vector<std::byte> bytes;
  };

  std::map<std::string, Plain> plain;
  /// quantization.json's free part: plan (per tensor: scheme, reason), digests, tool version, stage
  /// figures.
  Json info;
};

Result<QuantizedCheckpoint> read_quantized_checkpoint(const std::filesystem::path& folder);

/// Writes the folder, complete or not at all; model_folder is where config and tokenizer files are
/// copied from. `stage`: what the run cost, left as stage.json unless it is null.
Status write_quantized_checkpoint(const std::filesystem::path& folder,
                                  const QuantizedCheckpoint& checkpoint,
                                  const std::filesystem::path& model_folder,
                                  const Json& stage = Json());

bool is_quantized_checkpoint(const std::filesystem::path& folder);

}  // namespace elastiq
