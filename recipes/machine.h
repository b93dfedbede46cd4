#pragma once

#include "core/json.h"

namespace elastiq {

/// CPU, cores and memory of this machine.
Json machine_json(int threads);

/// What a speed measured here holds for: the CPU, and the kernels that it runs (the best, or those
/// that ELQ_ISA asks for).
Json speed_conditions();

}  // namespace elastiq
