#include "qat/kl_loss.h"

#include <algorithm>

namespace elastiq {

namespace {

// Six chunk x vocabulary tensors live at a time: 300 MB for 256 tokens of a vocabulary of 49152.
constexpr std::int64_t kChunkElements = std::int64_t{256} * 49152;

}  // namespace

KlPart kl_of_logits(const torch::Tensor& teacher_logits, const torch::Tensor& student_logits,
                    double scale) {
  torch::NoGradGuard no_grad;
  const torch::Tensor log_p = torch::log_softmax(teacher_logits, -1);
  const torch::Tensor log_q = torch::log_softmax(student_logits, -1);
  const torch::Tensor p = log_p.exp();
  const torch::Tensor per_token = ((log_p - log_q).mul_(p)).sum(-1);
  return {per_token.to(torch::kFloat64).sum().item<double>(), log_q.exp().sub_(p).mul_(scale)};
}

KlPart kl_loss(const Decoder& decoder, const Weights& teacher, const torch::Tensor& teacher_states,
               const Weights& student, const torch::Tensor& student_states, double scale) {
  const std::int64_t tokens = student_states.size(0);
  const std::int64_t chunk = std::max<std::int64_t>(1, kChunkElements / decoder.config().vocab);
  KlPart part{0, torch::empty_like(student_states)};
  for (std::int64_t first = 0; first < tokens; first += chunk) {
    const std::int64_t n = std::min(chunk, tokens - first);
    torch::Tensor teacher_logits;
    {
      torch::NoGradGuard no_grad;
      teacher_logits = decoder.head(teacher, teacher_states.narrow(0, first, n));
    }
    torch::Tensor states = student_states.narrow(0, first, n).detach().set_requires_grad(true);
    const torch::Tensor logits = decoder.head(student, states);
    const KlPart own = kl_of_logits(teacher_logits, logits.detach(), scale);
    part.sum += own.sum;
    logits.backward(own.gradient);
    part.gradient.narrow(0, first, n).copy_(states.grad());
  }
  return part;
}

}  // namespace elastiq
