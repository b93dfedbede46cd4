#include "quantize/rtn.h"

#include <algorithm>
#include <cmath>

#include "quantize/kept_columns.h"
#include "quantize/scale_search.h"

namespace elastiq {
namespace {

/// Rows of one unit of parallel work. Fixed, so that sums do not depend on the thread count.
constexpr std::int64_t kRowsPerTask = 32;

std::size_t task_count(std::int64_t rows) {
  return static_cast<std::size_t>((rows + kRowsPerTask - 1) / kRowsPerTask);
}

std::span<const float> row_of(const MatrixInput& input, std::int64_t row) {
  return input.weights.subspan(static_cast<std::size_t>(row * input.cols),
                               static_cast<std::size_t>(input.cols));
}

Status check_input(const MatrixInput& input, const Scheme& scheme) {
  ELQ_CHECK(check_scheme(scheme));
  const auto invalid = [&input](std::string detail) {
    return Error{ErrorCode::kInvalidArgument, input.name, std::move(detail), 0};
  };
  if (input.rows < 1 || input.cols < 1 ||
      input.weights.size() != static_cast<std::size_t>(input.rows * input.cols)) {
    return invalid(std::to_string(input.weights.size()) + " weights for " +
                   std::to_string(input.rows) + " x " + std::to_string(input.cols));
  }
  if (scheme.scale != ScaleMode::kF16 && max_u8_scale(scheme, input.cols) == 0) {
    return invalid(scheme_name(scheme) + ": the int32 sum of " + std::to_string(input.cols) +
                   " columns can overflow; use f16 scales");
  }
  for (std::size_t i = 0; i < input.weights.size(); ++i) {
    if (std::isfinite(input.weights[i])) continue;
    return Error{ErrorCode::kNonFinite, input.name,
                 "weight at row " + std::to_string(i / static_cast<std::size_t>(input.cols)) +
                     ", column " + std::to_string(i % static_cast<std::size_t>(input.cols)) +
                     " is not finite",
                 0};
  }
  return ok_status();
}

Status check_kept_index(const MatrixInput& input, const Scheme& scheme,
                        std::span<const std::uint16_t> kept) {
  const auto most = static_cast<std::size_t>(kept_limit(scheme, input.cols));
  if (kept.size() > most) {
    return Error{ErrorCode::kInvalidArgument, input.name,
                 std::to_string(kept.size()) + " kept columns, at most " + std::to_string(most), 0};
  }
  for (std::size_t k = 0; k < kept.size(); ++k) {
    if (kept[k] < input.cols && (k == 0 || kept[k] > kept[k - 1])) continue;
    return Error{ErrorCode::kInvalidArgument, input.name,
                 "kept index " + std::to_string(kept[k]) + " at position " + std::to_string(k) +
                     " is not below " + std::to_string(input.cols) + " and ascending",
                 0};
  }
  return ok_status();
}

/// The scale search stops at the largest half; a group that wants more would be clipped.
Status check_f16_range(const MatrixInput& input, const QuantizedMatrix& matrix) {
  const auto at = std::find(matrix.f16_scales.begin(), matrix.f16_scales.end(), kLargestF16Scale) -
                  matrix.f16_scales.begin();
  if (at == static_cast<std::ptrdiff_t>(matrix.f16_scales.size())) return ok_status();
  return Error{ErrorCode::kInvalidArgument, input.name,
               "row " + std::to_string(at / matrix.groups()) + ", group " +
                   std::to_string(at % matrix.groups()) +
                   ": the scale reaches 65504, the largest f16; use u8 or row scales",
               0};
}

/// Int8 values of the kept columns from the weights themselves.
void store_kept(const MatrixInput& input, QuantizedMatrix& matrix) {
  const auto rows = static_cast<std::size_t>(input.rows);
  std::vector<double> column(rows);
  for (std::size_t k = 0; k < matrix.kept_index.size(); ++k) {
    for (std::size_t r = 0; r < rows; ++r) {
      column[r] = static_cast<double>(
          input.weights[r * static_cast<std::size_t>(input.cols) + matrix.kept_index[k]]);
    }
    matrix.kept_scales[k] =
        quantize_kept_column(column, {matrix.kept_values.data() + k * rows, rows});
  }
}

struct TaskSums {
  Distortion sums;
  std::vector<double> column_error;
};

TaskSums measure_rows(const MatrixInput& input, const QuantizedMatrix& matrix, std::int64_t first,
                      std::int64_t last) {
  TaskSums task;
  task.column_error.assign(static_cast<std::size_t>(input.cols), 0.0);
  std::vector<float> back(static_cast<std::size_t>(input.cols));
  for (std::int64_t row = first; row < last; ++row) {
    const std::span<const float> weights = row_of(input, row);
    dequantize_row(matrix, row, back);
    for (std::size_t j = 0; j < back.size(); ++j) {
      const auto w = static_cast<double>(weights[j]);
      const double error = w - static_cast<double>(back[j]);
      const double h = input.importance.empty() ? 1.0 : static_cast<double>(input.importance[j]);
      task.sums.energy += w * w;
      task.sums.weighted_energy += h * w * w;
      task.sums.weighted_error += h * error * error;
      task.sums.largest_error = std::max(task.sums.largest_error, std::fabs(error));
      task.column_error[j] += error * error;
    }
  }
  return task;
}

std::int64_t count_zero_groups(const MatrixInput& input, std::int64_t width) {
  std::int64_t count = 0;
  for (std::int64_t row = 0; row < input.rows; ++row) {
    const std::span<const float> weights = row_of(input, row);
    for (std::int64_t first = 0; first < input.cols; first += width) {
      const auto group =
          weights.subspan(static_cast<std::size_t>(first),
                          static_cast<std::size_t>(std::min(width, input.cols - first)));
      if (std::all_of(group.begin(), group.end(), [](float w) { return w == 0.0f; })) ++count;
    }
  }
  return count;
}

Result<RtnResult> quantize_checked(const MatrixInput& input, const Scheme& scheme,
                                   std::vector<std::uint16_t> kept_index, ThreadPool& pool) {
  ELQ_TRY(columns, column_weights(input.importance, input.cols, scheme, kept_index));
  RtnResult result;
  result.matrix = make_matrix(scheme, input.rows, input.cols, std::move(kept_index));
  result.equal_groups = columns.equal_groups;
  result.zero_groups = count_zero_groups(input, columns.group_columns);
  store_kept(input, result.matrix);
  pool.run(task_count(input.rows), [&](std::size_t task) {
    ScaleWorkspace workspace;
    const std::int64_t first = static_cast<std::int64_t>(task) * kRowsPerTask;
    for (std::int64_t row = first; row < std::min(first + kRowsPerTask, input.rows); ++row) {
      search_row_scales(row_of(input, row), columns, row, result.matrix, workspace);
      encode_row(row_of(input, row), row, result.matrix);
    }
  });
  ELQ_CHECK(check_f16_range(input, result.matrix));
  result.distortion = measure_distortion(input, result.matrix, result.column_error, pool);
  if (!std::isfinite(result.distortion.error)) {
    return Error{ErrorCode::kNonFinite, input.name,
                 "weights are too large to quantize: a dequantized weight is not finite", 0};
  }
  return result;
}

}  // namespace

Distortion measure_distortion(const MatrixInput& input, const QuantizedMatrix& matrix,
                              std::vector<double>& column_error, ThreadPool& pool) {
  std::vector<TaskSums> tasks(task_count(input.rows));
  pool.run(tasks.size(), [&](std::size_t task) {
    const std::int64_t first = static_cast<std::int64_t>(task) * kRowsPerTask;
    tasks[task] = measure_rows(input, matrix, first, std::min(first + kRowsPerTask, input.rows));
  });
  Distortion total;
  column_error.assign(static_cast<std::size_t>(input.cols), 0.0);
  for (const TaskSums& task : tasks) {
    total.energy += task.sums.energy;
    total.weighted_energy += task.sums.weighted_energy;
    total.weighted_error += task.sums.weighted_error;
    total.largest_error = std::max(total.largest_error, task.sums.largest_error);
    for (std::size_t j = 0; j < column_error.size(); ++j) column_error[j] += task.column_error[j];
  }
  for (const double error : column_error) total.error += error;
  return total;
}

Result<RtnResult> quantize_rtn(const MatrixInput& input, const Scheme& scheme, ThreadPool& pool) {
  ELQ_CHECK(check_input(input, scheme));
  ELQ_TRY(plain, quantize_checked(input, scheme, {}, pool));
  std::vector<std::uint16_t> kept =
      choose_kept_columns(plain.column_error, input.importance, kept_limit(scheme, input.cols));
  if (kept.empty()) return plain;
  return quantize_checked(input, scheme, std::move(kept), pool);
}

Result<RtnResult> quantize_rtn_kept(const MatrixInput& input, const Scheme& scheme,
                                    std::vector<std::uint16_t> kept_index, ThreadPool& pool) {
  ELQ_CHECK(check_input(input, scheme));
  ELQ_CHECK(check_kept_index(input, scheme, kept_index));
  return quantize_checked(input, scheme, std::move(kept_index), pool);
}

}  // namespace elastiq
