#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/json.h"
#include "recipes/recipe.h"

namespace elastiq {

/// Copies what the export stages made to where people look: OUT/NAME.elq and OUT/NAME.manifest.json
/// for every variant, and OUT/kernels/ (the same sources for all variants). Each is complete
/// at its name or as it was before. Errors  kResources when the disk is full, kIo otherwise.
Status publish_packages(const Recipe& recipe, const std::filesystem::path& out);

/// "outputs" of recipe.lock.json: [{"file", "sha256"}] of the packages and manifests in `out`.
Result<Json> published_outputs(const Recipe& recipe, const std::filesystem::path& out);

/// Removes what an earlier run has left at the names of variants that the recipe no longer has: the
/// files that its recipe.lock.json lists, if they are as it left them. Call before the lock is
/// replaced.
/// Result  a warning for each package in `out` that stays and is none of `outputs`.
Result<std::vector<std::string>> remove_stale_outputs(const std::filesystem::path& out,
                                                      const Json& outputs);

}  // namespace elastiq
