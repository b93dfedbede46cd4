#include "quantize/level_grid.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "core/rng.h"
#include "tests/support/quantize_data.h"

namespace elastiq {
namespace {

using testing::scheme_of;

std::vector<int> codes_of(const char* scheme, const std::vector<float>& weights) {
  const LevelGrid grid = level_grid(scheme_of(scheme));
  std::vector<std::uint8_t> codes(weights.size());
  encode_group(weights, {0.5f, 1}, grid, codes);  // step 1
  return {codes.begin(), codes.end()};
}

// Levels -1.5, -0.5, 0.5, 1.5 are codes 0 to 3; their indices -2, -1, 0, 1, so ties at -1, 0 and 1
// go to -1.5, 0.5 and 0.5.
TEST(LevelGrid, SeqTwoBitCodesTiesAndEdges) {
  EXPECT_EQ(codes_of("seq2-g64-u8", {-9, -2.5f, -1.5f, -1, -0.5f, -0.0f, 0, 0.5f, 1, 1.5f, 9}),
            (std::vector<int>{0, 0, 0, 0, 1, 2, 2, 2, 2, 3, 3}));
}

TEST(LevelGrid, SeqOneBitIsTheSignWithZeroPositive) {
  EXPECT_EQ(codes_of("seq1-g64-u8", {-3, -0.25f, -0.0f, 0, 0.25f, 3}),
            (std::vector<int>{0, 0, 1, 1, 1, 1}));
}

// Levels -1, 0, 1: the ties at +-0.5 go to 0, whose index is even.
TEST(LevelGrid, TernaryTiesGoToZero) {
  EXPECT_EQ(codes_of("ternary-g64-u8", {-2, -1, -0.5f, -0.0f, 0, 0.5f, 0.75f, 1, 2}),
            (std::vector<int>{0, 0, 1, 1, 1, 1, 2, 2, 2}));
}

// Integers -4..3 are codes 0..7; half-way values go to the even integer.
TEST(LevelGrid, SymmetricThreeBitRoundsHalfToEven) {
  EXPECT_EQ(codes_of("sym3-g64-u8", {-9, -4.5f, -4, -1.5f, -0.5f, 0, 0.5f, 1.5f, 2.5f, 3, 3.5f, 9}),
            (std::vector<int>{0, 0, 0, 2, 4, 4, 4, 6, 6, 7, 7, 7}));
}

// Levels -3.5..3.5; ties at the integers go to the even index n = code - 4.
TEST(LevelGrid, SeqThreeBitTies) {
  EXPECT_EQ(codes_of("seq3-g64-u8", {-5, -3, -2, -1, 0, 1, 2, 3, 5}),
            (std::vector<int>{0, 0, 2, 2, 4, 4, 6, 6, 7}));
}

// Against a search over all codes in the arithmetic of dequantize_row.
TEST(LevelGrid, CodesAreTheNearestValuesOfTheVeryDequantizer) {
  Rng rng(5);
  for (const char* name : testing::all_schemes()) {
    const LevelGrid grid = level_grid(scheme_of(name));
    for (int i = 0; i < 20000; ++i) {
      const GroupScale scale = {static_cast<float>(std::exp(4.0 * rng.normal())),
                                static_cast<int>(1 + rng.below(255))};
      // Every other weight sits on or beside a midpoint, where the guess may be off.
      const int code = static_cast<int>(rng.below(static_cast<std::uint64_t>(grid.codes)));
      float weight = scale.base * static_cast<float>(scale.multiplier) *
                     static_cast<float>(grid.largest * rng.normal());
      if (i % 2 == 0)
        weight = level_value(scale, grid, code) + scale.base * static_cast<float>(scale.multiplier);
      int best = 0;
      for (int c = 1; c < grid.codes; ++c) {
        const float d = std::fabs(weight - level_value(scale, grid, c));
        const float least = std::fabs(weight - level_value(scale, grid, best));
        const bool even = (c - grid.zero) % 2 == 0;
        if (d < least || (d == least && even)) best = c;
      }
      ASSERT_EQ(encode_weight(weight, scale, grid), best) << name << " weight " << weight;
    }
  }
}

TEST(LevelGrid, SmallestScaleStillEncodes) {
  const LevelGrid grid = level_grid(scheme_of("seq2-row"));
  EXPECT_EQ(encode_weight(3.0f, {0x1p-126f, 1}, grid), 3);
  EXPECT_EQ(encode_weight(-3e38f, {0x1p-126f, 1}, grid), 0);
  EXPECT_EQ(encode_weight(0.0f, {0x1p-126f, 1}, grid), 2);
}

}  // namespace
}  // namespace elastiq
