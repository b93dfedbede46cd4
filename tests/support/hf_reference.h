#pragma once

// The decoder written the long way over Hugging Face names: one token after another, every sum in
// double, nothing of the product called. Only the rounding of activations to int8 is repeated where
// a matrix is quantized, because it is part of the arithmetic.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "tests/support/hf_quantize.h"
#include "tests/support/tiny_model.h"

namespace elastiq::testing {

class HfReference {
 public:
  /// Quantized matrices replace the model's tensors of the same name.
  HfReference(const HfModel& model, const QuantizedCheckpoint& quantized) : shape_(model.shape) {
    for (const auto& [name, tensor] : model.tensors) {
      Tensor t;
      t.cols = tensor.shape.back();
      t.values.assign(tensor.values.begin(), tensor.values.end());
      const auto q = quantized.matrices.find(name);
      if (q != quantized.matrices.end()) {
        t.quantized = true;
        t.kept = q->second.kept_index;
        for (std::size_t i = 0; i < t.values.size(); ++i) {
          t.values[i] = hf_weight(q->second, i / t.cols, i % t.cols);
        }
      }
      tensors_[name] = std::move(t);
    }
    rms_eps_ = model.rms_eps;
    rope_theta_ = model.rope_theta;
  }

  /// Logits after every token.
  std::vector<std::vector<double>> run(const std::vector<std::uint32_t>& tokens) {
    keys_.assign(static_cast<std::size_t>(shape_.layers), {});
    values_ = keys_;
    std::vector<Row> logits;
    const Tensor& embed = tensors_.at("model.embed_tokens.weight");
    for (std::size_t position = 0; position < tokens.size(); ++position) {
      const auto from =
          embed.values.begin() + static_cast<std::ptrdiff_t>(tokens[position] * embed.cols);
      Row x(from, from + static_cast<std::ptrdiff_t>(embed.cols));
      for (std::int64_t layer = 0; layer < shape_.layers; ++layer) {
        block(x, static_cast<std::size_t>(layer), position);
      }
      const bool own_head = tensors_.contains("lm_head.weight");
      logits.push_back(
          multiply(own_head ? "lm_head" : "model.embed_tokens", norm(x, "model.norm.weight")));
    }
    return logits;
  }

 private:
  using Row = std::vector<double>;

  struct Tensor {
    std::size_t cols = 0;
    Row values;
    bool quantized = false;
    std::vector<std::uint16_t> kept;
  };

  Row norm(const Row& x, const std::string& name) const {
    double sum = 0;
    for (const double v : x) sum += v * v;
    const double inverse = 1 / std::sqrt(sum / static_cast<double>(x.size()) + rms_eps_);
    Row y = x;
    for (std::size_t i = 0; i < y.size(); ++i) y[i] *= inverse * tensors_.at(name).values[i];
    return y;
  }

  static Row rounded(const Tensor& t, Row x) {
    if (!t.quantized) return x;
    double top = 0;
    std::vector<bool> kept(x.size());
    for (const std::uint16_t column : t.kept) kept[column] = true;
    for (std::size_t i = 0; i < x.size(); ++i) {
      if (!kept[i]) top = std::max(top, std::fabs(x[i]));
    }
    for (std::size_t i = 0; i < x.size(); ++i) {
      if (!kept[i] && top > 0) x[i] = std::nearbyint(x[i] * 127 / top) * top / 127;
    }
    return x;
  }

  Row multiply(const std::string& module, const Row& x) const {
    const Tensor& t = tensors_.at(module + ".weight");
    const auto bias = tensors_.find(module + ".bias");
    const Row in = rounded(t, x);
    Row y(t.values.size() / t.cols);
    for (std::size_t r = 0; r < y.size(); ++r) {
      for (std::size_t c = 0; c < t.cols; ++c) y[r] += t.values[r * t.cols + c] * in[c];
      if (bias != tensors_.end()) y[r] += bias->second.values[r];
    }
    return y;
  }

  /// Rotate-half layout of Hugging Face checkpoints.
  void rotate(Row& x, std::size_t position) const {
    const auto dim = static_cast<std::size_t>(shape_.head_dim);
    for (std::size_t head = 0; head < x.size() / dim; ++head) {
      for (std::size_t i = 0; i < dim / 2; ++i) {
        const double angle =
            static_cast<double>(position) *
            std::pow(rope_theta_, -2.0 * static_cast<double>(i) / static_cast<double>(dim));
        double& a = x[head * dim + i];
        double& b = x[head * dim + dim / 2 + i];
        const double first = a;
        a = first * std::cos(angle) - b * std::sin(angle);
        b = b * std::cos(angle) + first * std::sin(angle);
      }
    }
  }

  Row attend(const Row& q, std::size_t layer) const {
    const auto dim = static_cast<std::size_t>(shape_.head_dim);
    const auto share = static_cast<std::size_t>(shape_.heads / shape_.kv_heads);
    Row out(q.size());
    for (std::size_t head = 0; head < q.size() / dim; ++head) {
      const std::size_t kv = head / share * dim;
      Row p;
      for (const Row& key : keys_[layer]) {
        double score = 0;
        for (std::size_t d = 0; d < dim; ++d) score += q[head * dim + d] * key[kv + d];
        p.push_back(score / std::sqrt(static_cast<double>(dim)));
      }
      const double top = *std::max_element(p.begin(), p.end());
      double total = 0;
      for (double& v : p) total += v = std::exp(v - top);
      for (std::size_t j = 0; j < p.size(); ++j) {
        for (std::size_t d = 0; d < dim; ++d) {
          out[head * dim + d] += p[j] / total * values_[layer][j][kv + d];
        }
      }
    }
    return out;
  }

  void block(Row& x, std::size_t layer, std::size_t position) {
    const std::string at = "model.layers." + std::to_string(layer) + ".";
    const auto add = [&](const Row& y) {
      for (std::size_t i = 0; i < x.size(); ++i) x[i] += y[i];
    };
    Row in = norm(x, at + "input_layernorm.weight");
    Row q = multiply(at + "self_attn.q_proj", in);
    Row k = multiply(at + "self_attn.k_proj", in);
    rotate(q, position);
    rotate(k, position);
    keys_[layer].push_back(k);
    values_[layer].push_back(multiply(at + "self_attn.v_proj", in));
    add(multiply(at + "self_attn.o_proj", attend(q, layer)));
    in = norm(x, at + "post_attention_layernorm.weight");
    Row gate = multiply(at + "mlp.gate_proj", in);
    const Row up = multiply(at + "mlp.up_proj", in);
    for (std::size_t i = 0; i < gate.size(); ++i) gate[i] *= up[i] / (1 + std::exp(-gate[i]));
    add(multiply(at + "mlp.down_proj", gate));
  }

  HfShape shape_;
  double rms_eps_ = 0;
  double rope_theta_ = 0;
  std::map<std::string, Tensor> tensors_;
  std::vector<std::vector<Row>> keys_;
  std::vector<std::vector<Row>> values_;
};

}  // namespace elastiq::testing
