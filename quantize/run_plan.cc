#include "quantize/run_plan.h"

#include "model/config.h"
#include "model/tensor_roles.h"
#include "quantize/run_quantize.h"

namespace elastiq {

std::vector<PlanInput> plan_inputs(const ModelTensors& tensors) {
  std::vector<PlanInput> inputs;
  for (const ModelTensor& tensor : tensors.tensors) {
    if (!tensor.is_matrix()) continue;
    const TensorView& view = *tensor.view;
    inputs.push_back({tensor.name, role_name(tensor.role), tensor.layer,
                      static_cast<std::int64_t>(view.shape[0]),
                      static_cast<std::int64_t>(view.shape[1]), view.bytes.size()});
  }
  return inputs;
}

Result<QuantizePlan> plan_quantize(const std::filesystem::path& model, const std::string& scheme,
                                   const std::vector<QuantRule>& rules) {
  ELQ_TRY(config, read_model_config(model));
  ELQ_TRY(checkpoint, Checkpoint::open(model));
  ELQ_TRY(tensors, assign_roles(checkpoint, config));
  ELQ_TRY(plan, make_plan(plan_inputs(tensors), scheme, rules));
  return QuantizePlan{std::move(plan), std::move(tensors.warnings)};
}

}  // namespace elastiq
