#pragma once

// Matrices and second moments for the quantizer tests.

#include <cmath>
#include <cstdint>
#include <vector>

#include "core/rng.h"
#include "core/scheme.h"

namespace elastiq::testing {

inline Scheme scheme_of(const char* name) {
  const auto scheme = parse_scheme(name);
  return scheme.ok() ? scheme.value() : Scheme{Grid::kSeq, -1, 0, ScaleMode::kRow, 0};
}

inline const std::vector<const char*>& all_schemes() {
  static const std::vector<const char*> names = {
      "seq1-g64-u8", "seq2-g64-u8", "seq3-g32-f16",   "seq4-g128-u8",     "sym3-g64-u8",
      "sym4-g32-u8", "sym8-g64-u8", "ternary-g64-u8", "ternary-g256-f16", "seq2-row",
      "sym4-row",    "ternary-row", "seq2-g64-u8-k4", "sym3-g64-f16-k4",  "seq3-row-k4"};
  return names;
}

inline std::vector<float> normal_matrix(std::int64_t rows, std::int64_t cols, std::uint64_t seed) {
  Rng rng(seed);
  std::vector<float> result(static_cast<std::size_t>(rows * cols));
  for (float& w : result) w = static_cast<float>(rng.normal());
  return result;
}

/// The quantiles (i + .5) / n of the standard normal, by bisection, in a scrambled order.
inline std::vector<float> normal_quantiles(std::int64_t n) {
  std::vector<float> result(static_cast<std::size_t>(n));
  for (std::int64_t i = 0; i < n; ++i) {
    const double wanted = (static_cast<double>(i) + 0.5) / static_cast<double>(n);
    double low = -8.0;
    double high = 8.0;
    for (int step = 0; step < 60; ++step) {
      const double middle = 0.5 * (low + high);
      (0.5 * std::erfc(-middle / std::sqrt(2.0)) < wanted ? low : high) = middle;
    }
    result[static_cast<std::size_t>(i * 1021 % n)] = static_cast<float>(low);
  }
  return result;
}

/// H_ij = s_i s_j rho^|i - j|, positive definite.
inline std::vector<double> correlated_moment(std::int64_t n, double rho) {
  std::vector<double> h(static_cast<std::size_t>(n * n));
  for (std::int64_t i = 0; i < n; ++i) {
    for (std::int64_t j = 0; j < n; ++j) {
      const double scale =
          (1.0 + 0.01 * static_cast<double>(i % 7)) * (1.0 + 0.01 * static_cast<double>(j % 7));
      h[static_cast<std::size_t>(i * n + j)] =
          scale * std::pow(rho, std::fabs(static_cast<double>(i - j)));
    }
  }
  return h;
}

/// Mean of x x^T over the rows of samples [tokens x n].
inline std::vector<double> sample_moment(const std::vector<float>& samples, std::int64_t n) {
  const auto width = static_cast<std::size_t>(n);
  const std::size_t tokens = samples.size() / width;
  std::vector<double> h(width * width, 0.0);
  for (std::size_t t = 0; t < tokens; ++t) {
    for (std::size_t i = 0; i < width; ++i) {
      for (std::size_t j = 0; j < width; ++j) {
        h[i * width + j] += static_cast<double>(samples[t * width + i]) *
                            static_cast<double>(samples[t * width + j]) /
                            static_cast<double>(tokens);
      }
    }
  }
  return h;
}

/// Solves A x = b by Gaussian elimination with pivoting.
inline std::vector<double> dense_solve(std::vector<double> a, std::vector<double> b) {
  const std::size_t n = b.size();
  for (std::size_t k = 0; k < n; ++k) {
    std::size_t pivot = k;
    for (std::size_t i = k + 1; i < n; ++i) {
      if (std::fabs(a[i * n + k]) > std::fabs(a[pivot * n + k])) pivot = i;
    }
    for (std::size_t j = 0; j < n; ++j) std::swap(a[k * n + j], a[pivot * n + j]);
    std::swap(b[k], b[pivot]);
    for (std::size_t i = k + 1; i < n; ++i) {
      const double factor = a[i * n + k] / a[k * n + k];
      for (std::size_t j = k; j < n; ++j) a[i * n + j] -= factor * a[k * n + j];
      b[i] -= factor * b[k];
    }
  }
  for (std::size_t k = n; k-- > 0;) {
    for (std::size_t j = k + 1; j < n; ++j) b[k] -= a[k * n + j] * b[j];
    b[k] /= a[k * n + k];
  }
  return b;
}

}  // namespace elastiq::testing
