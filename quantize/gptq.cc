#include "quantize/gptq.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "quantize/gptq_factor.h"
#include "quantize/kept_columns.h"
#include "quantize/level_grid.h"

namespace elastiq {
namespace {

/// Rows are independent of each other; a task sweeps this many from the first column to the last.
constexpr std::int64_t kRowsPerTask = 32;
/// Columns between two products with the trailing columns. The inner dimension of those products is
/// at most this, so Eigen never splits it and the sum order is the same on every cache size.
constexpr Eigen::Index kBlock = 64;
/// Where raising starts when no damping was asked for.
constexpr double kFirstDamping = 1e-3;

struct Problem {
  const GptqInput& input;
  const Scheme& scheme;
  const GptqOptions& options;
  ThreadPool& pool;
  std::vector<float> importance;  ///< Diagonal of H.
  std::vector<float> targets;     ///< rows x cols when drifted, else empty.
  double damping = 0.0;           ///< Absolute.

  std::int64_t rows() const { return input.matrix.rows; }

  std::int64_t cols() const { return input.matrix.cols; }

  std::span<const float> wanted() const {
    return targets.empty() ? input.matrix.weights : std::span<const float>(targets);
  }

  MatrixInput matrix_input() const {
    MatrixInput result = input.matrix;
    result.weights = wanted();
    result.importance = importance;
    return result;
  }
};

std::size_t task_count(std::int64_t rows) {
  return static_cast<std::size_t>((rows + kRowsPerTask - 1) / kRowsPerTask);
}

Status check_second_moment(const GptqInput& input) {
  const auto n = static_cast<std::size_t>(input.matrix.cols);
  if (input.second_moment.size() != n * n) {
    return Error{ErrorCode::kInvalidArgument, input.matrix.name,
                 "second moment has " + std::to_string(input.second_moment.size()) +
                     " values for " + std::to_string(n) + " columns",
                 0};
  }
  for (std::size_t i = 0; i < n * n; ++i) {
    const double value = input.second_moment[i];
    if (std::isfinite(value) && (i % (n + 1) != 0 || value >= 0.0)) continue;
    return Error{ErrorCode::kNonFinite, input.matrix.name,
                 "second moment of columns " + std::to_string(i / n) + " and " +
                     std::to_string(i % n) + " is " + std::to_string(value),
                 0};
  }
  if (!input.drift.empty() &&
      input.drift.size() != static_cast<std::size_t>(input.matrix.rows) * n) {
    return Error{ErrorCode::kInvalidArgument, input.matrix.name,
                 "drift has " + std::to_string(input.drift.size()) + " values", 0};
  }
  const auto bad = std::find_if_not(input.drift.begin(), input.drift.end(),
                                    [](double value) { return std::isfinite(value); });
  if (bad != input.drift.end()) {
    return Error{ErrorCode::kNonFinite, input.matrix.name,
                 "drift value " + std::to_string(bad - input.drift.begin()) + " is not finite", 0};
  }
  return ok_status();
}

/// Mean diagonal over the columns that are not kept.
double mean_diagonal(const std::vector<float>& diagonal, const std::vector<std::uint16_t>& kept) {
  double sum = 0.0;
  for (const float value : diagonal) sum += static_cast<double>(value);
  for (const std::uint16_t column : kept) sum -= static_cast<double>(diagonal[column]);
  return sum / static_cast<double>(diagonal.size() - kept.size());
}

/// Quantized columns in their order, then the kept ones: eliminating the kept columns is then what
/// the factor does by itself (docs/numerics.md 7.3).
std::vector<std::int64_t> sweep_order(std::int64_t cols, const std::vector<std::uint16_t>& kept) {
  std::vector<std::int64_t> order;
  for (std::int64_t j = 0; j < cols; ++j) {
    if (!std::binary_search(kept.begin(), kept.end(), j)) order.push_back(j);
  }
  order.insert(order.end(), kept.begin(), kept.end());
  return order;
}

/// tr((T - W') H (T - W')^T), rows in order.
double calibration_loss(const Problem& problem, const QuantizedMatrix* matrix) {
  const auto n = static_cast<Eigen::Index>(problem.cols());
  const Eigen::Map<const MatrixD> h(problem.input.second_moment.data(), n, n);
  std::vector<double> losses(task_count(problem.rows()));
  problem.pool.run(losses.size(), [&](std::size_t task) {
    const std::int64_t first = static_cast<std::int64_t>(task) * kRowsPerTask;
    const std::int64_t count = std::min(kRowsPerTask, problem.rows() - first);
    MatrixD error(count, n);
    std::vector<float> back(static_cast<std::size_t>(n), 0.0f);
    for (std::int64_t r = 0; r < count; ++r) {
      if (matrix != nullptr) dequantize_row(*matrix, first + r, back);
      const float* wanted = problem.wanted().data() + (first + r) * n;
      for (Eigen::Index j = 0; j < n; ++j) {
        error(r, j) =
            static_cast<double>(wanted[j]) - static_cast<double>(back[static_cast<std::size_t>(j)]);
      }
    }
    // Blocks of columns: see kBlock.
    double sum = 0.0;
    MatrixD product(count, n);
    product.setZero();
    for (Eigen::Index j = 0; j < n; j += kBlock) {
      const Eigen::Index width = std::min(kBlock, n - j);
      product.noalias() += error.middleCols(j, width) * h.middleRows(j, width);
    }
    for (Eigen::Index j = 0; j < n; ++j) {
      for (Eigen::Index r = 0; r < count; ++r) sum += product(r, j) * error(r, j);
    }
    losses[task] = sum;
  });
  return std::accumulate(losses.begin(), losses.end(), 0.0);
}

/// One task of the sweep. `carried` is sum_i e_i R_ij of the columns done so far; column j aims at
/// t_j + carried_j / R_jj.
class RowSweep {
 public:
  RowSweep(const Problem& problem, const SweepFactor& factor, std::int64_t first,
           std::int64_t count, QuantizedMatrix& matrix)
      : problem_(problem),
        factor_(factor),
        first_(first),
        count_(count),
        matrix_(matrix),
        grid_(level_grid(problem.scheme)),
        carried_(MatrixD::Zero(count, factor.upper.cols())) {}

  /// Quantizes all columns that are not kept.
  void run(Eigen::Index quantized) {
    const Eigen::Index n = factor_.upper.cols();
    for (Eigen::Index block = 0; block < quantized; block += kBlock) {
      const Eigen::Index width = std::min(kBlock, quantized - block);
      MatrixD errors(count_, width);
      for (Eigen::Index j = 0; j < width; ++j) {
        quantize_column(block + j, errors.col(j));
        const Eigen::Index after = width - j - 1;
        if (after == 0) continue;
        carried_.middleCols(block + j + 1, after).noalias() +=
            errors.col(j) * factor_.upper.row(block + j).segment(block + j + 1, after);
      }
      const Eigen::Index trailing = n - block - width;
      if (trailing == 0) continue;
      carried_.rightCols(trailing).noalias() +=
          errors * factor_.upper.block(block, block + width, width, trailing);
    }
  }

  double carried(std::int64_t row, Eigen::Index position) const { return carried_(row, position); }

 private:
  void quantize_column(Eigen::Index position, Eigen::Ref<Eigen::VectorXd> errors) {
    const std::int64_t column = factor_.order[static_cast<std::size_t>(position)];
    const double inverse = 1.0 / factor_.upper(position, position);
    const std::int64_t group = column / matrix_.group_columns();
    for (std::int64_t r = 0; r < count_; ++r) {
      const auto at = static_cast<std::size_t>((first_ + r) * matrix_.cols + column);
      const auto wanted = static_cast<double>(problem_.wanted()[at]);
      const auto aim = static_cast<float>(wanted + carried_(r, position) * inverse);
      const GroupScale scale = group_scale(matrix_, first_ + r, group);
      const std::uint8_t code = encode_weight(aim, scale, grid_);
      matrix_.codes[at] = code;
      errors[r] = wanted - static_cast<double>(level_value(scale, grid_, code));
    }
  }

  const Problem& problem_;
  const SweepFactor& factor_;
  std::int64_t first_;
  std::int64_t count_;
  QuantizedMatrix& matrix_;
  LevelGrid grid_;
  MatrixD carried_;  ///< rows of the task x positions
};

/// Kept columns absorb what the sweep left over, one after the other: each sees the rounding of the
/// ones before it. carried: rows x kept.
void sweep_kept(const Problem& problem, const SweepFactor& factor, MatrixD& carried,
                QuantizedMatrix& matrix) {
  const auto rows = static_cast<std::size_t>(problem.rows());
  const auto kept = static_cast<Eigen::Index>(matrix.kept_index.size());
  const Eigen::Index start = factor.upper.cols() - kept;
  std::vector<double> aims(rows);
  for (Eigen::Index k = 0; k < kept; ++k) {
    const std::size_t column = matrix.kept_index[static_cast<std::size_t>(k)];
    const auto wanted = [&](std::size_t row) {
      return static_cast<double>(
          problem.wanted()[row * static_cast<std::size_t>(problem.cols()) + column]);
    };
    for (std::size_t r = 0; r < rows; ++r) {
      aims[r] =
          wanted(r) + carried(static_cast<Eigen::Index>(r), k) / factor.upper(start + k, start + k);
    }
    std::int8_t* values = matrix.kept_values.data() + static_cast<std::size_t>(k) * rows;
    const float scale = quantize_kept_column(aims, {values, rows});
    matrix.kept_scales[static_cast<std::size_t>(k)] = scale;
    for (std::size_t r = 0; r < rows; ++r) {
      const double error = wanted(r) - static_cast<double>(scale * static_cast<float>(values[r]));
      carried.row(static_cast<Eigen::Index>(r)).tail(kept - k - 1) +=
          error * factor.upper.row(start + k).tail(kept - k - 1);
    }
  }
}

/// The sweep over all rows: codes and kept columns of `matrix`, whose scales stay.
void sweep(const Problem& problem, const SweepFactor& factor, QuantizedMatrix& matrix) {
  const auto kept = static_cast<Eigen::Index>(matrix.kept_index.size());
  const Eigen::Index quantized = factor.upper.cols() - kept;
  MatrixD carried(problem.rows(), kept);
  problem.pool.run(task_count(problem.rows()), [&](std::size_t task) {
    const std::int64_t first = static_cast<std::int64_t>(task) * kRowsPerTask;
    const std::int64_t count = std::min(kRowsPerTask, problem.rows() - first);
    RowSweep rows(problem, factor, first, count, matrix);
    rows.run(quantized);
    for (std::int64_t r = 0; r < count; ++r) {
      for (Eigen::Index k = 0; k < kept; ++k) {
        carried(first + r, k) = rows.carried(r, quantized + k);
      }
    }
  });
  sweep_kept(problem, factor, carried, matrix);
}

/// T = W + share * drift (H + damping)^-1, where H + damping could be factorised. Without a
/// solution the targets stay the weights.
void set_targets(Problem& problem) {
  if (problem.input.drift.empty()) return;
  const auto n = static_cast<Eigen::Index>(problem.cols());
  RowMatrixD change = Eigen::Map<const RowMatrixD>(problem.input.drift.data(), problem.rows(), n);
  if (!solve_right(problem.input.second_moment, problem.damping, change)) return;
  problem.targets.resize(problem.input.matrix.weights.size());
  for (std::size_t i = 0; i < problem.targets.size(); ++i) {
    problem.targets[i] = static_cast<float>(static_cast<double>(problem.input.matrix.weights[i]) +
                                            problem.options.drift_share * change.data()[i]);
  }
}

struct Damped {
  std::optional<SweepFactor> factor;
  double relative = 0.0;
};

Damped factorise_damped(const Problem& problem, const std::vector<std::uint16_t>& kept) {
  const double mean = mean_diagonal(problem.importance, kept);
  Damped result;
  result.relative = problem.options.damping;
  for (int step = 0; step <= problem.options.damping_steps; ++step) {
    if (step > 0) result.relative = std::max(10.0 * result.relative, kFirstDamping);
    result.factor = factorise(problem.input.second_moment, sweep_order(problem.cols(), kept),
                              result.relative * mean);
    if (result.factor) break;
  }
  return result;
}

}  // namespace

const char* path_name(GptqPath path) {
  switch (path) {
    case GptqPath::kGptq:
      return "gptq";
    case GptqPath::kRtnNotDefinite:
      return "rtn: second moment not definite";
    case GptqPath::kRtnBetter:
      break;
  }
  return "rtn: smaller calibration loss";
}

Result<GptqResult> quantize_gptq(const GptqInput& input, const Scheme& scheme,
                                 const GptqOptions& options, ThreadPool& pool) {
  ELQ_CHECK(check_second_moment(input));
  Problem problem{input, scheme, options, pool, {}, {}, 0.0};
  const auto n = static_cast<std::size_t>(problem.cols());
  GptqResult result;
  for (std::size_t j = 0; j < n; ++j) {
    problem.importance.push_back(static_cast<float>(input.second_moment[j * (n + 1)]));
    if (problem.importance.back() == 0.0f) ++result.dead_columns;
  }
  ELQ_TRY(rtn, quantize_rtn(problem.matrix_input(), scheme, pool));
  const std::vector<std::uint16_t> kept = rtn.matrix.kept_index;
  Damped damped = factorise_damped(problem, kept);
  result.damping = damped.relative;
  problem.damping = damped.factor ? damped.relative * mean_diagonal(problem.importance, kept) : 0.0;
  if (damped.factor) set_targets(problem);
  if (!problem.targets.empty()) {
    ELQ_TRY(drifted, quantize_rtn_kept(problem.matrix_input(), scheme, kept, pool));
    rtn = std::move(drifted);
  }
  result.energy = calibration_loss(problem, nullptr);
  result.rtn_loss = calibration_loss(problem, &rtn.matrix);
  result.quantized = std::move(rtn);
  if (!damped.factor) {
    if (options.fallback == GptqOptions::Fallback::kForbidden) {
      return Error{ErrorCode::kNumeric, input.matrix.name,
                   "second moment is not positive definite at " + std::to_string(result.damping) +
                       " of the mean diagonal, and the fallback to RTN is forbidden",
                   0};
    }
    result.path = GptqPath::kRtnNotDefinite;
    result.loss = result.rtn_loss;
    return result;
  }
  QuantizedMatrix swept = result.quantized.matrix;
  sweep(problem, *damped.factor, swept);
  result.loss = calibration_loss(problem, &swept);
  if (!(result.loss <= result.rtn_loss)) {
    result.path = GptqPath::kRtnBetter;
    result.loss = result.rtn_loss;
  } else {
    result.quantized.matrix = std::move(swept);
  }
  MatrixInput original = input.matrix;
  original.importance = problem.importance;
  result.quantized.distortion =
      measure_distortion(original, result.quantized.matrix, result.quantized.column_error, pool);
  return result;
}

}  // namespace elastiq
