#include "quantize/level_grid.h"

#include <algorithm>
#include <cmath>

#include "core/float_bits.h"

namespace elastiq {
namespace {

/// Adding and subtracting 1.5 * 2^23 rounds |x| < 2^22 to the nearest integer, ties to even, and
/// vectorises on every instruction set (SSE2 has no rounding instruction).
constexpr float kRoundingShift = 12582912.0f;

struct FloatGrid {
  float centre;  ///< z2 / 2
  float last;    ///< codes - 1
  float z2;
  float zero;
  float base;
  float multiplier;
};

FloatGrid float_grid(const GroupScale& scale, const LevelGrid& grid) {
  return {static_cast<float>(grid.z2) * 0.5f,
          static_cast<float>(grid.codes - 1),
          static_cast<float>(grid.z2),
          static_cast<float>(grid.zero),
          scale.base,
          static_cast<float>(scale.multiplier)};
}

/// multiplier * level is below 2^24, so the float product is the exact integer of level_value.
float distance(float weight, const FloatGrid& grid, float code) {
  return std::fabs(weight - grid.base * (grid.multiplier * (code + code - grid.z2)));
}

/// 1 for an odd level index, 0 for an even one.
float oddness(const FloatGrid& grid, float code) {
  const float index = code - grid.zero;
  const float half = index * 0.5f;
  return std::fabs(index - 2.0f * ((half + kRoundingShift) - kRoundingShift));
}

/// The first guess may be one code off where the division rounds; its neighbours settle it.
float nearest_code(float weight, float inverse, const FloatGrid& grid) {
  const float position = weight * inverse + grid.centre;
  float guess = position < 0.0f ? 0.0f : position;
  guess = guess > grid.last ? grid.last : guess;
  guess = (guess + kRoundingShift) - kRoundingShift;
  const float below = guess > 0.0f ? guess - 1.0f : guess;
  const float above = guess < grid.last ? guess + 1.0f : guess;
  float best = guess;
  float best_distance = distance(weight, grid, guess);
  float best_odd = oddness(grid, guess);
  for (const float code : {below, above}) {
    const float d = distance(weight, grid, code);
    const float odd = oddness(grid, code);
    const bool better = (d < best_distance) | ((d == best_distance) & (odd < best_odd));
    best = better ? code : best;
    best_distance = better ? d : best_distance;
    best_odd = better ? odd : best_odd;
  }
  // Far beyond the grid all distances round to the same float; the end is right there.
  best = position < 0.0f ? 0.0f : best;
  return position > grid.last ? grid.last : best;
}

float inverse_step(const GroupScale& scale) {
  return 0.5f / (scale.base * static_cast<float>(scale.multiplier));
}

}  // namespace

LevelGrid level_grid(const Scheme& scheme) {
  LevelGrid grid;
  grid.z2 = scheme_z2(scheme);
  grid.codes = scheme_codes(scheme);
  grid.zero = (grid.z2 + 1) / 2;
  grid.largest = std::max(grid.z2, 2 * (grid.codes - 1) - grid.z2);
  return grid;
}

GroupScale group_scale(const QuantizedMatrix& matrix, std::int64_t row, std::int64_t group) {
  const auto at = static_cast<std::size_t>(row * matrix.groups() + group);
  switch (matrix.scheme.scale) {
    case ScaleMode::kRow:
      return {matrix.row_scales[static_cast<std::size_t>(row)], 1};
    case ScaleMode::kU8:
      return {matrix.row_scales[static_cast<std::size_t>(row)], matrix.u8_scales[at]};
    case ScaleMode::kF16:
      break;
  }
  return {f16_to_f32(matrix.f16_scales[at]), 1};
}

void encode_group(std::span<const float> weights, const GroupScale& scale, const LevelGrid& grid,
                  std::span<std::uint8_t> codes) {
  const FloatGrid floats = float_grid(scale, grid);
  const float inverse = inverse_step(scale);
  const std::size_t n = weights.size();
  const float* in = weights.data();
  std::uint8_t* out = codes.data();
  for (std::size_t i = 0; i < n; ++i) {
    out[i] = static_cast<std::uint8_t>(static_cast<int>(nearest_code(in[i], inverse, floats)));
  }
}

std::uint8_t encode_weight(float weight, const GroupScale& scale, const LevelGrid& grid) {
  return static_cast<std::uint8_t>(
      static_cast<int>(nearest_code(weight, inverse_step(scale), float_grid(scale, grid))));
}

}  // namespace elastiq
