#pragma once

#include <filesystem>

#include "core/error.h"
#include "recipes/recipe.h"

namespace elastiq {

/// Copies what the export stages made to where people look: OUT/NAME.elq and OUT/NAME.manifest.json
/// for every variant, and OUT/kernels/ (the same sources for all variants). Each is complete
/// at its name or as it was before. Errors  kResources when the disk is full, kIo otherwise.
Status publish_packages(const Recipe& recipe, const std::filesystem::path& out);

}  // namespace elastiq
