#pragma once

#include <filesystem>
#include <vector>

#include "core/error.h"
#include "core/json.h"

namespace elastiq {

/// {"config.json": "<sha256>", "model.safetensors": ...}: the files of a model folder that decide
/// what it computes (safetensors, config, tokenizer, quantization), by name.
/// Errors  kIo.
Result<Json> digest_model_folder(const std::filesystem::path& folder);

/// {"0:train.txt": "<sha256>", ...} in the given order.
Result<Json> digest_files(const std::vector<std::filesystem::path>& files);

/// What differs between two documents: "options/clip: was 1.0, is 0.5", joined by "; ". Empty when
/// equal.
std::string describe_difference(const Json& before, const Json& now);

}  // namespace elastiq
