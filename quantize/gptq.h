#pragma once

#include <cstdint>
#include <span>

#include "core/error.h"
#include "core/thread_pool.h"
#include "quantize/rtn.h"

namespace elastiq {

/// What the sweep minimises: the calibration loss tr((T - W') H (T - W')^T).
struct GptqInput {
  MatrixInput matrix;  ///< importance is ignored: the diagonal of the second moment is used.
  std::span<const double> second_moment;  ///< cols x cols: mean of x_i x_j, symmetric.
  /// rows x cols, or empty: the gradient of the loss at W when the inputs have drifted (section
  /// 7.4): mean of (y - W x) x^T, y the output wanted. Targets become T = W + share * drift
  /// (H + damping)^-1.
  std::span<const double> drift;
};

struct GptqOptions {
  double damping = 0.05;  ///< Of the mean diagonal without kept columns.
  int damping_steps = 4;  ///< Times the damping is raised tenfold when H is not definite.
  double drift_share = 0.5;
  enum class Fallback { kRtn, kForbidden } fallback = Fallback::kRtn;
};

/// How a matrix came to its codes.
enum class GptqPath {
  kGptq,
  kRtnNotDefinite,  ///< No damping made H definite.
  kRtnBetter,       ///< RTN had the smaller calibration loss.
};

const char* path_name(GptqPath path);

struct GptqResult {
  RtnResult quantized;  ///< Distortion against the weights W, not the targets.
  GptqPath path = GptqPath::kGptq;
  double damping = 0.0;   ///< Used, relative.
  double loss = 0.0;      ///< Calibration loss of the result, per token.
  double rtn_loss = 0.0;  ///< Of round to nearest with the same kept columns.
  double energy =
      0.0;  ///< tr(T H T^T), T the targets (W without drift): what losses are relative to.
  std::int64_t dead_columns = 0;  ///< Inputs that were always zero: rounded to nearest.
};

/// GPTQ (arXiv 2210.17323) with searched static scales and eliminated kept columns.
///
/// Errors    those of quantize_rtn; kInvalidArgument: a size; kNonFinite: the second moment;
///           kNumeric: not definite and fallback forbidden.
/// Result    does not depend on the number of threads. The calibration loss is never above RTN's.
/// Source    docs/numerics.md, section 7.
Result<GptqResult> quantize_gptq(const GptqInput& input, const Scheme& scheme,
                                 const GptqOptions& options, ThreadPool& pool);

}  // namespace elastiq
