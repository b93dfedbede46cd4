// Errors, types, digests, checked arithmetic, random numbers, progress.

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <set>
#include <string>

#include "core/checked_math.h"
#include "core/digest.h"
#include "core/dtype.h"
#include "core/error.h"
#include "core/progress.h"
#include "core/rng.h"
#include "tests/support/temp_folder.h"

namespace elastiq {
namespace {

TEST(ErrorTest, TextAndExitStatus) {
  const Error error{ErrorCode::kLimitExceeded, "model.safetensors", "header_length is 99", 16};
  EXPECT_EQ(to_string(error),
            "E-12 limit exceeded: model.safetensors, byte 16: header_length is 99");
  EXPECT_EQ(to_string(Error{ErrorCode::kUsage, "--x", "", 0}), "E-3 usage: --x");

  // architecture.md section 6.
  struct Row {
    ErrorCode code;
    int status;
  };

  for (const Row& row :
       {Row{ErrorCode::kUsage, 2}, Row{ErrorCode::kInvalidArgument, 2}, Row{ErrorCode::kRecipe, 3},
        Row{ErrorCode::kIo, 4}, Row{ErrorCode::kNonFinite, 4}, Row{ErrorCode::kGate, 5},
        Row{ErrorCode::kResources, 6}, Row{ErrorCode::kVerification, 7},
        Row{ErrorCode::kFingerprint, 8}, Row{ErrorCode::kInterrupted, 130},
        Row{ErrorCode::kInternal, 1}}) {
    EXPECT_EQ(exit_status(Error{row.code, "", "", 0}), row.status) << code_name(row.code);
  }
}

TEST(ErrorTest, MacrosPassValuesAndErrorsOn) {
  const auto half = [](int value) -> Result<int> {
    if (value % 2 != 0) return Error{ErrorCode::kInvalidArgument, "odd", "", 0};
    return value / 2;
  };
  const auto quarter = [&](int value) -> Result<int> {
    ELQ_TRY(first, half(value));
    ELQ_TRY(second, half(first));
    return second;
  };
  EXPECT_EQ(quarter(12).value(), 3);
  EXPECT_EQ(quarter(6).error().subject, "odd");
}

TEST(DTypeTest, NamesAndSizes) {
  std::set<std::string> names;
  for (int i = 0; i <= static_cast<int>(DType::kBool); ++i) {
    const auto type = static_cast<DType>(i);
    names.emplace(dtype_name(type));
    ASSERT_TRUE(dtype_from_name(dtype_name(type)).has_value());
    EXPECT_EQ(*dtype_from_name(dtype_name(type)), type);
  }
  EXPECT_EQ(names.size(), 15u);
  EXPECT_EQ(dtype_bytes(DType::kF64), 8u);
  EXPECT_EQ(dtype_bytes(DType::kBf16), 2u);
  EXPECT_EQ(dtype_bytes(DType::kBool), 1u);
  EXPECT_FALSE(dtype_from_name("bf16").has_value());
  EXPECT_TRUE(is_weight_dtype(DType::kF16));
  EXPECT_FALSE(is_weight_dtype(DType::kF64));
}

TEST(DigestTest, KnownAnswers) {
  // FIPS 180-2, appendix B.
  EXPECT_EQ(to_hex(sha256("abc")),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(to_hex(sha256("")), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  Sha256Hasher hasher;
  hasher.update("abcdbcdecdefdefgefghfghighijhijk");
  hasher.update("ijkljklmklmnlmnomnopnopq");
  EXPECT_EQ(to_hex(hasher.finish()),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  const testing::TempFolder folder;
  EXPECT_EQ(to_hex(sha256_file(folder.put("f", "abc")).value()), to_hex(sha256("abc")));
  EXPECT_FALSE(sha256_file(folder / "none").ok());
}

TEST(CheckedMath, Edges) {
  constexpr std::uint64_t kMax = UINT64_MAX;
  EXPECT_EQ(checked_add<std::uint64_t>(kMax - 8, 8), kMax);
  EXPECT_FALSE(checked_add<std::uint64_t>(kMax - 7, 8).has_value());
  EXPECT_EQ(checked_mul<std::uint64_t>(1ull << 32, (1ull << 32) - 1), kMax - (1ull << 32) + 1);
  EXPECT_FALSE(checked_mul<std::uint64_t>(1ull << 32, 1ull << 32).has_value());
  EXPECT_EQ(checked_align_up<std::uint64_t>(65, 64), 128u);
  EXPECT_EQ(checked_align_up<std::uint64_t>(64, 64), 64u);
  EXPECT_FALSE(checked_align_up<std::uint64_t>(kMax, 64).has_value());
}

TEST(RngTest, ReferenceSequence) {
  // Published SplitMix64 outputs for seed 1234567 (Vigna's splitmix64.c; also on Rosetta Code).
  Rng rng(1234567);
  for (const std::uint64_t expected :
       {6457827717110365317ull, 3203168211198807973ull, 9817491932198370423ull,
        4593380528125082431ull, 16408922859458223821ull}) {
    EXPECT_EQ(rng.next(), expected);
  }
}

TEST(ProgressTest, PlainModeHasAStartAndAnEnd) {
  ::testing::internal::CaptureStderr();
  {
    Progress progress("packing", 200, Progress::Mode::kPlain);
    for (std::uint64_t i = 0; i <= 200; ++i) progress.step(i, "layer");
  }
  const std::string text = ::testing::internal::GetCapturedStderr();
  EXPECT_TRUE(text.starts_with("packing: 0 of 200\n")) << text;
  EXPECT_NE(text.find("packing: 200 of 200 in "), std::string::npos) << text;
  // Rate limited: 200 quick steps are not 200 lines.
  EXPECT_LE(std::count(text.begin(), text.end(), '\n'), 4) << text;
}

TEST(ProgressTest, NoneIsSilent) {
  ::testing::internal::CaptureStderr();
  {
    Progress progress("packing", 2, Progress::Mode::kNone);
    progress.step(1, "");
  }
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
}

}  // namespace
}  // namespace elastiq
