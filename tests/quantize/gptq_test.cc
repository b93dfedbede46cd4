#include "quantize/gptq.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "quantize/level_grid.h"
#include "tests/support/quantize_data.h"

namespace elastiq {
namespace {

using testing::correlated_moment;
using testing::normal_matrix;
using testing::scheme_of;

struct Case {
  std::vector<float> weights;
  std::int64_t rows;
  std::int64_t cols;
  std::vector<double> moment;
  std::vector<double> drift = {};

  GptqInput input() const { return {{"w", weights, rows, cols, {}}, moment, drift}; }

  std::vector<float> diagonal() const {
    std::vector<float> result;
    const auto n = static_cast<std::size_t>(cols);
    for (std::size_t j = 0; j < n; ++j) result.push_back(static_cast<float>(moment[j * (n + 1)]));
    return result;
  }

  double loss(const QuantizedMatrix& matrix) const {
    const std::vector<float> back = dequantize(matrix);
    const auto n = static_cast<std::size_t>(cols);
    double sum = 0.0;
    for (std::size_t r = 0; r < static_cast<std::size_t>(rows); ++r) {
      for (std::size_t i = 0; i < n; ++i) {
        for (std::size_t j = 0; j < n; ++j) {
          sum += (static_cast<double>(weights[r * n + i]) - static_cast<double>(back[r * n + i])) *
                 moment[i * n + j] *
                 (static_cast<double>(weights[r * n + j]) - static_cast<double>(back[r * n + j]));
        }
      }
    }
    return sum;
  }
};

GptqOptions options_of(double damping) {
  GptqOptions options;
  options.damping = damping;
  options.drift_share = 1.0;
  return options;
}

GptqResult gptq(const Case& problem, const char* scheme, const GptqOptions& options) {
  ThreadPool pool(2);
  auto result = quantize_gptq(problem.input(), scheme_of(scheme), options, pool);
  EXPECT_TRUE(result.ok()) << (result.ok() ? "" : to_string(result.error()));
  return result.ok() ? std::move(result).value() : GptqResult{};
}

Case correlated_case(std::int64_t rows, std::int64_t cols, double rho) {
  return {normal_matrix(rows, cols, 31), rows, cols, correlated_moment(cols, rho)};
}

// AR(1) inputs with rho = .9: conditional variance given the other inputs is (1 - rho^2) / (1 +
// rho^2) = .105 of the variance, so feedback can win up to tenfold; 2 bits reach a factor 3 to 7.
TEST(Gptq, BeatsRtnOnCorrelatedInputsByAKnownMargin) {
  const Case problem = correlated_case(64, 256, 0.9);
  const GptqResult result = gptq(problem, "seq2-g64-u8", options_of(0.01));
  EXPECT_EQ(result.path, GptqPath::kGptq);
  EXPECT_GT(result.loss, result.rtn_loss / 7);
  EXPECT_LT(result.loss, result.rtn_loss / 3);
  EXPECT_NEAR(result.loss, problem.loss(result.quantized.matrix), 1e-6 * result.loss);
}

TEST(Gptq, EqualsRtnForADiagonalSecondMoment) {
  Case problem{normal_matrix(40, 172, 32), 40, 172, std::vector<double>(172 * 172, 0.0)};
  for (std::size_t j = 0; j < 172; ++j)
    problem.moment[j * 173] = 0.5 + 0.1 * static_cast<double>(j % 11);
  ThreadPool pool(2);
  for (const char* name : testing::all_schemes()) {
    const std::vector<float> diagonal = problem.diagonal();
    const auto rtn = quantize_rtn({"w", problem.weights, 40, 172, diagonal}, scheme_of(name), pool);
    ASSERT_TRUE(rtn.ok());
    const GptqResult result = gptq(problem, name, options_of(0.05));
    EXPECT_EQ(result.quantized.matrix.codes, rtn.value().matrix.codes) << name;
    EXPECT_EQ(result.quantized.matrix.kept_values, rtn.value().matrix.kept_values) << name;
    EXPECT_EQ(result.quantized.matrix.u8_scales, rtn.value().matrix.u8_scales) << name;
  }
}

/// The sweep as arXiv 2210.17323 has it, with the inverse updated by elimination after each column:
/// no triangular factor, no blocks.
std::vector<std::uint8_t> textbook_codes(const Case& problem, const QuantizedMatrix& scales,
                                         double damping) {
  const auto n = static_cast<std::size_t>(problem.cols);
  std::vector<double> h = problem.moment;
  for (std::size_t j = 0; j < n; ++j) h[j * (n + 1)] += damping;
  std::vector<double> inverse(n * n);
  for (std::size_t j = 0; j < n; ++j) {
    std::vector<double> unit(n, 0.0);
    unit[j] = 1.0;
    const std::vector<double> column = testing::dense_solve(h, unit);
    for (std::size_t i = 0; i < n; ++i) inverse[i * n + j] = column[i];
  }
  std::vector<double> w(problem.weights.begin(), problem.weights.end());
  std::vector<std::uint8_t> codes(w.size());
  const LevelGrid grid = level_grid(scales.scheme);
  for (std::size_t j = 0; j < n; ++j) {
    const double pivot = inverse[j * n + j];
    for (std::size_t r = 0; r < static_cast<std::size_t>(problem.rows); ++r) {
      const GroupScale scale = group_scale(scales, static_cast<std::int64_t>(r),
                                           static_cast<std::int64_t>(j) / scales.group_columns());
      codes[r * n + j] = encode_weight(static_cast<float>(w[r * n + j]), scale, grid);
      const double error =
          (w[r * n + j] - static_cast<double>(level_value(scale, grid, codes[r * n + j]))) / pivot;
      for (std::size_t k = j + 1; k < n; ++k) w[r * n + k] -= error * inverse[j * n + k];
    }
    const std::vector<double> row(inverse.begin() + static_cast<std::ptrdiff_t>(j * n),
                                  inverse.begin() + static_cast<std::ptrdiff_t>(j * n + n));
    for (std::size_t a = 0; a < n; ++a) {
      for (std::size_t b = 0; b < n; ++b) inverse[a * n + b] -= row[a] * row[b] / pivot;
    }
  }
  return codes;
}

// 80 columns: more than one block, and a short last group.
TEST(Gptq, SweepEqualsTheTextbookAlgorithm) {
  const Case problem = correlated_case(12, 80, 0.8);
  const GptqResult result = gptq(problem, "seq3-g64-f16", options_of(0.02));
  double mean = 0.0;
  for (std::size_t j = 0; j < 80; ++j) mean += problem.moment[j * 81] / 80.0;
  EXPECT_EQ(result.quantized.matrix.codes,
            textbook_codes(problem, result.quantized.matrix, 0.02 * mean));
}

// One kept column out of 8: for the codes found, the best value of the kept weight solves
// (H_KK + d) w = ... exactly; the stored int8 value is within half a step of it.
TEST(Gptq, KeptColumnIsTheLeastSquaresSolutionForTheCodes) {
  const Case problem = correlated_case(6, 8, 0.7);
  const GptqResult result = gptq(problem, "seq3-g32-f16-k1", options_of(0.05));
  const QuantizedMatrix& m = result.quantized.matrix;
  ASSERT_EQ(m.kept_index.size(), 1u);
  const std::size_t k = m.kept_index[0];
  double mean = 0.0;
  for (std::size_t j = 0; j < 8; ++j) mean += j == k ? 0.0 : problem.moment[j * 9] / 7.0;
  const std::vector<float> back = dequantize(m);
  for (std::size_t r = 0; r < 6; ++r) {
    double carried = 0.0;
    for (std::size_t j = 0; j < 8; ++j) {
      if (j == k) continue;
      carried +=
          (static_cast<double>(problem.weights[r * 8 + j]) - static_cast<double>(back[r * 8 + j])) *
          problem.moment[j * 8 + k];
    }
    const double best = static_cast<double>(problem.weights[r * 8 + k]) +
                        carried / (problem.moment[k * 9] + 0.05 * mean);
    const double step = static_cast<double>(m.kept_scales[0]);
    EXPECT_NEAR(static_cast<double>(back[r * 8 + k]), best, 0.51 * step) << r;
    EXPECT_GT(std::fabs(best - static_cast<double>(problem.weights[r * 8 + k])), step) << r;
  }
}

// Four kept columns of 64, together: the damped loss of the result against the dense solution for
// the same codes. What is left is int8 rounding.
TEST(Gptq, KeptColumnsTogetherAreTheDenseSolution) {
  const Case problem = correlated_case(8, 64, 0.9);
  const GptqResult result = gptq(problem, "seq2-g32-f16-k4", options_of(0.05));
  const QuantizedMatrix& m = result.quantized.matrix;
  ASSERT_EQ(m.kept_index.size(), 4u);
  double mean = 0.0;
  for (std::size_t j = 0; j < 64; ++j) mean += problem.moment[j * 65];
  for (const std::uint16_t k : m.kept_index) mean -= problem.moment[k * 65u];
  const double damping = 0.05 * mean / 60.0;
  const auto h = [&](std::size_t i, std::size_t j) {
    return problem.moment[i * 64 + j] + (i == j ? damping : 0.0);
  };
  const std::vector<float> back = dequantize(m);
  for (std::size_t r = 0; r < 8; ++r) {
    std::vector<double> a;
    std::vector<double> b;
    for (const std::size_t k : m.kept_index) {
      for (const std::size_t l : m.kept_index) a.push_back(h(k, l));
      double sum = 0.0;
      for (std::size_t j = 0; j < 64; ++j) {
        const bool kept =
            std::find(m.kept_index.begin(), m.kept_index.end(), j) != m.kept_index.end();
        if (!kept)
          sum += h(j, k) * (static_cast<double>(problem.weights[r * 64 + j]) -
                            static_cast<double>(back[r * 64 + j]));
      }
      b.push_back(sum);
    }
    const std::vector<double> change = testing::dense_solve(a, b);
    for (std::size_t i = 0; i < 4; ++i) {
      const double best =
          static_cast<double>(problem.weights[r * 64 + m.kept_index[i]]) + change[i];
      EXPECT_NEAR(static_cast<double>(back[r * 64 + m.kept_index[i]]), best,
                  2.0 * static_cast<double>(m.kept_scales[i]));
    }
  }
}

// With a diagonal second moment the targets W + drift / (h + d) are simply rounded.
TEST(Gptq, DriftMovesTheTargets) {
  Case problem{normal_matrix(16, 64, 33), 16, 64, std::vector<double>(64 * 64, 0.0)};
  for (std::size_t j = 0; j < 64; ++j) problem.moment[j * 65] = 2.0;
  std::vector<float> shifted = problem.weights;
  for (std::size_t i = 0; i < shifted.size(); ++i) {
    const double drift = 0.8 * std::sin(static_cast<double>(i));
    problem.drift.push_back(drift);
    // Mean diagonal 2, damping 5 %, share .5.
    shifted[i] = static_cast<float>(static_cast<double>(problem.weights[i]) + 0.5 * drift / 2.1);
  }
  GptqOptions options = options_of(0.05);
  options.drift_share = 0.5;
  const GptqResult result = gptq(problem, "seq3-g64-u8", options);
  ThreadPool pool(1);
  const std::vector<float> diagonal = problem.diagonal();
  const auto rtn = quantize_rtn({"w", shifted, 16, 64, diagonal}, scheme_of("seq3-g64-u8"), pool);
  ASSERT_TRUE(rtn.ok());
  EXPECT_EQ(result.quantized.matrix.codes, rtn.value().matrix.codes);
}

TEST(Gptq, DriftMovesTheTargetsWithoutDampingToo) {
  Case problem{normal_matrix(16, 64, 33), 16, 64, std::vector<double>(64 * 64, 0.0)};
  for (std::size_t j = 0; j < 64; ++j) problem.moment[j * 65] = 2.0;
  std::vector<float> shifted = problem.weights;
  for (std::size_t i = 0; i < shifted.size(); ++i) {
    problem.drift.push_back(0.8);
    shifted[i] = static_cast<float>(static_cast<double>(problem.weights[i]) + 0.5 * 0.8 / 2.0);
  }
  GptqOptions options = options_of(0.0);
  options.drift_share = 0.5;
  const GptqResult result = gptq(problem, "seq3-g64-u8", options);
  ThreadPool pool(1);
  const std::vector<float> diagonal = problem.diagonal();
  const auto rtn = quantize_rtn({"w", shifted, 16, 64, diagonal}, scheme_of("seq3-g64-u8"), pool);
  ASSERT_TRUE(rtn.ok());
  EXPECT_EQ(result.quantized.matrix.codes, rtn.value().matrix.codes);
}

TEST(Gptq, RefusesDriftThatIsNotFinite) {
  Case problem{normal_matrix(16, 64, 33), 16, 64, std::vector<double>(64 * 64, 0.0)};
  for (std::size_t j = 0; j < 64; ++j) problem.moment[j * 65] = 2.0;
  problem.drift.assign(16 * 64, 0.0);
  problem.drift[70] = std::numeric_limits<double>::quiet_NaN();
  ThreadPool pool(1);
  const auto result =
      quantize_gptq(problem.input(), scheme_of("seq3-g64-u8"), options_of(0.05), pool);
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().code, ErrorCode::kNonFinite);
  EXPECT_NE(result.error().detail.find("70"), std::string::npos);
}

// cases.md 20. The blocks [[1, 5], [5, 1]] have the eigenvalue -4: dampings .05 and .5 of the mean
// diagonal are not enough, 5 is.
Case indefinite_case() {
  Case problem{normal_matrix(8, 64, 34), 8, 64, std::vector<double>(64 * 64, 0.0)};
  for (std::size_t j = 0; j < 64; ++j) {
    problem.moment[j * 65] = 1.0;
    problem.moment[j * 64 + (j ^ 1u)] = 5.0;
  }
  return problem;
}

TEST(GptqNotDefinite, DampingIsRaisedAndReported) {
  const GptqResult result = gptq(indefinite_case(), "seq2-g64-u8", options_of(0.05));
  EXPECT_NEAR(result.damping, 5.0, 1e-12);
  EXPECT_LE(result.loss, result.rtn_loss);
}

TEST(GptqNotDefinite, FallsBackToRtnOrRefuses) {
  GptqOptions options = options_of(0.05);
  options.damping_steps = 1;
  const GptqResult result = gptq(indefinite_case(), "seq2-g64-u8", options);
  EXPECT_EQ(result.path, GptqPath::kRtnNotDefinite);
  EXPECT_EQ(result.loss, result.rtn_loss);

  options.fallback = GptqOptions::Fallback::kForbidden;
  ThreadPool pool(1);
  const auto refused =
      quantize_gptq(indefinite_case().input(), scheme_of("seq2-g64-u8"), options, pool);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::kNumeric);
  EXPECT_EQ(refused.error().subject, "w");
}

TEST(GptqNotDefinite, FewOrRepeatedTokensAndAHugeChannelComplete) {
  std::vector<float> three = normal_matrix(3, 172, 35);
  std::vector<float> repeated;
  for (int t = 0; t < 200; ++t) repeated.insert(repeated.end(), three.begin(), three.begin() + 172);
  std::vector<float> huge = normal_matrix(200, 172, 36);
  for (std::size_t t = 0; t < 200; ++t) huge[t * 172 + 17] *= 1e4f;
  for (const std::vector<float>& samples : {three, repeated, huge}) {
    const Case problem{normal_matrix(24, 172, 37), 24, 172, testing::sample_moment(samples, 172)};
    for (const char* name : {"seq2-g64-u8", "seq2-g64-u8-k4", "ternary-row"}) {
      const GptqResult result = gptq(problem, name, options_of(0.05));
      EXPECT_TRUE(check_matrix(result.quantized.matrix, name).ok());
      EXPECT_LE(result.loss, result.rtn_loss) << name;
      EXPECT_TRUE(std::isfinite(result.loss)) << name;
    }
  }
}

TEST(Gptq, DeadColumnsAreCountedAndRounded) {
  Case problem = correlated_case(16, 64, 0.9);
  for (const std::size_t dead : {std::size_t{3}, std::size_t{40}}) {
    for (std::size_t j = 0; j < 64; ++j)
      problem.moment[dead * 64 + j] = problem.moment[j * 64 + dead] = 0.0;
  }
  const GptqResult result = gptq(problem, "seq2-g64-f16", options_of(0.05));
  EXPECT_EQ(result.dead_columns, 2);
  const QuantizedMatrix& m = result.quantized.matrix;
  for (std::int64_t r = 0; r < 16; ++r) {
    const auto at = static_cast<std::size_t>(r * 64 + 40);
    EXPECT_EQ(m.codes[at],
              encode_weight(problem.weights[at], group_scale(m, r, 0), level_grid(m.scheme)));
  }
}

TEST(Gptq, AllInputsDeadIsRtn) {
  const Case problem{normal_matrix(8, 64, 38), 8, 64, std::vector<double>(64 * 64, 0.0)};
  const GptqResult result = gptq(problem, "seq2-g64-u8-k4", options_of(0.05));
  EXPECT_EQ(result.path, GptqPath::kRtnNotDefinite);
  EXPECT_EQ(result.dead_columns, 64);
}

TEST(Gptq, ThreadCountDoesNotChangeAByte) {
  const Case problem = correlated_case(100, 172, 0.9);
  std::vector<GptqResult> results;
  for (const int threads : {1, 2, 5}) {
    ThreadPool pool(threads);
    auto result =
        quantize_gptq(problem.input(), scheme_of("seq2-g64-u8-k8"), options_of(0.05), pool);
    ASSERT_TRUE(result.ok());
    results.push_back(std::move(result).value());
  }
  for (std::size_t i = 1; i < results.size(); ++i) {
    EXPECT_EQ(results[i].quantized.matrix.codes, results[0].quantized.matrix.codes);
    EXPECT_EQ(results[i].quantized.matrix.kept_values, results[0].quantized.matrix.kept_values);
    EXPECT_EQ(results[i].quantized.matrix.kept_scales, results[0].quantized.matrix.kept_scales);
    EXPECT_EQ(results[i].loss, results[0].loss);
  }
}

TEST(Gptq, RefusesBadSecondMoments) {
  Case problem = correlated_case(4, 16, 0.5);
  ThreadPool pool(1);
  problem.moment[5] = std::numeric_limits<double>::quiet_NaN();
  auto result = quantize_gptq(problem.input(), scheme_of("seq2-g64-u8"), options_of(0.05), pool);
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().code, ErrorCode::kNonFinite);
  problem.moment.resize(9);
  result = quantize_gptq(problem.input(), scheme_of("seq2-g64-u8"), options_of(0.05), pool);
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().code, ErrorCode::kInvalidArgument);
}

}  // namespace
}  // namespace elastiq
