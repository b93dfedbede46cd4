#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <vector>

#include "tests/support/kernel_data.h"

namespace elastiq::testing {
namespace {

// One row scale line in front, then code lines: the offsets below are from the panel's start.
constexpr size_t kCodes = 64;

PackedTensor single_code(uint32_t bits, uint32_t row, uint32_t col, uint8_t code) {
  PackedTensor t;
  EXPECT_EQ(elq_matrix_init(&t.m, 16, 32, bits, ELQ_SCALE_ROW, (1u << bits) - 1, 0, 0), 0);
  t.codes.assign(16 * 32, 0);
  t.codes[row * 32 + col] = code;
  t.row_scales.assign(16, 0.0f);
  pack(t);
  return t;
}

// The only code byte that differs from an all-zero matrix, and its value.
std::pair<size_t, int> only_byte(const PackedTensor& t, uint8_t empty) {
  std::pair<size_t, int> found = {0, -1};
  for (size_t i = kCodes; i < t.bytes.size(); ++i) {
    if (t.bytes.data()[i] == empty) continue;
    EXPECT_EQ(found.second, -1) << "second byte at " << i;
    found = {i - kCodes, t.bytes.data()[i]};
  }
  return found;
}

using Place = std::pair<size_t, int>;

TEST(Pack, OneBitCodeIsBitPOfByte4rPlusJ) {
  // Column 22 = 4 * 5 + 2: bit 5 of byte 4 * 3 + 2 in row 3.
  EXPECT_EQ(only_byte(single_code(1, 3, 22, 1), 0), Place(14, 0x20));
}

TEST(Pack, TwoBitCodeIsInLineOfSixteenColumns) {
  // Column 23 = 16 + 4 * 1 + 3: line 1, bits 3..2 of byte 4 * 5 + 3 in row 5. Code 2 is binary 10.
  EXPECT_EQ(only_byte(single_code(2, 5, 23, 2), 0), Place(64 + 23, 0x08));
}

TEST(Pack, ThreeBitCodeIsLowPairPlusHighBitLine) {
  // Column 30 = 16 + 4 * 3 + 2: low bits in L1 at bits 7..6; high bit in H at bit 30 / 4 = 7.
  // Row 1.
  EXPECT_EQ(only_byte(single_code(3, 1, 30, 3), 0), Place(64 + 6, 0xc0));
  EXPECT_EQ(only_byte(single_code(3, 1, 30, 4), 0), Place(128 + 6, 0x80));
}

TEST(Pack, FourBitCodeIsNibbleOfLineOfEightColumns) {
  // Column 13 = 8 + 4 + 1: line 1, high nibble of byte 4 * 15 + 1. Column 9: low nibble of the same
  // byte.
  EXPECT_EQ(only_byte(single_code(4, 15, 13, 9), 0), Place(64 + 61, 0x90));
  EXPECT_EQ(only_byte(single_code(4, 15, 9, 9), 0), Place(64 + 61, 0x09));
}

TEST(Pack, EightBitCodeIsFlippedAndZeroIs0x80) {
  // Column 31 = 4 * 7 + 3: line 7, byte 4 * 2 + 3. 200 ^ 128 = 72.
  EXPECT_EQ(only_byte(single_code(8, 2, 31, 200), 0x80), Place(7 * 64 + 11, 72));
}

TEST(Pack, SizesFollowTheClosedFormula) {
  elq_matrix m;
  // 576 columns in 9 groups of 64: 36 code lines, 3 scale lines (4 + 4 + 1 groups), 1 row-scale
  // line.
  ASSERT_EQ(elq_matrix_init(&m, 20, 576, 2, ELQ_SCALE_U8, 3, 64, 3), 0);
  EXPECT_EQ(m.panel_bytes, 40u * 64);
  EXPECT_EQ(elq_matrix_panel_bytes(&m), 2u * 40 * 64);
  EXPECT_EQ(elq_matrix_kept_offset(&m), 2u * 40 * 64);
  // Kept: indices 6 -> 64 bytes, scales 12 -> 64, values 3 * 32 = 96 -> 128.
  EXPECT_EQ(elq_matrix_bytes(&m), 2u * 40 * 64 + 64 + 64 + 128);
  // F16, 44 columns -> 64 padded, 2 groups: 3 * 2 code lines and one scale line.
  ASSERT_EQ(elq_matrix_init(&m, 16, 44, 3, ELQ_SCALE_F16, 7, 32, 0), 0);
  EXPECT_EQ(elq_matrix_bytes(&m), 7u * 64);
  // ROW: one row-scale line and eight lines per 32 columns.
  ASSERT_EQ(elq_matrix_init(&m, 1, 1, 8, ELQ_SCALE_ROW, 256, 0, 0), 0);
  EXPECT_EQ(elq_matrix_bytes(&m), 9u * 64);
}

TEST(Pack, RefusesValuesOutsideTheClosedLists) {
  elq_matrix m;
  EXPECT_NE(elq_matrix_init(&m, 16, 32, 5, ELQ_SCALE_U8, 31, 64, 0), 0);
  EXPECT_NE(elq_matrix_init(&m, 16, 32, 2, 0, 3, 64, 0), 0);
  EXPECT_NE(elq_matrix_init(&m, 16, 32, 2, 4, 3, 64, 0), 0);
  EXPECT_NE(elq_matrix_init(&m, 16, 32, 2, ELQ_SCALE_U8, 3, 48, 0), 0);
  EXPECT_NE(elq_matrix_init(&m, 16, 32, 2, ELQ_SCALE_U8, 5, 64, 0), 0);
  EXPECT_NE(elq_matrix_init(&m, 16, 32, 2, ELQ_SCALE_ROW, 3, 64, 0), 0);
  EXPECT_NE(elq_matrix_init(&m, 0, 32, 2, ELQ_SCALE_U8, 3, 64, 0), 0);
  EXPECT_NE(elq_matrix_init(&m, 16, 0, 2, ELQ_SCALE_U8, 3, 64, 0), 0);
  EXPECT_NE(elq_matrix_init(&m, 16, 100, 2, ELQ_SCALE_U8, 3, 64, 65), 0);
  EXPECT_NE(elq_matrix_init(&m, 0x7fffffff, 0x7fffffff, 2, ELQ_SCALE_U8, 3, 64, 0), 0);
  // 255 * 127 * 66336 is just above 2^31 - 1; one unit of 32 columns less is below.
  EXPECT_NE(elq_matrix_init(&m, 16, 66336, 8, ELQ_SCALE_ROW, 255, 0, 0), 0);
  EXPECT_EQ(elq_matrix_init(&m, 16, 66304, 8, ELQ_SCALE_ROW, 255, 0, 0), 0);
}

TEST(Pack, CodesAndWeightsComeBack) {
  Random random(1);
  for (const uint32_t bits : {1u, 2u, 3u, 4u, 8u}) {
    for (const uint32_t mode : {1u, 2u, 3u}) {
      for (const uint32_t cols : {1u, 31u, 33u, 172u, 576u}) {
        const Scheme scheme = {bits, mode, (1u << bits) - 1, mode == ELQ_SCALE_ROW ? 0u : 64u, 4};
        const PackedTensor t = random_packed(random, 19, cols, scheme, 1.0f);
        std::vector<uint8_t> codes(cols);
        std::vector<float> weights(cols);
        for (uint32_t row = 0; row < 19; ++row) {
          elq_unpack_codes(&t.m, row, codes.data());
          elq_dequantize_row(&t.m, row, weights.data());
          for (uint32_t c = 0; c < cols; ++c) {
            EXPECT_EQ(codes[c], t.is_kept(c) ? 0 : t.codes[row * cols + c]);
            // Both factors are float32 and the rest is an exact integer: rounded once.
            EXPECT_EQ(weights[c], static_cast<float>(t.weight(row, c)));
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace elastiq::testing
