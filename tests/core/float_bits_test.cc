#include "core/float_bits.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "tests/support/expect_error.h"

namespace elastiq {
namespace {

using testing::refused;

/// IEEE 754-2008 table 3.5, in double: an independent reading of half bits.
double half_by_definition(std::uint16_t bits) {
  const int exponent = (bits >> 10) & 31;
  const int mantissa = bits & 1023;
  const double sign = (bits & 0x8000) != 0 ? -1.0 : 1.0;
  if (exponent == 31) {
    return mantissa != 0 ? std::nan("") : sign * std::numeric_limits<double>::infinity();
  }
  if (exponent == 0) return sign * std::ldexp(mantissa, -24);
  return sign * std::ldexp(1024 + mantissa, exponent - 25);
}

bool is_half_nan(std::uint16_t bits) {
  return (bits & 0x7fff) > 0x7c00;
}

bool is_bf16_nan(std::uint16_t bits) {
  return (bits & 0x7fff) > 0x7f80;
}

TEST(FloatBits, EveryHalfWidensToItsDefinition) {
  for (std::uint32_t i = 0; i < 65536; ++i) {
    const auto bits = static_cast<std::uint16_t>(i);
    const float value = f16_to_f32(bits);
    if (is_half_nan(bits)) {
      EXPECT_TRUE(std::isnan(value)) << i;
      continue;
    }
    EXPECT_EQ(static_cast<double>(value), half_by_definition(bits)) << i;
    EXPECT_EQ(std::signbit(value), (bits & 0x8000) != 0) << i;
  }
}

TEST(FloatBits, EveryHalfSurvivesTheRoundTrip) {
  for (std::uint32_t i = 0; i < 65536; ++i) {
    const auto bits = static_cast<std::uint16_t>(i);
    const std::uint16_t back = f32_to_f16(f16_to_f32(bits));
    if (is_half_nan(bits)) {
      EXPECT_TRUE(is_half_nan(back)) << i;
    } else {
      EXPECT_EQ(back, bits);
    }
  }
}

TEST(FloatBits, HalfwayValuesGoToTheEvenHalf) {
  // Every pair of neighbouring finite halves, and the pair (65504, infinity).
  for (std::uint32_t i = 0; i < 0x7c00; ++i) {
    const auto low = static_cast<std::uint16_t>(i);
    const auto high = static_cast<std::uint16_t>(i + 1);
    const double top = high == 0x7c00 ? 65536.0 : half_by_definition(high);
    const auto middle = static_cast<float>((half_by_definition(low) + top) / 2);
    ASSERT_EQ(f32_to_f16(middle), (low & 1) == 0 ? low : high) << i;
    ASSERT_EQ(f32_to_f16(std::nextafter(middle, 0.0f)), low) << i;
    ASSERT_EQ(f32_to_f16(std::nextafter(middle, 1e9f)), high) << i;
    ASSERT_EQ(f32_to_f16(-middle), ((low & 1) == 0 ? low : high) | 0x8000) << i;
  }
}

TEST(FloatBits, HalfEdges) {
  EXPECT_EQ(f32_to_f16(65519.99f), 0x7bff);
  EXPECT_EQ(f32_to_f16(65520.0f), 0x7c00);
  EXPECT_EQ(f32_to_f16(std::numeric_limits<float>::infinity()), 0x7c00);
  EXPECT_EQ(f32_to_f16(-0.0f), 0x8000);
  EXPECT_EQ(f32_to_f16(std::numeric_limits<float>::denorm_min()), 0);
  EXPECT_TRUE(is_half_nan(f32_to_f16(std::bit_cast<float>(0x7f800001u))));
  EXPECT_TRUE(is_half_nan(f32_to_f16(std::bit_cast<float>(0xffc00000u))));
}

TEST(FloatBits, EveryBf16SurvivesTheRoundTripSubnormalsIncluded) {
  for (std::uint32_t i = 0; i < 65536; ++i) {
    const auto bits = static_cast<std::uint16_t>(i);
    const std::uint16_t back = f32_to_bf16(bf16_to_f32(bits));
    if (is_bf16_nan(bits)) {
      EXPECT_TRUE(is_bf16_nan(back)) << i;
    } else {
      EXPECT_EQ(back, bits);
    }
  }
  // cases.md no 4: 0x0001 is 2^-133, which some readers flush to zero.
  EXPECT_EQ(bf16_to_f32(0x0001), std::ldexp(1.0f, -133));
  EXPECT_EQ(bf16_to_f32(0x807f), -std::ldexp(127.0f, -133));
}

TEST(FloatBits, Bf16TiesByHand) {
  const auto narrow = [](std::uint32_t bits) { return f32_to_bf16(std::bit_cast<float>(bits)); };
  EXPECT_EQ(narrow(0x3f808000), 0x3f80);  // tie, 3f80 is even
  EXPECT_EQ(narrow(0x3f818000), 0x3f82);  // tie, 3f81 is odd
  EXPECT_EQ(narrow(0x3f808001), 0x3f81);  // above the tie
  EXPECT_EQ(narrow(0x3f817fff), 0x3f81);  // below the tie
  EXPECT_EQ(narrow(0x7f7f8000), 0x7f80);  // past the largest: infinity
  EXPECT_EQ(narrow(0x7f7f7fff), 0x7f7f);
  EXPECT_EQ(narrow(0x00008000), 0x0000);
  EXPECT_EQ(narrow(0x00018000), 0x0002);
  EXPECT_EQ(narrow(0x7f800001), 0x7fc0);  // a NaN whose payload would be cut to infinity
  EXPECT_EQ(narrow(0xff800001), 0xffc0);
}

TEST(FloatBits, WidenAndNarrowWholeTensors) {
  const std::vector<float> values = {1.0f, -2.5f, 0.0f, 65504.0f};
  for (const DType type : {DType::kF32, DType::kF16, DType::kBf16}) {
    std::vector<std::byte> bytes(values.size() * dtype_bytes(type));
    std::vector<float> back(values.size());
    ASSERT_TRUE(narrow_from_f32(type, values, bytes).ok());
    ASSERT_TRUE(widen_to_f32(type, bytes, back).ok());
    EXPECT_EQ(back[0], 1.0f);
    EXPECT_EQ(back[1], -2.5f);
    EXPECT_EQ(back[3], type == DType::kBf16 ? 65536.0f : 65504.0f);
  }
  std::vector<std::byte> bytes(8);
  std::vector<float> out(8);
  EXPECT_TRUE(refused(widen_to_f32(DType::kI8, bytes, out), ErrorCode::kUnsupportedType, {"I8"}));
  EXPECT_TRUE(refused(widen_to_f32(DType::kF32, bytes, out), ErrorCode::kInvalidArgument, {}));
}

}  // namespace
}  // namespace elastiq
