#pragma once

// Largest-magnitude coding of tiny models: the plainest quantizer there is, so that tests of
// packing and export need none of the product's.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "core/float_bits.h"
#include "core/quantized_matrix.h"
#include "core/scheme.h"
#include "formats/quantized_checkpoint.h"
#include "tests/support/tiny_model.h"

namespace elastiq::testing {

/// Levels of a scheme as this file knows them.
struct HfGrid {
  int z2 = 0;
  int codes = 0;
  double largest = 0;  ///< |2c - z2| over the codes in use.
};

inline HfGrid hf_grid(const Scheme& s) {
  if (s.grid == Grid::kTernary) return {2, 3, 2};
  const int codes = 1 << s.bits;
  if (s.grid == Grid::kSeq) return {codes - 1, codes, static_cast<double>(codes - 1)};
  return {codes, codes, static_cast<double>(codes)};
}

/// Columns of the largest magnitudes, ascending.
inline std::vector<std::uint16_t> hf_kept_columns(const HfTensor& tensor, int wanted) {
  const std::uint64_t rows = tensor.shape[0];
  const std::uint64_t cols = tensor.shape[1];
  std::vector<std::uint16_t> order(cols);
  std::vector<double> top(cols);
  for (std::uint64_t c = 0; c < cols; ++c) {
    order[c] = static_cast<std::uint16_t>(c);
    for (std::uint64_t r = 0; r < rows; ++r) {
      top[c] = std::max(top[c], std::fabs(static_cast<double>(tensor.values[r * cols + c])));
    }
  }
  std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return top[a] > top[b]; });
  order.resize(std::min<std::uint64_t>(static_cast<std::uint64_t>(wanted), cols / 4));
  std::sort(order.begin(), order.end());
  return order;
}

inline void hf_keep(const HfTensor& tensor, int wanted, QuantizedMatrix& q) {
  q.kept_index = hf_kept_columns(tensor, wanted);
  const auto cols = static_cast<std::size_t>(q.cols);
  for (const std::uint16_t c : q.kept_index) {
    float top = 0;
    for (std::size_t r = 0; r < static_cast<std::size_t>(q.rows); ++r) {
      top = std::max(top, std::fabs(tensor.values[r * cols + c]));
    }
    const float scale = top > 0 ? top / 127 : 1.0f;
    q.kept_scales.push_back(scale);
    for (std::size_t r = 0; r < static_cast<std::size_t>(q.rows); ++r) {
      q.kept_values.push_back(
          static_cast<std::int8_t>(std::lrint(tensor.values[r * cols + c] / scale)));
    }
  }
}

inline QuantizedMatrix hf_quantize(const HfTensor& tensor, const Scheme& scheme) {
  const HfGrid grid = hf_grid(scheme);
  QuantizedMatrix q;
  q.scheme = scheme;
  q.rows = static_cast<std::int64_t>(tensor.shape[0]);
  q.cols = static_cast<std::int64_t>(tensor.shape[1]);
  hf_keep(tensor, scheme.kept_columns, q);
  const auto cols = static_cast<std::size_t>(q.cols);
  const auto width = static_cast<std::size_t>(scheme.group == 0 ? q.cols : scheme.group);
  const std::size_t groups = (cols + width - 1) / width;
  const bool u8 = scheme.scale == ScaleMode::kU8;
  // The row sum of elq_layout.h, with the levels of every code of the width.
  const double level = std::max(grid.z2, 2 * ((1 << scheme.bits) - 1) - grid.z2);
  const double most =
      2147483647.0 / (level * 127.0 * std::ceil(static_cast<double>(cols) / 32) * 32);
  const double smax = std::min(255.0, std::floor(most));
  q.codes.resize(static_cast<std::size_t>(q.rows) * cols);
  for (std::size_t r = 0; r < static_cast<std::size_t>(q.rows); ++r) {
    const float* row = tensor.values.data() + r * cols;
    std::vector<double> ideal(groups, 1e-6);
    for (std::size_t c = 0; c < cols; ++c) {
      if (std::binary_search(q.kept_index.begin(), q.kept_index.end(), c)) continue;
      ideal[c / width] =
          std::max(ideal[c / width], std::fabs(static_cast<double>(row[c])) / grid.largest);
    }
    const double top = *std::max_element(ideal.begin(), ideal.end());
    const auto row_scale = static_cast<float>(u8 ? top / smax : top);
    if (scheme.scale != ScaleMode::kF16) q.row_scales.push_back(row_scale);
    for (std::size_t g = 0; g < groups; ++g) {
      double scale = static_cast<double>(row_scale);
      if (u8) {
        const double step = std::clamp(std::ceil(ideal[g] / scale), 1.0, smax);
        q.u8_scales.push_back(static_cast<std::uint8_t>(step));
        scale *= step;
      }
      if (scheme.scale == ScaleMode::kF16) {
        q.f16_scales.push_back(f32_to_f16(static_cast<float>(ideal[g])));
        scale = static_cast<double>(f16_to_f32(q.f16_scales.back()));
      }
      for (std::size_t c = g * width; c < std::min(cols, (g + 1) * width); ++c) {
        if (std::binary_search(q.kept_index.begin(), q.kept_index.end(), c)) continue;
        const double code = std::nearbyint((static_cast<double>(row[c]) / scale + grid.z2) / 2);
        q.codes[r * cols + c] =
            static_cast<std::uint8_t>(std::clamp(code, 0.0, static_cast<double>(grid.codes - 1)));
      }
    }
  }
  return q;
}

/// The weight at (row, column) by the definition w = half_scale * (2c - z2), in double.
inline double hf_weight(const QuantizedMatrix& q, std::size_t r, std::size_t c) {
  const auto cols = static_cast<std::size_t>(q.cols);
  for (std::size_t k = 0; k < q.kept_index.size(); ++k) {
    if (q.kept_index[k] == c) {
      return static_cast<double>(q.kept_scales[k]) *
             q.kept_values[k * static_cast<std::size_t>(q.rows) + r];
    }
  }
  const auto width = static_cast<std::size_t>(q.scheme.group == 0 ? q.cols : q.scheme.group);
  const std::size_t at = r * ((cols + width - 1) / width) + c / width;
  double scale = 0;
  if (q.scheme.scale == ScaleMode::kF16) scale = static_cast<double>(f16_to_f32(q.f16_scales[at]));
  if (q.scheme.scale != ScaleMode::kF16) scale = static_cast<double>(q.row_scales[r]);
  if (q.scheme.scale == ScaleMode::kU8) scale *= q.u8_scales[at];
  return scale * (2.0 * q.codes[r * cols + c] - hf_grid(q.scheme).z2);
}

/// Scheme name of a tensor, or "" to keep it at its source type.
using HfSchemeOf = std::function<std::string(const std::string& name)>;

inline QuantizedCheckpoint hf_quantized(const HfModel& model, const HfSchemeOf& scheme_of) {
  QuantizedCheckpoint out;
  Json plan = Json::array();
  for (const auto& [name, tensor] : model.tensors) {
    const std::string scheme = tensor.shape.size() == 2 ? scheme_of(name) : "";
    if (tensor.shape.size() == 2) {
      plan.push_back({{"name", name}, {"scheme", scheme.empty() ? "keep" : scheme}});
    }
    if (!scheme.empty()) {
      auto parsed = parse_scheme(scheme);
      if (parsed.ok()) out.matrices[name] = hf_quantize(tensor, parsed.value());
      continue;
    }
    QuantizedCheckpoint::Plain plain;
    const bool bf16 = model.type == HfType::kBf16;
    plain.dtype = bf16 ? DType::kBf16 : DType::kF32;
    plain.shape = tensor.shape;
    plain.bytes.resize(tensor.values.size() * (bf16 ? 2 : 4));
    for (std::size_t i = 0; i < tensor.values.size(); ++i) {
      const std::uint16_t half = hf_bf16_bits(tensor.values[i]);
      if (bf16) std::memcpy(plain.bytes.data() + 2 * i, &half, 2);
      if (!bf16) std::memcpy(plain.bytes.data() + 4 * i, &tensor.values[i], 4);
    }
    out.plain[name] = std::move(plain);
  }
  out.info["plan"] = std::move(plan);
  return out;
}

}  // namespace elastiq::testing
