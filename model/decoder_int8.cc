// The C runtime's int8 activations, emulated in float.
#include "core/quantized_matrix.h"
#include "model/decoder.h"

namespace elastiq {

Int8Inputs int8_inputs(const QuantizedCheckpoint& checkpoint) {
  Int8Inputs inputs;
  for (const auto& [name, matrix] : checkpoint.matrices) inputs[name] = matrix.kept_index;
  return inputs;
}

torch::Tensor round_activations(const torch::Tensor& x, std::span<const std::uint16_t> kept) {
  torch::Tensor rounded;
  {
    const torch::NoGradGuard no_gradient;
    torch::Tensor is_kept = torch::zeros({x.size(-1)}, torch::kBool);
    for (const std::uint16_t column : kept) is_kept[column] = true;
    const torch::Tensor rest = x.detach().masked_fill(is_kept, 0);
    const torch::Tensor top = rest.abs().amax(-1, true);
    // The kernel counts a top below 2^-121 as zero too; its products are below any float logit's
    // rounding, so only the division by zero matters here.
    const torch::Tensor inverse = torch::where(top > 0, 127.0F / top, torch::zeros_like(top));
    const torch::Tensor codes = (rest * inverse).round().clamp(-127, 127);
    rounded = torch::where(is_kept, x.detach(), codes * (top / 127.0F));
  }
  if (!x.requires_grad() || !torch::GradMode::is_enabled()) return rounded;
  return rounded + (x - x.detach());  // x - x is exactly 0: the value stays, the gradient passes.
}

}  // namespace elastiq
