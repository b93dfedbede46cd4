#pragma once

#include <filesystem>
#include <string>

#include "core/error.h"

namespace elastiq {

/// Writes the C11 sources that run a package to FOLDER (which is named "kernels", because the
/// sources include "kernels/..."), with a Makefile whose `make check` tests ../PACKAGE.
Status emit_kernels(const std::filesystem::path& folder, const std::string& package);

}  // namespace elastiq
