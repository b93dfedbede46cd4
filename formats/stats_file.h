#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/json.h"

namespace elastiq {

/// Statistics of one linear input (shared by the matrices that read it: q, k and v; gate and up).
struct InputStats {
  std::int64_t columns = 0;
  std::uint64_t tokens = 0;       ///< Tokens that reached this input; equals the data's count.
  std::vector<float> importance;  ///< columns: mean of x_j^2.
  std::vector<float>
      second_moment;  ///< columns x columns: mean of x_i x_j; empty when not collected.
};

/// calibrate's output. Keys: "layers.N.attn_in", "layers.N.attn_out", "layers.N.mlp_in",
/// "layers.N.mlp_out" and "head_in" (the final normalised hidden state). token_counts: how often
/// each id occurs in the data.
struct CalibrationStats {
  std::map<std::string, InputStats> inputs;
  std::vector<std::uint64_t> token_counts;
  Json info;  ///< Digests of model and data, tokens, windows, tool version, float loss on the data.
};

/// A folder with stats.safetensors and stats.json.
Result<CalibrationStats> read_stats(const std::filesystem::path& folder);
/// Complete or not at all. `stage`: what the run cost, left as stage.json unless it is null.
Status write_stats(const std::filesystem::path& folder, const CalibrationStats& stats,
                   const Json& stage = Json());

}  // namespace elastiq
