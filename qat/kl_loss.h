#pragma once

#include <torch/torch.h>

#include "model/decoder.h"

namespace elastiq {

/// Forward KL divergence of a piece of a batch and its gradient.
struct KlPart {
  double sum = 0;          ///< Over tokens of KL(teacher || student), natural logarithm.
  torch::Tensor gradient;  ///< Of `scale` times that sum, in the student's states.
};

/// Over the full vocabulary in float32, a few tokens at a time so that memory stays bounded (a row
/// of logits of SmolLM2 is 197 kB).
///
/// Shapes    states: normalised, [tokens, hidden] each.
/// Source    numerics-and-quality.md section 4.6: the gradient in the student's logits is q - p.
KlPart kl_loss(const Decoder& decoder, const Weights& teacher, const torch::Tensor& teacher_states,
               const Weights& student, const torch::Tensor& student_states, double scale);

/// The same for logits: sum of KL, and the gradient of `scale` times it in the student's logits.
KlPart kl_of_logits(const torch::Tensor& teacher_logits, const torch::Tensor& student_logits,
                    double scale);

}  // namespace elastiq
