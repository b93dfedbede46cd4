#include "quantize/kept_columns.h"

#include <gtest/gtest.h>

#include <cmath>

#include "quantize/rtn.h"
#include "tests/support/quantize_data.h"

namespace elastiq {
namespace {

using testing::scheme_of;

// Scores 4, 9, 9, 1, 0: column 1 before 2 by index, the column without error never.
TEST(KeptColumns, LargestScoresWinAndTiesGoToTheLowerColumn) {
  const std::vector<double> error = {4.0, 3.0, 9.0, 0.5, 0.0};
  const std::vector<float> importance = {1.0f, 3.0f, 1.0f, 2.0f, 100.0f};
  EXPECT_EQ(choose_kept_columns(error, importance, 1), (std::vector<std::uint16_t>{1}));
  EXPECT_EQ(choose_kept_columns(error, importance, 2), (std::vector<std::uint16_t>{1, 2}));
  EXPECT_EQ(choose_kept_columns(error, importance, 3), (std::vector<std::uint16_t>{0, 1, 2}));
  EXPECT_EQ(choose_kept_columns(error, importance, 9), (std::vector<std::uint16_t>{0, 1, 2, 3}));
  EXPECT_TRUE(choose_kept_columns(error, importance, 0).empty());
}

TEST(KeptColumns, AtMostAQuarterOfTheColumns) {
  EXPECT_EQ(kept_limit(scheme_of("seq2-g64-u8-k8"), 576), 8);
  EXPECT_EQ(kept_limit(scheme_of("seq2-g64-u8-k64"), 48), 12);
  EXPECT_EQ(kept_limit(scheme_of("seq2-g64-u8"), 48), 0);
}

TEST(KeptColumns, MultiplesOfOneStepAreStoredExactly) {
  std::vector<std::int8_t> values(4);
  // 127 * 0.5 and smaller multiples of 0.5.
  const float scale = quantize_kept_column(std::vector<double>{63.5, -1.0, 0.5, 0.0}, values);
  EXPECT_EQ(scale, 0.5f);
  EXPECT_EQ(values, (std::vector<std::int8_t>{127, -2, 1, 0}));
}

TEST(KeptColumns, ZeroColumnHasTheSmallestScale) {
  std::vector<std::int8_t> values(3, 7);
  EXPECT_EQ(quantize_kept_column(std::vector<double>(3, 0.0), values), 0x1p-126f);
  EXPECT_EQ(values, (std::vector<std::int8_t>{0, 0, 0}));
}

// Two columns with tiny weights and enormous inputs: no grid without a zero level can hold them
// (numerics-and-quality.md 10.1). They are found, leave their groups and almost all error goes.
TEST(KeptColumns, PlantedOutliersAreFoundAndRepaired) {
  constexpr std::int64_t kRows = 48;
  constexpr std::int64_t kCols = 192;
  std::vector<float> weights = testing::normal_matrix(kRows, kCols, 21);
  std::vector<float> importance(kCols, 1.0f);
  for (const std::size_t column : {std::size_t{7}, std::size_t{150}}) {
    importance[column] = 1e4f;
    for (std::size_t r = 0; r < kRows; ++r) weights[r * kCols + column] *= 0.02f;
  }
  ThreadPool pool(2);
  const MatrixInput input{"w", weights, kRows, kCols, importance};
  const auto none = quantize_rtn(input, scheme_of("seq3-g64-u8"), pool);
  const auto two = quantize_rtn(input, scheme_of("seq3-g64-u8-k2"), pool);
  ASSERT_TRUE(none.ok() && two.ok());
  EXPECT_EQ(two.value().matrix.kept_index, (std::vector<std::uint16_t>{7, 150}));
  EXPECT_LT(two.value().distortion.weighted_error, 0.2 * none.value().distortion.weighted_error);
  // int8 with a searched scale: relative error of a normal column is about 1e-4.
  double energy = 0.0;
  for (std::size_t r = 0; r < kRows; ++r) {
    energy += std::pow(static_cast<double>(weights[r * kCols + 7]), 2);
    EXPECT_EQ(two.value().matrix.codes[r * kCols + 7], 0);
  }
  EXPECT_LT(two.value().column_error[7], 2e-4 * energy);
}

}  // namespace
}  // namespace elastiq
