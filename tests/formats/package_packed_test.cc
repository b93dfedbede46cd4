// What verify() sees inside packed weights. The bytes come from the C packer, the damage is placed
// by hand after SPEC-package.md section 7.

#include <gtest/gtest.h>

#include <array>

#include "kernels/elq_kernels.h"
#include "tests/support/small_package.h"
#include "tests/support/tiny_model.h"

namespace elastiq::testing {
namespace {

struct Format {
  std::uint32_t bits, mode, z2, group, n_kept;
};

constexpr std::uint32_t kRows = 20;
constexpr std::uint32_t kCols = 72;  // 32 + 32 + 8: padded to 96, with a short last group at 64.

struct Packed {
  elq_matrix m{};
  std::vector<std::byte> bytes;
  std::uint32_t smax = 0;
};

Packed random_matrix(const Format& f) {
  Packed out;
  EXPECT_EQ(elq_matrix_init(&out.m, kRows, kCols, f.bits, f.mode, f.z2, f.group, f.n_kept), 0);
  Rng rng(f.bits * 100 + f.z2);
  const std::uint64_t codes = f.bits == 2 && f.z2 == 2 ? 3 : std::uint64_t{1} << f.bits;
  std::vector<std::uint8_t> code(kRows * kCols);
  for (auto& c : code) c = static_cast<std::uint8_t>(rng.below(codes));
  const std::vector<float> row_scale(kRows, 0.25f);
  const std::vector<std::uint8_t> u8(kRows * out.m.n_groups, 200);
  const std::vector<std::uint16_t> f16(kRows * out.m.n_groups, 0x3400);  // 0.25
  const std::vector<std::uint16_t> index = {3, 40};
  const std::vector<float> kept_scale = {1.0f, 2.0f};
  const std::vector<std::int8_t> kept_value(2 * kRows, -7);
  const elq_pack_source source = {code.data(),  row_scale.data(),  u8.data(),        f16.data(),
                                  index.data(), kept_scale.data(), kept_value.data()};
  out.bytes.resize(elq_matrix_bytes(&out.m));
  elq_pack(&out.m, &source, reinterpret_cast<std::uint8_t*>(out.bytes.data()));
  out.smax = f.mode == ELQ_SCALE_U8 ? 200 : 0;
  return out;
}

SmallPackage package_with(const Format& f, const Packed& packed) {
  elq_tensor_record r{};
  r.name_bytes = 1;
  r.role = ELQ_ROLE_Q;
  r.layout = ELQ_LAYOUT_PACKED;
  r.bits = static_cast<std::uint8_t>(f.bits);
  r.scale_mode = static_cast<std::uint8_t>(f.mode);
  r.z2 = static_cast<std::uint16_t>(f.z2);
  r.group = static_cast<std::uint16_t>(f.group);
  r.rows = kRows;
  r.cols = kCols;
  r.padded_rows = 32;
  r.padded_cols = 96;
  r.section = 3;
  r.n_kept = f.n_kept;
  r.bytes = packed.bytes.size();
  r.kept_offset = elq_matrix_kept_offset(&packed.m);
  r.smax = packed.smax;
  SmallPackage p = spec_example();
  p.sections[1].bytes = bytes_of(r);
  p.sections[3].bytes = packed.bytes;
  return p;
}

Status check(const SmallPackage& p) {
  ELQ_TRY(image, package_image(p.to_write(), 0, 0));
  return check_package(image, hf_test_folder("package_packed") / "p.elq");
}

/// Flips `mask` in one byte of the tensor; digests are those of the damaged bytes.
std::string refusal(const Format& f, std::size_t at, unsigned mask) {
  Packed packed = random_matrix(f);
  packed.bytes.at(at) ^= static_cast<std::byte>(mask);
  const Status status = check(package_with(f, packed));
  if (status.ok()) return "accepted";
  EXPECT_EQ(status.error().code, ErrorCode::kVerification);
  return to_string(status.error());
}

constexpr std::array kFormats = {
    Format{1, ELQ_SCALE_U8, 1, 32, 2},    Format{2, ELQ_SCALE_U8, 3, 64, 2},
    Format{2, ELQ_SCALE_F16, 2, 32, 0},   Format{3, ELQ_SCALE_F16, 7, 32, 2},
    Format{4, ELQ_SCALE_ROW, 15, 0, 2},   Format{4, ELQ_SCALE_U8, 16, 128, 0},
    Format{8, ELQ_SCALE_F16, 256, 64, 2}, Format{8, ELQ_SCALE_ROW, 256, 0, 0}};

TEST(PackagePacked, WhatThePackerWritesIsAccepted) {
  for (const Format& f : kFormats) {
    const Status status = check(package_with(f, random_matrix(f)));
    EXPECT_TRUE(status.ok()) << f.bits << " bits, mode " << f.mode << ": "
                             << (status.ok() ? "" : to_string(status.error()));
  }
}

// Panel 1 holds rows 16 to 19; rows 4 to 15 of it are pads. Its first code line follows the line of
// row scales (none in F16 mode); byte 4r + j belongs to row r.
TEST(PackagePacked, CodesOfPadRowsAreZero) {
  for (const Format& f : kFormats) {
    const Packed packed = random_matrix(f);
    const std::size_t line = packed.m.panel_bytes + (f.mode == ELQ_SCALE_F16 ? 0 : 64);
    EXPECT_NE(refusal(f, line + 4 * 15 + 3, 1).find("pad code"), std::string::npos);
    EXPECT_NE(refusal(f, line + 4 * 4, 0x40).find("pad code"), std::string::npos);
  }
}

// Columns 72 to 95 are pads: bit 2 of byte j in the third unit's line of 1-bit codes is column
// 64 + 8 + j.
TEST(PackagePacked, CodesOfPadAndKeptColumnsAreZero) {
  const Format f = kFormats[0];  // one line per unit; groups of 32, one superblock
  EXPECT_NE(refusal(f, 64 + 2 * 64 + 0, 1 << 2).find("pad code"), std::string::npos);
  EXPECT_EQ(refusal(f, 64 + 2 * 64 + 0, 1 << 1), "accepted");  // Column 68 is a real one.
  EXPECT_NE(refusal(f, 64 + 3, 1).find("kept column"), std::string::npos);            // Column 3.
  EXPECT_NE(refusal(f, 64 + 64 + 0, 1 << 2).find("kept column"), std::string::npos);  // 40.
}

TEST(PackagePacked, TernaryHasThreeCodes) {
  const Format f = kFormats[2];
  Packed packed = random_matrix(f);
  packed.bytes[0] |= std::byte{3};
  const Status status = check(package_with(f, packed));
  ASSERT_FALSE(status.ok());
  EXPECT_NE(status.error().detail.find("ternary code 3"), std::string::npos);
}

TEST(PackagePacked, ScalesStayInTheirRange) {
  const Format u8 = kFormats[1];
  // Panel: row scales, 3 units of 2 lines, one scale line at 64 + 6 * 64 with two groups of four.
  const std::size_t line = 64 + 6 * 64;
  EXPECT_NE(refusal(u8, line, 200 ^ 201).find("smax"), std::string::npos);
  EXPECT_EQ(refusal(u8, line, 200 ^ 199), "accepted");
  EXPECT_NE(refusal(u8, line + 2 * 16, 1).find("pad"), std::string::npos);  // Group 2 of two.
  const std::size_t panel = 64 + 6 * 64 + 64;
  EXPECT_NE(refusal(u8, panel + line + 4, 1).find("pad"), std::string::npos);  // Row 20.
  EXPECT_NE(refusal(u8, panel + 4 * 4, 1).find("row scale"), std::string::npos);
  // 0.25f is 3E800000: the exponent's bits all set make it infinite or NaN.
  EXPECT_NE(refusal(u8, 3, 0x3e ^ 0x7f).find("row scale"), std::string::npos);
  // 0.25 is half 3400; F16 mode of 32 columns: two groups, then a scale line, one group, another.
  const Format f16 = kFormats[2];
  EXPECT_NE(refusal(f16, 4 * 64 + 1, 0x34 ^ 0x7c).find("f16 scale"), std::string::npos);
  EXPECT_NE(refusal(f16, 4 * 64 + 64 + 2 * 64 + 32, 1).find("f16 scale"), std::string::npos);
}

TEST(PackagePacked, KeptColumnsAreInOrder) {
  const Format f = kFormats[4];
  const Packed good = random_matrix(f);
  const std::size_t kept = elq_matrix_panel_bytes(&good.m);
  EXPECT_NE(refusal(f, kept, 3 ^ 40).find("ascending"), std::string::npos);
  EXPECT_NE(refusal(f, kept + 2, 40 ^ 72).find("below cols"), std::string::npos);
  EXPECT_NE(refusal(f, kept + 4, 1).find("padding"), std::string::npos);
  EXPECT_NE(refusal(f, kept + 64 + 3, 0x3f ^ 0x7f).find("scale"), std::string::npos);
  EXPECT_NE(refusal(f, kept + 64 + 8, 1).find("padding"), std::string::npos);
  EXPECT_NE(refusal(f, kept + 128 + 20, 1).find("pad rows"), std::string::npos);
  EXPECT_EQ(refusal(f, kept + 128 + 19, 1), "accepted");
}

TEST(PackagePacked, RecordsOutsideTheClosedListsAreRefused) {
  const Format f = kFormats[1];
  const SmallPackage good = package_with(f, random_matrix(f));
  const auto refused = [&](auto change) {
    SmallPackage p = good;
    elq_tensor_record r{};
    std::memcpy(&r, p.sections[1].bytes.data(), sizeof r);
    change(r);
    p.sections[1].bytes = bytes_of(r);
    const Status status = check(p);
    return status.ok() ? ErrorCode{} : status.error().code;
  };
  using R = elq_tensor_record;
  EXPECT_EQ(refused([](R& r) { r.bits = 5; }), ErrorCode::kLimitExceeded);
  EXPECT_EQ(refused([](R& r) { r.z2 = 1; }), ErrorCode::kLimitExceeded);
  EXPECT_EQ(refused([](R& r) { r.group = 48; }), ErrorCode::kLimitExceeded);
  EXPECT_EQ(refused([](R& r) { r.group = 0; }), ErrorCode::kLimitExceeded);
  EXPECT_EQ(refused([](R& r) { r.scale_mode = 4; }), ErrorCode::kLimitExceeded);
  EXPECT_EQ(refused([](R& r) { r.n_kept = 65; }), ErrorCode::kLimitExceeded);
  EXPECT_EQ(refused([](R& r) { r.n_kept = 3; }), ErrorCode::kInconsistent);
  EXPECT_EQ(refused([](R& r) { r.rows = 33; }), ErrorCode::kInconsistent);
  EXPECT_EQ(refused([](R& r) { r.cols = 97; }), ErrorCode::kInconsistent);
  EXPECT_EQ(refused([](R& r) { r.bytes -= 64; }), ErrorCode::kInconsistent);
  EXPECT_EQ(refused([](R& r) { r.kept_offset = 0; }), ErrorCode::kInconsistent);
  EXPECT_EQ(refused([](R& r) { r.smax = 0; }), ErrorCode::kLimitExceeded);
  EXPECT_EQ(refused([](R& r) { r.smax = 256; }), ErrorCode::kLimitExceeded);
  EXPECT_EQ(refused([](R& r) { r.role = ELQ_ROLE_MLP_NORM; }), ErrorCode::kInconsistent);
}

}  // namespace
}  // namespace elastiq::testing
