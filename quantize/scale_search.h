#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/error.h"
#include "core/quantized_matrix.h"
#include "quantize/level_grid.h"

namespace elastiq {

/// Weight of each input column in the scale search, group by group, shared by all rows of a matrix.
struct ColumnWeights {
  std::int64_t cols = 0;
  std::int64_t group_columns = 0;
  std::int64_t groups = 0;
  std::size_t stride = 0;     ///< Floats per group in `weight`: group_columns padded to 16.
  std::vector<float> weight;  ///< groups x stride, the largest of a group is 1; 0: kept or padding.
  std::vector<double> unit;   ///< groups: what a weight of 1 stands for.
  std::int64_t equal_groups = 0;  ///< Groups without any importance: equal weights.
};

/// importance: cols values, mean of x_j^2, or empty for equal weights. Columns in kept_index get
/// weight 0. Another column gets at least kImportanceFloor of its group's mean, so that a column
/// the calibration text never used does not lose its codes.
/// Errors    kInvalidArgument: wrong size; kNonFinite: a negative or non-finite importance.
/// Source    docs/numerics.md, section 3.1.
Result<ColumnWeights> column_weights(std::span<const float> importance, std::int64_t cols,
                                     const Scheme& scheme,
                                     std::span<const std::uint16_t> kept_index);

inline constexpr double kImportanceFloor = 1e-4;

/// The scale of a group or row without weights, and the smallest a row scale may be: the smallest
/// normal float, so that its inverse is finite.
inline constexpr float kSmallestRowScale = 0x1p-126f;
/// The same for f16 scales: the smallest positive half.
inline constexpr std::uint16_t kSmallestF16Scale = 1;
/// And the largest, 65504: where it is reached, the group wanted more.
inline constexpr std::uint16_t kLargestF16Scale = 0x7bff;

/// Buffers of one thread of the search.
struct ScaleWorkspace {
  std::vector<float> weights;       ///< groups x stride, each group divided by its largest |w|
  std::vector<float> largest;       ///< groups
  std::vector<double> half_scales;  ///< groups: best half scale, uncoded
  std::vector<double> energy;       ///< groups: sum h w^2 in normalised units
};

/// Finds and stores the scales of one row: the half scales that minimise sum_j h_j (w_j - w'_j)^2
/// per group, coded as the scheme says. Codes are not touched.
///
/// Shapes    weights: cols finite values. matrix: scheme, rows, cols and scale vectors sized.
/// Zero      a group whose weights are all zero gets u8 1, f16 2^-24; a row of zeros the row scale
///           2^-126.
/// Source    docs/numerics.md, sections 3 and 4.
void search_row_scales(std::span<const float> weights, const ColumnWeights& columns,
                       std::int64_t row, QuantizedMatrix& matrix, ScaleWorkspace& workspace);

/// Codes of one row for the scales it has; kept columns get code 0.
void encode_row(std::span<const float> weights, std::int64_t row, QuantizedMatrix& matrix);

/// An empty matrix with all vectors sized for the scheme: codes, scales, kept columns zero.
QuantizedMatrix make_matrix(const Scheme& scheme, std::int64_t rows, std::int64_t cols,
                            std::vector<std::uint16_t> kept_index);

}  // namespace elastiq
