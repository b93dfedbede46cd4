#include "quantize/run_propagate.h"

#include <algorithm>

namespace elastiq {
namespace {

/// Tokens of one pass through a stage: large enough for full speed of the products.
constexpr std::size_t kBatchTokens = 2048;

torch::Tensor rows_of(const torch::Tensor& x) {
  return x.reshape({-1, x.size(-1)});
}

/// sum += a^T b, the product in float32 (its inner dimension is one batch), the sum in float64.
void accumulate(torch::Tensor& sum, const torch::Tensor& a, const torch::Tensor& b) {
  const torch::Tensor product = torch::mm(a.t(), b).to(torch::kFloat64);
  sum = sum.defined() ? sum.add_(product) : product;
}

}  // namespace

Propagation::Propagation(const Decoder& decoder, const Windows& windows, Drift drift)
    : decoder_(decoder), drift_(drift) {
  const std::size_t length = windows.tokens.front().size();
  const std::size_t batch = std::max<std::size_t>(1, kBatchTokens / length);
  for (std::size_t first = 0; first < windows.tokens.size(); first += batch) {
    const std::size_t count = std::min(batch, windows.tokens.size() - first);
    std::vector<std::int64_t> flat;
    for (std::size_t w = first; w < first + count; ++w) {
      flat.insert(flat.end(), windows.tokens[w].begin(), windows.tokens[w].end());
    }
    tokens_ += flat.size();
    ids_.push_back(torch::tensor(flat).view(
        {static_cast<std::int64_t>(count), static_cast<std::int64_t>(length)}));
  }
}

void Propagation::start(const Weights& quantized, const Weights& original) {
  const torch::NoGradGuard no_grad;
  quantized_.clear();
  original_.clear();
  for (const torch::Tensor& ids : ids_) {
    quantized_.push_back({decoder_.embed(quantized, ids), {}});
    if (drift_ == Drift::kMeasure) original_.push_back({decoder_.embed(original, ids), {}});
  }
}

Result<InputMoments> Propagation::advance(const Weights& quantized, const Weights& original,
                                          std::int64_t layer, BlockInput which) {
  const torch::NoGradGuard no_grad;
  const auto step = [&](const Weights& weights, State& state) {
    switch (which) {
      case BlockInput::kAttnIn:
        state.input = decoder_.attn_in(weights, layer, state.residual);
        return;
      case BlockInput::kAttnOut:
        state.input = decoder_.attn_out(weights, layer, state.input);
        return;
      case BlockInput::kMlpIn:
        state.residual = decoder_.add_attention(weights, layer, state.residual, state.input);
        state.input = decoder_.mlp_in(weights, layer, state.residual);
        return;
      case BlockInput::kMlpOut:
        state.input = decoder_.mlp_out(weights, layer, state.input);
        return;
    }
  };
  for (State& state : quantized_) step(quantized, state);
  for (State& state : original_) step(original, state);
  const bool added = which == BlockInput::kAttnOut || which == BlockInput::kMlpOut;
  return moments("block " + std::to_string(layer), added);
}

void Propagation::finish_block(const Weights& quantized, const Weights& original,
                               std::int64_t layer) {
  const torch::NoGradGuard no_grad;
  const auto step = [&](const Weights& weights, State& state) {
    state.residual = decoder_.add_mlp(weights, layer, state.residual, state.input);
    state.input = torch::Tensor();
  };
  for (State& state : quantized_) step(quantized, state);
  for (State& state : original_) step(original, state);
}

Result<InputMoments> Propagation::final_input(const Weights& quantized, const Weights& original) {
  const torch::NoGradGuard no_grad;
  for (State& state : quantized_) {
    state.input = decoder_.final_norm(quantized, state.residual, {});
  }
  for (State& state : original_) {
    state.input = decoder_.final_norm(original, state.residual, {});
  }
  return moments("final norm", false);
}

Result<InputMoments> Propagation::moments(const std::string& subject, bool add_residual) const {
  torch::Tensor second_moment;
  InputMoments result;
  for (std::size_t b = 0; b < quantized_.size(); ++b) {
    const torch::Tensor input = rows_of(quantized_[b].input);
    accumulate(second_moment, input, input);
    if (drift_ == Drift::kIgnore) continue;
    accumulate(result.input_drift, rows_of(original_[b].input) - input, input);
    if (!add_residual) continue;
    const torch::Tensor behind = rows_of(original_[b].residual - quantized_[b].residual);
    accumulate(result.residual_drift, behind, input);
  }
  const auto tokens = static_cast<double>(tokens_);
  // The float products of a batch need not be symmetric to the last bit.
  second_moment = ((second_moment + second_moment.t()) / (2.0 * tokens)).contiguous();
  if (!torch::isfinite(second_moment).all().item<bool>()) {
    return Error{ErrorCode::kNonFinite, subject,
                 "the calibration windows give NaN or infinite activations", 0};
  }
  const double* values = second_moment.data_ptr<double>();
  result.second_moment.assign(values, values + second_moment.numel());
  if (result.input_drift.defined()) result.input_drift /= tokens;
  if (result.residual_drift.defined()) result.residual_drift /= tokens;
  return result;
}

}  // namespace elastiq
