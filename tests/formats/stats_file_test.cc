#include "formats/stats_file.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "core/file.h"
#include "tests/support/expect_error.h"
#include "tests/support/temp_folder.h"

namespace elastiq {
namespace {

using testing::accepted;
using testing::refused;
using testing::slurp;
using testing::TempFolder;

CalibrationStats sample() {
  CalibrationStats stats;
  stats.inputs["layers.0.attn_in"] = {2, 100, {0.5f, 2.0f}, {0.5f, 0.1f, 0.1f, 2.0f}};
  stats.inputs["head_in"] = {3, 100, {0.0f, 1.0f, std::numeric_limits<float>::denorm_min()}, {}};
  stats.token_counts = {7, 0, UINT64_MAX};
  stats.info = Json{{"loss", 2.5}, {"windows", 4}};
  return stats;
}

TEST(StatsFile, EverythingComesBack) {
  const TempFolder folder;
  ASSERT_TRUE(accepted(write_stats(folder / "stats", sample())));
  const auto read = read_stats(folder / "stats");
  ASSERT_TRUE(accepted(read));
  const CalibrationStats want = sample();
  ASSERT_EQ(read.value().inputs.size(), 2u);
  for (const auto& [name, input] : want.inputs) {
    const InputStats& got = read.value().inputs.at(name);
    EXPECT_EQ(got.columns, input.columns);
    EXPECT_EQ(got.tokens, input.tokens);
    EXPECT_EQ(got.importance, input.importance);
    EXPECT_EQ(got.second_moment, input.second_moment);
  }
  EXPECT_EQ(read.value().token_counts, want.token_counts);
  EXPECT_EQ(read.value().info, want.info);
  EXPECT_EQ(folder.entries(), 1u);
}

TEST(StatsFile, TwoWritesAreTheSameBytes) {
  const TempFolder folder;
  ASSERT_TRUE(accepted(write_stats(folder / "a", sample())));
  ASSERT_TRUE(accepted(write_stats(folder / "b", sample())));
  ASSERT_TRUE(accepted(write_stats(folder / "b", sample())));  // replaced
  for (const char* name : {"stats.safetensors", "stats.json"}) {
    EXPECT_EQ(slurp(folder / "a" / name), slurp(folder / "b" / name));
  }
}

TEST(StatsFile, TheWriterRefusesWhatTheReaderWould) {
  const TempFolder folder;
  const auto write = [&](const std::function<void(InputStats&)>& change) {
    CalibrationStats stats = sample();
    change(stats.inputs["layers.0.attn_in"]);
    return write_stats(folder / "stats", stats);
  };
  EXPECT_TRUE(refused(write([](InputStats& s) { s.importance[1] = std::nanf(""); }),
                      ErrorCode::kNonFinite, {"layers.0.attn_in", "column 1"}));
  EXPECT_TRUE(refused(write([](InputStats& s) { s.importance[0] = -1.0f; }), ErrorCode::kNonFinite,
                      {"column 0"}));
  EXPECT_TRUE(refused(write([](InputStats& s) { s.second_moment[2] = INFINITY; }),
                      ErrorCode::kNonFinite, {"second_moment at 2"}));
  EXPECT_TRUE(refused(write([](InputStats& s) { s.second_moment.pop_back(); }),
                      ErrorCode::kInconsistent, {"do not match"}));
  EXPECT_TRUE(refused(write([](InputStats& s) { s.columns = 3; }), ErrorCode::kInconsistent, {}));
  EXPECT_TRUE(
      refused(write([](InputStats& s) { s.tokens = 0; }), ErrorCode::kInconsistent, {"no token"}));
  EXPECT_EQ(folder.entries(), 0u);
}

TEST(StatsFile, TheReaderIsStrict) {
  const TempFolder folder;
  const auto path = folder / "stats";
  ASSERT_TRUE(accepted(write_stats(path, sample())));
  const std::string before = slurp(path / "stats.json");
  const auto changed = [&](const std::function<void(Json&)>& change) {
    Json document = Json::parse(before);
    change(document);
    EXPECT_TRUE(write_file(path / "stats.json", document.dump()).ok());
    return read_stats(path);
  };
  EXPECT_TRUE(refused(changed([](Json& d) { d["format"] = "elastiq.stats/9"; }),
                      ErrorCode::kUnsupportedVersion, {"elastiq.stats/9"}));
  EXPECT_TRUE(refused(changed([](Json& d) { d["more"] = 1; }), ErrorCode::kInconsistent, {}));
  EXPECT_TRUE(refused(changed([](Json& d) { d["inputs"].erase("head_in"); }),
                      ErrorCode::kInconsistent, {"head_in.importance belongs to nothing"}));
  EXPECT_TRUE(refused(changed([](Json& d) { d["inputs"]["head_in"]["columns"] = 4; }),
                      ErrorCode::kInconsistent, {"F32 [3], expected F32 [4]"}));
  EXPECT_TRUE(refused(changed([](Json& d) { d["inputs"]["head_in"]["second_moment"] = true; }),
                      ErrorCode::kMissing, {"head_in.second_moment"}));
  EXPECT_TRUE(refused(changed([](Json& d) { d["inputs"]["head_in"]["tokens"] = 0; }),
                      ErrorCode::kLimitExceeded, {"/inputs/head_in/tokens"}));
  EXPECT_TRUE(refused(changed([](Json& d) { d["vocabulary"] = 2; }), ErrorCode::kInconsistent,
                      {"token_counts"}));
  EXPECT_TRUE(refused(read_stats(folder / "none"), ErrorCode::kIo, {"stats.json"}));
}

}  // namespace
}  // namespace elastiq
