#include "core/quantized_matrix.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>
#include <vector>

#include "core/float_bits.h"
#include "core/rng.h"
#include "kernels/elq_kernels.h"
#include "tests/support/expect_error.h"

namespace elastiq {
namespace {

using testing::accepted;
using testing::refused;

QuantizedMatrix random_matrix(const Scheme& scheme, std::int64_t rows, std::int64_t cols) {
  Rng rng(7);
  QuantizedMatrix m;
  m.scheme = scheme;
  m.rows = rows;
  m.cols = cols;
  const auto codes = static_cast<std::uint64_t>(scheme_codes(scheme));
  for (std::int64_t i = 0; i < rows * cols; ++i) {
    m.codes.push_back(static_cast<std::uint8_t>(rng.below(codes)));
  }
  const std::int64_t scales = rows * m.groups();
  const auto positive = [&] { return static_cast<float>(0.001 + rng.uniform()); };
  if (scheme.scale == ScaleMode::kF16) {
    for (std::int64_t i = 0; i < scales; ++i) m.f16_scales.push_back(f32_to_f16(positive()));
  } else {
    for (std::int64_t i = 0; i < rows; ++i) m.row_scales.push_back(positive());
  }
  if (scheme.scale == ScaleMode::kU8) {
    const auto most = static_cast<std::uint64_t>(max_u8_scale(scheme, cols));
    for (std::int64_t i = 0; i < scales; ++i) {
      m.u8_scales.push_back(static_cast<std::uint8_t>(1 + rng.below(most)));
    }
  }
  for (int k = 0; k < scheme.kept_columns; ++k) {
    const std::int64_t column = 1 + 3 * k;
    m.kept_index.push_back(static_cast<std::uint16_t>(column));
    m.kept_scales.push_back(positive());
    for (std::int64_t row = 0; row < rows; ++row) {
      m.kept_values.push_back(static_cast<std::int8_t>(static_cast<int>(rng.below(255)) - 127));
      m.codes[static_cast<std::size_t>(row * cols + column)] = 0;
    }
  }
  return m;
}

Scheme scheme_of(const char* name) {
  return parse_scheme(name).value();
}

TEST(QuantizedMatrixTest, WeightsByHand) {
  QuantizedMatrix m;
  m.scheme = scheme_of("seq2-g32-u8-k1");
  m.rows = 1;
  m.cols = 40;  // a group of 32 and one of 8
  m.codes.assign(40, 0);
  m.codes[1] = 1;
  m.codes[2] = 2;
  m.codes[39] = 3;
  m.row_scales = {0.25f};
  m.u8_scales = {10, 4};
  m.kept_index = {5};
  m.kept_scales = {0.5f};
  m.kept_values = {-7};
  ASSERT_TRUE(accepted(check_matrix(m, "m")));
  EXPECT_EQ(m.groups(), 2);
  const std::vector<float> w = dequantize(m);
  EXPECT_EQ(w[0], -7.5f);   // 0.25 * (10 * -3)
  EXPECT_EQ(w[1], -2.5f);   // 0.25 * (10 * -1)
  EXPECT_EQ(w[2], 2.5f);    // 0.25 * (10 * 1)
  EXPECT_EQ(w[39], 3.0f);   // 0.25 * (4 * 3)
  EXPECT_EQ(w[32], -3.0f);  // 0.25 * (4 * -3)
  EXPECT_EQ(w[5], -3.5f);   // kept: 0.5 * -7
  m.scheme = scheme_of("ternary-g32-f16");
  m.codes.assign(40, 2);
  m.row_scales.clear();
  m.u8_scales.clear();
  m.kept_index.clear();
  m.kept_scales.clear();
  m.kept_values.clear();
  m.f16_scales = {0x3800, 0x0001};  // 0.5 and 2^-24
  EXPECT_EQ(dequantize(m)[0], 1.0f);
  EXPECT_EQ(dequantize(m)[39], std::ldexp(2.0f, -24));
}

TEST(QuantizedMatrixTest, RowScaleRoundsOnce) {
  QuantizedMatrix m;
  m.scheme = scheme_of("sym8-row");
  m.rows = 1;
  m.cols = 2;
  m.codes = {255, 0};
  m.row_scales = {0.1f};
  const std::vector<float> w = dequantize(m);
  EXPECT_EQ(w[0], static_cast<float>(static_cast<double>(0.1f) * 254.0));
  EXPECT_EQ(w[1], static_cast<float>(static_cast<double>(0.1f) * -256.0));
}

/// The C packer's sizes and weights are the other definition of the same thing.
TEST(QuantizedMatrixTest, AgreesWithTheCKernelsBitForBit) {
  using Shape = std::pair<std::int64_t, std::int64_t>;
  const std::array shapes = {Shape{1, 17}, Shape{19, 172}, Shape{33, 576}};
  for (const char* name :
       {"seq1-g32-u8", "seq2-g64-u8-k4", "seq3-g128-f16-k2", "seq4-g256-u8", "ternary-g64-u8",
        "ternary-g256-f16", "sym3-row-k3", "sym4-row", "sym8-g32-u8", "sym8-g64-f16-k1"}) {
    for (const auto& [rows, cols] : shapes) {
      const Scheme scheme = scheme_of(name);
      const QuantizedMatrix m = random_matrix(scheme, rows, cols);
      ASSERT_TRUE(accepted(check_matrix(m, name)));
      elq_matrix packed;
      ASSERT_EQ(
          elq_matrix_init(&packed, static_cast<std::uint32_t>(rows),
                          static_cast<std::uint32_t>(cols), static_cast<std::uint32_t>(scheme.bits),
                          static_cast<std::uint32_t>(scheme.scale),
                          static_cast<std::uint32_t>(scheme_z2(scheme)),
                          static_cast<std::uint32_t>(scheme.group),
                          static_cast<std::uint32_t>(m.kept_index.size())),
          0);
      const MatrixBytes bytes =
          packed_bytes(scheme, rows, cols, static_cast<std::int64_t>(m.kept_index.size()));
      EXPECT_EQ(bytes.codes + bytes.scales + bytes.kept, elq_matrix_bytes(&packed)) << name;
      EXPECT_EQ(bytes.codes + bytes.scales, elq_matrix_panel_bytes(&packed)) << name;
      std::vector<std::uint8_t> storage(elq_matrix_bytes(&packed) + 64);
      std::uint8_t* image =
          storage.data() + (64 - reinterpret_cast<std::uintptr_t>(storage.data()) % 64) % 64;
      const elq_pack_source source = {
          m.codes.data(),      m.row_scales.data(),  m.u8_scales.data(),  m.f16_scales.data(),
          m.kept_index.data(), m.kept_scales.data(), m.kept_values.data()};
      elq_pack(&packed, &source, image);
      elq_matrix_bind(&packed, image);
      std::vector<float> ours(static_cast<std::size_t>(cols));
      std::vector<float> theirs(static_cast<std::size_t>(cols));
      for (std::int64_t row = 0; row < rows; ++row) {
        dequantize_row(m, row, ours);
        elq_dequantize_row(&packed, static_cast<std::uint32_t>(row), theirs.data());
        ASSERT_EQ(std::memcmp(ours.data(), theirs.data(), ours.size() * 4), 0) << name << row;
      }
    }
  }
}

TEST(QuantizedMatrixTest, LargestU8ScaleByHand) {
  // 255 * 3 * 127 * 576 = 55,961,280 fits.
  EXPECT_EQ(max_u8_scale(scheme_of("seq2-g64-u8"), 576), 255);
  // 2147483647 / (256 * 127 * 576) = 114.67
  EXPECT_EQ(max_u8_scale(scheme_of("sym8-g64-u8"), 576), 114);
  // 172 columns count as 192: 2147483647 / (256 * 127 * 192) = 344.02
  EXPECT_EQ(max_u8_scale(scheme_of("sym8-g64-u8"), 172), 255);
  // 18944 columns: 2147483647 / (15 * 127 * 18944) = 59.50
  EXPECT_EQ(max_u8_scale(scheme_of("seq4-g64-u8"), 18944), 59);
  // Ternary counts the unused code 3, as the package reader does: 2147483647 / (4 * 127 * 18944).
  EXPECT_EQ(max_u8_scale(scheme_of("ternary-g64-u8"), 18944), 223);
  // 66,048 columns * 256 * 127 = 2,147,352,576: one more group of 32 is too many.
  EXPECT_EQ(max_u8_scale(scheme_of("sym8-row"), 66048), 1);
  EXPECT_EQ(max_u8_scale(scheme_of("sym8-row"), 66049), 0);
}

TEST(QuantizedMatrixTest, PackedBytesByHand) {
  // 17 rows -> 32, 172 columns -> 192, 3 groups of 64 in one superblock of the panel.
  MatrixBytes bytes = packed_bytes(scheme_of("seq2-g64-u8-k8"), 17, 172, 8);
  EXPECT_EQ(bytes.codes, 32u * 192 / 4);
  EXPECT_EQ(bytes.scales, 2u * (64 + 64));  // two panels: row line and one scale line
  EXPECT_EQ(bytes.kept, 64u + 64 + 8 * 32);
  bytes = packed_bytes(scheme_of("seq3-g32-f16"), 16, 160, 0);
  EXPECT_EQ(bytes.codes, 16u * 160 * 3 / 8);
  EXPECT_EQ(bytes.scales, 3u * 64);  // 5 groups, two per line, no row line
  EXPECT_EQ(bytes.kept, 0u);
  bytes = packed_bytes(scheme_of("sym4-row"), 16, 32, 0);
  EXPECT_EQ(bytes.scales, 64u);
}

TEST(CheckMatrix, SizesAndCodes) {
  const QuantizedMatrix good = random_matrix(scheme_of("ternary-g32-u8-k2"), 4, 40);
  ASSERT_TRUE(accepted(check_matrix(good, "w")));
  QuantizedMatrix m = good;
  m.codes[40 * 2 + 7] = 3;  // column 7 of row 2; the code fits two bits but not three levels
  EXPECT_TRUE(refused(check_matrix(m, "w"), ErrorCode::kInconsistent,
                      {"w", "code 3 at row 2, column 7", "at most 2"}));
  m = good;
  m.codes.pop_back();
  EXPECT_TRUE(refused(check_matrix(m, "w"), ErrorCode::kInconsistent, {"codes", "159", "160"}));
  m = good;
  m.row_scales.push_back(1.0f);
  EXPECT_TRUE(refused(check_matrix(m, "w"), ErrorCode::kInconsistent, {"row_scales"}));
  m = good;
  m.f16_scales.push_back(0);
  EXPECT_TRUE(refused(check_matrix(m, "w"), ErrorCode::kInconsistent, {"f16_scales"}));
  m = good;
  m.rows = 0;
  EXPECT_TRUE(refused(check_matrix(m, "w"), ErrorCode::kInconsistent, {"shape"}));
  m = good;
  m.scheme.group = 33;
  EXPECT_TRUE(refused(check_matrix(m, "w"), ErrorCode::kInconsistent, {"33"}));
}

TEST(CheckMatrix, Scales) {
  const QuantizedMatrix good = random_matrix(scheme_of("sym8-g64-u8"), 3, 576);
  QuantizedMatrix m = good;
  m.u8_scales[9 + 4] = 115;  // row 1, group 4
  EXPECT_TRUE(refused(check_matrix(m, "w"), ErrorCode::kInconsistent,
                      {"u8 scale 115 at row 1, group 4", "at most 114"}));
  m = good;
  m.row_scales[2] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_TRUE(refused(check_matrix(m, "w"), ErrorCode::kNonFinite, {"row 2"}));
  m.row_scales[2] = -1.0f;
  EXPECT_TRUE(refused(check_matrix(m, "w"), ErrorCode::kInconsistent, {"negative"}));
  m.row_scales[2] = 0.0f;
  EXPECT_TRUE(refused(check_matrix(m, "w"), ErrorCode::kInconsistent, {"row 2 is 0"}));
  std::fill(m.u8_scales.begin() + 18, m.u8_scales.end(), std::uint8_t{0});
  EXPECT_TRUE(accepted(check_matrix(m, "w")));  // no group uses it
  QuantizedMatrix half = random_matrix(scheme_of("seq2-g64-f16"), 3, 130);
  half.f16_scales[5] = 0x7c00;
  EXPECT_TRUE(refused(check_matrix(half, "w"), ErrorCode::kNonFinite, {"row 1, group 2"}));
  const QuantizedMatrix wide = random_matrix(scheme_of("sym8-row"), 1, 66049);
  EXPECT_TRUE(refused(check_matrix(wide, "w"), ErrorCode::kInconsistent, {"66049"}));
}

TEST(CheckMatrix, KeptColumns) {
  const QuantizedMatrix good = random_matrix(scheme_of("seq2-g32-u8-k3"), 4, 40);
  ASSERT_TRUE(accepted(check_matrix(good, "w")));
  QuantizedMatrix m = good;
  m.kept_index = {4, 4, 7};
  EXPECT_TRUE(refused(check_matrix(m, "w"), ErrorCode::kInconsistent, {"out of order"}));
  m.kept_index = {1, 4, 40};
  EXPECT_TRUE(refused(check_matrix(m, "w"), ErrorCode::kInconsistent, {"kept index 40"}));
  m = good;
  m.codes[40 * 3 + 4] = 1;
  EXPECT_TRUE(refused(check_matrix(m, "w"), ErrorCode::kInconsistent, {"row 3, column 4"}));
  m = good;
  m.kept_scales[1] = std::numeric_limits<float>::infinity();
  EXPECT_TRUE(refused(check_matrix(m, "w"), ErrorCode::kNonFinite, {"kept column 4"}));
  m = good;
  m.scheme.kept_columns = 2;
  EXPECT_TRUE(refused(check_matrix(m, "w"), ErrorCode::kInconsistent, {"3 kept", "at most 2"}));
  m = good;
  m.kept_values.pop_back();
  EXPECT_TRUE(refused(check_matrix(m, "w"), ErrorCode::kInconsistent, {"kept_values"}));
  // A quarter of 8 columns is 2.
  const QuantizedMatrix narrow = random_matrix(scheme_of("seq2-g32-u8-k3"), 4, 8);
  EXPECT_TRUE(refused(check_matrix(narrow, "w"), ErrorCode::kInconsistent, {"at most 2"}));
}

}  // namespace
}  // namespace elastiq
