#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "core/quantized_matrix.h"
#include "core/scheme.h"

namespace elastiq {

/// The levels of a grid in half steps: level = 2 * code - z2, code in [0, codes).
struct LevelGrid {
  int z2 = 0;
  int codes = 0;
  int zero = 0;     ///< The code whose level index n = code - zero is 0; ties go to even n.
  int largest = 0;  ///< Largest |level|.
};

LevelGrid level_grid(const Scheme& scheme);

/// One group's scale as dequantize_row uses it: weight = base * (float)(multiplier * level).
struct GroupScale {
  float base = 0.0f;   ///< Row scale, or the widened f16 scale.
  int multiplier = 1;  ///< u8 scale, else 1.
};

/// Scale of one group of a matrix whose scales are set.
GroupScale group_scale(const QuantizedMatrix& matrix, std::int64_t row, std::int64_t group);

/// The weight that a code stands for: the bits of dequantize_row.
inline float level_value(const GroupScale& scale, const LevelGrid& grid, int code) {
  return scale.base * static_cast<float>(scale.multiplier * (2 * code - grid.z2));
}

/// Codes of one group: for each weight the code whose level_value has the smallest float distance
/// |weight - value|; of two equally near codes the one with an even level index.
///
/// Shapes    weights and codes: the same size. Scale  base * multiplier >= 2^-126, finite.
/// Range     weights beyond the grid take its end.
/// Source    docs/numerics.md, section 2.
void encode_group(std::span<const float> weights, const GroupScale& scale, const LevelGrid& grid,
                  std::span<std::uint8_t> codes);

/// encode_group of one weight.
std::uint8_t encode_weight(float weight, const GroupScale& scale, const LevelGrid& grid);

}  // namespace elastiq
