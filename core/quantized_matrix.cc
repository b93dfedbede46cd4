#include "core/quantized_matrix.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>

#include "core/float_bits.h"
#include "kernels/elq_layout.h"

namespace elastiq {
namespace {

constexpr std::uint64_t align_up(std::uint64_t value, std::uint64_t step) {
  return (value + step - 1) / step * step;
}

Error inconsistent(const std::string& subject, std::string detail) {
  return Error{ErrorCode::kInconsistent, subject, std::move(detail), 0};
}

std::string place(std::int64_t row, std::int64_t column, const char* unit) {
  return "row " + std::to_string(row) + ", " + unit + " " + std::to_string(column);
}

Status check_size(std::size_t found, std::uint64_t expected, const char* field,
                  const std::string& subject) {
  if (found == expected) return ok_status();
  return inconsistent(subject, std::string(field) + " has " + std::to_string(found) +
                                   " values, expected " + std::to_string(expected));
}

Status check_sizes(const QuantizedMatrix& m, const std::string& subject) {
  if (m.rows < 1 || m.cols < 1 || m.rows > ELQ_MAX_DIM || m.cols > ELQ_MAX_DIM ||
      static_cast<std::uint64_t>(m.rows) > ELQ_MAX_ELEMENTS / static_cast<std::uint64_t>(m.cols)) {
    return inconsistent(subject, "shape " + std::to_string(m.rows) + " x " +
                                     std::to_string(m.cols) + " is outside the limits");
  }
  const auto rows = static_cast<std::uint64_t>(m.rows);
  const std::uint64_t scales = rows * static_cast<std::uint64_t>(m.groups());
  const ScaleMode mode = m.scheme.scale;
  ELQ_CHECK(
      check_size(m.codes.size(), rows * static_cast<std::uint64_t>(m.cols), "codes", subject));
  ELQ_CHECK(
      check_size(m.row_scales.size(), mode == ScaleMode::kF16 ? 0 : rows, "row_scales", subject));
  ELQ_CHECK(
      check_size(m.u8_scales.size(), mode == ScaleMode::kU8 ? scales : 0, "u8_scales", subject));
  ELQ_CHECK(
      check_size(m.f16_scales.size(), mode == ScaleMode::kF16 ? scales : 0, "f16_scales", subject));
  ELQ_CHECK(check_size(m.kept_scales.size(), m.kept_index.size(), "kept_scales", subject));
  return check_size(m.kept_values.size(), m.kept_index.size() * rows, "kept_values", subject);
}

Status check_codes(const QuantizedMatrix& m, const std::string& subject) {
  const int limit = scheme_codes(m.scheme);
  const auto bad = std::find_if(m.codes.begin(), m.codes.end(),
                                [limit](std::uint8_t code) { return code >= limit; });
  if (bad == m.codes.end()) return ok_status();
  const std::int64_t at = bad - m.codes.begin();
  return inconsistent(subject, "code " + std::to_string(*bad) + " at " +
                                   place(at / m.cols, at % m.cols, "column") + ", at most " +
                                   std::to_string(limit - 1));
}

Status check_scale(float value, const std::string& where, const std::string& subject) {
  if (!std::isfinite(value)) {
    return Error{ErrorCode::kNonFinite, subject, "scale at " + where + " is not finite", 0};
  }
  if (std::signbit(value)) return inconsistent(subject, "scale at " + where + " is negative");
  return ok_status();
}

/// Row scales (kRow, kU8), and the u8 scales under them.
Status check_row_scales(const QuantizedMatrix& m, const std::string& subject) {
  const int limit = max_u8_scale(m.scheme, m.cols);
  if (limit == 0) {
    return inconsistent(
        subject, std::to_string(m.cols) + " columns: an int32 row sum cannot hold this scheme");
  }
  const std::int64_t groups = m.groups();
  for (std::int64_t row = 0; row < m.rows; ++row) {
    const float scale = m.row_scales[static_cast<std::size_t>(row)];
    ELQ_CHECK(check_scale(scale, "row " + std::to_string(row), subject));
    bool used = m.scheme.scale == ScaleMode::kRow;
    for (std::int64_t group = 0; group < groups && m.scheme.scale == ScaleMode::kU8; ++group) {
      const int u8 = m.u8_scales[static_cast<std::size_t>(row * groups + group)];
      used = used || u8 != 0;
      if (u8 <= limit) continue;
      return inconsistent(subject, "u8 scale " + std::to_string(u8) + " at " +
                                       place(row, group, "group") + ", at most " +
                                       std::to_string(limit));
    }
    if (used && scale == 0.0f) {
      return inconsistent(subject, "scale of row " + std::to_string(row) + " is 0");
    }
  }
  return ok_status();
}

Status check_f16_scales(const QuantizedMatrix& m, const std::string& subject) {
  const std::int64_t groups = m.groups();
  for (std::size_t i = 0; i < m.f16_scales.size(); ++i) {
    const auto at = static_cast<std::int64_t>(i);
    ELQ_CHECK(check_scale(f16_to_f32(m.f16_scales[i]), place(at / groups, at % groups, "group"),
                          subject));
  }
  return ok_status();
}

Status check_kept(const QuantizedMatrix& m, const std::string& subject) {
  const std::size_t kept = m.kept_index.size();
  const std::int64_t most = std::min<std::int64_t>(m.scheme.kept_columns, m.cols / 4);
  if (kept > static_cast<std::size_t>(most)) {
    return inconsistent(subject,
                        std::to_string(kept) + " kept columns, at most " + std::to_string(most));
  }
  for (std::size_t k = 0; k < kept; ++k) {
    const std::int64_t column = m.kept_index[k];
    if (column >= m.cols || (k > 0 && column <= m.kept_index[k - 1])) {
      return inconsistent(subject, "kept index " + std::to_string(column) + " at position " +
                                       std::to_string(k) + " is out of range or out of order");
    }
    ELQ_CHECK(check_scale(m.kept_scales[k], "kept column " + std::to_string(column), subject));
    for (std::int64_t row = 0; row < m.rows; ++row) {
      if (m.codes[static_cast<std::size_t>(row * m.cols + column)] == 0) continue;
      return inconsistent(subject,
                          "code of a kept column is not 0 at " + place(row, column, "column"));
    }
  }
  return ok_status();
}

}  // namespace

int max_u8_scale(const Scheme& scheme, std::int64_t cols) {
  // Every code of the packed width counts, ternary's unused code 3 too: the reader of a package
  // knows bits and z2 only.
  const int z2 = scheme_z2(scheme);
  const auto largest = static_cast<std::uint64_t>(std::max(z2, 2 * ((1 << scheme.bits) - 1) - z2));
  if (cols < 1 || cols > ELQ_MAX_DIM) return 0;
  const std::uint64_t padded = align_up(static_cast<std::uint64_t>(cols), ELQ_COLUMN_PAD);
  const std::uint64_t scale = ELQ_MAX_ROW_SUM / (largest * 127u * padded);
  return static_cast<int>(std::min<std::uint64_t>(scale, 255));
}

void dequantize_row(const QuantizedMatrix& matrix, std::int64_t row, std::span<float> out) {
  assert(out.size() == static_cast<std::size_t>(matrix.cols));
  const int z2 = scheme_z2(matrix.scheme);
  const std::int64_t groups = matrix.groups();
  const std::int64_t width = matrix.group_columns();
  const std::uint8_t* codes = matrix.codes.data() + row * matrix.cols;
  for (std::int64_t group = 0; group < groups; ++group) {
    const auto at = static_cast<std::size_t>(row * groups + group);
    const bool f16 = matrix.scheme.scale == ScaleMode::kF16;
    const float scale =
        f16 ? f16_to_f32(matrix.f16_scales[at]) : matrix.row_scales[static_cast<std::size_t>(row)];
    const int factor = matrix.scheme.scale == ScaleMode::kU8 ? matrix.u8_scales[at] : 1;
    const std::int64_t last = std::min(matrix.cols, (group + 1) * width);
    for (std::int64_t col = group * width; col < last; ++col) {
      // The product of integers is exact in float (below 2^17), so a weight is rounded once.
      out[static_cast<std::size_t>(col)] =
          scale * static_cast<float>(factor * (2 * codes[col] - z2));
    }
  }
  for (std::size_t k = 0; k < matrix.kept_index.size(); ++k) {
    const auto at = k * static_cast<std::size_t>(matrix.rows) + static_cast<std::size_t>(row);
    out[matrix.kept_index[k]] = matrix.kept_scales[k] * static_cast<float>(matrix.kept_values[at]);
  }
}

std::vector<float> dequantize(const QuantizedMatrix& matrix) {
  std::vector<float> weights(static_cast<std::size_t>(matrix.rows * matrix.cols));
  const auto cols = static_cast<std::size_t>(matrix.cols);
  for (std::int64_t row = 0; row < matrix.rows; ++row) {
    dequantize_row(matrix, row,
                   std::span(weights).subspan(static_cast<std::size_t>(row) * cols, cols));
  }
  return weights;
}

Status check_matrix(const QuantizedMatrix& matrix, const std::string& subject) {
  const Status scheme = check_scheme(matrix.scheme);
  if (!scheme.ok()) return inconsistent(subject, to_string(scheme.error()));
  ELQ_CHECK(check_sizes(matrix, subject));
  ELQ_CHECK(check_codes(matrix, subject));
  if (matrix.scheme.scale == ScaleMode::kF16) {
    ELQ_CHECK(check_f16_scales(matrix, subject));
  } else {
    ELQ_CHECK(check_row_scales(matrix, subject));
  }
  return check_kept(matrix, subject);
}

MatrixBytes packed_bytes(const Scheme& scheme, std::int64_t rows, std::int64_t cols,
                         std::int64_t kept) {
  const std::uint64_t padded_rows = align_up(static_cast<std::uint64_t>(rows), ELQ_PANEL_ROWS);
  const std::uint64_t padded_cols = align_up(static_cast<std::uint64_t>(cols), ELQ_COLUMN_PAD);
  const std::uint64_t width =
      scheme.group == 0 ? padded_cols : static_cast<std::uint64_t>(scheme.group);
  const std::uint64_t groups = (padded_cols + width - 1) / width;
  std::uint64_t lines = scheme.scale == ScaleMode::kF16 ? 0 : 1;  // the row-scale line
  if (scheme.scale == ScaleMode::kU8) lines += (groups + 3) / 4;
  if (scheme.scale == ScaleMode::kF16) lines += (groups + 1) / 2;
  const auto n_kept = static_cast<std::uint64_t>(kept);
  MatrixBytes bytes;
  bytes.codes = padded_rows * padded_cols / 8 * static_cast<std::uint64_t>(scheme.bits);
  bytes.scales = padded_rows / ELQ_PANEL_ROWS * lines * ELQ_LINE_BYTES;
  bytes.kept =
      align_up(2 * n_kept, 64) + align_up(4 * n_kept, 64) + align_up(n_kept * padded_rows, 64);
  return bytes;
}

}  // namespace elastiq
