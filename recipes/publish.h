#pragma once

#include <filesystem>

#include "core/error.h"
#include "recipes/recipe.h"

namespace elastiq {

/// Copies what the export stages made to where people look: OUT/NAME.elq and OUT/NAME.manifest.json
/// for every variant, and OUT/kernels/ (the same sources for all variants). Errors  kIo.
Status publish_packages(const Recipe& recipe, const std::filesystem::path& out);

}  // namespace elastiq
