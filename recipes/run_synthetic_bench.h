#pragma once

#include <filesystem>

#include "core/error.h"
#include "core/json.h"
#include "export/run_synthesize.h"
#include "model/run_bench.h"

namespace elastiq {

/// run_bench of a package of random weights, which is gone afterwards. `programs` is the folder
/// with elastiq: the package is made in a process of its own, whose memory must not count as the
/// runtime's. `bench.package`, `synthetic.out` and `synthetic.threads` are not looked at.
/// Result  that of run_bench, with "package" "synthetic-SHAPE", "bits", "embed_bits" and "kept".
/// Errors  those of run_synthesize and run_bench.
Result<Json> run_synthetic_bench(const BenchOptions& bench, const SynthesizeOptions& synthetic,
                                 const std::filesystem::path& programs);

}  // namespace elastiq
