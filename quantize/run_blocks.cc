#include "quantize/run_blocks.h"

#include <array>
#include <span>
#include <vector>

#include "core/progress.h"
#include "kernels/elq_layout.h"
#include "model/tensor_roles.h"
#include "quantize/run_propagate.h"

namespace elastiq {
namespace {

struct StageRoles {
  BlockInput input;
  std::span<const std::uint32_t> roles;
};

constexpr std::array<std::uint32_t, 3> kQkv = {ELQ_ROLE_Q, ELQ_ROLE_K, ELQ_ROLE_V};
constexpr std::array<std::uint32_t, 1> kO = {ELQ_ROLE_O};
constexpr std::array<std::uint32_t, 2> kGateUp = {ELQ_ROLE_GATE, ELQ_ROLE_UP};
constexpr std::array<std::uint32_t, 1> kDown = {ELQ_ROLE_DOWN};
constexpr std::array<std::uint32_t, 1> kHead = {ELQ_ROLE_HEAD};

std::span<const float> values_of(const torch::Tensor& tensor) {
  return {tensor.data_ptr<float>(), static_cast<std::size_t>(tensor.numel())};
}

/// Mean of (y - W xq) xq^T, y being the float model's output (and what its residual was ahead):
/// W * input_drift + residual_drift. Undefined without drift.
torch::Tensor output_drift(const torch::Tensor& weights, const InputMoments& moments) {
  if (!moments.input_drift.defined()) return {};
  const torch::Tensor drift = torch::mm(weights.to(torch::kFloat64), moments.input_drift);
  return (moments.residual_drift.defined() ? drift + moments.residual_drift : drift).contiguous();
}

Status quantize_roles(const BlocksInput& input, std::span<const std::uint32_t> roles,
                      std::int64_t layer, const InputMoments& moments, Weights& weights,
                      const TensorDone& done) {
  for (const std::uint32_t role : roles) {
    const std::string name = tensor_name(role, layer);
    const auto entry = input.plan.find(name);
    if (entry == input.plan.end()) continue;
    const torch::Tensor original = input.original.at(name).contiguous();
    const torch::Tensor drift = output_drift(original, moments);
    TensorMoments tensor{moments.second_moment, {}};
    if (drift.defined()) {
      tensor.drift = {drift.data_ptr<double>(), static_cast<std::size_t>(drift.numel())};
    }
    ELQ_TRY(quantized, quantize_tensor_gptq(entry->second, values_of(original), tensor,
                                            input.options, input.pool));
    weights[name] = dequantized_tensor(quantized.matrix);
    done(name, std::move(quantized));
  }
  return ok_status();
}

}  // namespace

torch::Tensor dequantized_tensor(const QuantizedMatrix& matrix) {
  torch::Tensor result = torch::empty({matrix.rows, matrix.cols}, torch::kFloat32);
  for (std::int64_t row = 0; row < matrix.rows; ++row) {
    dequantize_row(
        matrix, row,
        {result.data_ptr<float>() + row * matrix.cols, static_cast<std::size_t>(matrix.cols)});
  }
  return result;
}

Status quantize_blocks(const BlocksInput& input, Weights& weights, const TensorDone& done) {
  const std::array<StageRoles, 4> stages = {{{BlockInput::kAttnIn, kQkv},
                                             {BlockInput::kAttnOut, kO},
                                             {BlockInput::kMlpIn, kGateUp},
                                             {BlockInput::kMlpOut, kDown}}};
  const std::int64_t layers = input.decoder.config().layers;
  const auto drift =
      input.options.drift_share > 0.0 ? Propagation::Drift::kMeasure : Propagation::Drift::kIgnore;
  Propagation propagation(input.decoder, input.windows, drift);
  propagation.start(weights, input.original);
  Progress progress("quantize", static_cast<std::uint64_t>(layers), Progress::default_mode());
  for (std::int64_t layer = 0; layer < layers; ++layer) {
    for (const StageRoles& stage : stages) {
      ELQ_TRY(moments, propagation.advance(weights, input.original, layer, stage.input));
      ELQ_CHECK(quantize_roles(input, stage.roles, layer, moments, weights, done));
    }
    propagation.finish_block(weights, input.original, layer);
    progress.step(static_cast<std::uint64_t>(layer + 1), "block " + std::to_string(layer));
  }
  if (!input.plan.contains(tensor_name(ELQ_ROLE_HEAD, -1))) return ok_status();
  ELQ_TRY(moments, propagation.final_input(weights, input.original));
  return quantize_roles(input, kHead, -1, moments, weights, done);
}

}  // namespace elastiq
