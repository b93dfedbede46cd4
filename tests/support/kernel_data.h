#pragma once

// Random packed matrices that remember what was packed, so that tests can compute with plain
// numbers.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

#include "kernels/elq_kernels.h"

namespace elastiq::testing {

class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}

  uint64_t bits() {
    state_ += 0x9e3779b97f4a7c15u;
    uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }

  uint32_t below(uint32_t n) { return static_cast<uint32_t>(bits() % n); }

  // In [-1, 1).
  float symmetric() { return static_cast<float>(static_cast<int32_t>(bits() >> 32)) * 0x1p-31f; }

 private:
  uint64_t state_;
};

// Bytes at a 64-byte boundary.
class AlignedBytes {
 public:
  AlignedBytes() = default;

  explicit AlignedBytes(size_t bytes) : lines_((bytes + 63) / 64), bytes_(bytes) {}

  uint8_t* data() { return lines_.empty() ? nullptr : lines_[0].byte; }

  const uint8_t* data() const { return lines_.empty() ? nullptr : lines_[0].byte; }

  size_t size() const { return bytes_; }

 private:
  struct alignas(64) Line {
    uint8_t byte[64] = {};
  };

  std::vector<Line> lines_;
  size_t bytes_ = 0;
};

struct Scheme {
  uint32_t bits = 2;
  uint32_t scale_mode = ELQ_SCALE_U8;
  uint32_t z2 = 3;
  uint32_t group = 64;
  uint32_t n_kept = 0;
};

inline uint32_t largest_level(const Scheme& s) {
  const uint32_t top = 2 * ((1u << s.bits) - 1);
  return std::max(s.z2, top - s.z2);
}

// IEEE half of a positive power-of-two-ish value: exponent of x, ten random mantissa bits.
inline uint16_t random_half(Random& random, float x) {
  int exponent = 0;
  std::frexp(x, &exponent);
  const int biased = std::clamp(exponent + 14, 1, 30);
  return static_cast<uint16_t>(static_cast<uint32_t>(biased) << 10 | random.below(1024));
}

inline double value_of_half(uint16_t half) {
  const int exponent = half >> 10 & 31;
  const double mantissa = half & 1023;
  const double magnitude =
      exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(1024 + mantissa, exponent - 25);
  return half & 0x8000 ? -magnitude : magnitude;
}

struct PackedTensor {
  elq_matrix m = {};
  uint32_t smax = 0;
  std::vector<uint8_t> codes;
  std::vector<float> row_scales;
  std::vector<uint8_t> u8_scales;
  std::vector<uint16_t> f16_scales;
  std::vector<uint16_t> kept_index;
  std::vector<float> kept_scale;
  std::vector<int8_t> kept_value;
  AlignedBytes bytes;

  bool is_kept(uint32_t col) const {
    return std::find(kept_index.begin(), kept_index.end(), col) != kept_index.end();
  }

  // The weight by its definition w = half_scale * (2c - z2), in double.
  double weight(uint32_t row, uint32_t col) const {
    for (uint32_t k = 0; k < m.n_kept; ++k) {
      if (kept_index[k] == col) {
        return static_cast<double>(kept_scale[k]) * kept_value[size_t{k} * m.rows + row];
      }
    }
    const size_t g = size_t{row} * m.n_groups + col / m.group;
    double scale = m.scale_mode == ELQ_SCALE_F16 ? value_of_half(f16_scales[g])
                                                 : static_cast<double>(row_scales[row]);
    if (m.scale_mode == ELQ_SCALE_U8) scale *= u8_scales[g];
    return scale * (2.0 * codes[size_t{row} * m.cols + col] - m.z2);
  }
};

inline void pack(PackedTensor& t) {
  const elq_pack_source source = {t.codes.data(),      t.row_scales.data(), t.u8_scales.data(),
                                  t.f16_scales.data(), t.kept_index.data(), t.kept_scale.data(),
                                  t.kept_value.data()};
  t.bytes = AlignedBytes(elq_matrix_bytes(&t.m));
  elq_pack(&t.m, &source, t.bytes.data());
  elq_matrix_bind(&t.m, t.bytes.data());
}

// Weights of about +-magnitude. Kept columns are spread over the width.
inline PackedTensor random_packed(Random& random, uint32_t rows, uint32_t cols, const Scheme& s,
                                  float magnitude) {
  PackedTensor t;
  if (elq_matrix_init(&t.m, rows, cols, s.bits, s.scale_mode, s.z2, s.group,
                      std::min(s.n_kept, cols)) != 0) {
    return t;
  }
  const uint32_t n_codes = s.bits == 2 && s.z2 == 2 ? 3 : 1u << s.bits;
  t.codes.resize(size_t{rows} * cols);
  for (uint8_t& code : t.codes) code = static_cast<uint8_t>(random.below(n_codes));
  const float unit = magnitude / static_cast<float>(largest_level(s));
  const uint64_t most = ELQ_MAX_ROW_SUM / (uint64_t{largest_level(s)} * 127 * t.m.padded_cols);
  const auto smax = static_cast<uint32_t>(std::min<uint64_t>(255, most));
  for (uint32_t row = 0; row < rows; ++row) {
    const float wobble = 1.0f + 0.25f * random.symmetric();
    const float step = s.scale_mode == ELQ_SCALE_U8 ? unit / static_cast<float>(smax) : unit;
    t.row_scales.push_back(step * wobble);
    for (uint32_t g = 0; g < t.m.n_groups; ++g) {
      t.u8_scales.push_back(static_cast<uint8_t>(smax / 2 + random.below(smax - smax / 2) + 1));
      t.smax = std::max<uint32_t>(t.smax, t.u8_scales.back());
      t.f16_scales.push_back(random_half(random, unit));
    }
  }
  for (uint32_t k = 0; k < t.m.n_kept; ++k) {
    t.kept_index.push_back(static_cast<uint16_t>(uint64_t{k} * cols / t.m.n_kept));
    t.kept_scale.push_back(magnitude / 127 * (1.0f + 0.5f * random.symmetric()));
    for (uint32_t row = 0; row < rows; ++row) {
      t.kept_value.push_back(static_cast<int8_t>(static_cast<int>(random.below(255)) - 127));
    }
  }
  pack(t);
  return t;
}

// One token's activations with their storage.
struct Activations {
  std::vector<int8_t> values;
  std::vector<int32_t> sums;
  std::vector<float> kept;
  elq_activations view = {};
};

inline Activations quantize(const elq_matrix& m, const std::vector<float>& x) {
  Activations a;
  a.values.resize(m.padded_cols);
  a.sums.resize(m.n_groups);
  a.kept.resize(m.n_kept + 1);  // never a null pointer
  float scale = 0;
  elq_quantize_activations(&m, x.data(), a.values.data(), a.sums.data(), a.kept.data(), &scale);
  a.view = {a.values.data(), a.sums.data(), scale, a.kept.data()};
  return a;
}

inline std::vector<float> random_floats(Random& random, size_t n) {
  std::vector<float> x(n);
  for (float& value : x) value = 3.0f * random.symmetric();
  return x;
}

}  // namespace elastiq::testing
