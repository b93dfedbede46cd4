#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/quantized_matrix.h"
#include "core/scheme.h"

namespace elastiq {

/// How many columns a matrix may keep: the scheme's number, at most a quarter of the columns, and
/// none beyond the 65,536 that a u16 index reaches.
int kept_limit(const Scheme& scheme, std::int64_t cols);

/// The `wanted` columns with the largest column_error * importance, ascending. column_error: per
/// column the sum over rows of the squared error of the matrix quantized without kept columns;
/// importance: mean of x_j^2, or empty for equal. Ties go to the lower column; a column without
/// error is not worth keeping. Source  docs/numerics.md, section 6.
std::vector<std::uint16_t> choose_kept_columns(std::span<const double> column_error,
                                               std::span<const float> importance, int wanted);

/// One kept column as int8 in [-127, 127]: scale * value is close to the weights. The scale is the
/// best of 32 between .4 and 1 of max|w| / 127 by squared error; a column of zeros has scale 2^-126
/// and values 0. values.size() = column.size(). Returns the scale.
float quantize_kept_column(std::span<const double> column, std::span<std::int8_t> values);

}  // namespace elastiq
