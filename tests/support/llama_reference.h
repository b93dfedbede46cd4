#pragma once

// The decoder written the long way: one token after another, double sums, weights as plain numbers.
// Only the activation quantizer is repeated (its rounding is part of the arithmetic); nothing of
// kernels/ is called.

#include <cmath>
#include <vector>

#include "tests/support/tiny_package.h"

namespace elastiq::testing {

class LlamaReference {
 public:
  explicit LlamaReference(const TinyModel& model) : model_(model) {}

  // Logits after every token.
  std::vector<std::vector<double>> run(const std::vector<uint32_t>& tokens) {
    const TinyShape& s = model_.shape;
    keys_.assign(s.layers, {});
    values_.assign(s.layers, {});
    std::vector<std::vector<double>> logits;
    for (uint32_t position = 0; position < tokens.size(); ++position) {
      const TinyTensor& embed = *model_.find(ELQ_ROLE_EMBED, 0);
      Row x(embed.weights.begin() + static_cast<ptrdiff_t>(tokens[position] * s.hidden),
            embed.weights.begin() + static_cast<ptrdiff_t>((tokens[position] + 1) * s.hidden));
      for (uint32_t layer = 0; layer < s.layers; ++layer) block(x, layer, position);
      const Row last = norm(x, ELQ_ROLE_FINAL_NORM, 0);
      logits.push_back(multiply(s.tied ? ELQ_ROLE_EMBED : ELQ_ROLE_HEAD, 0, last));
    }
    return logits;
  }

 private:
  using Row = std::vector<double>;

  Row norm(const Row& x, uint32_t role, uint32_t layer) const {
    const std::vector<float>& w = model_.find(role, layer)->weights;
    double sum = 0;
    for (const double v : x) sum += v * v;
    const double inverse =
        1 / std::sqrt(sum / static_cast<double>(x.size()) + static_cast<double>(model_.rms_eps));
    Row y(x.size());
    for (size_t i = 0; i < x.size(); ++i) y[i] = x[i] * inverse * static_cast<double>(w[i]);
    return y;
  }

  // Columns that are not kept are rounded to 127ths of their largest magnitude.
  static Row rounded(const TinyTensor& t, Row x) {
    if (!t.quantized) return x;
    auto kept = [&](size_t i) {
      return std::find(t.kept_index.begin(), t.kept_index.end(), i) != t.kept_index.end();
    };
    double top = 0;
    for (size_t i = 0; i < x.size(); ++i) {
      if (!kept(i)) top = std::max(top, std::fabs(x[i]));
    }
    for (size_t i = 0; i < x.size(); ++i) {
      if (!kept(i) && top > 0) x[i] = std::nearbyint(x[i] * 127 / top) * top / 127;
    }
    return x;
  }

  Row multiply(uint32_t role, uint32_t layer, const Row& x) const {
    const TinyTensor& t = *model_.find(role, layer);
    const TinyTensor* bias = model_.find(role + ELQ_ROLE_BIAS, layer);
    const Row in = rounded(t, x);
    Row y(t.record.rows);
    for (size_t r = 0; r < y.size(); ++r) {
      for (size_t c = 0; c < in.size(); ++c) {
        y[r] += static_cast<double>(t.weights[r * in.size() + c]) * in[c];
      }
      if (bias != nullptr) y[r] += static_cast<double>(bias->weights[r]);
    }
    return y;
  }

  void rotate(Row& x, uint32_t heads, uint32_t position) const {
    const uint32_t half = model_.shape.head_dim / 2;
    for (uint32_t h = 0; h < heads; ++h) {
      for (uint32_t i = 0; i < half; ++i) {
        const double angle = position * std::pow(model_.rope_theta, -1.0 * i / half);
        double& a = x[h * 2 * half + i];
        double& b = x[h * 2 * half + half + i];
        const double a0 = a;
        a = a0 * std::cos(angle) - b * std::sin(angle);
        b = b * std::cos(angle) + a0 * std::sin(angle);
      }
    }
  }

  Row attend(const Row& q, uint32_t layer) const {
    const TinyShape& s = model_.shape;
    Row out(q.size());
    for (uint32_t h = 0; h < s.heads; ++h) {
      const size_t shared = h / (s.heads / s.kv_heads) * s.head_dim;
      Row p;
      double top = -1e300;
      for (const Row& key : keys_[layer]) {
        double score = 0;
        for (uint32_t d = 0; d < s.head_dim; ++d) score += q[h * s.head_dim + d] * key[shared + d];
        p.push_back(score / std::sqrt(static_cast<double>(s.head_dim)));
        top = std::max(top, p.back());
      }
      double total = 0;
      for (double& v : p) total += v = std::exp(v - top);
      for (size_t j = 0; j < p.size(); ++j) {
        for (uint32_t d = 0; d < s.head_dim; ++d) {
          out[h * s.head_dim + d] += p[j] / total * values_[layer][j][shared + d];
        }
      }
    }
    return out;
  }

  void block(Row& x, uint32_t layer, uint32_t position) {
    Row in = norm(x, ELQ_ROLE_ATTN_NORM, layer);
    Row q = multiply(ELQ_ROLE_Q, layer, in);
    Row k = multiply(ELQ_ROLE_K, layer, in);
    rotate(q, model_.shape.heads, position);
    rotate(k, model_.shape.kv_heads, position);
    keys_[layer].push_back(k);
    values_[layer].push_back(multiply(ELQ_ROLE_V, layer, in));
    add(x, multiply(ELQ_ROLE_O, layer, attend(q, layer)));
    in = norm(x, ELQ_ROLE_MLP_NORM, layer);
    Row gate = multiply(ELQ_ROLE_GATE, layer, in);
    const Row up = multiply(ELQ_ROLE_UP, layer, in);
    for (size_t i = 0; i < gate.size(); ++i) gate[i] = gate[i] / (1 + std::exp(-gate[i])) * up[i];
    add(x, multiply(ELQ_ROLE_DOWN, layer, gate));
  }

  static void add(Row& x, const Row& y) {
    for (size_t i = 0; i < x.size(); ++i) x[i] += y[i];
  }

  const TinyModel& model_;
  std::vector<std::vector<Row>> keys_;
  std::vector<std::vector<Row>> values_;
};

}  // namespace elastiq::testing
