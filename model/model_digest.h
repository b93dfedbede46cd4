#pragma once

#include <filesystem>
#include <string>

#include "core/error.h"

namespace elastiq {

/// SHA-256, in hex, over "name digest" lines of the files that a result depends on: config.json,
/// tokenizer.json, tokenizer_config.json, chat_template.jinja and *.safetensors of a model folder,
/// by name.
/// Errors  kIo.
Result<std::string> model_digest(const std::filesystem::path& folder);

}  // namespace elastiq
