#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "tests/support/guarded.h"
#include "tests/support/kernel_data.h"

namespace elastiq::testing {
namespace {

std::vector<const elq_impl*> other_impls() {
  size_t n = 0;
  const elq_impl* const* impls = elq_impls(&n);
  std::vector<const elq_impl*> out;
  for (size_t i = 1; i < n; ++i) {
    if (impls[i]->supported()) out.push_back(impls[i]);
  }
  return out;
}

std::vector<float> matmul(const elq_impl* impl, const PackedTensor& t,
                          const std::vector<elq_activations>& tokens) {
  std::vector<float> y(tokens.size() * t.m.rows, -7.0f);
  impl->matmul(&t.m, tokens.data(), static_cast<uint32_t>(tokens.size()), 0, t.m.padded_rows / 16,
               y.data(), t.m.rows);
  return y;
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

std::string describe(const Scheme& s, uint32_t cols) {
  return "bits " + std::to_string(s.bits) + " mode " + std::to_string(s.scale_mode) + " z2 " +
         std::to_string(s.z2) + " group " + std::to_string(s.group) + " cols " +
         std::to_string(cols) + " kept " + std::to_string(s.n_kept);
}

class MatmulOfWidth : public ::testing::TestWithParam<uint32_t> {};

TEST_P(MatmulOfWidth, EveryImplementationReturnsTheBitsOfScalar) {
  const uint32_t bits = GetParam();
  Random random(bits);
  const elq_impl* scalar = elq_impl_by_name("scalar");
  const std::vector<uint32_t> grids = bits == 2
                                          ? std::vector<uint32_t>{3, 4, 2}
                                          : std::vector<uint32_t>{(1u << bits) - 1, 1u << bits};
  const std::pair<uint32_t, uint32_t> modes[] = {
      {ELQ_SCALE_ROW, 0},   {ELQ_SCALE_U8, 32},   {ELQ_SCALE_U8, 64},  {ELQ_SCALE_U8, 128},
      {ELQ_SCALE_U8, 256},  {ELQ_SCALE_U8, 0},    {ELQ_SCALE_F16, 32}, {ELQ_SCALE_F16, 64},
      {ELQ_SCALE_F16, 128}, {ELQ_SCALE_F16, 256}, {ELQ_SCALE_F16, 0}};
  uint32_t turn = 0;
  for (const auto& [mode, group] : modes) {
    for (const uint32_t cols : {1u, 16u, 31u, 32u, 33u, 44u, 64u, 172u, 576u, 1100u}) {
      const uint32_t kept = std::array<uint32_t, 3>{0, 1, 8}[turn % 3];
      const uint32_t rows = std::array<uint32_t, 4>{16, 5, 33, 48}[turn % 4];
      const Scheme scheme = {bits, mode, grids[turn % grids.size()], group, kept};
      ++turn;
      const PackedTensor t = random_packed(random, rows, cols, scheme, 1.0f);
      ASSERT_NE(t.m.rows, 0u) << describe(scheme, cols);
      for (const uint32_t n : {1u, 2u, 3u, 7u, 8u, 13u, 40u}) {
        std::vector<Activations> owned;
        std::vector<elq_activations> tokens;
        for (uint32_t i = 0; i < n; ++i) {
          owned.push_back(quantize(t.m, random_floats(random, cols)));
          tokens.push_back(owned.back().view);
        }
        const std::vector<float> expected = matmul(scalar, t, tokens);
        for (const elq_impl* impl : other_impls()) {
          EXPECT_TRUE(same_bits(matmul(impl, t, tokens), expected))
              << impl->name << " " << describe(scheme, cols) << " tokens " << n;
        }
      }
    }
  }
}

// All codes at the top and all activations at +-127: the largest sums a group can have.
TEST_P(MatmulOfWidth, LargestSumsDoNotSaturate) {
  const uint32_t bits = GetParam();
  Random random(7);
  for (const uint32_t mode : {ELQ_SCALE_ROW, ELQ_SCALE_U8, ELQ_SCALE_F16}) {
    for (const float sign : {1.0f, -1.0f}) {
      const Scheme scheme = {bits, mode, 0, mode == ELQ_SCALE_ROW ? 0u : 256u, 0};
      PackedTensor t = random_packed(random, 16, 2048, scheme, 1.0f);
      std::fill(t.codes.begin(), t.codes.end(), static_cast<uint8_t>((1u << bits) - 1));
      pack(t);
      const Activations a = quantize(t.m, std::vector<float>(2048, sign));
      ASSERT_EQ(a.values[0], sign > 0 ? 127 : -127);
      const std::vector<elq_activations> one = {a.view};
      const std::vector<elq_activations> many(9, a.view);
      const std::vector<float> expected = matmul(elq_impl_by_name("scalar"), t, one);
      EXPECT_NEAR(expected[0], static_cast<float>(t.weight(0, 0)) * 2048 * sign, 900);
      for (const elq_impl* impl : other_impls()) {
        EXPECT_TRUE(same_bits(matmul(impl, t, one), expected)) << impl->name << mode;
        const std::vector<float> last = matmul(impl, t, many);
        EXPECT_TRUE(same_bits({last.end() - 16, last.end()}, expected)) << impl->name << mode;
      }
    }
  }
}

// A plain sum over dequantized weights and quantized activations in double. The kernel rounds
// n_groups products and sums (F16) or three times (U8, ROW), and 2 * n_kept times: (n + 4)
// half-ulps of the absolute sum.
TEST_P(MatmulOfWidth, ScalarAgreesWithADoubleSum) {
  const uint32_t bits = GetParam();
  Random random(3);
  for (const uint32_t mode : {ELQ_SCALE_ROW, ELQ_SCALE_U8, ELQ_SCALE_F16}) {
    const Scheme scheme = {bits, mode, (1u << bits) - 1, mode == ELQ_SCALE_ROW ? 0u : 32u, 5};
    const PackedTensor t = random_packed(random, 21, 172, scheme, 1.0f);
    const Activations a = quantize(t.m, random_floats(random, 172));
    const std::vector<float> y = matmul(elq_impl_by_name("scalar"), t, {a.view});
    for (uint32_t row = 0; row < 21; ++row) {
      double sum = 0;
      double magnitude = 0;
      uint32_t k = 0;
      for (uint32_t c = 0; c < 172; ++c) {
        const double x = t.is_kept(c) ? static_cast<double>(a.kept[k++])
                                      : a.values[c] * static_cast<double>(a.view.scale);
        sum += t.weight(row, c) * x;
        magnitude += std::fabs(t.weight(row, c) * x);
      }
      const double bound = (2.0 * t.m.n_groups + 2.0 * t.m.n_kept + 4) * 0x1p-24 * magnitude;
      EXPECT_NEAR(static_cast<double>(y[row]), sum, bound) << "mode " << mode << " row " << row;
    }
  }
}

TEST_P(MatmulOfWidth, NoImplementationReadsPastItsBuffers) {
  const uint32_t bits = GetParam();
  Random random(11);
  size_t n_impls = 0;
  const elq_impl* const* impls = elq_impls(&n_impls);
  for (const uint32_t mode : {ELQ_SCALE_ROW, ELQ_SCALE_U8, ELQ_SCALE_F16}) {
    for (const uint32_t cols : {1u, 33u, 172u}) {
      const Scheme scheme = {bits, mode, (1u << bits) - 1, mode == ELQ_SCALE_ROW ? 0u : 64u, 1};
      PackedTensor t = random_packed(random, 17, cols, scheme, 1.0f);
      Guarded packed(t.bytes.data(), t.bytes.size());
      elq_matrix_bind(&t.m, packed.data());
      const Activations a = quantize(t.m, random_floats(random, cols));
      Guarded values(a.values.data(), a.values.size());
      Guarded sums(a.sums.data(), a.sums.size() * sizeof(int32_t));
      Guarded kept(a.kept.data(), sizeof(float));
      const std::vector<elq_activations> tokens(
          11, {reinterpret_cast<int8_t*>(values.data()), reinterpret_cast<int32_t*>(sums.data()),
               a.view.scale, reinterpret_cast<float*>(kept.data())});
      for (size_t i = 0; i < n_impls; ++i) {
        if (!impls[i]->supported()) continue;
        for (const uint32_t n : {1u, 11u}) {
          Guarded y(n * 17 * sizeof(float));
          impls[i]->matmul(&t.m, tokens.data(), n, 0, 2, reinterpret_cast<float*>(y.data()), 17);
        }
      }
    }
  }
}

TEST(Matmul, PanelRangeWritesItsRowsOnly) {
  Random random(5);
  const PackedTensor t = random_packed(random, 50, 64, {2, ELQ_SCALE_U8, 3, 32, 0}, 1.0f);
  const Activations a = quantize(t.m, random_floats(random, 64));
  for (const char* name : {"scalar", "avx2", "avx512vnni"}) {
    const elq_impl* impl = elq_impl_by_name(name);
    if (impl == nullptr) continue;
    const std::vector<float> all = matmul(impl, t, {a.view});
    std::vector<float> y(50, -7.0f);
    impl->matmul(&t.m, &a.view, 1, 1, 3, y.data(), 50);
    for (uint32_t r = 0; r < 50; ++r) EXPECT_EQ(y[r], r >= 16 && r < 48 ? all[r] : -7.0f) << r;
  }
}

INSTANTIATE_TEST_SUITE_P(Widths, MatmulOfWidth, ::testing::Values(1, 2, 3, 4, 8),
                         [](const auto& width) { return "Bits" + std::to_string(width.param); });

}  // namespace
}  // namespace elastiq::testing
