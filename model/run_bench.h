#pragma once

#include <filesystem>
#include <string>

#include "core/error.h"
#include "core/json.h"

namespace elastiq {

struct BenchOptions {
  std::filesystem::path package;
  int threads = 2;
  int prompt_tokens = 256;  ///< At most half of the model's positions are used.
  int new_tokens = 64;
  int repeats = 3;  ///< The median counts.
  std::string isa;  ///< "": the best.
};

/// Speed of a package in the C runtime: {"package", "isa", "threads", "prompt_tokens",
/// "new_tokens", "speed": {"prefill_tps", "decode_tps"}, "session_bytes", "peak_rss_bytes"}.
Result<Json> run_bench(const BenchOptions& options);

}  // namespace elastiq
