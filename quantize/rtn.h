#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/quantized_matrix.h"
#include "core/thread_pool.h"

namespace elastiq {

/// How far a quantized matrix is from its weights. All sums in double, rows in order.
struct Distortion {
  double energy = 0.0;           ///< sum w^2
  double error = 0.0;            ///< sum (w - w')^2
  double weighted_energy = 0.0;  ///< sum h_j w^2, h the importance (1 without)
  double weighted_error = 0.0;   ///< sum h_j (w - w')^2
  double largest_error = 0.0;    ///< max |w - w'|
};

/// A matrix to quantize, rows x cols floats, row-major.
struct MatrixInput {
  std::string name;  ///< For errors.
  std::span<const float> weights;
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::span<const float> importance;  ///< cols: mean of x_j^2; empty: equal.
};

struct RtnResult {
  QuantizedMatrix matrix;
  Distortion distortion;
  std::vector<double> column_error;  ///< cols: sum over rows of (w - w')^2
  std::int64_t equal_groups = 0;     ///< Column groups without any importance: equal weights.
  std::int64_t zero_groups = 0;      ///< Groups of zeros (rows x groups counted).
};

/// Round to nearest with searched scales. Chooses the scheme's kept columns by the error of the
/// matrix quantized without them, then quantizes the rest.
///
/// Errors    kInvalidArgument: a size, a scheme that this width cannot have (u8 and row scales of
///           8 bits on very wide rows), or weights that need an f16 scale of 65504 or more;
///           kNonFinite: a weight or importance.
/// Result    does not depend on the number of threads.
/// Source    docs/numerics.md, sections 2 to 6.
Result<RtnResult> quantize_rtn(const MatrixInput& input, const Scheme& scheme, ThreadPool& pool);

/// The same with the kept columns given: ascending, below cols, at most kept_limit(scheme, cols);
/// otherwise kInvalidArgument.
Result<RtnResult> quantize_rtn_kept(const MatrixInput& input, const Scheme& scheme,
                                    std::vector<std::uint16_t> kept_index, ThreadPool& pool);

/// Figures of any quantized form of the input.
Distortion measure_distortion(const MatrixInput& input, const QuantizedMatrix& matrix,
                              std::vector<double>& column_error, ThreadPool& pool);

}  // namespace elastiq
