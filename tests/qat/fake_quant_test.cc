#include "qat/fake_quant.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "core/float_bits.h"
#include "core/rng.h"
#include "core/thread_pool.h"
#include "quantize/level_grid.h"
#include "quantize/rtn.h"
#include "tests/support/expect_error.h"

namespace elastiq {
namespace {

using testing::accepted;
using testing::refused;

constexpr std::int64_t kRows = 19;
constexpr std::int64_t kCols = 172;  // A tail at every group size.

std::vector<float> random_weights(std::uint64_t seed, std::int64_t n) {
  Rng rng(seed);
  std::vector<float> weights;
  for (std::int64_t i = 0; i < n; ++i) weights.push_back(static_cast<float>(0.05 * rng.normal()));
  return weights;
}

QuantizedMatrix rtn(const std::string& scheme_name, const std::vector<float>& weights,
                    std::int64_t rows, std::int64_t cols) {
  const auto scheme = parse_scheme(scheme_name);
  EXPECT_TRUE(accepted(scheme));
  ThreadPool pool(1);
  const MatrixInput input{"w", weights, rows, cols, {}};
  auto result = quantize_rtn(input, scheme.value(), pool);
  EXPECT_TRUE(accepted(result));
  return std::move(result).value().matrix;
}

QuantParameters trained(const QuantizedMatrix& matrix) {
  auto parameters = quant_parameters(matrix, "w");
  EXPECT_TRUE(accepted(parameters));
  return std::move(parameters).value();
}

torch::Tensor forward(QuantParameters& p) {
  std::int64_t flips = 0;
  return fake_quantize(p, &flips);
}

/// Index of the first value whose bits differ, or -1.
std::int64_t first_difference(const torch::Tensor& found, const std::vector<float>& expected) {
  const float* values = found.data_ptr<float>();
  for (std::size_t i = 0; i < expected.size(); ++i) {
    if (std::bit_cast<std::uint32_t>(values[i]) != std::bit_cast<std::uint32_t>(expected[i])) {
      return static_cast<std::int64_t>(i);
    }
  }
  return -1;
}

void expect_same(const QuantizedMatrix& a, const QuantizedMatrix& b) {
  EXPECT_EQ(a.codes, b.codes);
  EXPECT_EQ(a.row_scales, b.row_scales);
  EXPECT_EQ(a.u8_scales, b.u8_scales);
  EXPECT_EQ(a.f16_scales, b.f16_scales);
  EXPECT_EQ(a.kept_index, b.kept_index);
  EXPECT_EQ(a.kept_scales, b.kept_scales);
  EXPECT_EQ(a.kept_values, b.kept_values);
}

void perturb(const torch::Tensor& tensor, double amount, Rng& rng) {
  float* values = tensor.data_ptr<float>();
  for (std::int64_t i = 0; i < tensor.numel(); ++i) {
    values[i] += static_cast<float>(amount * rng.normal());
  }
}

class EveryScheme : public ::testing::TestWithParam<const char*> {};

TEST_P(EveryScheme, StartsAtTheSourceByteForByte) {
  const std::vector<float> weights = random_weights(1, kRows * kCols);
  const QuantizedMatrix matrix = rtn(GetParam(), weights, kRows, kCols);
  QuantParameters p = trained(matrix);
  EXPECT_EQ(first_difference(forward(p), dequantize(matrix)), -1);
  expect_same(to_quantized_matrix(p), matrix);

  ASSERT_TRUE(accepted(add_latent(p, weights, 0.03f, "w")));
  std::int64_t flips = 0;
  EXPECT_EQ(first_difference(fake_quantize(p, &flips), dequantize(matrix)), -1);
  EXPECT_EQ(flips, 0);
  expect_same(to_quantized_matrix(p), matrix);
}

TEST_P(EveryScheme, LatentsOfForeignWeightsKeepTheCodes) {
  const QuantizedMatrix matrix = rtn(GetParam(), random_weights(1, kRows * kCols), kRows, kCols);
  // Most foreign weights lie outside their code's bin and are put beside its edge.
  for (const float margin : {0.0f, 1e-9f, 0.01f, 0.5f}) {
    SCOPED_TRACE(margin);
    QuantParameters p = trained(matrix);
    ASSERT_TRUE(accepted(add_latent(p, random_weights(2, kRows * kCols), margin, "w")));
    EXPECT_EQ(first_difference(forward(p), dequantize(matrix)), -1);
  }
  QuantParameters p = trained(matrix);
  EXPECT_TRUE(refused(add_latent(p, random_weights(2, kRows * kCols), 0.6f, "w"),
                      ErrorCode::kInvalidArgument, {"0.6"}));
  EXPECT_TRUE(refused(add_latent(p, random_weights(2, kCols), 0.1f, "w"),
                      ErrorCode::kInvalidArgument, {"weights"}));
}

TEST_P(EveryScheme, TrainedValuesAreWhatThePackerStores) {
  const std::vector<float> weights = random_weights(3, kRows * kCols);
  QuantParameters p = trained(rtn(GetParam(), weights, kRows, kCols));
  ASSERT_TRUE(accepted(add_latent(p, weights, 0.03f, "w")));
  Rng rng(4);
  {
    torch::NoGradGuard no_grad;
    for (const auto* logs : {&p.row_log, &p.group_log, &p.kept_log}) perturb(*logs, 0.3, rng);
    perturb(p.kept_values, 0.2, rng);
    perturb(p.latent, 1.0, rng);
    // Kept columns keep code 0; the trainer never moves them, as they have no gradient.
    for (const std::uint16_t column : p.kept_index) p.latent.select(1, column).fill_(-1e3f);
  }
  const torch::Tensor values = forward(p);
  const QuantizedMatrix packed = to_quantized_matrix(p);
  EXPECT_TRUE(accepted(check_matrix(packed, "w")));
  EXPECT_EQ(first_difference(values, dequantize(packed)), -1);
}

INSTANTIATE_TEST_SUITE_P(Schemes, EveryScheme,
                         ::testing::Values("seq1-g32-u8", "seq2-g64-u8-k8", "seq2-g64-u8",
                                           "seq2-g128-f16", "seq3-g256-u8-k4", "seq3-row",
                                           "seq4-g32-f16-k8", "ternary-g64-f16",
                                           "ternary-g64-u8-k4", "ternary-row", "sym3-g64-u8-k8",
                                           "sym4-g64-u8", "sym4-row-k2", "sym8-g32-f16-k4",
                                           "sym8-row"));

// ------------------------------------------------------------------ ties and edges (cases.md 31)

struct EdgeCase {
  const char* scheme;
  std::vector<float> latent;
  std::vector<int> codes;  ///< By hand: index to nearest, ties to even, plus zero, clamped.
};

class Edges : public ::testing::TestWithParam<EdgeCase> {};

/// One row of scale 1/8 whose codes are all 0.
QuantParameters plain_row(const std::string& scheme_name, std::int64_t cols) {
  QuantizedMatrix matrix;
  matrix.scheme = parse_scheme(scheme_name).value();
  matrix.rows = 1;
  matrix.cols = cols;
  matrix.codes.assign(static_cast<std::size_t>(cols), 0);
  matrix.row_scales = {0.125f};
  return trained(matrix);
}

TEST_P(Edges, CodesAtTiesAndBeyondTheEnds) {
  const EdgeCase& c = GetParam();
  const auto n = static_cast<std::int64_t>(c.latent.size());
  QuantParameters p = plain_row(c.scheme, n);
  ASSERT_TRUE(accepted(add_latent(p, std::vector<float>(c.latent.size()), 0.01f, "w")));
  std::copy(c.latent.begin(), c.latent.end(), p.latent.data_ptr<float>());
  const torch::Tensor values = forward(p);
  const LevelGrid grid = level_grid(p.scheme);
  for (std::size_t i = 0; i < c.codes.size(); ++i) {
    SCOPED_TRACE(c.latent[i]);
    EXPECT_EQ(p.codes.data_ptr<std::uint8_t>()[i], c.codes[i]);
    const float level = static_cast<float>(2 * c.codes[i] - grid.z2);
    EXPECT_EQ(values.data_ptr<float>()[i], 0.125f * level);
    // The quantizer's own rule on the weight that this latent stands for.
    const float weight =
        0.25f * (c.latent[i] + static_cast<float>(grid.zero) - static_cast<float>(grid.z2) / 2);
    EXPECT_EQ(encode_weight(weight, {0.125f, 1}, grid), c.codes[i]);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Widths, Edges,
    ::testing::Values(
        EdgeCase{"seq1-row", {-9, -1.5f, -1, -0.5f, -0.0f, 0, 0.5f, 9}, {0, 0, 0, 1, 1, 1, 1, 1}},
        EdgeCase{"ternary-row",
                 {-9, -1.5f, -1, -0.5f, -0.0f, 0, 0.5f, 1, 1.5f, 9},
                 {0, 0, 0, 1, 1, 1, 1, 2, 2, 2}},
        EdgeCase{"seq2-row",
                 {-9, -2.5f, -2, -1.5f, -1, -0.5f, -0.0f, 0, 0.5f, 1, 1.5f, 9},
                 {0, 0, 0, 0, 1, 2, 2, 2, 2, 3, 3, 3}},
        EdgeCase{"seq3-row",
                 {-9, -4.5f, -3.5f, -2.5f, -1.5f, -0.5f, 0.5f, 1.5f, 2.5f, 3, 3.5f, 9},
                 {0, 0, 0, 2, 2, 4, 4, 6, 6, 7, 7, 7}},
        EdgeCase{"sym4-row",
                 {-99, -8.5f, -7.5f, -6.5f, -0.5f, -0.0f, 0.5f, 1.5f, 6.5f, 7, 7.5f, 99},
                 {0, 0, 0, 2, 8, 8, 8, 10, 14, 15, 15, 15}},
        EdgeCase{"sym8-row",
                 {-999, -127.5f, -126.5f, 0, 0.5f, 1.5f, 127, 999},
                 {0, 0, 2, 128, 128, 130, 255, 255}}));

// ------------------------------------------------------------------ scales at their limits

TEST(FakeQuant, GroupScalesStopAtTheEndsOfTheirCoding) {
  const std::vector<float> weights = random_weights(5, kRows * kCols);
  for (const char* scheme : {"seq2-g64-u8", "seq2-g64-f16"}) {
    SCOPED_TRACE(scheme);
    QuantParameters p = trained(rtn(scheme, weights, kRows, kCols));
    {
      torch::NoGradGuard no_grad;
      p.group_log.select(1, 0).fill_(-80.0f);
      p.group_log.select(1, 1).fill_(80.0f);
    }
    const QuantizedMatrix packed = to_quantized_matrix(p);
    EXPECT_TRUE(accepted(check_matrix(packed, "w")));
    for (std::size_t row = 0; row < kRows; ++row) {
      const std::size_t at = row * 3;
      if (!packed.u8_scales.empty()) {
        EXPECT_EQ(packed.u8_scales[at], 1);
        EXPECT_EQ(packed.u8_scales[at + 1], 255);
      } else {
        EXPECT_EQ(packed.f16_scales[at], 0x0001);      // 2^-24
        EXPECT_EQ(packed.f16_scales[at + 1], 0x7bff);  // 65504
      }
    }
    EXPECT_EQ(first_difference(forward(p), dequantize(packed)), -1);
  }
}

TEST(FakeQuant, AScaleOfZeroStaysZero) {
  QuantizedMatrix matrix = rtn("sym4-g64-u8", random_weights(6, kRows * kCols), kRows, kCols);
  matrix.u8_scales[0] = 0;
  QuantParameters p = trained(matrix);
  torch::Tensor values = forward(p);
  values.sum().backward();
  EXPECT_EQ(p.group_log.grad().data_ptr<float>()[0], 0.0f);
  p.group_log.data_ptr<float>()[0] = 3.0f;
  EXPECT_EQ(to_quantized_matrix(p).u8_scales[0], 0);
  EXPECT_EQ(forward(p).data_ptr<float>()[0], 0.0f);
}

TEST(FakeQuant, RowScalesStayPositiveAndFinite) {
  QuantParameters p = plain_row("sym4-row", 32);
  p.row_log.data_ptr<float>()[0] = -500.0f;
  EXPECT_GT(to_quantized_matrix(p).row_scales[0], 0.0f);
  p.row_log.data_ptr<float>()[0] = 500.0f;
  EXPECT_EQ(to_quantized_matrix(p).row_scales[0], std::numeric_limits<float>::max());
}

TEST(FakeQuant, RefusesWeightsThatAreNotFinite) {
  QuantParameters p = plain_row("sym4-row", 32);
  std::vector<float> weights(32, 0.1f);
  weights[7] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_TRUE(refused(add_latent(p, weights, 0.01f, "layer.w"), ErrorCode::kNonFinite,
                      {"layer.w", "weight 7"}));
}

TEST(FakeQuant, CountsFlippedCodes) {
  QuantParameters p = plain_row("seq2-row", 32);
  ASSERT_TRUE(accepted(add_latent(p, std::vector<float>(32, -1.0f), 0.01f, "w")));
  p.latent.data_ptr<float>()[3] = 1.0f;
  p.latent.data_ptr<float>()[9] = 0.0f;
  std::int64_t flips = 0;
  (void)fake_quantize(p, &flips);
  EXPECT_EQ(flips, 2);
  (void)fake_quantize(p, &flips);
  EXPECT_EQ(flips, 2);
}

}  // namespace
}  // namespace elastiq
