#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "kernels/elq_math.h"
#include "tests/support/guarded.h"
#include "tests/support/kernel_data.h"

namespace elastiq::testing {
namespace {

std::vector<const elq_impl*> supported_impls() {
  size_t n = 0;
  const elq_impl* const* impls = elq_impls(&n);
  std::vector<const elq_impl*> out;
  for (size_t i = 0; i < n; ++i) {
    if (impls[i]->supported()) out.push_back(impls[i]);
  }
  return out;
}

TEST(FloatOps, DotUsesSixteenLanesAndTheTree) {
  // Lane 0 has 2^24, lane 8 has -2^24: their pair is 0, and lanes 1 and 9 add up to 2. In ascending
  // order element 1 would be lost in 2^24 + 1. Element 16 goes to lane 0 and is lost there.
  std::vector<float> a(17, 0.0f);
  a[0] = 16777216.0f;
  a[1] = 1.0f;
  a[8] = -16777216.0f;
  a[9] = 1.0f;
  a[16] = 1.0f;
  const std::vector<float> ones(17, 1.0f);
  for (const elq_impl* impl : supported_impls()) {
    EXPECT_EQ(impl->dot_f32(a.data(), ones.data(), 16), 2.0f) << impl->name;
    EXPECT_EQ(impl->dot_f32(a.data(), ones.data(), 17), 2.0f) << impl->name;
    EXPECT_EQ(impl->dot_f32(a.data(), ones.data(), 0), 0.0f) << impl->name;
  }
}

TEST(FloatOps, DotAndAxpyAgreeForEveryLengthAndStayInside) {
  Random random(1);
  const elq_impl* scalar = elq_impl_by_name("scalar");
  for (size_t n = 0; n < 70; ++n) {
    const std::vector<float> a = random_floats(random, n);
    const std::vector<float> b = random_floats(random, n);
    Guarded ga(a.data(), n * 4);
    Guarded gb(b.data(), n * 4);
    for (const elq_impl* impl : supported_impls()) {
      EXPECT_EQ(impl->dot_f32(reinterpret_cast<float*>(ga.data()),
                              reinterpret_cast<float*>(gb.data()), n),
                scalar->dot_f32(a.data(), b.data(), n));
      std::vector<float> y = b;
      std::vector<float> expected = b;
      scalar->axpy_f32(0.3f, a.data(), expected.data(), n);
      impl->axpy_f32(0.3f, a.data(), y.data(), n);
      EXPECT_EQ(y, expected);
    }
  }
}

TEST(Math, ExpfIsWithinItsBound) {
  double worst = 0;
  for (double x = -87.0; x < 88.0; x += 0.00137) {
    const double exact = std::exp(static_cast<double>(static_cast<float>(x)));
    worst = std::max(worst,
                     std::fabs(static_cast<double>(elq_expf(static_cast<float>(x))) / exact - 1));
  }
  EXPECT_LT(worst, 2e-7);
  EXPECT_EQ(elq_expf(0.0f), 1.0f);
  EXPECT_EQ(elq_expf(-1e30f), elq_expf(-87.3f));
  EXPECT_TRUE(std::isfinite(elq_expf(1e30f)));
  EXPECT_TRUE(std::isnan(elq_expf(std::nanf(""))));
}

TEST(Math, DoubleFunctionsAreWithinTheirBounds) {
  for (double x = -600; x < 600; x += 0.737) {
    EXPECT_NEAR(elq_exp(x) / std::exp(x), 1, 1e-15 * std::max(1.0, std::fabs(x) / 8)) << x;
  }
  for (double x = 1e-9; x < 1e9; x *= 1.37) {
    EXPECT_NEAR(elq_log(x), std::log(x), 1e-15 * std::max(1.0, std::fabs(std::log(x)))) << x;
  }
  double worst = 0;
  for (double x = -3; x < 1e6; x = x < 100 ? x + 0.0113 : x * 1.00037) {
    double sine = 0;
    double cosine = 0;
    elq_sin_cos(x, &sine, &cosine);
    worst = std::max({worst, std::fabs(sine - std::sin(x)), std::fabs(cosine - std::cos(x))});
  }
  EXPECT_LT(worst, 1e-15);
}

TEST(Crc32c, KnownVectorAndPieces) {
  const char text[] = "123456789";
  EXPECT_EQ(elq_crc32c(0, text, 9), 0xe3069283u);
  EXPECT_EQ(elq_crc32c(elq_crc32c(0, text, 4), text + 4, 5), 0xe3069283u);
  EXPECT_EQ(elq_crc32c(0, text, 0), 0u);
  const std::vector<uint8_t> zeros(32, 0);  // RFC 3720, B.4
  EXPECT_EQ(elq_crc32c(0, zeros.data(), 32), 0x8a9136aau);
}

TEST(Registry, ScalarIsFirstAndUnknownNamesAreNull) {
  size_t n = 0;
  EXPECT_STREQ(elq_impls(&n)[0]->name, "scalar");
  EXPECT_EQ(elq_impl_by_name("mmx"), nullptr);
  EXPECT_TRUE(elq_impl_best()->supported());
}

}  // namespace
}  // namespace elastiq::testing
