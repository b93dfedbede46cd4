#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "tests/support/kernel_data.h"

namespace elastiq::testing {
namespace {

elq_matrix matrix(uint32_t cols, uint32_t group) {
  elq_matrix m;
  EXPECT_EQ(
      elq_matrix_init(&m, 16, cols, 2, group == 0 ? ELQ_SCALE_ROW : ELQ_SCALE_U8, 3, group, 0), 0);
  return m;
}

TEST(Activations, TiesGoToTheEvenInteger) {
  // amax 127 makes the factor 1, so the inputs are the scaled values.
  const std::vector<float> x = {127,   0.5f,  1.5f,        2.5f,   -0.5f,
                                -1.5f, -2.5f, 0.49999997f, 126.5f, -127};
  const Activations a = quantize(matrix(10, 0), x);
  const std::vector<int> expected = {127, 0, 2, 2, 0, -2, -2, 0, 126, -127};
  for (size_t i = 0; i < expected.size(); ++i) EXPECT_EQ(a.values[i], expected[i]) << i;
  EXPECT_EQ(a.view.scale, 1.0f);
  EXPECT_EQ(a.sums[0], 0 + 127 + 2 + 2 - 2 - 2 + 126 - 127);
}

TEST(Activations, SumsArePerGroupAndPadIsZero) {
  std::vector<float> x(44, 1.0f);
  const Activations a = quantize(matrix(44, 32), x);
  ASSERT_EQ(a.values.size(), 64u);
  EXPECT_EQ(a.sums[0], 32 * 127);
  EXPECT_EQ(a.sums[1], 12 * 127);
  for (size_t i = 44; i < 64; ++i) EXPECT_EQ(a.values[i], 0);
}

TEST(Activations, ZerosGiveScaleZero) {
  const Activations a = quantize(matrix(8, 0), std::vector<float>(8, -0.0f));
  EXPECT_EQ(a.view.scale, 0.0f);
  for (const int8_t v : a.values) EXPECT_EQ(v, 0);
}

TEST(Activations, VanishingInputCountsAsZero) {
  std::vector<float> x(8, 0.0f);
  x[3] = 1e-40f;  // 127 / 1e-40 is not a float
  const Activations a = quantize(matrix(8, 0), x);
  EXPECT_EQ(a.view.scale, 0.0f);
  for (const int8_t v : a.values) EXPECT_EQ(v, 0);
}

TEST(Activations, KeptColumnsLeaveTheVectorAndTheMaximum) {
  Random random(1);
  const PackedTensor t = random_packed(random, 16, 8, {2, ELQ_SCALE_ROW, 3, 0, 2}, 1.0f);
  ASSERT_EQ(t.kept_index, (std::vector<uint16_t>{0, 4}));
  const Activations a = quantize(t.m, {1000, 1, 2, 4, -5000, 3, 1, 0});
  EXPECT_EQ(a.kept[0], 1000.0f);
  EXPECT_EQ(a.kept[1], -5000.0f);
  EXPECT_EQ(a.view.scale, 4.0f / 127.0f);
  // 127 / 4 = 31.75: 31.75 -> 32, 63.5 -> 64 (tie to even), 127, 95.25 -> 95.
  const std::vector<int> expected = {0, 32, 64, 127, 0, 95, 32, 0};
  for (size_t i = 0; i < expected.size(); ++i) EXPECT_EQ(a.values[i], expected[i]) << i;
}

TEST(Activations, NonFiniteInputIsVisible) {
  Random random(1);
  const PackedTensor t = random_packed(random, 16, 8, {2, ELQ_SCALE_ROW, 3, 0, 1}, 1.0f);
  for (const float bad : {std::numeric_limits<float>::infinity(), std::nanf("")}) {
    for (const size_t at : {0u, 5u}) {  // a kept and an ordinary column
      std::vector<float> x(8, 1.0f);
      x[at] = bad;
      const Activations a = quantize(t.m, x);
      EXPECT_TRUE(std::isnan(a.view.scale));
      for (const int8_t v : a.values) EXPECT_EQ(v, 0);
      size_t n = 0;
      const elq_impl* const* impls = elq_impls(&n);
      for (size_t i = 0; i < n; ++i) {
        if (!impls[i]->supported()) continue;
        float y[16];
        impls[i]->matmul(&t.m, &a.view, 1, 0, 1, y, 16);
        EXPECT_TRUE(std::isnan(y[3])) << impls[i]->name;
      }
    }
  }
}

}  // namespace
}  // namespace elastiq::testing
