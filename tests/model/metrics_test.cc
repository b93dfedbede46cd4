#include "model/metrics.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "core/rng.h"
#include "tests/support/expect_error.h"

namespace elastiq {
namespace {

using testing::accepted;
using testing::refused;

// p = (1/2, 1/4, 1/4), q = (1/4, 1/2, 1/4): KL(p || q) = ln(2) / 4, computed by hand.
TEST(ScoreToken, HandComputedDistributions) {
  const float ln2 = std::log(2.0F);
  const std::vector<float> p = {ln2, 0, 0};
  const std::vector<float> q = {7, 7 + ln2, 7};  // A constant changes nothing.
  const auto score = score_token(p, q, 0);
  ASSERT_TRUE(accepted(score));
  EXPECT_NEAR(score.value().nll_float, std::log(2.0), 1e-7);
  EXPECT_NEAR(score.value().nll_model, std::log(4.0), 1e-6);
  EXPECT_NEAR(score.value().kl, std::log(2.0) / 4, 1e-6);
  EXPECT_FALSE(score.value().same_top);
}

TEST(ScoreToken, EqualRowsHaveExactlyNoDivergence) {
  std::vector<float> row(1000);
  Rng rng(3);
  for (float& value : row) value = static_cast<float>(20 * rng.normal());
  const auto score = score_token(row, row, 999);
  ASSERT_TRUE(accepted(score));
  EXPECT_EQ(score.value().kl, 0.0);
  EXPECT_EQ(score.value().nll_float, score.value().nll_model);
  EXPECT_TRUE(score.value().same_top);
}

TEST(ScoreToken, FirstOfEqualMaximaIsTheTop) {
  const std::vector<float> a = {1, 5, 5, 0};
  const std::vector<float> b = {1, 4, 5, 0};
  EXPECT_FALSE(score_token(a, b, 0).value().same_top);
  EXPECT_TRUE(score_token(a, a, 0).value().same_top);
}

// Against long double sums with the C library's exp, at a size with a tail and a wide range.
TEST(ScoreToken, AgreesWithLongDoubleReference) {
  for (const std::size_t n : {1u, 7u, 255u, 256u, 257u, 49152u}) {
    Rng rng(n);
    std::vector<float> f(n);
    std::vector<float> m(n);
    for (std::size_t i = 0; i < n; ++i) {
      f[i] = static_cast<float>(30 * rng.normal());
      m[i] = static_cast<float>(static_cast<double>(f[i]) + rng.normal());
    }
    f[n / 2] = m[n / 2] = -2000;  // exp of it underflows.
    long double zf = 0;
    long double zm = 0;
    for (std::size_t i = 0; i < n; ++i) {
      zf += std::exp(static_cast<long double>(f[i]));
      zm += std::exp(static_cast<long double>(m[i]));
    }
    long double kl = 0;
    for (std::size_t i = 0; i < n; ++i) {
      const long double lf = static_cast<long double>(f[i]) - std::log(zf);
      kl += std::exp(lf) * (lf - static_cast<long double>(m[i]) + std::log(zm));
    }
    const auto next = static_cast<std::uint32_t>(n - 1);
    const auto score = score_token(f, m, next);
    ASSERT_TRUE(accepted(score));
    EXPECT_NEAR(score.value().kl, static_cast<double>(kl), 1e-12) << n;
    const long double nll = std::log(zf) - static_cast<long double>(f[next]);
    EXPECT_NEAR(score.value().nll_float, static_cast<double>(nll),
                1e-12 * (1 + std::abs(score.value().nll_float)))
        << n;
  }
}

TEST(ScoreToken, NonFiniteLogitIsRefusedWithItsPosition) {
  for (const float bad : {std::nanf(""), std::numeric_limits<float>::infinity(),
                          -std::numeric_limits<float>::infinity()}) {
    for (const std::size_t at : {0u, 13u, 20u}) {
      std::vector<float> good(21, 1.0F);
      std::vector<float> row = good;
      row[at] = bad;
      const std::string position = "logit " + std::to_string(at) + " of 21";
      EXPECT_TRUE(refused(score_token(row, good, 1), ErrorCode::kNonFinite, {"float", position}));
      EXPECT_TRUE(
          refused(score_token(good, row, 1), ErrorCode::kNonFinite, {"compared", position}));
    }
  }
  const std::vector<float> row(4, 0.0F);
  EXPECT_TRUE(refused(score_token(row, row, 4), ErrorCode::kInvalidArgument, {"4"}));
}

TokenScore score(double nll_float, double nll_model, double kl, int same_top) {
  return TokenScore{nll_float, nll_model, kl, same_top != 0};
}

// Two contexts of two tokens. Sample variances use n - 1, the mean's error is sqrt(var / n).
TEST(Summarize, HandComputedFigures) {
  const auto result = summarize(
      {{score(1, 2, 0.1, 1), score(3, 3, 0.3, 0)}, {score(2, 2, 0.2, 1), score(2, 5, 1.0, 1)}});
  ASSERT_TRUE(accepted(result));
  const MetricSummary& s = result.value();
  EXPECT_EQ(s.tokens, 4u);
  EXPECT_EQ(s.contexts, 2u);
  // nll_model: 2 3 2 5, mean 3, squares 1+0+1+4 = 6, variance 2, error sqrt(2/4).
  EXPECT_NEAR(s.perplexity.value, std::exp(3.0), 1e-12);
  EXPECT_NEAR(s.perplexity.se, std::exp(3.0) * std::sqrt(0.5), 1e-12);
  // nll_float: mean 2, squares 2, variance 2/3, error sqrt(1/6).
  EXPECT_NEAR(s.perplexity_float.value, std::exp(2.0), 1e-12);
  EXPECT_NEAR(s.perplexity_float.se, std::exp(2.0) * std::sqrt(1.0 / 6), 1e-12);
  // differences: 1 0 0 3, mean 1, squares 6, variance 2, error sqrt(1/2).
  EXPECT_NEAR(s.perplexity_ratio.value, std::exp(1.0), 1e-12);
  EXPECT_NEAR(s.perplexity_ratio.se, std::exp(1.0) * std::sqrt(0.5), 1e-12);
  // kl: 0.1 0.3 0.2 1.0, mean 0.4, squares 0.09+0.01+0.04+0.36 = 0.5, error sqrt(0.5/3/4).
  EXPECT_NEAR(s.kl_mean.value, 0.4, 1e-12);
  EXPECT_NEAR(s.kl_mean.se, std::sqrt(0.5 / 12), 1e-12);
  EXPECT_NEAR(s.kl_median.value, 0.25, 1e-12);
  EXPECT_NEAR(s.kl_p99.value, 0.3 + 0.97 * 0.7, 1e-12);  // position 0.99 * 3 = 2.97
  EXPECT_NEAR(s.top1.value, 0.75, 1e-12);
  EXPECT_NEAR(s.top1.se, std::sqrt(0.75 * 0.25 / 3), 1e-12);
  ASSERT_EQ(s.kl_per_context.size(), 2u);
  EXPECT_NEAR(s.kl_per_context[0], 0.2, 1e-12);
  EXPECT_NEAR(s.kl_per_context[1], 0.6, 1e-12);
  // A resample is AA (1/4), AB (1/2) or BB (1/4): medians 0.2, 0.25, 0.6, deviation 0.1575.
  EXPECT_NEAR(s.kl_median.se, 0.1575, 0.015);
}

TEST(Summarize, OneContextStillHasAnError) {
  std::vector<TokenScore> context;
  for (int i = 0; i < 100; ++i) context.push_back(score(1, 1, 0.01 * i, 1));
  const auto result = summarize({context});
  ASSERT_TRUE(accepted(result));
  // The median of n uniform values on [0, 1] has deviation 1 / (2 sqrt(n)) = 0.05.
  EXPECT_NEAR(result.value().kl_median.se, 0.05, 0.015);
  EXPECT_EQ(result.value().top1.se, 0.0);
}

TEST(Summarize, OneTokenHasNoError) {
  const auto result = summarize({{score(1, 1, 0.5, 1)}});
  ASSERT_TRUE(accepted(result));
  EXPECT_EQ(result.value().kl_mean.value, 0.5);
  EXPECT_EQ(result.value().kl_mean.se, 0.0);
  EXPECT_EQ(result.value().kl_p99.value, 0.5);
}

// cases.md 23: no score is given for nothing.
TEST(Summarize, NothingToScoreIsAnError) {
  EXPECT_TRUE(refused(summarize({}), ErrorCode::kTooLittleData, {"0 scored tokens"}));
  EXPECT_TRUE(refused(summarize({{}, {}}), ErrorCode::kTooLittleData, {"2 contexts"}));
}

TEST(PairedDifference, SmallButSteadyDifferenceIsDistinguishable) {
  // The contexts differ by far more than the methods do.
  std::vector<double> a;
  std::vector<double> b;
  for (int i = 0; i < 20; ++i) {
    a.push_back(i);
    b.push_back(i + 0.01 + (i % 2 == 0 ? 0.002 : -0.002));
  }
  const auto result = paired_difference(a, b);
  ASSERT_TRUE(accepted(result));
  EXPECT_NEAR(result.value().kl_mean.value, -0.01, 1e-12);
  EXPECT_NEAR(result.value().kl_mean.se, 0.002 * std::sqrt(20.0 / 19) / std::sqrt(20.0), 1e-9);
  EXPECT_LT(result.value().high, 0);
  // 1.96 standard errors of 0.002 / sqrt(20) each way.
  EXPECT_NEAR(result.value().low, -0.01 - 0.000877, 0.0001);
  EXPECT_NEAR(result.value().high, -0.01 + 0.000877, 0.0001);
  EXPECT_TRUE(result.value().distinguishable);
}

TEST(PairedDifference, NoiseIsNot) {
  const std::vector<double> a = {1, 2, 3, 4, 5, 6};
  const std::vector<double> b = {2, 1, 4, 3, 6, 5};
  const auto result = paired_difference(a, b);
  ASSERT_TRUE(accepted(result));
  EXPECT_EQ(result.value().kl_mean.value, 0.0);
  EXPECT_FALSE(result.value().distinguishable);
}

TEST(PairedDifference, NeedsTheSameContexts) {
  EXPECT_TRUE(
      refused(paired_difference({1, 2}, {1, 2, 3}), ErrorCode::kInvalidArgument, {"2", "3"}));
  EXPECT_TRUE(refused(paired_difference({1}, {1}), ErrorCode::kTooLittleData, {"at least 2"}));
}

}  // namespace
}  // namespace elastiq
