#include "quantize/scale_search.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>

#include "core/float_bits.h"

namespace elastiq {
namespace {

/// Sums are kept in 16 lanes and folded in a fixed tree: the same bits on every instruction set.
constexpr std::size_t kLanes = 16;
constexpr float kRoundingShift = 12582912.0f;  // level_grid.cc
/// Candidate steps relative to max|w| / largest level: geometric from kLowest to kHighest. The
/// optimum of 2-bit SEQ on a Gaussian row of 1536 is at .45, heavy tails go below; a group whose
/// largest weight is positive needs up to 8/6 on the 3-bit symmetric grid.
constexpr int kCandidates = 32;
constexpr double kLowest = 0.2;
constexpr double kHighest = 1.5;
constexpr int kRefits = 4;
/// Row scales tried in U8 mode: the largest group at smax, 15/16, 14/16 and 13/16 of it.
constexpr int kRowScales = 4;

struct Sums {
  double hxl = 0.0;  ///< sum h x level
  double hll = 0.0;  ///< sum h level^2
};

double fold(std::array<float, kLanes>& lanes) {
  for (std::size_t width = kLanes / 2; width > 0; width /= 2) {
    for (std::size_t i = 0; i < width; ++i) lanes[i] += lanes[i + width];
  }
  return static_cast<double>(lanes[0]);
}

/// Levels of x at a half scale, and the two sums from which error and best scale follow.
Sums level_sums(const float* x, const float* h, std::size_t n, float half_scale,
                const LevelGrid& grid) {
  const float inverse = 0.5f / half_scale;
  const auto z2 = static_cast<float>(grid.z2);
  const float centre = z2 * 0.5f;
  const auto last = static_cast<float>(grid.codes - 1);
  std::array<float, kLanes> hxl{};
  std::array<float, kLanes> hll{};
  for (std::size_t i = 0; i < n; i += kLanes) {
    for (std::size_t j = 0; j < kLanes; ++j) {
      float code = x[i + j] * inverse + centre;
      code = code < 0.0f ? 0.0f : code;
      code = code > last ? last : code;
      code = (code + kRoundingShift) - kRoundingShift;
      const float level = code + code - z2;
      const float weighted = h[i + j] * level;
      hxl[j] += weighted * x[i + j];
      hll[j] += weighted * level;
    }
  }
  return {fold(hxl), fold(hll)};
}

/// Reduction of the error by the best scale for these codes (docs/numerics.md 3.2).
double gain(const Sums& sums) {
  return sums.hxl > 0.0 && sums.hll > 0.0 ? sums.hxl * sums.hxl / sums.hll : 0.0;
}

/// Best half scale of one normalised group (largest |x| is 1).
double search_group(const float* x, const float* h, std::size_t n, const LevelGrid& grid) {
  const double ratio = std::pow(kHighest / kLowest, 1.0 / (kCandidates - 1));
  double half_scale = kLowest / grid.largest;
  double best_gain = 0.0;
  double best = 1.0 / grid.largest;
  for (int i = 0; i < kCandidates; ++i, half_scale *= ratio) {
    const Sums sums = level_sums(x, h, n, static_cast<float>(half_scale), grid);
    if (gain(sums) <= best_gain) continue;
    best_gain = gain(sums);
    best = sums.hxl / sums.hll;
  }
  for (int i = 0; i < kRefits; ++i) {
    const Sums sums = level_sums(x, h, n, static_cast<float>(best), grid);
    if (gain(sums) <= best_gain) break;
    best_gain = gain(sums);
    best = sums.hxl / sums.hll;
  }
  return best;
}

/// Fills workspace.weights and .largest; returns the row's largest |w| over columns with weight.
float normalise_groups(std::span<const float> weights, const ColumnWeights& columns,
                       ScaleWorkspace& workspace) {
  const auto groups = static_cast<std::size_t>(columns.groups);
  const auto width = static_cast<std::size_t>(columns.group_columns);
  workspace.weights.assign(groups * columns.stride, 0.0f);
  workspace.largest.assign(groups, 0.0f);
  float row_largest = 0.0f;
  for (std::size_t g = 0; g < groups; ++g) {
    const std::size_t first = g * width;
    const std::size_t n = std::min(width, weights.size() - first);
    const float* h = columns.weight.data() + g * columns.stride;
    float* x = workspace.weights.data() + g * columns.stride;
    float largest = 0.0f;
    for (std::size_t j = 0; j < n; ++j) {
      x[j] = h[j] > 0.0f ? weights[first + j] : 0.0f;
      largest = std::max(largest, std::fabs(x[j]));
    }
    for (std::size_t j = 0; j < n && largest > 0.0f; ++j) x[j] /= largest;
    workspace.largest[g] = largest;
    row_largest = std::max(row_largest, largest);
  }
  return row_largest;
}

double group_energy(const float* x, const float* h, std::size_t n) {
  std::array<float, kLanes> lanes{};
  for (std::size_t i = 0; i < n; i += kLanes) {
    for (std::size_t j = 0; j < kLanes; ++j) lanes[j] += h[i + j] * x[i + j] * x[i + j];
  }
  return fold(lanes);
}

int u8_code(double half_scale, double row_scale, int smax) {
  // Clamped before rounding: half_scale / row_scale may be far outside int.
  return static_cast<int>(
      std::nearbyint(std::clamp(half_scale / row_scale, 1.0, static_cast<double>(smax))));
}

/// Error of a row at a row scale with the u8 scales that follow from it, and the row scale that is
/// best for the codes found: sum k hxl / sum k^2 hll.
struct RowTrial {
  double error = 0.0;
  double refit = 0.0;
};

class U8Row {
 public:
  U8Row(const ColumnWeights& columns, const ScaleWorkspace& workspace, const LevelGrid& grid,
        int smax)
      : columns_(columns), workspace_(workspace), grid_(grid), smax_(smax) {}

  std::vector<int> codes(double row_scale) const {
    std::vector<int> result(workspace_.largest.size(), 1);
    for (std::size_t g = 0; g < result.size(); ++g) {
      if (workspace_.largest[g] > 0.0f) {
        result[g] = u8_code(workspace_.half_scales[g], row_scale, smax_);
      }
    }
    return result;
  }

  RowTrial trial(double row_scale, const std::vector<int>& u8) const {
    RowTrial result;
    double numerator = 0.0;
    double denominator = 0.0;
    for (std::size_t g = 0; g < u8.size(); ++g) {
      const auto largest = static_cast<double>(workspace_.largest[g]);
      if (largest == 0.0) continue;
      const double scale = row_scale * u8[g] / largest;
      const Sums sums = level_sums(workspace_.weights.data() + g * columns_.stride,
                                   columns_.weight.data() + g * columns_.stride, columns_.stride,
                                   static_cast<float>(scale), grid_);
      const double unit = columns_.unit[g];
      result.error += unit * largest * largest *
                      (workspace_.energy[g] - scale * (2.0 * sums.hxl - scale * sums.hll));
      numerator += unit * largest * u8[g] * sums.hxl;
      denominator += unit * u8[g] * u8[g] * sums.hll;
    }
    result.refit = denominator > 0.0 ? numerator / denominator : row_scale;
    return result;
  }

 private:
  const ColumnWeights& columns_;
  const ScaleWorkspace& workspace_;
  const LevelGrid& grid_;
  int smax_;
};

float coded_row_scale(double value) {
  return std::max(static_cast<float>(value), kSmallestRowScale);
}

void code_u8_row(const ColumnWeights& columns, const ScaleWorkspace& workspace,
                 const LevelGrid& grid, std::int64_t row, QuantizedMatrix& matrix) {
  const int smax = max_u8_scale(matrix.scheme, matrix.cols);
  const U8Row coder(columns, workspace, grid, smax);
  const double largest =
      *std::max_element(workspace.half_scales.begin(), workspace.half_scales.end());
  float best_scale = kSmallestRowScale;
  std::vector<int> best(workspace.largest.size(), 1);
  double best_error = HUGE_VAL;
  const auto consider = [&](float scale, const std::vector<int>& u8) {
    const RowTrial trial = coder.trial(static_cast<double>(scale), u8);
    if (trial.error < best_error) {
      best_error = trial.error;
      best_scale = scale;
      best = u8;
    }
    return trial.refit;
  };
  for (int i = 0; i < kRowScales && largest > 0.0; ++i) {
    const double top = std::max(1.0, static_cast<double>(smax) * (16 - i) / 16.0);
    const float scale = coded_row_scale(largest / top);
    const std::vector<int> u8 = coder.codes(static_cast<double>(scale));
    const double refit = consider(scale, u8);
    consider(coded_row_scale(refit), u8);
  }
  matrix.row_scales[static_cast<std::size_t>(row)] = best_scale;
  const auto at = static_cast<std::size_t>(row) * best.size();
  for (std::size_t g = 0; g < best.size(); ++g) {
    matrix.u8_scales[at + g] = static_cast<std::uint8_t>(best[g]);
  }
}

std::uint16_t f16_code(double half_scale) {
  const float most = f16_to_f32(kLargestF16Scale);
  const std::uint16_t bits = f32_to_f16(std::min(static_cast<float>(half_scale), most));
  return std::max(bits, kSmallestF16Scale);
}

Result<std::vector<double>> checked_importance(std::span<const float> importance,
                                               std::int64_t cols) {
  std::vector<double> h(static_cast<std::size_t>(cols), 1.0);
  if (!importance.empty() && importance.size() != h.size()) {
    return Error{
        ErrorCode::kInvalidArgument, "importance",
        std::to_string(importance.size()) + " values for " + std::to_string(cols) + " columns", 0};
  }
  for (std::size_t j = 0; j < importance.size(); ++j) {
    if (!std::isfinite(importance[j]) || importance[j] < 0.0f) {
      return Error{ErrorCode::kNonFinite, "importance",
                   "column " + std::to_string(j) + " is negative or not finite", 0};
    }
    h[j] = static_cast<double>(importance[j]);
  }
  return h;
}

/// Weights of the columns of group g: docs/numerics.md 3.1.
void weigh_group(std::span<const double> h, std::span<const char> kept, std::size_t g,
                 ColumnWeights& result) {
  double sum = 0.0;
  double count = 0.0;
  for (std::size_t j = 0; j < h.size(); ++j) {
    if (kept[j] != 0) continue;
    sum += h[j];
    count += 1.0;
  }
  if (count == 0.0) return;
  if (sum == 0.0) ++result.equal_groups;
  const double floor = sum == 0.0 ? 1.0 : kImportanceFloor * sum / count;
  double largest = 0.0;
  for (std::size_t j = 0; j < h.size(); ++j) {
    if (kept[j] == 0) largest = std::max(largest, std::max(h[j], floor));
  }
  result.unit[g] = largest;
  for (std::size_t j = 0; j < h.size(); ++j) {
    if (kept[j] != 0) continue;
    result.weight[g * result.stride + j] = static_cast<float>(std::max(h[j], floor) / largest);
  }
}

}  // namespace

Result<ColumnWeights> column_weights(std::span<const float> importance, std::int64_t cols,
                                     const Scheme& scheme,
                                     std::span<const std::uint16_t> kept_index) {
  ELQ_TRY(h, checked_importance(importance, cols));
  std::vector<char> kept(h.size(), 0);
  for (const std::uint16_t column : kept_index) kept[column] = 1;

  ColumnWeights result;
  result.cols = cols;
  result.group_columns = scheme.group == 0 ? cols : std::min<std::int64_t>(scheme.group, cols);
  result.groups = (cols + result.group_columns - 1) / result.group_columns;
  const auto width = static_cast<std::size_t>(result.group_columns);
  const auto groups = static_cast<std::size_t>(result.groups);
  result.stride = (width + kLanes - 1) / kLanes * kLanes;
  result.weight.assign(groups * result.stride, 0.0f);
  result.unit.assign(groups, 1.0);
  for (std::size_t g = 0; g < groups; ++g) {
    const std::size_t first = g * width;
    const std::size_t n = std::min(width, h.size() - first);
    weigh_group({h.data() + first, n}, {kept.data() + first, n}, g, result);
  }
  return result;
}

void search_row_scales(std::span<const float> weights, const ColumnWeights& columns,
                       std::int64_t row, QuantizedMatrix& matrix, ScaleWorkspace& workspace) {
  const LevelGrid grid = level_grid(matrix.scheme);
  const auto groups = static_cast<std::size_t>(columns.groups);
  normalise_groups(weights, columns, workspace);
  workspace.half_scales.assign(groups, 0.0);
  workspace.energy.assign(groups, 0.0);
  for (std::size_t g = 0; g < groups; ++g) {
    if (workspace.largest[g] == 0.0f) continue;
    const float* x = workspace.weights.data() + g * columns.stride;
    const float* h = columns.weight.data() + g * columns.stride;
    workspace.energy[g] = group_energy(x, h, columns.stride);
    workspace.half_scales[g] =
        search_group(x, h, columns.stride, grid) * static_cast<double>(workspace.largest[g]);
  }
  switch (matrix.scheme.scale) {
    case ScaleMode::kRow:
      matrix.row_scales[static_cast<std::size_t>(row)] = coded_row_scale(workspace.half_scales[0]);
      return;
    case ScaleMode::kU8:
      code_u8_row(columns, workspace, grid, row, matrix);
      return;
    case ScaleMode::kF16:
      break;
  }
  const std::size_t at = static_cast<std::size_t>(row) * groups;
  for (std::size_t g = 0; g < groups; ++g) {
    matrix.f16_scales[at + g] = f16_code(workspace.half_scales[g]);
  }
}

void encode_row(std::span<const float> weights, std::int64_t row, QuantizedMatrix& matrix) {
  const LevelGrid grid = level_grid(matrix.scheme);
  const auto width = static_cast<std::size_t>(matrix.group_columns());
  std::uint8_t* codes = matrix.codes.data() + row * matrix.cols;
  for (std::size_t first = 0; first < weights.size(); first += width) {
    const std::size_t n = std::min(width, weights.size() - first);
    const auto group = static_cast<std::int64_t>(first / width);
    encode_group(weights.subspan(first, n), group_scale(matrix, row, group), grid,
                 {codes + first, n});
  }
  for (const std::uint16_t column : matrix.kept_index) codes[column] = 0;
}

QuantizedMatrix make_matrix(const Scheme& scheme, std::int64_t rows, std::int64_t cols,
                            std::vector<std::uint16_t> kept_index) {
  QuantizedMatrix matrix;
  matrix.scheme = scheme;
  matrix.rows = rows;
  matrix.cols = cols;
  const auto n_rows = static_cast<std::size_t>(rows);
  const std::size_t n_groups = n_rows * static_cast<std::size_t>(matrix.groups());
  matrix.codes.assign(n_rows * static_cast<std::size_t>(cols), 0);
  if (scheme.scale != ScaleMode::kF16) matrix.row_scales.assign(n_rows, 0.0f);
  if (scheme.scale == ScaleMode::kU8) matrix.u8_scales.assign(n_groups, 0);
  if (scheme.scale == ScaleMode::kF16) matrix.f16_scales.assign(n_groups, 0);
  matrix.kept_scales.assign(kept_index.size(), 0.0f);
  matrix.kept_values.assign(kept_index.size() * n_rows, 0);
  matrix.kept_index = std::move(kept_index);
  return matrix;
}

}  // namespace elastiq
