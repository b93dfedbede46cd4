#pragma once

#include <filesystem>

#include "core/error.h"
#include "core/json.h"

namespace elastiq {

/// Header, sections, metadata and tensors of a package.
Result<Json> describe_package(const std::filesystem::path& file);

/// Configuration and tensors of a Hugging Face or quantized checkpoint folder.
Result<Json> describe_folder(const std::filesystem::path& folder);

/// The tensors of either as lines of text, after its scalar facts.
std::string description_text(const Json& description);

}  // namespace elastiq
