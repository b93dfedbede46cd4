#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <map>
#include <string>

#include "core/error.h"
#include "formats/quantized_checkpoint.h"
#include "model/config.h"
#include "model/decoder.h"
#include "qat/fake_quant.h"
#include "qat/run_qat.h"
#include "qat/trainer.h"

namespace elastiq {

/// A quantized checkpoint in training: fake-quantized linear matrices of the blocks and norm gains
/// train; embedding, head, biases and matrices that are not quantized are frozen.
class Student {
 public:
  /// Errors  as check_matrix; kInvalidArgument: no block matrix is quantized.
  static Result<Student> make(const QuantizedCheckpoint& checkpoint, const ModelConfig& config);

  /// Phase 2: latent weights for all matrices, see add_latent. The original is the float model.
  Status add_latents(const Weights& original, float margin);

  /// Registers what trains now; rates from the options.
  void add_parameters(AdamW& adam, const QatOptions& options);

  /// Weights of one step, as leaves that collect gradients over any number of backward passes.
  const Weights& begin_step();

  /// Carries the leaves' gradients on to the trained parameters. Ends the step.
  void end_step();

  /// Weights of the last begin_step (for a diagnosis).
  const Weights& weights() const { return weights_; }

  /// Codes that changed in the last begin_step, of all codes that can.
  double flip_rate() const;

  /// Drift of the scales from the start: mean and largest |log(s / s_start)| over groups, and the
  /// share of codes that differ from `start`.
  Json drift(const QuantizedCheckpoint& start) const;

  /// Codes by tensor name: with latents, part of the state of a run.
  std::map<std::string, torch::Tensor> codes() const;

  /// Replaces matrices and norms (as F32) of a checkpoint by the trained ones.
  void write_to(QuantizedCheckpoint& checkpoint) const;

 private:
  struct Norm {
    torch::Tensor start;
    torch::Tensor change;  ///< The gain is start * (1 + change): the rate is relative.
  };

  std::map<std::string, QuantParameters> matrices_;  ///< Nodes stay where they are.
  std::map<std::string, Norm> norms_;
  Weights weights_;                                ///< Frozen ones, and the leaves of a step.
  std::map<std::string, torch::Tensor> computed_;  ///< What the leaves were detached from.
  std::int64_t flips_ = 0;
};

}  // namespace elastiq
