#include "quantize/gptq_factor.h"

#include <Eigen/Cholesky>

namespace elastiq {

std::optional<SweepFactor> factorise(std::span<const double> second_moment,
                                     std::vector<std::int64_t> order, double damping) {
  const auto n = static_cast<Eigen::Index>(order.size());
  // An upper factor of A is the lower factor of A with rows and columns reversed, reversed again.
  MatrixD reversed(n, n);
  for (Eigen::Index i = 0; i < n; ++i) {
    const std::int64_t from = order[static_cast<std::size_t>(n - 1 - i)];
    const double* column = second_moment.data() + from * n;
    for (Eigen::Index j = 0; j < n; ++j) {
      reversed(j, i) = column[order[static_cast<std::size_t>(n - 1 - j)]];
    }
    reversed(i, i) += damping;
  }
  const Eigen::LLT<Eigen::Ref<MatrixD>> factor(reversed);
  if (factor.info() != Eigen::Success) return std::nullopt;
  SweepFactor result;
  result.upper = MatrixD::Zero(n, n);
  for (Eigen::Index i = 0; i < n; ++i) {
    for (Eigen::Index j = i; j < n; ++j) result.upper(n - 1 - j, n - 1 - i) = reversed(j, i);
  }
  if (!result.upper.allFinite() || !(result.upper.diagonal().minCoeff() > 0.0)) {
    return std::nullopt;
  }
  result.order = std::move(order);
  return result;
}

bool solve_right(std::span<const double> second_moment, double damping,
                 Eigen::Ref<RowMatrixD> drift) {
  const Eigen::Index n = drift.cols();
  MatrixD damped = Eigen::Map<const MatrixD>(second_moment.data(), n, n);
  damped.diagonal().array() += damping;
  const Eigen::LLT<Eigen::Ref<MatrixD>> factor(damped);
  if (factor.info() != Eigen::Success) return false;
  // X A = B with A symmetric is A X^T = B^T; a row-major X is a column-major X^T.
  Eigen::Map<MatrixD> transposed(drift.data(), n, drift.rows());
  factor.solveInPlace(transposed);
  return transposed.allFinite();
}

}  // namespace elastiq
