#include "model/decoder.h"

#include <cmath>
#include <limits>
#include <utility>

#include "kernels/elq_layout.h"

namespace elastiq {
namespace {

// Operands in the chosen type, result in float32. oneDNN accumulates bf16 products in float32.
torch::Tensor in_type(const torch::Tensor& x, MatmulType type) {
  return type == MatmulType::kBf16 ? x.to(torch::kBFloat16) : x;
}

// x [tokens, in] times w [out, in] transposed.
torch::Tensor product(const torch::Tensor& x, const torch::Tensor& w, MatmulType type) {
  if (type == MatmulType::kF32) return torch::mm(x, w.t());
  return torch::mm(in_type(x, type), in_type(w, type).t()).to(torch::kFloat32);
}

torch::Tensor batch_product(const torch::Tensor& a, const torch::Tensor& b, MatmulType type) {
  return torch::bmm(in_type(a, type), in_type(b, type)).to(torch::kFloat32);
}

torch::Tensor rows_of(const torch::Tensor& x) {
  return x.reshape({-1, x.size(-1)});
}

void call(const Tap& tap, std::uint32_t role, std::int64_t layer, const torch::Tensor& x) {
  if (tap) tap(input_key(role, layer), rows_of(x));
}

struct Rotation {
  torch::Tensor cosine;  // [length, head_dim / 2], float32
  torch::Tensor sine;
};

// Angles in float64, as the C runtime's tables.
Rotation rotation(const torch::Tensor& inverse_frequencies, std::int64_t length) {
  const torch::Tensor position = torch::arange(length, torch::kFloat64);
  const torch::Tensor angle = torch::outer(position, inverse_frequencies);
  return {angle.cos().to(torch::kFloat32), angle.sin().to(torch::kFloat32)};
}

// x [..., length, head_dim]; halves, not neighbours, are a pair (Hugging Face checkpoints).
torch::Tensor rotate(const torch::Tensor& x, const Rotation& by) {
  const std::int64_t half = x.size(-1) / 2;
  const torch::Tensor a = x.slice(-1, 0, half);
  const torch::Tensor b = x.slice(-1, half);
  return torch::cat({a * by.cosine - b * by.sine, b * by.cosine + a * by.sine}, -1);
}

// 0 where key <= query, -infinity after it.
torch::Tensor causal_mask(std::int64_t length) {
  return torch::full({length, length}, -std::numeric_limits<float>::infinity()).triu(1);
}

}  // namespace

Decoder::Decoder(ModelConfig config, MatmulType type)
    : Decoder(std::move(config), type, Int8Inputs{}) {}

Decoder::Decoder(ModelConfig config, MatmulType type, Int8Inputs int8)
    : config_(std::move(config)), type_(type), int8_(std::move(int8)) {
  const std::int64_t half = config_.head_dim / 2;
  const torch::Tensor exponent = torch::arange(half, torch::kFloat64) / static_cast<double>(half);
  inverse_frequencies_ = torch::exp(-exponent * std::log(config_.rope_theta));
}

torch::Tensor Decoder::linear(const Weights& weights, std::uint32_t role, std::int64_t layer,
                              const torch::Tensor& x) const {
  const std::string name = tensor_name(role, layer);
  torch::Tensor input = rows_of(x);
  const auto rounded = int8_.find(name);
  if (rounded != int8_.end()) input = round_activations(input, rounded->second);
  const torch::Tensor& weight = weights.at(name);
  torch::Tensor y = product(input, weight, type_);
  const auto bias = weights.find(tensor_name(role + ELQ_ROLE_BIAS, layer));
  if (bias != weights.end()) y = y + bias->second;
  std::vector<std::int64_t> shape = x.sizes().vec();
  shape.back() = weight.size(0);
  return y.view(shape);
}

torch::Tensor Decoder::norm(const Weights& weights, std::uint32_t role, std::int64_t layer,
                            const torch::Tensor& x) const {
  const torch::Tensor square = x.square().mean(-1, true);
  return x * torch::rsqrt(square + config_.rms_eps) * weights.at(tensor_name(role, layer));
}

// Query heads of one key-value head are stacked, so keys and values are never repeated in memory.
torch::Tensor Decoder::attention(const torch::Tensor& q, const torch::Tensor& k,
                                 const torch::Tensor& v) const {
  const std::int64_t batch = q.size(0);
  const std::int64_t length = q.size(1);
  const std::int64_t width = config_.head_dim;
  const std::int64_t shared = config_.heads / config_.kv_heads;
  const std::int64_t planes = batch * config_.kv_heads;
  const Rotation by = rotation(inverse_frequencies_, length);
  const auto per_head = [&](const torch::Tensor& x) {
    return x.view({batch, length, config_.kv_heads, width}).transpose(1, 2);
  };
  const double scale = 1.0 / std::sqrt(static_cast<double>(width));
  torch::Tensor queries = q.view({batch, length, config_.kv_heads, shared, width});
  queries = rotate(queries.permute({0, 2, 3, 1, 4}), by) * scale;
  const torch::Tensor keys = rotate(per_head(k), by).reshape({planes, length, width});
  const torch::Tensor values = per_head(v).reshape({planes, length, width});

  torch::Tensor scores =
      batch_product(queries.reshape({planes, shared * length, width}), keys.transpose(1, 2), type_);
  scores = scores.view({planes, shared, length, length}) + causal_mask(length);
  const torch::Tensor share = torch::softmax(scores, -1).view({planes, shared * length, length});
  return batch_product(share, values, type_)
      .view({batch, config_.kv_heads, shared, length, width})
      .permute({0, 3, 1, 2, 4})
      .reshape({batch, length, config_.heads * width});
}

torch::Tensor Decoder::embed(const Weights& weights, const torch::Tensor& ids) const {
  return torch::embedding(weights.at(tensor_name(ELQ_ROLE_EMBED, -1)), ids);
}

torch::Tensor Decoder::attn_in(const Weights& weights, std::int64_t layer,
                               const torch::Tensor& x) const {
  return norm(weights, ELQ_ROLE_ATTN_NORM, layer, x);
}

torch::Tensor Decoder::attn_out(const Weights& weights, std::int64_t layer,
                                const torch::Tensor& attn_in) const {
  const torch::Tensor q = linear(weights, ELQ_ROLE_Q, layer, attn_in);
  const torch::Tensor k = linear(weights, ELQ_ROLE_K, layer, attn_in);
  const torch::Tensor v = linear(weights, ELQ_ROLE_V, layer, attn_in);
  return attention(q, k, v);
}

torch::Tensor Decoder::add_attention(const Weights& weights, std::int64_t layer,
                                     const torch::Tensor& x, const torch::Tensor& attn_out) const {
  return x + linear(weights, ELQ_ROLE_O, layer, attn_out);
}

torch::Tensor Decoder::mlp_in(const Weights& weights, std::int64_t layer,
                              const torch::Tensor& middle) const {
  return norm(weights, ELQ_ROLE_MLP_NORM, layer, middle);
}

torch::Tensor Decoder::mlp_out(const Weights& weights, std::int64_t layer,
                               const torch::Tensor& mlp_in) const {
  const torch::Tensor gate = linear(weights, ELQ_ROLE_GATE, layer, mlp_in);
  const torch::Tensor up = linear(weights, ELQ_ROLE_UP, layer, mlp_in);
  return torch::silu(gate) * up;
}

torch::Tensor Decoder::add_mlp(const Weights& weights, std::int64_t layer,
                               const torch::Tensor& middle, const torch::Tensor& mlp_out) const {
  return middle + linear(weights, ELQ_ROLE_DOWN, layer, mlp_out);
}

torch::Tensor Decoder::block(const Weights& weights, std::int64_t layer, const torch::Tensor& x,
                             const Tap& tap) const {
  torch::Tensor in = attn_in(weights, layer, x);
  call(tap, ELQ_ROLE_Q, layer, in);
  const torch::Tensor attended = attn_out(weights, layer, in);
  call(tap, ELQ_ROLE_O, layer, attended);
  const torch::Tensor middle = add_attention(weights, layer, x, attended);

  in = mlp_in(weights, layer, middle);
  call(tap, ELQ_ROLE_GATE, layer, in);
  const torch::Tensor inner = mlp_out(weights, layer, in);
  call(tap, ELQ_ROLE_DOWN, layer, inner);
  return add_mlp(weights, layer, middle, inner);
}

torch::Tensor Decoder::final_norm(const Weights& weights, const torch::Tensor& x,
                                  const Tap& tap) const {
  const torch::Tensor y = norm(weights, ELQ_ROLE_FINAL_NORM, -1, x);
  call(tap, ELQ_ROLE_HEAD, -1, y);
  return y;
}

torch::Tensor Decoder::head(const Weights& weights, const torch::Tensor& normalised) const {
  const bool own = weights.contains(tensor_name(ELQ_ROLE_HEAD, -1));
  return linear(weights, own ? ELQ_ROLE_HEAD : ELQ_ROLE_EMBED, -1, normalised);
}

torch::Tensor Decoder::forward(const Weights& weights, const torch::Tensor& ids,
                               const Tap& tap) const {
  torch::Tensor x = embed(weights, ids);
  for (std::int64_t layer = 0; layer < config_.layers; ++layer) {
    x = block(weights, layer, x, tap);
  }
  return head(weights, final_norm(weights, x, tap));
}

}  // namespace elastiq
