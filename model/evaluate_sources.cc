// Logits from a decoder or from a package.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "model/evaluate.h"

namespace elastiq {
namespace {

Status decoder_logits(const DecoderModel& model, std::span<const std::uint32_t> tokens,
                      std::span<float> logits) {
  const torch::NoGradGuard no_gradient;
  const ModelConfig& config = model.decoder.config();
  const std::vector<std::int64_t> wide(tokens.begin(), tokens.end());
  const auto length = static_cast<std::int64_t>(tokens.size());
  const auto wanted = static_cast<std::int64_t>(logits.size()) / config.vocab;
  torch::Tensor x = model.decoder.embed(model.weights, torch::tensor(wide).view({1, length}));
  for (std::int64_t layer = 0; layer < config.layers; ++layer) {
    x = model.decoder.block(model.weights, layer, x, nullptr);
  }
  x = x.slice(1, length - wanted);
  const torch::Tensor y =
      model.decoder.head(model.weights, model.decoder.final_norm(model.weights, x, nullptr));
  const torch::Tensor flat = y.contiguous();
  std::copy_n(flat.data_ptr<float>(), logits.size(), logits.begin());
  return ok_status();
}

}  // namespace

LogitSource decoder_source(std::shared_ptr<const DecoderModel> model, const std::string& subject) {
  const ModelConfig& config = model->decoder.config();
  LogitSource source{subject, config.vocab, config.max_positions, {}};
  source.run = [held = std::move(model)](std::span<const std::uint32_t> tokens,
                                         std::span<float> logits) {
    return decoder_logits(*held, tokens, logits);
  };
  return source;
}

LogitSource package_source(std::shared_ptr<PackageModel> model, const std::string& subject) {
  const elq_config& config = model->config();
  LogitSource source{subject, config.vocab, config.max_positions, {}};
  source.run = [held = std::move(model)](std::span<const std::uint32_t> tokens,
                                         std::span<float> logits) -> Status {
    ELQ_CHECK(held->rewind(0));
    const auto wanted = static_cast<std::uint32_t>(logits.size() / held->config().vocab);
    return held->eval(tokens, wanted, logits);
  };
  return source;
}

Status last_logits(const LogitSource& source, std::span<const std::uint32_t> tokens,
                   std::span<float> logits) {
  const auto length = static_cast<std::int64_t>(tokens.size());
  const auto wanted = static_cast<std::int64_t>(logits.size()) / source.vocab;
  if (wanted > length || wanted * source.vocab != static_cast<std::int64_t>(logits.size())) {
    return Error{ErrorCode::kInternal, source.subject, "room for logits does not fit the tokens",
                 0};
  }
  if (length > source.max_tokens) {
    return Error{ErrorCode::kLimitExceeded, source.subject,
                 fmt::format("{} tokens, at most {} positions", length, source.max_tokens), 0};
  }
  for (const std::uint32_t id : tokens) {
    if (id < source.vocab) continue;
    return Error{ErrorCode::kInvalidArgument, source.subject,
                 fmt::format("token id {} is outside the vocabulary of {}", id, source.vocab), 0};
  }
  return source.run(tokens, logits);
}

}  // namespace elastiq
