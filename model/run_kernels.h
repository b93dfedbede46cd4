#pragma once

#include "core/json.h"

namespace elastiq {

/// What the C runtime in this program offers on this machine: {"best": name, "implementations":
/// [{"name", "supported"}], "package_format": "major.minor"}.
Json run_kernels();

}  // namespace elastiq
