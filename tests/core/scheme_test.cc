#include "core/scheme.h"

#include <gtest/gtest.h>

#include <array>

#include "tests/support/expect_error.h"

namespace elastiq {
namespace {

using testing::accepted;
using testing::refused;

struct Named {
  const char* name;
  Scheme scheme;
  int z2;
  int codes;
};

// z2 and codes by hand from architecture.md section 5.
const std::array kNamed = {
    Named{"seq2-g64-u8-k8", {Grid::kSeq, 2, 64, ScaleMode::kU8, 8}, 3, 4},
    Named{"seq1-g32-u8", {Grid::kSeq, 1, 32, ScaleMode::kU8, 0}, 1, 2},
    Named{"seq3-row", {Grid::kSeq, 3, 0, ScaleMode::kRow, 0}, 7, 8},
    Named{"seq4-g256-f16-k64", {Grid::kSeq, 4, 256, ScaleMode::kF16, 64}, 15, 16},
    Named{"ternary-g64-f16", {Grid::kTernary, 2, 64, ScaleMode::kF16, 0}, 2, 3},
    Named{"ternary-row-k1", {Grid::kTernary, 2, 0, ScaleMode::kRow, 1}, 2, 3},
    Named{"sym3-g128-u8", {Grid::kSymmetric, 3, 128, ScaleMode::kU8, 0}, 8, 8},
    Named{"sym4-row", {Grid::kSymmetric, 4, 0, ScaleMode::kRow, 0}, 16, 16},
    Named{"sym8-g32-f16-k4", {Grid::kSymmetric, 8, 32, ScaleMode::kF16, 4}, 256, 256},
    Named{"sym8-g128-u8", {Grid::kSymmetric, 8, 128, ScaleMode::kU8, 0}, 256, 256},
};

TEST(SchemeTest, NamesLevelsAndCodes) {
  for (const Named& row : kNamed) {
    EXPECT_EQ(scheme_name(row.scheme), row.name);
    EXPECT_EQ(scheme_z2(row.scheme), row.z2) << row.name;
    EXPECT_EQ(scheme_codes(row.scheme), row.codes) << row.name;
    const auto parsed = parse_scheme(row.name);
    ASSERT_TRUE(accepted(parsed)) << row.name;
    EXPECT_EQ(parsed.value(), row.scheme) << row.name;
  }
}

TEST(SchemeTest, RefusesEveryOtherSpelling) {
  for (const char* name : {"",
                           "seq",
                           "seq2",
                           "seq0-row",
                           "seq5-row",
                           "seq8-g64-u8",
                           "sym2-row",
                           "sym1-row",
                           "sym5-row",
                           "sym16-row",
                           "seq2-g64",
                           "seq2-g48-u8",
                           "seq2-g0-u8",
                           "seq2-g512-u8",
                           "seq2-g64-f32",
                           "seq2-g64-row",
                           "seq2-row-u8",
                           "seq2-g64-u8-k0",
                           "seq2-g64-u8-k65",
                           "seq2-g64-u8-k",
                           "seq2-g64-u8-8",
                           "seq2-g64-u8-k8-k8",
                           "seq2-g64-u8-",
                           "seq02-g64-u8",
                           "seq2-g064-u8",
                           "seq+2-g64-u8",
                           "SEQ2-g64-u8",
                           "seq2-g64-u8 ",
                           "ternary2-row",
                           "ternary",
                           "q4_0",
                           "seq99999999999-row",
                           "-",
                           "seq-2-row"}) {
    EXPECT_TRUE(refused(parse_scheme(name), ErrorCode::kInvalidArgument, {"allowed"})) << name;
  }
}

TEST(SchemeTest, CheckNamesTheBrokenRule) {
  Scheme scheme;
  EXPECT_TRUE(accepted(check_scheme(scheme)));
  scheme.group = 0;
  EXPECT_TRUE(refused(check_scheme(scheme), ErrorCode::kInvalidArgument, {"no group size"}));
  scheme = Scheme{Grid::kSeq, 2, 64, ScaleMode::kRow, 0};
  EXPECT_TRUE(refused(check_scheme(scheme), ErrorCode::kInvalidArgument, {"group"}));
  scheme = Scheme{Grid::kTernary, 3, 64, ScaleMode::kU8, 0};
  EXPECT_TRUE(refused(check_scheme(scheme), ErrorCode::kInvalidArgument, {"3 bits"}));
  scheme = Scheme{Grid::kSeq, 2, 64, ScaleMode::kU8, -1};
  EXPECT_TRUE(refused(check_scheme(scheme), ErrorCode::kInvalidArgument, {"kept"}));
  scheme = Scheme{Grid::kSeq, 2, 65, ScaleMode::kU8, 0};
  EXPECT_TRUE(refused(check_scheme(scheme), ErrorCode::kInvalidArgument, {"65"}));
  scheme = Scheme{Grid::kSeq, 2, 64, static_cast<ScaleMode>(9), 0};
  EXPECT_TRUE(refused(check_scheme(scheme), ErrorCode::kInvalidArgument, {}));
}

}  // namespace
}  // namespace elastiq
