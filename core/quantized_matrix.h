#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/error.h"
#include "core/scheme.h"

namespace elastiq {

/// One quantized matrix: codes and scales as they will be packed, one code per byte, row-major.
///
/// w[r][c] = kept: kept_scales[k] * (float)kept_values[k][r]
///           kRow: row_scales[r] * level      kU8: row_scales[r] * (float)(u8_scales[r][g] * level)
///           kF16: f16_to_f32(f16_scales[r][g]) * level         level = 2 * code - z2, one rounding
///           each
/// Row and f16 scales are half scales (s / 2). Groups start at column 0; the last one may be
/// shorter. Codes of kept columns are 0.
struct QuantizedMatrix {
  Scheme scheme;
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::vector<std::uint8_t> codes;        ///< rows x cols
  std::vector<float> row_scales;          ///< rows (kRow, kU8)
  std::vector<std::uint8_t> u8_scales;    ///< rows x groups (kU8)
  std::vector<std::uint16_t> f16_scales;  ///< rows x groups (kF16)
  std::vector<std::uint16_t> kept_index;  ///< ascending
  std::vector<float> kept_scales;         ///< one per kept column
  std::vector<std::int8_t> kept_values;   ///< kept x rows, column by column

  std::int64_t group_columns() const { return scheme.group == 0 ? cols : scheme.group; }

  std::int64_t groups() const { return (cols + group_columns() - 1) / group_columns(); }
};

/// Largest u8 scale that keeps an int32 row sum exact for this grid and (padded) width: the bound
/// of ELQ_MAX_ROW_SUM. 0 when the mode cannot be used at all.
int max_u8_scale(const Scheme& scheme, std::int64_t cols);

/// The weights of one row, cols floats: the bits that elq_dequantize_row gives.
void dequantize_row(const QuantizedMatrix& matrix, std::int64_t row, std::span<float> out);

/// rows x cols floats.
std::vector<float> dequantize(const QuantizedMatrix& matrix);

/// Sizes, code range, scale values (finite; u8 within max_u8_scale; row scales positive where a
/// group uses them), kept indices. Errors kInconsistent, kNonFinite.
Status check_matrix(const QuantizedMatrix& matrix, const std::string& subject);

/// Bytes of codes, scales and kept columns as packed (padding included).
struct MatrixBytes {
  std::uint64_t codes = 0;
  std::uint64_t scales = 0;
  std::uint64_t kept = 0;
};

MatrixBytes packed_bytes(const Scheme& scheme, std::int64_t rows, std::int64_t cols,
                         std::int64_t kept);

}  // namespace elastiq
