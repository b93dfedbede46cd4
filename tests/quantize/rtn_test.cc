#include "quantize/rtn.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "quantize/scale_search.h"
#include "tests/support/quantize_data.h"

namespace elastiq {
namespace {

using testing::normal_matrix;
using testing::scheme_of;

RtnResult rtn(const std::vector<float>& weights, std::int64_t rows, std::int64_t cols,
              const char* scheme, const std::vector<float>& importance) {
  ThreadPool pool(2);
  auto result = quantize_rtn({"w", weights, rows, cols, importance}, scheme_of(scheme), pool);
  EXPECT_TRUE(result.ok()) << (result.ok() ? "" : to_string(result.error()));
  return result.ok() ? std::move(result).value() : RtnResult{};
}

double relative_error(const RtnResult& result) {
  return result.distortion.error / result.distortion.energy;
}

struct GaussianRow {
  const char* scheme;
  double mse;   ///< Of the unit normal.
  double step;  ///< Optimal, in sigma.
};

// Source: Max, "Quantizing for minimum distortion", 1960, table of uniform quantizers with 2, 4, 8
// and 16 levels. The row holds the quantiles of the normal distribution, so there is no sampling
// error; what is left are the cut tails.
TEST(RtnGaussian, ReachesMaxsUniformQuantizers) {
  const std::vector<float> quantiles = testing::normal_quantiles(8192);
  for (const GaussianRow& row :
       {GaussianRow{"seq1-row", 0.3634, 1.596}, GaussianRow{"seq2-row", 0.1188, 0.9957},
        GaussianRow{"seq3-row", 0.03744, 0.5860}, GaussianRow{"seq4-row", 0.01154, 0.3352}}) {
    const RtnResult result = rtn(quantiles, 1, 8192, row.scheme, {});
    EXPECT_NEAR(relative_error(result), row.mse, 0.005 * row.mse) << row.scheme;
    EXPECT_NEAR(2.0 * static_cast<double>(result.matrix.row_scales[0]), row.step, 0.02 * row.step)
        << row.scheme;
  }
}

// Groups of 64 adapt to their own sample: below the row figure, and not by more than fitting one
// scale per 64 values can give. f16 and u8 coding cost less than 1 %.
TEST(RtnGaussian, GroupsGainAndCodingCostsLittle) {
  const std::vector<float> weights = normal_matrix(64, 512, 4);
  const double u8 = relative_error(rtn(weights, 64, 512, "seq2-g64-u8", {}));
  const double f16 = relative_error(rtn(weights, 64, 512, "seq2-g64-f16", {}));
  EXPECT_GT(f16, 0.105);
  EXPECT_LT(f16, 0.116);
  EXPECT_NEAR(u8, f16, 0.01 * f16);
}

// All weights +-a: every grid represents them exactly up to the coding of the scale.
TEST(Rtn, TwoValuedGroupsNeedOnlyTheirScale) {
  std::vector<float> weights(64);
  for (std::size_t j = 0; j < 64; ++j) weights[j] = j % 3 == 0 ? -0.3f : 0.3f;
  const RtnResult row = rtn(weights, 1, 64, "seq1-row", {});
  EXPECT_FLOAT_EQ(row.matrix.row_scales[0], 0.3f);
  EXPECT_LT(row.distortion.largest_error, 1e-7);
  const RtnResult half = rtn(weights, 1, 64, "seq1-g32-f16", {});
  // 0.3 in half precision: 0x34CD = 1229 / 4096.
  EXPECT_EQ(half.matrix.f16_scales, (std::vector<std::uint16_t>{0x34CD, 0x34CD}));
  EXPECT_NEAR(half.distortion.largest_error, 1229.0 / 4096.0 - 0.3, 1e-7);
}

// Group 0 has twice the scale of group 1: u8 codes keep the ratio within half a step.
TEST(Rtn, U8ScalesShareOneRowScale) {
  std::vector<float> weights(64);
  for (std::size_t j = 0; j < 64; ++j)
    weights[j] = (j % 2 == 0 ? 1.0f : -1.0f) * (j < 32 ? 1.0f : 0.5f);
  const RtnResult result = rtn(weights, 1, 64, "seq1-g32-u8", {});
  const int high = result.matrix.u8_scales[0];
  const int low = result.matrix.u8_scales[1];
  EXPECT_GT(high, 200);
  EXPECT_NEAR(low, high / 2.0, 0.51);
  EXPECT_LT(result.distortion.largest_error, 0.5 / 200);
}

// Row sums of wide 8-bit rows must fit int32: smax falls below 255 (core/quantized_matrix.h).
TEST(Rtn, U8ScalesStayWithinTheRowSumBound) {
  const RtnResult result = rtn(normal_matrix(2, 1536, 8), 2, 1536, "sym8-g64-u8", {});
  const int smax = max_u8_scale(scheme_of("sym8-g64-u8"), 1536);
  ASSERT_LT(smax, 64);
  int largest = 0;
  for (const std::uint8_t scale : result.matrix.u8_scales) largest = std::max<int>(largest, scale);
  EXPECT_LE(largest, smax);
  EXPECT_GE(largest, smax * 13 / 16);
  EXPECT_LT(relative_error(result), 3e-4);
}

// cases.md 7: a group of zeros, a row of zeros, and importance that is zero for a group.
TEST(Rtn, ZeroGroupsRowsAndImportance) {
  constexpr std::int64_t kRows = 3;
  constexpr std::int64_t kCols = 576;
  std::vector<float> weights = normal_matrix(kRows, kCols, 9);
  for (std::size_t j = 64; j < 128; ++j) weights[j] = 0.0f;
  for (std::size_t j = kCols; j < 2 * kCols; ++j) weights[j] = 0.0f;
  std::vector<float> importance(kCols, 2.0f);
  for (std::size_t j = 192; j < 256; ++j) importance[j] = 0.0f;
  for (const char* name : testing::all_schemes()) {
    const RtnResult result = rtn(weights, kRows, kCols, name, importance);
    const QuantizedMatrix& m = result.matrix;
    EXPECT_TRUE(check_matrix(m, name).ok()) << name;
    for (const float scale : m.row_scales)
      EXPECT_TRUE(scale > 0.0f && std::isfinite(scale)) << name;
    for (const std::uint8_t scale : m.u8_scales) EXPECT_GE(scale, 1) << name;
    for (const std::uint16_t scale : m.f16_scales)
      EXPECT_TRUE(scale >= 1 && scale < 0x7C00) << name;
    EXPECT_GE(result.zero_groups, 1) << name;
    if (m.scheme.group == 64) {
      EXPECT_EQ(result.equal_groups, 1) << name;
    }
    const std::vector<float> back = dequantize(m);
    const bool has_zero = m.scheme.grid != Grid::kSeq;
    float row_largest = 0.0f;
    for (std::size_t j = 0; j < kCols; ++j)
      row_largest = std::max(row_largest, std::fabs(weights[j]));
    for (std::size_t j = 0; j < kCols; ++j) {
      // docs/numerics.md 4.4: exact zeros, or the smallest scale times the smallest level.
      const float zero_row = back[kCols + j];
      EXPECT_LE(std::fabs(zero_row), has_zero ? 0.0f : 0x1p-24f * 15.0f) << name;
      const bool in_zero_group = j >= 64 && j < 128 && m.scheme.group != 0 && m.scheme.group <= 64;
      if (in_zero_group) {
        EXPECT_LE(std::fabs(back[j]), has_zero ? 0.0f : row_largest / 100) << name;
      }
    }
  }
}

TEST(Rtn, ImportantColumnsAreKeptCloser) {
  std::vector<float> weights = normal_matrix(32, 64, 10);
  std::vector<float> importance(64, 1.0f);
  importance[5] = 1e4f;
  const RtnResult equal = rtn(weights, 32, 64, "seq2-g64-f16", {});
  const RtnResult weighted = rtn(weights, 32, 64, "seq2-g64-f16", importance);
  EXPECT_LT(weighted.column_error[5], 0.05 * equal.column_error[5]);
  EXPECT_GT(weighted.distortion.error, equal.distortion.error);
}

// cases.md 8: tails of every kind; the figures are those of the stored matrix.
TEST(Rtn, DistortionIsThatOfTheDequantizedMatrix) {
  for (const std::int64_t cols : {48, 80, 172, 576}) {
    for (const char* name : testing::all_schemes()) {
      const std::vector<float> weights = normal_matrix(5, cols, static_cast<std::uint64_t>(cols));
      const RtnResult result = rtn(weights, 5, cols, name, {});
      ASSERT_TRUE(check_matrix(result.matrix, name).ok()) << name << " " << cols;
      const std::vector<float> back = dequantize(result.matrix);
      double error = 0.0;
      for (std::size_t i = 0; i < back.size(); ++i) {
        const double d = static_cast<double>(weights[i]) - static_cast<double>(back[i]);
        error += d * d;
      }
      EXPECT_NEAR(result.distortion.error, error, 1e-9 * error) << name << " " << cols;
    }
  }
}

TEST(Rtn, ThreadCountDoesNotChangeAByte) {
  const std::vector<float> weights = normal_matrix(150, 172, 11);
  const std::vector<float> importance(172, 1.0f);
  std::vector<QuantizedMatrix> results;
  std::vector<double> errors;
  for (const int threads : {1, 2, 5}) {
    ThreadPool pool(threads);
    auto result =
        quantize_rtn({"w", weights, 150, 172, importance}, scheme_of("seq3-g64-u8-k4"), pool);
    ASSERT_TRUE(result.ok());
    errors.push_back(result.value().distortion.error);
    results.push_back(std::move(result).value().matrix);
  }
  for (std::size_t i = 1; i < results.size(); ++i) {
    EXPECT_EQ(results[i].codes, results[0].codes);
    EXPECT_EQ(results[i].row_scales, results[0].row_scales);
    EXPECT_EQ(results[i].u8_scales, results[0].u8_scales);
    EXPECT_EQ(results[i].kept_values, results[0].kept_values);
    EXPECT_EQ(errors[i], errors[0]);
  }
}

// A two-level group of +-v has the half scale v / 1 (SEQ 1 bit: level +-1): 65504 is the largest
// f16.
TEST(Rtn, AnF16ScaleThatWouldBeClippedIsAnError) {
  ThreadPool pool(1);
  const auto run = [&pool](float magnitude) {
    std::vector<float> weights(2 * 64, 1.0f);
    for (std::size_t i = 64; i < 128; ++i) weights[i] = i % 2 == 0 ? magnitude : -magnitude;
    return quantize_rtn({"w", weights, 2, 64, {}}, scheme_of("seq1-g64-f16"), pool);
  };
  EXPECT_TRUE(run(60000.0f).ok());
  const auto clipped = run(70000.0f);
  ASSERT_FALSE(clipped.ok());
  EXPECT_EQ(clipped.error().code, ErrorCode::kInvalidArgument);
  EXPECT_NE(to_string(clipped.error()).find("row 1, group 0"), std::string::npos);
}

TEST(Rtn, GivenKeptColumnsAreChecked) {
  ThreadPool pool(1);
  const std::vector<float> weights = normal_matrix(4, 64, 5);
  const auto run = [&](std::vector<std::uint16_t> kept) {
    return quantize_rtn_kept({"w", weights, 4, 64, {}}, scheme_of("seq2-g64-u8-k2"),
                             std::move(kept), pool);
  };
  EXPECT_TRUE(run({3, 63}).ok());
  for (const auto& kept :
       std::vector<std::vector<std::uint16_t>>{{64}, {5, 5}, {5, 3}, {1, 2, 3}}) {
    const auto refused = run(kept);
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error().code, ErrorCode::kInvalidArgument);
  }
}

TEST(Rtn, RefusesNonFiniteWeightsAndWrongSizes) {
  ThreadPool pool(1);
  std::vector<float> weights = normal_matrix(2, 64, 12);
  weights[70] = std::numeric_limits<float>::quiet_NaN();
  auto result = quantize_rtn({"layer.w", weights, 2, 64, {}}, scheme_of("seq2-g64-u8"), pool);
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().code, ErrorCode::kNonFinite);
  EXPECT_EQ(result.error().subject, "layer.w");
  EXPECT_NE(result.error().detail.find("row 1, column 6"), std::string::npos);

  weights[70] = 0.0f;
  result = quantize_rtn({"w", weights, 2, 63, {}}, scheme_of("seq2-g64-u8"), pool);
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().code, ErrorCode::kInvalidArgument);

  const std::vector<float> negative(64, -1.0f);
  result = quantize_rtn({"w", weights, 2, 64, negative}, scheme_of("seq2-g64-u8"), pool);
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().code, ErrorCode::kNonFinite);
}

}  // namespace
}  // namespace elastiq
