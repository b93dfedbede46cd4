#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/json.h"
#include "model/data_options.h"
#include "model/matmul_type.h"
#include "quantize/plan.h"

namespace elastiq {

struct QuantizeOptions {
  std::filesystem::path model;
  std::filesystem::path stats;  ///< Statistics folder; may be empty for RTN (equal importance).
  std::filesystem::path out;
  enum class Method { kRtn, kGptq } method = Method::kRtn;
  std::string scheme = "seq2-g64-u8-k8";
  std::vector<QuantRule> rules;
  DataOptions data;       ///< GPTQ propagates these windows through the quantized prefix.
  double damping = 0.05;  ///< Of the mean diagonal; raised tenfold up to damping_steps times.
  int damping_steps = 4;
  /// GPTQ: share of the correction for what earlier quantization did to the inputs and to the
  /// residual stream (docs/numerics.md 7.4); 0: none, 1: all. The float model runs beside.
  double drift_share = 0.5;
  enum class Fallback {
    kRtn,
    kForbidden
  } fallback = Fallback::kRtn;  ///< When no damping makes H definite.
  MatmulType matmul = MatmulType::kF32;
  int threads = 2;
};

/// What a checkpoint will become.
struct QuantizePlan {
  std::vector<PlanEntry> tensors;
  std::vector<std::string> warnings;  ///< Of the checkpoint.
};

/// Plan of a checkpoint, before a byte is written (no LibTorch).
Result<QuantizePlan> plan_quantize(const std::filesystem::path& model, const std::string& scheme,
                                   const std::vector<QuantRule>& rules);

/// The stage: checkpoint + statistics -> quantized checkpoint folder. Returns stage.json's content.
/// Errors  those of its readers; kRecipe: GPTQ without data files, or of a tied embedding without
///         statistics; kFingerprint: statistics of another model; kNumeric: a second moment that is
///         not definite with the fallback forbidden.
Result<Json> run_quantize(const QuantizeOptions& options);

}  // namespace elastiq
