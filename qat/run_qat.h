#pragma once

#include <cstdint>
#include <filesystem>

#include "core/error.h"
#include "core/json.h"
#include "model/data_options.h"
#include "model/matmul_type.h"

namespace elastiq {

struct QatOptions {
  std::filesystem::path model;  ///< Float teacher.
  std::filesystem::path ptq;    ///< Quantized checkpoint to start from.
  std::filesystem::path out;
  DataOptions data;
  std::int64_t batch = 2;          ///< Windows per step.
  std::int64_t scale_steps = 100;  ///< Phase 1: scales, kept columns, norms; codes frozen.
  std::int64_t code_steps = 0;     ///< Phase 2: latent weights too.
  double scale_rate = 2e-3;        ///< Relative to each scale (log domain).
  double kept_rate = 1e-3;
  double norm_rate = 5e-4;
  double code_rate = 1.2e-3;  ///< In units of the quantization step.
  double clip = 1.0;          ///< Gradient norm.
  double warmup = 0.03;       ///< Share of each phase.
  std::uint64_t seed = 1;
  std::int64_t checkpoint_every = 50;
  /// kAuto resumes when the fingerprint of recipe, model, data and PTQ matches, refuses
  /// (kFingerprint) when a state of other inputs is there; kFresh ignores it.
  enum class Resume { kAuto, kFresh } resume = Resume::kAuto;
  std::int64_t stop_after =
      0;  ///< Stop resumable (kInterrupted) after this many steps in all; 0: never.
  MatmulType matmul = MatmulType::kF32;
  int threads = 2;
};

/// The stage: PTQ checkpoint + text -> QAT checkpoint of the same schemes. Returns stage.json's
/// content with the curve.
Result<Json> run_qat(const QatOptions& options);

/// Float training from scratch by next-token loss; made for data-samples.
struct TrainOptions {
  std::filesystem::path config;  ///< Folder with config.json and tokenizer files.
  std::filesystem::path out;
  DataOptions data;
  std::int64_t batch = 16;
  std::int64_t steps = 1000;
  double rate = 3e-3;
  double warmup = 0.05;
  double clip = 1.0;
  double weight_decay = 0.1;
  std::uint64_t seed = 1;
  MatmulType matmul = MatmulType::kF32;
  int threads = 2;
};

/// Writes a Hugging Face folder (bf16 weights).
Result<Json> run_train(const TrainOptions& options);

}  // namespace elastiq
