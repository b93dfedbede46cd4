#pragma once

#include <torch/torch.h>

#include <string>

#include "core/error.h"
#include "model/decoder.h"
#include "qat/student.h"

namespace elastiq {

/// Mean KL(teacher || student) per token over all positions of the windows [batch, length]. Leaves
/// the gradients in the student's parameters.
/// Errors  kNonFinite: the loss is NaN or infinite; names the step and the first block whose output
/// is.
Result<double> distill(const Decoder& decoder, const Weights& teacher, Student& student,
                       const torch::Tensor& windows, std::int64_t step);

/// "layers.3" for the first block whose output is not finite, "embedding", "final norm", or
/// "logits".
std::string first_non_finite(const Decoder& decoder, const Weights& weights,
                             const torch::Tensor& ids);

}  // namespace elastiq
