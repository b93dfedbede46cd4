#pragma once

#include <vector>

#include "model/tensor_roles.h"
#include "quantize/plan.h"

namespace elastiq {

/// The matrices of a model as make_plan takes them, in the model's order.
std::vector<PlanInput> plan_inputs(const ModelTensors& tensors);

}  // namespace elastiq
