#pragma once

// A Llama forward pass over an HfModel, one token after another in double, written from the model
// card's formulas (Hugging Face's rotate-half form). Nothing of the product is called.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "tests/support/tiny_model.h"

namespace elastiq::testing {

class ReferenceForward {
 public:
  using Row = std::vector<double>;

  explicit ReferenceForward(const HfModel& model) : model_(model) {}

  /// Inputs of the linear layers, as rows per token, by "layers.N.attn_in" and so on.
  std::map<std::string, std::vector<Row>> inputs;

  /// Logits after every token.
  std::vector<Row> run(const std::vector<std::uint32_t>& tokens) {
    const auto layers = static_cast<std::size_t>(model_.shape.layers);
    keys_.assign(layers, {});
    values_.assign(layers, {});
    inputs.clear();
    std::vector<Row> logits;
    for (std::size_t position = 0; position < tokens.size(); ++position) {
      const Row& table = widened("model.embed_tokens.weight");
      const auto hidden = static_cast<std::ptrdiff_t>(model_.shape.hidden);
      const auto first = table.begin() + hidden * static_cast<std::ptrdiff_t>(tokens[position]);
      Row x(first, first + hidden);
      for (std::size_t layer = 0; layer < layers; ++layer) block(x, layer, position);
      const Row last = norm(x, "model.norm");
      inputs["head_in"].push_back(last);
      const bool own = model_.tensors.count("lm_head.weight") != 0;
      logits.push_back(multiply(own ? "lm_head" : "model.embed_tokens", last));
    }
    return logits;
  }

 private:
  const Row& widened(const std::string& name) {
    Row& row = wide_[name];
    if (row.empty()) {
      const std::vector<float>& values = model_.tensors.at(name).values;
      row.assign(values.begin(), values.end());
    }
    return row;
  }

  Row norm(const Row& x, const std::string& name) {
    const Row& w = widened(name + ".weight");
    double sum = 0;
    for (const double v : x) sum += v * v;
    const double inverse = 1 / std::sqrt(sum / static_cast<double>(x.size()) + model_.rms_eps);
    Row y(x.size());
    for (std::size_t i = 0; i < x.size(); ++i) y[i] = w[i] * (x[i] * inverse);
    return y;
  }

  Row multiply(const std::string& name, const Row& x) {
    const Row& w = widened(name + ".weight");
    Row y(w.size() / x.size());
    for (std::size_t r = 0; r < y.size(); ++r) {
      for (std::size_t c = 0; c < x.size(); ++c) y[r] += w[r * x.size() + c] * x[c];
    }
    if (model_.tensors.count(name + ".bias") == 0) return y;
    const Row& bias = widened(name + ".bias");
    for (std::size_t r = 0; r < y.size(); ++r) y[r] += bias[r];
    return y;
  }

  void rotate(Row& x, std::size_t position) const {
    const auto width = static_cast<std::size_t>(model_.shape.head_dim);
    for (std::size_t head = 0; head < x.size(); head += width) {
      for (std::size_t i = 0; i < width / 2; ++i) {
        const double exponent = -2.0 * static_cast<double>(i) / static_cast<double>(width);
        const double angle = static_cast<double>(position) * std::pow(model_.rope_theta, exponent);
        const double a = x[head + i];
        const double b = x[head + width / 2 + i];
        x[head + i] = a * std::cos(angle) - b * std::sin(angle);
        x[head + width / 2 + i] = b * std::cos(angle) + a * std::sin(angle);
      }
    }
  }

  Row attend(const Row& q, std::size_t layer) const {
    const auto width = static_cast<std::size_t>(model_.shape.head_dim);
    const auto per_kv = static_cast<std::size_t>(model_.shape.heads / model_.shape.kv_heads);
    Row out(q.size());
    for (std::size_t head = 0; head < q.size() / width; ++head) {
      const std::size_t kv = head / per_kv * width;
      Row share;
      double total = 0;
      for (const Row& key : keys_[layer]) {
        double score = 0;
        for (std::size_t d = 0; d < width; ++d) score += q[head * width + d] * key[kv + d];
        share.push_back(std::exp(score / std::sqrt(static_cast<double>(width))));
        total += share.back();
      }
      for (std::size_t j = 0; j < share.size(); ++j) {
        for (std::size_t d = 0; d < width; ++d) {
          out[head * width + d] += share[j] / total * values_[layer][j][kv + d];
        }
      }
    }
    return out;
  }

  void block(Row& x, std::size_t layer, std::size_t position) {
    const std::string at = "model.layers." + std::to_string(layer) + ".";
    const std::string key = "layers." + std::to_string(layer) + ".";
    Row in = norm(x, at + "input_layernorm");
    inputs[key + "attn_in"].push_back(in);
    Row q = multiply(at + "self_attn.q_proj", in);
    Row k = multiply(at + "self_attn.k_proj", in);
    rotate(q, position);
    rotate(k, position);
    keys_[layer].push_back(k);
    values_[layer].push_back(multiply(at + "self_attn.v_proj", in));
    const Row attended = attend(q, layer);
    inputs[key + "attn_out"].push_back(attended);
    add(x, multiply(at + "self_attn.o_proj", attended));
    in = norm(x, at + "post_attention_layernorm");
    inputs[key + "mlp_in"].push_back(in);
    Row gate = multiply(at + "mlp.gate_proj", in);
    const Row up = multiply(at + "mlp.up_proj", in);
    for (std::size_t i = 0; i < gate.size(); ++i)
      gate[i] = gate[i] / (1 + std::exp(-gate[i])) * up[i];
    inputs[key + "mlp_out"].push_back(gate);
    add(x, multiply(at + "mlp.down_proj", gate));
  }

  static void add(Row& x, const Row& y) {
    for (std::size_t i = 0; i < x.size(); ++i) x[i] += y[i];
  }

  const HfModel& model_;
  std::map<std::string, Row> wide_;
  std::vector<std::vector<Row>> keys_;
  std::vector<std::vector<Row>> values_;
};

}  // namespace elastiq::testing
