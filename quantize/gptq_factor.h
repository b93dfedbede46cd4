#pragma once

// Eigen headers define many names: only gptq*.cc include this file.
#include <Eigen/Core>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace elastiq {

using MatrixD = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::ColMajor>;
using RowMatrixD = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

/// Upper triangular R with H + damping * I = R R^T over the columns in `order`: position i is
/// column order[i].
struct SweepFactor {
  std::vector<std::int64_t> order;
  MatrixD upper;
};

/// Nothing when the damped matrix is not positive definite. Dead columns (zero diagonal) must have
/// zero rows and columns; they stand alone with the damping as their diagonal.
std::optional<SweepFactor> factorise(std::span<const double> second_moment,
                                     std::vector<std::int64_t> order, double damping);

/// drift * (H + damping I)^-1, rows x cols in place; false when not positive definite.
bool solve_right(std::span<const double> second_moment, double damping,
                 Eigen::Ref<RowMatrixD> drift);

}  // namespace elastiq
