#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "core/float_bits.h"
#include "core/quantized_matrix.h"
#include "qat/fake_quant.h"
#include "quantize/level_grid.h"

// Coding of trained values, shared by the forward pass, the backward pass and the packer, so that
// they cannot differ.

namespace elastiq::coding {

constexpr float kInt8Unit = 127.0f;
constexpr float kSmallestHalf = 0x1p-24f;
constexpr float kLargestHalf = 65504.0f;

/// A coded number and what it was coded from.
struct Coded {
  float value = 0;       ///< As stored.
  float continuous = 0;  ///< Before coding.
  float low = 0;         ///< Coding clamps below this
  float high = 0;        ///< and above that.
};

/// start * exp(log), positive and finite for every log; 0 for a start of 0.
inline float trained_scale(float start, float log) {
  if (start == 0.0f) return 0.0f;
  return std::clamp(start * std::exp(log), std::min(start, std::numeric_limits<float>::min()),
                    std::numeric_limits<float>::max());
}

inline Coded code_u8(float start, float log, int smax) {
  if (start == 0.0f) return {};
  const auto high = static_cast<float>(smax);
  const float continuous = trained_scale(start, log);
  return {std::clamp(std::nearbyint(continuous), 1.0f, high), continuous, 1.0f, high};
}

inline Coded code_f16(float start, float log) {
  if (start == 0.0f) return {};
  const float continuous = trained_scale(start, log);
  const float clamped = std::clamp(continuous, kSmallestHalf, kLargestHalf);
  return {f16_to_f32(f32_to_f16(clamped)), continuous, kSmallestHalf, kLargestHalf};
}

inline Coded code_int8(float value) {
  const float continuous = kInt8Unit * value;
  // Adding 0 turns -0 into the 0 that an int8 holds.
  const float rounded = std::clamp(std::nearbyint(continuous), -128.0f, 127.0f) + 0.0f;
  return {rounded, continuous, -128.0f, 127.0f};
}

/// Straight-through gradient of a coded value: passes inside the range, and outside where descent
/// leads back in.
inline float pass(const Coded& c, float gradient) {
  const bool stuck =
      (c.continuous > c.high && gradient < 0) || (c.continuous < c.low && gradient > 0);
  return stuck ? 0.0f : gradient;
}

/// Adding and subtracting rounds |x| < 2^22 to the nearest integer, ties to even, and vectorises on
/// SSE2, which has no rounding instruction.
constexpr float kRoundingShift = 12582912.0f;

struct Grid {
  float z2, zero, last;  ///< As level_grid; last = codes - 1.

  explicit Grid(const Scheme& scheme) {
    const LevelGrid grid = level_grid(scheme);
    z2 = static_cast<float>(grid.z2);
    zero = static_cast<float>(grid.zero);
    last = static_cast<float>(grid.codes - 1);
  }

  /// Latents are finite: the trainer stops before it stores anything else.
  float code(float latent) const {
    const float least = -zero;
    const float most = last - zero;
    float x = latent < least ? least : latent;
    x = x > most ? most : x;
    return ((x + kRoundingShift) - kRoundingShift) + zero;
  }
};

/// The scale of one group: weight = base * (multiplier * level).
struct Scale {
  float base = 0;
  Coded multiplier;  ///< kU8: the u8 code. kF16: coded half in .value, and base is 1. kRow: 1.

  /// Weight of a level; one rounding beyond the exact integer product.
  float weight(float level) const { return base * (multiplier.value * level); }

  float step() const { return 2.0f * (base * multiplier.value); }
};

/// Reads scales of one matrix.
class Scales {
 public:
  explicit Scales(const QuantParameters& p)
      : mode_(p.scheme.scale),
        groups_(p.groups()),
        smax_(max_u8_scale(p.scheme, p.cols)),
        row_start_(p.row_start.data_ptr<float>()),
        row_log_(p.row_log.data_ptr<float>()),
        group_start_(p.group_start.data_ptr<float>()),
        group_log_(p.group_log.data_ptr<float>()) {}

  float row(std::int64_t row) const {
    return mode_ == ScaleMode::kF16 ? 1.0f : trained_scale(row_start_[row], row_log_[row]);
  }

  /// row_scale is row(row).
  Scale group(float row_scale, std::int64_t row, std::int64_t group) const {
    const std::int64_t at = row * groups_ + group;
    switch (mode_) {
      case ScaleMode::kU8:
        return {row_scale, code_u8(group_start_[at], group_log_[at], smax_)};
      case ScaleMode::kF16:
        return {1.0f, code_f16(group_start_[at], group_log_[at])};
      case ScaleMode::kRow:
        break;
    }
    return {row_scale, {1.0f, 1.0f, 1.0f, 1.0f}};
  }

 private:
  ScaleMode mode_;
  std::int64_t groups_;
  int smax_;
  const float* row_start_;
  const float* row_log_;
  const float* group_start_;
  const float* group_log_;
};

}  // namespace elastiq::coding
