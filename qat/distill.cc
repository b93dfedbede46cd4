#include "qat/distill.h"

#include <fmt/format.h>

#include <cmath>

#include "qat/batches.h"
#include "qat/kl_loss.h"

namespace elastiq {

namespace {

torch::Tensor normalised_states(const Decoder& decoder, const Weights& weights,
                                const torch::Tensor& ids) {
  torch::Tensor x = decoder.embed(weights, ids);
  for (std::int64_t layer = 0; layer < decoder.config().layers; ++layer) {
    x = decoder.block(weights, layer, x, Tap{});
  }
  return decoder.final_norm(weights, x, Tap{}).flatten(0, 1);
}

bool finite(const torch::Tensor& x) {
  return torch::isfinite(x).all().item<bool>();
}

}  // namespace

std::string first_non_finite(const Decoder& decoder, const Weights& weights,
                             const torch::Tensor& ids) {
  torch::NoGradGuard no_grad;
  torch::Tensor x = decoder.embed(weights, ids);
  if (!finite(x)) return "embedding";
  for (std::int64_t layer = 0; layer < decoder.config().layers; ++layer) {
    x = decoder.block(weights, layer, x, Tap{});
    if (!finite(x)) return fmt::format("layers.{}", layer);
  }
  return finite(decoder.final_norm(weights, x, Tap{})) ? "logits" : "final norm";
}

Result<double> distill(const Decoder& decoder, const Weights& teacher, Student& student,
                       const torch::Tensor& windows, std::int64_t step) {
  const Weights& weights = student.begin_step();
  const double scale = 1.0 / static_cast<double>(windows.numel());
  double loss = 0;
  for (const torch::Tensor& ids : micro_batches(windows)) {
    torch::Tensor target;
    {
      torch::NoGradGuard no_grad;
      target = normalised_states(decoder, teacher, ids);
    }
    const torch::Tensor states = normalised_states(decoder, weights, ids);
    const KlPart part = kl_loss(decoder, teacher, target, weights, states.detach(), scale);
    if (!std::isfinite(part.sum)) {
      return Error{ErrorCode::kNonFinite, first_non_finite(decoder, weights, ids),
                   fmt::format("is not finite at step {}; lower the learning rates", step)};
    }
    states.backward(part.gradient);
    loss += part.sum * scale;
  }
  student.end_step();
  return loss;
}

}  // namespace elastiq
