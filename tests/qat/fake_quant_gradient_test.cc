// Gradients of the fake quantizer by hand: loss = sum G * Q, so dloss/dparameter is known exactly.

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "core/float_bits.h"
#include "core/rng.h"
#include "qat/fake_quant.h"
#include "tests/support/expect_error.h"

namespace elastiq {
namespace {

using testing::accepted;

/// 2 rows x 40 columns in groups of 32 (the second has 8), columns 1 and 35 kept.
QuantizedMatrix small_matrix(ScaleMode mode) {
  QuantizedMatrix m;
  m.scheme = {.grid = Grid::kSeq, .bits = 2, .group = 32, .scale = mode, .kept_columns = 2};
  m.rows = 2;
  m.cols = 40;
  for (std::int64_t i = 0; i < 80; ++i) m.codes.push_back(static_cast<std::uint8_t>(i * 7 % 4));
  for (const std::size_t kept : {1u, 35u, 41u, 75u}) m.codes[kept] = 0;
  if (mode == ScaleMode::kU8) {
    m.row_scales = {0.001f, 0.002f};
    m.u8_scales = {100, 255, 30, 7};
  } else {
    for (const float s : {0.1f, 0.25f, 0.05f, 0.01f}) m.f16_scales.push_back(f32_to_f16(s));
  }
  m.kept_index = {1, 35};
  m.kept_scales = {0.01f, 0.02f};
  m.kept_values = {5, -127, 127, 0};
  return m;
}

std::vector<float> gradient_of_output(std::uint64_t seed) {
  Rng rng(seed);
  std::vector<float> g;
  for (int i = 0; i < 80; ++i) g.push_back(static_cast<float>(rng.normal()));
  return g;
}

void run_backward(QuantParameters& p, const std::vector<float>& g) {
  std::int64_t flips = 0;
  const torch::Tensor q = fake_quantize(p, &flips);
  q.backward(torch::tensor(g).view({p.rows, p.cols}));
}

double at(const torch::Tensor& tensor, std::int64_t i) {
  return static_cast<double>(tensor.contiguous().data_ptr<float>()[i]);
}

bool kept(std::int64_t column) {
  return column == 1 || column == 35;
}

/// sum over a group of G * weight, in double, kept columns left out.
double group_sum(const std::vector<float>& g, const std::vector<float>& weights, std::int64_t row,
                 std::int64_t group) {
  double sum = 0;
  for (std::int64_t c = group * 32; c < std::min<std::int64_t>(40, group * 32 + 32); ++c) {
    const auto i = static_cast<std::size_t>(row * 40 + c);
    if (!kept(c)) sum += static_cast<double>(g[i]) * static_cast<double>(weights[i]);
  }
  return sum;
}

TEST(FakeQuantGradient, ScalesReceiveTheSumOfGradientTimesWeight) {
  for (const ScaleMode mode : {ScaleMode::kU8, ScaleMode::kF16}) {
    const QuantizedMatrix m = small_matrix(mode);
    const std::vector<float> g = gradient_of_output(1);
    const std::vector<float> weights = dequantize(m);
    auto p = quant_parameters(m, "w");
    ASSERT_TRUE(accepted(p));
    run_backward(p.value(), g);
    for (std::int64_t row = 0; row < 2; ++row) {
      double total = 0;
      for (std::int64_t group = 0; group < 2; ++group) {
        const double expected = group_sum(g, weights, row, group);
        EXPECT_NEAR(at(p.value().group_log.grad(), row * 2 + group), expected, 1e-5);
        total += expected;
      }
      if (mode == ScaleMode::kF16) continue;
      EXPECT_NEAR(at(p.value().row_log.grad(), row), total, 1e-5);
    }
  }
}

TEST(FakeQuantGradient, AgreesWithFiniteDifferencesOfTheRowScale) {
  const QuantizedMatrix m = small_matrix(ScaleMode::kU8);
  const std::vector<float> g = gradient_of_output(2);
  auto p = quant_parameters(m, "w");
  ASSERT_TRUE(accepted(p));
  run_backward(p.value(), g);
  const double found = at(p.value().row_log.grad(), 1);
  const auto loss = [&](float log) {
    p.value().row_log.data_ptr<float>()[1] = log;
    std::int64_t flips = 0;
    const torch::Tensor q = fake_quantize(p.value(), &flips);
    return (q.to(torch::kFloat64).flatten() * torch::tensor(g).to(torch::kFloat64))
        .sum()
        .item<double>();
  };
  // The row scale is not coded: the forward pass itself is smooth in its logarithm.
  constexpr float kStep = 1e-3f;
  EXPECT_NEAR(found, (loss(kStep) - loss(-kStep)) / (2.0 * static_cast<double>(kStep)), 1e-4);
}

TEST(FakeQuantGradient, LatentsPassInsideTheRangeOnly) {
  const QuantizedMatrix m = small_matrix(ScaleMode::kU8);
  auto made = quant_parameters(m, "w");
  ASSERT_TRUE(accepted(made));
  QuantParameters& p = made.value();
  ASSERT_TRUE(accepted(add_latent(p, std::vector<float>(80), 0.01f, "w")));
  // SEQ 2: indices -2 to 1, so [-2.5, 1.5] has a gradient.
  const std::vector<float> latent = {-2.51f, 0.0f, -2.5f, 1.5f, 1.51f, 0.3f};
  std::copy(latent.begin(), latent.end(), p.latent.data_ptr<float>());
  const std::vector<float> g = gradient_of_output(3);
  run_backward(p, g);
  const double step = 2 * 0.001 * 100;  // Row 0, group 0.
  EXPECT_EQ(at(p.latent.grad(), 0), 0.0);
  EXPECT_EQ(at(p.latent.grad(), 1), 0.0);  // A kept column.
  EXPECT_NEAR(at(p.latent.grad(), 2), static_cast<double>(g[2]) * step, 1e-6);
  EXPECT_NEAR(at(p.latent.grad(), 3), static_cast<double>(g[3]) * step, 1e-6);
  EXPECT_EQ(at(p.latent.grad(), 4), 0.0);
  EXPECT_NEAR(at(p.latent.grad(), 5), static_cast<double>(g[5]) * step, 1e-6);
  EXPECT_EQ(at(p.latent.grad(), 75), 0.0);  // Row 1, column 35.
  // Row 1, group 1: u8 scale 7 under 0.002.
  EXPECT_NEAR(at(p.latent.grad(), 79), static_cast<double>(g[79]) * 2 * 0.002 * 7, 1e-6);
}

TEST(FakeQuantGradient, ScalesHaveTheLevelAsFactorWithTrainedCodesToo) {
  const QuantizedMatrix m = small_matrix(ScaleMode::kU8);
  const std::vector<float> g = gradient_of_output(4);
  auto p = quant_parameters(m, "w");
  ASSERT_TRUE(accepted(p));
  ASSERT_TRUE(accepted(add_latent(p.value(), dequantize(m), 0.01f, "w")));
  run_backward(p.value(), g);
  EXPECT_NEAR(at(p.value().group_log.grad(), 0), group_sum(g, dequantize(m), 0, 0), 1e-5);
}

TEST(FakeQuantGradient, KeptColumnsReceiveTheirOwn) {
  const QuantizedMatrix m = small_matrix(ScaleMode::kU8);
  const std::vector<float> g = gradient_of_output(5);
  auto p = quant_parameters(m, "w");
  ASSERT_TRUE(accepted(p));
  run_backward(p.value(), g);
  // Values column by column: (row 0, col 1), (row 1, col 1), (row 0, col 35), (row 1, col 35).
  const std::size_t places[4] = {1, 41, 35, 75};
  const double scales[4] = {0.01, 0.01, 0.02, 0.02};
  for (std::int64_t i = 0; i < 4; ++i) {
    EXPECT_NEAR(at(p.value().kept_values.grad(), i),
                static_cast<double>(g[places[i]]) * 127 * scales[i], 1e-5);
  }
  EXPECT_NEAR(at(p.value().kept_log.grad(), 0),
              0.01 * (5 * static_cast<double>(g[1]) - 127 * static_cast<double>(g[41])), 1e-5);
  EXPECT_NEAR(at(p.value().kept_log.grad(), 1), 0.02 * 127 * static_cast<double>(g[35]), 1e-5);
}

TEST(FakeQuantGradient, AClampedScaleMovesBackInButNotFurtherOut) {
  const QuantizedMatrix m = small_matrix(ScaleMode::kU8);
  auto made = quant_parameters(m, "w");
  ASSERT_TRUE(accepted(made));
  QuantParameters& p = made.value();
  p.group_log.data_ptr<float>()[1] = 0.1f;  // 255 * e^0.1: above the coding's end.
  std::vector<float> g(80, 0.0f);
  g[32] = 1.0f;
  const float level = 2.0f * static_cast<float>(m.codes[32]) - 3.0f;
  run_backward(p, g);
  const double out = at(p.group_log.grad(), 1);
  p.group_log.mutable_grad() = torch::Tensor();
  g[32] = -1.0f;
  run_backward(p, g);
  const double in = at(p.group_log.grad(), 1);
  // Descent raises the scale where the gradient is negative.
  const double size = 0.001 * 255 * std::exp(0.1);
  EXPECT_NEAR(level > 0 ? out : in, std::fabs(static_cast<double>(level)) * size, 1e-5);
  EXPECT_EQ(level > 0 ? in : out, 0.0);
}

TEST(FakeQuantGradient, DoesNotDependOnTheThreadCount) {
  const std::vector<float> g = gradient_of_output(6);
  std::vector<torch::Tensor> found;
  for (const int threads : {1, 2}) {
    ::at::set_num_threads(threads);
    auto p = quant_parameters(small_matrix(ScaleMode::kF16), "w");
    ASSERT_TRUE(accepted(p));
    run_backward(p.value(), g);
    found.push_back(p.value().group_log.grad().clone());
  }
  EXPECT_TRUE(torch::equal(found[0], found[1]));
}

}  // namespace
}  // namespace elastiq
