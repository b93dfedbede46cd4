#pragma once

#include <filesystem>

#include "core/error.h"
#include "core/json.h"

namespace elastiq {

/// Checks every byte of a package and runs its golden vectors on this machine. Result
/// {"package", "verified": true, "sections", "tensors", "isa"}.
/// Errors  kIo, kResources: not the package's fault; kVerification: everything else, whatever rule
/// found it.
Result<Json> run_verify(const std::filesystem::path& file);

}  // namespace elastiq
